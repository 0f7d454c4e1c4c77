//! Another try, if the upstream refused a call: a smaller window, or a repaired history.

use axum::http::StatusCode;
use lookback_wire::dialect::{ProviderError, RawRequest, Request};

use super::call::{Call, LineCall, failed};
use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::http::headers;
use crate::gateway::report::note::Note;
use crate::gateway::report::payoff::Arm;
use crate::gateway::windows::NoWindow;

/// How often a window is made smaller if the upstream refuses it as too long.
const TRIES: u32 = 3;

/// Returns the body for another try: a smaller window if the call was too long, or a repaired history. `None` if
/// another try would not help.
///
/// A call without a session is tried again only without its reasoning: the client cannot know that the reasoning was
/// made behind something that the gateway has cut or added.
pub(super) async fn retry(
    admission: &Admission,
    own: Option<&mut LineCall<'_>>,
    note: &mut Note,
    (status, text): (StatusCode, &str),
    (call, refused): (&Call, &[u8]),
) -> Option<String> {
    let error = call.dialect.provider_error(Some(status.as_u16()), text);
    let refuses_reasoning = error.refuses_reasoning();
    let Some(LineCall { windows, request, preamble, turn }) = own else {
        // Without a session, nothing says whether a tool loop is open, so all of the reasoning is left out.
        let helps = refuses_reasoning && !admission.current.config.shadow;
        return if helps { without_reasoning(note, call, refused) } else { None };
    };
    if windows.arm(turn) == Arm::HeldOut {
        return None;
    }
    // A session keeps the reasoning of an open tool loop, so that the loop can go on. A provider that refuses it can go
    // on without it.
    if refuses_reasoning && (turn.matched.is_apart() || note.repaired) {
        turn.is_measured = false;
        return without_reasoning(note, call, refused);
    }
    let cause = match error {
        ProviderError::TooLong(cause) if note.overflows < TRIES => Some(cause),
        ProviderError::Malformed { .. } if !note.repaired => None,
        _ => return None,
    };
    let made = async {
        if turn.matched.is_apart() {
            windows.apart(turn, request, preamble).await?;
        }
        match cause {
            Some(cause) => windows.smaller(turn, request, cause).await,
            None => windows.repaired(turn, request, refuses_reasoning).await,
        }
    };
    let sending = match made.await {
        Ok(sending) => sending,
        // Nothing more can be left out.
        Err(NoWindow::Session(
            lookback_session::Error::Irreducible(_) | lookback_session::Error::HardLimitExceeded(_),
        )) => return None,
        Err(error) => {
            failed(admission, &format_args!("there is no other window for {}: {}", turn.name(), chained(&error)));
            return None;
        }
    };
    let body = sending.body.as_deref()?;
    if cause.is_some() {
        note.overflows += 1;
        admission.shared.metrics.overflow();
    } else {
        // Without an improvement, the answer would be the same.
        let text = std::str::from_utf8(refused).ok()?;
        // Only the provider knows whether the dropped reasoning was the cause.
        if refuses_reasoning && body == text {
            turn.is_measured = false;
            return without_reasoning(note, call, refused);
        }
        if !refuses_reasoning && faults(call, body) >= faults(call, text) {
            return None;
        }
        note.repaired = true;
    }
    sending.describe(note, turn);
    sending.body
}

/// Returns a refused body without its signed reasoning, if it has any.
fn without_reasoning(note: &mut Note, call: &Call, refused: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(refused).ok()?;
    let body = RawRequest::read(text, Some(call.dialect)).ok()?.without_reasoning();
    note.repaired |= body.is_some();
    body
}

/// Returns the number of rule violations in a body.
fn faults(call: &Call, body: &str) -> usize {
    let Ok(request) = Request::decode(body, Some(call.dialect)) else { return usize::MAX };
    let request = match headers::text(&call.head.headers, "anthropic-version") {
        Some(version) => request.with_version(version),
        None => request,
    };
    call.dialect.check(&request).len()
}
