//! The reasons that no summary was made.

use lookback_engine::SummaryRejected;
use lookback_store::StoreError;
use lookback_summarize::SummarizerError;

/// The reason why no summary was made. Its text quotes nothing from the messages.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct NoSummary(#[from] Reason);

/// The reason of a [`NoSummary`].
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    /// The summary was not finished within its time limit.
    #[error("the summary was not finished within its time limit")]
    Late,
    /// The maker of the summary stopped before it was done: its process has ended, or its job was dropped.
    #[error("the process that made the summary has ended, or dropped the work")]
    Gone,
    /// The summarizer panicked, with this message if it was a constant.
    #[error("{0}")]
    Panicked(&'static str),
    /// The summarizer failed.
    #[error(transparent)]
    Summarizer(#[from] SummarizerError),
    /// The engine rejected the summary.
    #[error(transparent)]
    Rejected(#[from] SummaryRejected),
    /// The store failed, so the summary was lost.
    #[error(transparent)]
    Store(#[from] StoreError),
}
