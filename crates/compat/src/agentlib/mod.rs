//! AgentLIB's `SlidingWindowMemory`: the newest turns of each session that fit a number of tokens.
//!
//! A write keeps the newest [`max_turns`](Options::max_turns) turns. A read returns the newest of their messages that
//! fit [`max_tokens`](Options::max_tokens). As in the original's documentation, a turn is a user message and everything
//! up to the next one. System messages are not kept, because the agent adds its own to each call.
//!
//! Differences from the original, and the reasons:
//!
//! - **A transcript that is written again is recognized** (see [`SlidingWindowMemory::write`]). The original appends
//!   it, so its memory doubles with each run of its own agent.
//! - **Providers accept the result of a read.** Calls and results stay together. A call without a result is read with a
//!   stand-in until the result is written.
//! - **The newest message is always read**, with its calls and results, even if it is larger than the limits.
//! - **`limit` works.** The original ignores it. [`read`](SlidingWindowMemory::read) ignores `query` and `tags`, as the
//!   documentation says. Lookback adds [`search`](SlidingWindowMemory::search), which uses them to find anything that
//!   was ever written in the session.
//! - **A very long turn is held in part.** Messages for which a read has no room stay only in the store. The statistics
//!   still count them, like the original's.
//! - **Everything that is sent is counted**, including reasoning and the names, arguments and identifiers of tool
//!   calls.
//! - **Sessions are kept in any [`Store`](lookback_store::Store)**, by default in process memory. A memory keeps at
//!   most 128 of them open at a time. A session's name must be a valid [`LogName`](lookback_store::LogName).
//! - **`clear("")` is an error** and clears nothing. A limit of 0 is an error, too.
//! - **A read returns a copy.** Changing it does not change the memory.
//!
//! All methods take `&self`, so tasks and threads can share one memory.

mod entries;
mod memory;
mod options;
mod reads;
mod slots;
mod tokens;
mod trim;
mod window;

pub use crate::error::Error;
pub use entries::{MemoryEntry, Stats};
pub use memory::SlidingWindowMemory;
pub use options::{Options, ReadOptions, Tags, WriteOptions};
pub use tokens::{Utf16, estimate_tokens};
pub use trim::trim_to_token_budget;
