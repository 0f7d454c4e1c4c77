//! Servers that give programs in any language access to sessions: a [`gateway`] in front of models, and a memory for
//! clients of the Model Context Protocol ([`mcp`]).

mod causes;
mod door;
pub mod gateway;
mod guests;
mod host;
pub mod inspect;
pub mod mcp;
mod page;
mod serving;
mod token;

pub use door::Door;
pub use serving::{ConnectionLimits, ServeError};
pub use token::{BadToken, Token};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
