//! Calls of the gateway's own tools in an answer.

use bytes::Bytes;
use lookback_wire::dialect::{RawRequest, Response};

use super::call::{LineCall, failed};
use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::exchange::relay::Answer;
use crate::gateway::http::copy;
use crate::gateway::http::copy::Copy;
use crate::gateway::lines::hidden_exchange::{self, OwnCall};
use crate::gateway::lines::turn::Turn;
use crate::gateway::report::note::Note;
use crate::gateway::report::telemetry::CallSpan;
use crate::gateway::windows::Windows;

/// The outcome for an answer after its tool calls were examined.
pub(super) enum AfterTools {
    /// The answer is for the client.
    Passes(Answer),
    /// The gateway has answered its tool calls, and sends the next request to the model.
    AskAgain(Option<Bytes>),
    /// The model cannot be asked again, and the answer is of no use to the client.
    GivenUp(&'static str),
}

/// Answers the calls of the gateway's tools in an answer that cannot be joined with others. The client gets nothing before
/// its end, which shows whether it has such calls.
pub(super) async fn answer_tools(
    admission: &Admission,
    own: Option<&mut LineCall<'_>>,
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
    match answer_calls(admission, (windows, turn, request), (note, response, &calls)).await {
        Ok(body) => AfterTools::AskAgain(body),
        Err(why) => AfterTools::GivenUp(why),
    }
}

/// Answers the calls of an answer that the client does not get. Returns the body of the request that continues with
/// them.
///
/// # Errors
/// Returns the reason that the model cannot be asked again.
pub(super) async fn answer_calls(
    admission: &Admission,
    (windows, turn, request): (&Windows, &mut Turn, &RawRequest<'_>),
    (note, response, calls): (&mut Note, Response, &[OwnCall]),
) -> Result<Option<Bytes>, &'static str> {
    if note.asides >= hidden_exchange::MOST + hidden_exchange::MORE {
        return Err("the model calls memory tools again and again");
    }
    match windows.aside(turn, request, response, calls).await {
        Ok((sending, dollars)) => {
            note.asides += 1;
            admission.shared.payoff.count(
                admission.caller.tenant.as_ref(),
                windows.arm(turn),
                &mut turn.matched.line.state.spent(),
                false,
                dollars,
            );
            sending.describe(note, turn);
            Ok(sending.body.map(Bytes::from))
        }
        Err(error) => {
            failed(admission, &format_args!("a memory tool of {} was not answered: {}", turn.name(), chained(&error)));
            Err("the memory of this gateway does not answer")
        }
    }
}
