//! Properties that must hold for any input, as functions that a fuzzer or a plain test can call. Each panics if its
//! property does not hold.

mod body;
mod bytes;
mod count;
mod decode;
mod plan;
mod provider_error;
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

use lookback_core::{Dialect, Engine, Finding, Problem, Request};
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
    dialect.check(&request).into_iter().filter(|finding| !is_left(&finding.problem)).collect()
}

fn is_left(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::NoMessages
            | Problem::TooManyMessages { .. }
            | Problem::TooManyBytes { .. }
            | Problem::TooMuchMedia { .. }
            | Problem::CompactionPlace
            | Problem::SecondCompaction
    )
}
