//! `LangChain4j`'s `MessageWindowChatMemory` and `TokenWindowChatMemory`: the newest messages that fit, among them the one system
//! message that there may be.
//!
//! The rules are the original's: adding a message evicts the oldest that no longer fit; a system message is never evicted, the same
//! again is ignored, and another takes its place; it counts against the limit. The limit may be a function, which is asked at every
//! [`add`](ChatMemory::add), [`set`](ChatMemory::set) and [`messages`](ChatMemory::messages): a smaller one narrows at once what is
//! read, and evicts with the next message that is added.
//!
//! Messages are in OpenAI's format, which like the original's has the system message among the others. What differs:
//!
//! - **A tool call and its results are evicted together**, however many results there are and whenever they come. A call that waits for
//!   its results stays even over the limit, and so does the newest message: the original drops the results that were just added, and
//!   sends the next ones without their call, which providers refuse.
//! - **What is read can be sent,** once the calls of the newest message are answered: these are read as they are, as in the original. An
//!   older call without its result is read with a stand-in, and a result without its call is not read. Stand-ins are not stored, nor taken
//!   for results where they come back in a [`set`](ChatMemory::set), so a result that comes later counts; they count against the limit of
//!   what is read.
//! - **A memory is shared**: clones are the same memory, in any thread, and no message is lost or doubled. Two memories of one
//!   identifier over one store see what the other wrote.
//! - **`set` keeps the rules**: there is one system message after it too, and nothing to set is an error, as the document says.
//! - **What was evicted stays in the store**, where [`search`](crate::session::search()) finds it, until [`clear`](ChatMemory::clear)
//!   erases the memory with its past. (Over a [`ChatMemoryStore`] it is gone from there, as in the original.)
//!
//! An identifier is any text but an empty one, such as an address or a path. It is the name of the memory's log where that can have it, and
//! else stands in it with `%` for what no name has: in the 200 characters of a name there is room for all but the longest.

#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod estimator;
mod id;
mod memory;
mod slot;
mod store;

#[cfg(any(feature = "o200k", feature = "cl100k"))]
pub use estimator::OpenAiTokenCountEstimator;
pub use memory::{
    Builder, ChatMemory, ChatMemoryError, MessageWindowChatMemory, Messages, TokenWindowChatMemory, Tokens,
};
pub use slot::{AnotherId, SingleSlotChatMemoryStore};
pub use store::{ChatMemoryStore, FromChatMemoryStore};
