//! Servers that give programs in any language access to sessions. So far there is one: [`mcp`].

pub mod gateway;
pub mod mcp;
mod serving;

pub use serving::{ConnectionLimits, ServeError};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
