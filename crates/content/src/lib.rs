//! JSON that keeps its spelling, text for display, identifiers and numbered lines in text, base64 and PDF files.
//!
//! This crate does not depend on message formats or providers.

#[doc(hidden)]
pub mod base64;
#[doc(hidden)]
pub mod identifiers;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod numbered;
#[doc(hidden)]
pub mod pasted;
#[doc(hidden)]
pub mod pdf;
#[doc(hidden)]
pub mod prose;
mod redacted;
#[doc(hidden)]
pub mod rules;
#[doc(hidden)]
pub mod surrogates;
#[doc(hidden)]
pub mod text;

#[doc(hidden)]
pub use redacted::HasContent;
pub use redacted::Redacted;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
