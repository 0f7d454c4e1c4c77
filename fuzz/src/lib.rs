//! What must hold for any input, as functions that a fuzzer or a plain test can drive: each panics where it does not.

mod bytes;
mod count;
mod decode;
mod plan;
mod view;

pub use bytes::Bytes;
pub use count::count;
pub use decode::decode;
pub use plan::plan;
pub use view::view;

use lookback_core::{Dialect, Engine, Finding, Problem, Request, Role};
use serde_json::value::RawValue;

/// The messages that an engine would send now, with the findings of a check that no repair is meant to mend.
fn sent(engine: &Engine) -> Vec<Box<RawValue>> {
    let dialect = engine.settings().dialect;
    let messages = dialect.encode(engine.view().shown()).expect("the engine holds messages of its dialect");
    messages.into_iter().map(|raw| raw.into_owned()).collect()
}

/// Every finding about a window but those that are left to the caller.
fn faults(dialect: Dialect, window: &[Box<RawValue>]) -> Vec<Finding> {
    let request = Request::from_raw(dialect, window).expect("what is sent can be read");
    dialect.check(&request).into_iter().filter(|finding| !is_left(finding, &request)).collect()
}

/// What no repair mends, and a request is refused for: sizes, which are the policy's, the prefill that a client asks for,
/// and a system message that nothing of a user's precedes (AM7).
fn is_left(finding: &Finding, request: &Request) -> bool {
    match finding.problem {
        Problem::NoMessages
        | Problem::TooManyMessages { .. }
        | Problem::TooManyBytes { .. }
        | Problem::TooMuchMedia { .. }
        | Problem::TrailingSpace => true,
        Problem::SystemPlace => {
            let before = finding.message.checked_sub(1).and_then(|before| request.messages().get(before));
            before.is_none_or(|before| before.role() == Role::Assistant)
        }
        Problem::FirstMessage { role } => role == Role::System,
        _ => false,
    }
}
