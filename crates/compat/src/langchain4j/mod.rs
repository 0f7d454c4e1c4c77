//! `LangChain4j`'s `MessageWindowChatMemory` and `TokenWindowChatMemory`: the newest messages that fit a limit, with
//! the single system message that a memory may have.
//!
//! The rules are the original's. Adding a message evicts the oldest messages that no longer fit. A system message is
//! never evicted. A repeated system message is ignored, and a different one replaces it. It counts against the limit.
//! The limit may be a function, which is called at every [`add`](ChatMemory::add), [`set`](ChatMemory::set) and
//! [`messages`](ChatMemory::messages). A smaller limit narrows the next read at once, and evicts messages when the next
//! one is added.
//!
//! Messages are in OpenAI's format, which has the system message among the others, like the original's. Differences
//! from the original, and the reasons:
//!
//! - **A tool call and its results are evicted together**, regardless of their number and the time of their arrival. A
//!   call that waits for its results stays, even over the limit, and so does the newest message. The original drops
//!   results that were just added, and sends the next ones without their call, which providers refuse.
//! - **The result of a read can be sent** once the calls of the newest message are answered. These calls are read
//!   without stand-ins, as in the original. An older call without a result is read with a stand-in, and a result
//!   without a call is not read. Stand-ins are not stored: [`set`](ChatMemory::set) ignores them, so a later result
//!   still counts. In a read, stand-ins count against the limit.
//! - **A memory can be shared.** Clones are the same memory, in any thread, and no message is lost or duplicated. Two
//!   memories with one identifier over one store see each other's messages.
//! - **`set` follows the rules.** After it, there is also at most one system message. Setting no messages is an error,
//!   as documented by the original.
//! - **Evicted messages stay in the store**, so [`search`](lookback_store::messages::search()) finds them until
//!   [`clear`](ChatMemory::clear) erases the memory with its history. Over a [`ChatMemoryStore`] they are gone from
//!   that store, as in the original.
//!
//! An identifier is any text that is not empty, such as an address or a path. If it is a valid log name, the memory's
//! log has that name. Otherwise `%` and hexadecimal digits replace the characters that a name cannot have. The result
//! must fit the 200 characters of a name, so only very long identifiers are refused.

mod builder;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod estimator;
mod id;
mod memory;
mod slot;
mod store;

pub use builder::Builder;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
pub use estimator::OpenAiTokenCountEstimator;
pub use memory::{ChatMemory, LimitInMessages, LimitInTokens, MessageWindowChatMemory, TokenWindowChatMemory};
pub use slot::{AnotherId, SingleSlotChatMemoryStore};
pub use store::{ChatMemoryStore, FromChatMemoryStore};

pub use crate::error::Error as ChatMemoryError;
