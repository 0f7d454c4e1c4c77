//! The windows of five published systems, each a thin face over [`Session`](crate::Session): their names, defaults and behavior, and none
//! of their faults.

pub mod agentlib;
pub mod crux;
pub mod langchain4j;
pub mod strands;

/// An option that a system refuses.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{option} must be {expected}, got {value}")]
pub struct OptionError {
    /// The option, named as in the system's document.
    pub option: &'static str,
    /// What it must be.
    pub expected: &'static str,
    /// What it was.
    pub value: String,
}
