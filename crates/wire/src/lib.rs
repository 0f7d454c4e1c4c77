//! Messages and the formats of their providers: how requests, answers and errors are read, written, checked and repaired.
//!
//! A [`Message`](message::Message) keeps the bytes in which it arrived, with typed parts beside them. Each provider's format is a [`Dialect`](dialect::Dialect),
//! with its rules, in one file of `dialect/`. [`edit`] has the changes to how a part is shown, and [`models`] what is known
//! of each model.

mod cache_marker;
pub mod dialect;
pub mod edit;
mod hidden;
pub mod message;
pub mod models;
mod provider;
pub mod size;
mod start;
mod wire;

pub use start::Start;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
