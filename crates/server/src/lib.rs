//! The servers: a [`gateway`] in front of models, a memory over MCP ([`mcp`]), and the inspector's pages.

mod causes;
mod connections;
pub mod gateway;
mod host;
pub mod inspect;
mod listen;
pub mod mcp;
mod page;
mod serving;
mod token;

pub use listen::ListenOptions;
pub use serving::{ConnectionLimits, ServeError};
pub use token::{BadToken, Token};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
