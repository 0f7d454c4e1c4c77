//! A stand-in for model providers, for tests.
//!
//! It speaks four dialects. It refuses requests that break a rule of the provider, in the provider's words. It counts
//! tokens, simulates the prompt cache, and follows a script, so that a real client has real work to do. On request, it
//! fails as providers do.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "only tests use it")]

mod bound;
mod cache;
mod fault;
mod model;
mod schema;
mod script;
mod server;
mod words;
mod write;

pub use cache::blocks;
pub use fault::Fault;
pub use model::Usage;
pub use server::{Report, Seen, StandIn};
pub use words::too_long;
