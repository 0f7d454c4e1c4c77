//! Strands' conversation managers, which keep an agent's list of messages small.
//!
//! A manager changes the list in place: after a turn, before a model call, or because the model refused the list as too
//! long. [`SlidingWindowConversationManager`] keeps the newest messages, [`SummarizingConversationManager`] merges the
//! oldest into a summary, and [`NullConversationManager`] does nothing. They have Strands' names and defaults. To write
//! your own, implement [`ConversationManager`]; three of its methods have no default.
//!
//! All follow the rules of Bedrock Converse, where tool results are user messages. Send the list as encoded by
//! [`Dialect::Bedrock`]. Encoding merges neighbors with the same role, which the provider would refuse. The list may
//! contain such neighbors after messages between them were dropped.
//!
//! Differences from the original, and the reasons:
//!
//! - **Nothing is lost.** Messages that leave the list stay in a session's log, where `search` finds them. The log is
//!   in process memory unless you set a store.
//! - **A window begins with a user message.** If the original would begin one with a tool call, the task that the call
//!   belongs to stays before it, in addition to the window's messages. So does a tool exchange that the model has not
//!   answered yet.
//! - **Any result may be shortened**, including results in the open exchange and JSON results. The original shortens
//!   only those of the oldest message. A cut never makes a text longer. A document in a result is replaced by its name,
//!   like a picture.
//! - **Recovery ends.** Each reduction leaves fewer or shorter messages, or reports that there is nothing to reduce,
//!   and [`recover()`] ends if the list gets no smaller.
//! - **A restored window is valid.** `removed_message_count` is the index in the agent's messages at which the window
//!   continues. The state also holds earlier messages that stay in the list, and
//!   [`restore_from_session`](ConversationManager::restore_from_session) returns them.
//! - **Signed reasoning is respected.** While a tool loop with signed reasoning is open, nothing up to that reasoning
//!   changes. The first reduction after the loop removes the signed reasoning of finished turns.
//!
//! [`Dialect::Bedrock`]: lookback_wire::dialect::Dialect::Bedrock

mod error;
mod hooks;
mod incomplete;
mod manager;
mod mirror;
mod null;
mod options;
mod places;
mod proactive;
mod recover;
mod sliding;
mod summarizing;

pub use error::{ContextWindowOverflow, Error, ModelError};
pub use hooks::{BeforeModelCall, HookRegistry};
pub use incomplete::without_incomplete_calls;
pub use manager::ConversationManager;
pub use null::NullConversationManager;
pub use options::{PerTurn, SlidingWindowOptions, SummarizingOptions};
pub use proactive::{CompressionThreshold, ProactiveCompression};
pub use recover::recover;
pub use sliding::SlidingWindowConversationManager;
pub use summarizing::SummarizingConversationManager;
