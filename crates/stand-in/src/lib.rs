//! A stand-in for the providers of models, for tests.
//!
//! It speaks their four dialects. It refuses what breaks a rule of theirs, in their words, counts tokens, simulates
//! their prompt cache, and follows a script, so that a real client has real work with it. And it fails as they do, when
//! it is told to.

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
