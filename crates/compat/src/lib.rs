//! The windows of four other systems, with their names, defaults and behavior, but without their faults.
//!
//! Each is a thin layer over a policy. The window of a fifth system, KB Labs, needs no module: it is the preset
//! `two-tier`.

pub mod agentlib;
pub mod crux;
mod error;
pub mod langchain4j;
mod openai;
pub mod strands;

pub use error::OptionError;
