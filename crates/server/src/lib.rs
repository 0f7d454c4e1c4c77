//! Servers that give programs in any language access to sessions: a [`gateway`] in front of models, and a memory for
//! clients of the Model Context Protocol ([`mcp`]).

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
