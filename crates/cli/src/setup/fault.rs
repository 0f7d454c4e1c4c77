//! Why a file of an agent is left alone, and what is to be known about one that is not.

use std::fmt;

/// Why a file is left alone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it is no valid {format}: {error}")]
    Invalid { format: &'static str, error: String },
    #[error("`{path}` has another form than the agent's")]
    Form { path: String },
    #[error("`{path}` is somebody else's")]
    Taken { path: String },
    #[error("it is somebody else's")]
    Theirs,
    #[error("it is no text")]
    NoText,
}

/// What is to be known about a file.
#[derive(Debug)]
pub(crate) enum Note {
    /// It is left alone.
    Left(Fault),
    /// Somebody has changed it since it was written.
    Changed,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Left(fault) => write!(f, "left alone: {fault}"),
            Note::Changed => f.write_str("was changed since; the rest stays"),
        }
    }
}
