//! Crux's sliding window: the newest messages unchanged, and a running summary of the messages before them.
//!
//! [`SlidingWindow`] is `createSlidingWindow`, with its options, defaults and methods in Rust's conventions, over a
//! [`Session`](lookback_session::Session). Differences from the original, and the reasons:
//!
//! - **A push never waits for a model.** The original summarizes within `push`, and loses the message if that fails.
//!   Here `push` writes the message, and the summary is made in the background. The messages that it will cover stay in
//!   the window until it is ready. Readers ([`get_messages`](SlidingWindow::get_messages),
//!   [`get_stats`](SlidingWindow::get_stats)) wait for a summary that is being made, so they return the same as in the
//!   original. If a summary fails, no message leaves, and the window is longer for a while.
//! - **Messages leave in batches** of a quarter of the window, unless [`batch`](SlidingWindowBuilder::batch) sets
//!   another size. In the original they leave one at a time, so each message past the window costs a model call.
//!   Between two batches, each request extends the previous one, so the provider's cache can be used.
//! - **The log is complete.** The session `compact:ID:messages` holds every message that was ever pushed, and each
//!   compaction. The statistics are computed from it, so a restart does not reset them.
//! - **Windows are valid.** A tool call stays with its results, and a result without a call is not shown. A call
//!   without a result is read with a stand-in until the result comes. System messages at the beginning stay, and do not
//!   count against the window's size.
//! - **The budget is enforced.** A summary within it is used unchanged, a longer one is cut, and an empty one counts as
//!   a failure. A smaller `window_size` applies from the next read on.
//!
//! The original's documentation keeps the window under two keys of its store, `compact:ID:messages` and
//! `compact:ID:summary`. [`get`] reads them.
//!
//! The one-shot calls of the system are [`summarize`](lookback_summarize::summarize) (`summarizeMessages`),
//! [`key_facts`](lookback_summarize::key_facts) (`extractKeyFacts`, with the feature `facts`) and
//! [`SummaryTask::prompt`](lookback_summarize::SummaryTask::prompt) (the transcript). Its budget manager and its
//! key-value stores are not part of the published page of the sliding window, so this module does not have them.

mod builder;
mod stored;
mod window;

pub use builder::SlidingWindowBuilder;
use lookback_engine::{Settings, policy::Policy};
pub use stored::{Metadata, Stored, get};
pub use window::{SlidingWindow, Stats};

use super::OptionError;
use super::openai::DIALECT;
pub use crate::error::Error;
use lookback_store::LogName;

/// Returns the name of the log that holds a window's messages.
fn log_of(id: &str) -> Result<String, Error> {
    let length = id.chars().count();
    if length == 0 || length > SlidingWindow::LONGEST_ID {
        let value = length.to_string();
        return Err(OptionError { option: "id", expected: "1 to 183 characters", value }.into());
    }
    // The id is checked separately, because the log's name would be valid even with the id `..`.
    let id: LogName = id.parse()?;
    Ok(format!("compact:{id}:messages"))
}

fn settings(policy: Policy) -> Settings {
    Settings::default().dialect(DIALECT).policy(policy)
}
