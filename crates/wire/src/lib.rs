//! The formats of model providers: reads, writes, checks by their rules and repairs messages, requests and responses.
//!
//! A [`Message`](message::Message) has typed parts, and keeps the bytes in which it arrived. Each provider's format is
//! a [`Dialect`](dialect::Dialect), with its rules, in one file or folder of `dialect/`. [`edit`] has the changes to how a part
//! is shown.

mod cache_marker;
pub mod dialect;
pub mod edit;
mod hidden;
pub mod message;
pub mod size;
mod start;
mod wire;

pub use start::Start;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
