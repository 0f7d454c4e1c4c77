//! The windows of four published systems over [`Session`](crate::Session), with their names, defaults and behavior, but
//! without their faults.
//!
//! Each is a thin layer over a policy. A fifth system, KB Labs, has no module here: its window is the preset
//! `two-tier`.

pub mod agentlib;
pub mod crux;
pub mod langchain4j;
pub mod strands;

/// An option is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{option} must be {expected}, got {value}")]
#[non_exhaustive]
pub struct OptionError {
    /// The option, named as in the system's documentation.
    pub option: &'static str,
    /// What the option must be.
    pub expected: &'static str,
    /// The value that was given.
    pub value: String,
}
