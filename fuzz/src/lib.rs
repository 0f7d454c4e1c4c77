//! Properties that must hold for any input, as functions that a fuzzer or a plain test can call. Each panics if its
//! property does not hold.

mod body;
mod bytes;
mod count;
mod decode;
mod plan;
mod provider_error;
#[cfg(steps)]
pub mod sessions;
mod stream;
mod view;
#[cfg(steps)]
pub mod work;

pub use body::body;
pub use bytes::Bytes;
pub use count::count;
pub use decode::decode;
pub use plan::plan;
pub use provider_error::provider_error;
pub use stream::stream;
pub use view::view;

use lookback_engine::Engine;
use lookback_wire::dialect::Severity;
use lookback_wire::{
    dialect::{Dialect, Finding, Problem, Request},
    message::Message,
};
use serde_json::value::RawValue;

/// Returns the messages that an engine would send now.
fn sent(engine: &Engine) -> Vec<Box<RawValue>> {
    let dialect = engine.settings().dialect;
    let messages = dialect.encode(engine.view().shown()).expect("the engine holds messages of its dialect");
    messages.into_iter().map(|raw| raw.into_owned()).collect()
}

/// Returns every finding about a window, except those about sizes, which are up to the policy, and those that nothing
/// mends.
fn faults(dialect: Dialect, window: &[Box<RawValue>]) -> Vec<Finding> {
    let request = Request::from_raw(dialect, window).expect("what is sent can be read");
    // Which provider it goes to is not known, so what only some of them refuse is sent as it is.
    let is_refused = |finding: &Finding| finding.severity != Severity::Degraded && !is_left(&finding.problem);
    // Which call a result without an identifier answers is said nowhere, if other calls beside it have one.
    let calls = || request.messages().iter().flat_map(Message::tool_calls).map(|(_, call)| call.id == call.name);
    let is_mixed = dialect == Dialect::Gemini && calls().any(|is_named| is_named) && calls().any(|is_named| !is_named);
    let is_refused = |finding: &Finding| is_refused(finding) && !(is_mixed && finding.rule == "GM2");
    dialect.check(&request).into_iter().filter(is_refused).collect()
}

fn is_left(problem: &Problem) -> bool {
    matches!(
        problem.kind().as_str(),
        "no_messages"
            | "too_many_messages"
            | "too_many_bytes"
            | "too_much_media"
            | "too_many_pages"
            | "not_for_model"
            | "out_of_range"
            | "compaction_place"
            | "second_compaction"
            | "bad_tool_name"
            | "unknown_tool"
            | "bare_arguments"
            | "empty_part"
            | "prefill"
    )
}
