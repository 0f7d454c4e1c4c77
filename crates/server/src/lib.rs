//! Servers that give programs in any language access to sessions. So far there is one: [`mcp`].

pub mod mcp;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
