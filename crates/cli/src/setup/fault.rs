//! Why a file of an agent is left alone.

/// Why a file is left alone.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it is no valid {format}: {error}")]
    Invalid { format: &'static str, error: String },
    #[error("`{path}` has another form than the agent's")]
    Form { path: String },
    #[error("`{path}` is somebody else's")]
    Taken { path: String },
    #[error("it is somebody else's")]
    Theirs,
}
