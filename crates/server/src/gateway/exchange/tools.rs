//! Calls of the gateway's own tools in an answer.

use super::call::{LineCall, failed};
use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::exchange::relay::Answer;
use crate::gateway::http::copy;
use crate::gateway::http::copy::Copy;
use crate::gateway::lines::hidden_exchange;
use crate::gateway::report::note::Note;
use crate::gateway::report::telemetry::CallSpan;
use crate::gateway::windows::Sending;

/// The outcome for an answer after its tool calls were examined.
pub(super) enum AfterTools {
    /// The answer is for the client.
    Passes(Answer),
    /// The gateway has answered its tool calls, and sends the next request to the model.
    AskAgain(Sending),
    /// The model cannot be asked again, and the answer is of no use to the client.
    GivenUp(&'static str),
}

/// Answers the calls of the gateway's tools. Whether an answer has such calls is known only at its end. So if tools
/// were offered, the whole answer is read before the client gets any of it.
pub(super) async fn answer_tools(
    admission: &Admission,
    own: Option<&LineCall<'_>>,
    (note, span): (&mut Note, &mut CallSpan),
    mut answer: Answer,
) -> AfterTools {
    let Some(LineCall { windows, request, turn, .. }) = own.filter(|own| !own.turn.offered.is_empty()) else {
        return AfterTools::Passes(answer);
    };
    if answer.copy().is_none() {
        return AfterTools::Passes(answer);
    }
    answer.read_rest(copy::MOST).await;
    let response = answer.copy().and_then(Copy::response);
    let calls = response.and_then(|response| {
        let calls = hidden_exchange::calls(&response.message, &turn.offered, note.asides)?;
        Some((response, calls))
    });
    // An answer that broke off does so for the client too.
    let Some((response, calls)) = calls else { return AfterTools::Passes(answer) };
    span.answered(&response);
    if note.asides >= hidden_exchange::MOST + hidden_exchange::MORE {
        return AfterTools::GivenUp("the model calls memory tools again and again");
    }
    match windows.aside(turn, request, response, &calls).await {
        Ok((sending, dollars)) => {
            note.asides += 1;
            admission.shared.payoff.count(
                admission.caller.tenant.as_ref(),
                windows.arm(turn),
                &mut turn.matched.line.state.spent(),
                false,
                dollars,
            );
            AfterTools::AskAgain(sending)
        }
        Err(error) => {
            failed(admission, &format_args!("a memory tool of {} was not answered: {}", turn.name(), chained(&error)));
            AfterTools::GivenUp("the memory of this gateway does not answer")
        }
    }
}
