//! Contents of messages, as bytes: JSON that keeps its spelling, texts as people and logs are shown them, the names in
//! them, base64 and PDF files.
//!
//! It knows neither messages nor providers.

#[doc(hidden)]
pub mod base64;
#[doc(hidden)]
pub mod identifiers;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod pdf;
mod redacted;
#[doc(hidden)]
pub mod text;

#[doc(hidden)]
pub use redacted::HasContent;
pub use redacted::Redacted;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
