//! Contents of messages, as bytes: JSON that keeps its spelling, texts as people and logs are shown them, the names in
//! them, base64 and PDF files.
//!
//! It knows neither messages nor providers.

pub mod base64;
pub mod identifiers;
pub mod json;
pub mod pdf;
mod redacted;
pub mod text;

pub use redacted::{HasContent, Redacted};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
