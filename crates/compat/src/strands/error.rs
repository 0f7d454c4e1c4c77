//! The errors of managers.

use lookback_summarize::SummarizerError;

/// The error of a model call, as the caller's client returns it.
pub type ModelError = Box<dyn std::error::Error + Send + Sync>;

/// The list cannot be made smaller.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct ContextWindowOverflow {
    /// The reason.
    pub(crate) reason: &'static str,
    /// The model's refusal, if there was one.
    #[source]
    pub(crate) cause: Option<ModelError>,
}

impl ContextWindowOverflow {
    /// Creates an error with this reason, without a cause.
    pub fn new(reason: &'static str) -> Self {
        ContextWindowOverflow { reason, cause: None }
    }

    /// Sets the model's refusal as the cause.
    #[must_use]
    pub(crate) fn with_cause(self, cause: ModelError) -> Self {
        ContextWindowOverflow { cause: Some(cause), ..self }
    }
}

/// An error of a manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list cannot be made smaller.
    #[error(transparent)]
    Overflow(#[from] ContextWindowOverflow),
    /// The state does not belong to this kind of manager.
    #[error("Invalid conversation manager state.")]
    State,
    /// The summarizer made no summary.
    #[error(transparent)]
    Summary(#[from] SummarizerError),
    /// Bedrock's format cannot express a message, or the store failed.
    #[error(transparent)]
    Session(#[from] lookback_session::Error),
    /// The model failed for a reason other than the length of the list.
    #[error(transparent)]
    Model(ModelError),
}
