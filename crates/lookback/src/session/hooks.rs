//! Hooks: functions that a session calls when a compaction begins, and when it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lookback_core::engine::SummaryRejected;
use tracing::Span;
use tracing::field::Empty;

use crate::store::{LogName, StoreError};
use crate::summarize::SummarizerError;

/// Describes a compaction that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactStart {
    /// The session.
    pub session: LogName,
    /// The number of messages that leave the window.
    pub evicted_count: u64,
    /// Tokens of the window before the compaction.
    pub total_tokens: u64,
}

/// Describes a compaction that has ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompactEnd {
    /// The session.
    pub session: LogName,
    /// Tokens of the new running summary; 0 if there is none.
    pub summary_tokens: u64,
    /// Tokens before: of what was summarized, including the summary before it. If groups were only shortened or
    /// dropped, tokens of the window.
    pub tokens_before: u64,
    /// Tokens after: of the summary. If groups were only shortened or dropped, tokens of the window.
    pub tokens_after: u64,
    /// How long it took.
    pub duration: Duration,
    /// The result.
    pub outcome: CompactionOutcome,
}

impl CompactEnd {
    /// Returns the tokens after divided by the tokens before; 1 if there were none before.
    pub fn ratio(&self) -> f64 {
        if self.tokens_before == 0 { 1.0 } else { self.tokens_after as f64 / self.tokens_before as f64 }
    }
}

/// The result of a compaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CompactionOutcome {
    /// Results were shortened or groups were dropped. The window is smaller already.
    Cut,
    /// A summary was made. The next window takes it up.
    Summarized,
    /// No summary was made. Its messages stay in the window, and another try follows later.
    Failed(Arc<SummaryFailure>),
}

impl PartialEq for CompactionOutcome {
    /// Failures are equal only if they are the same occurrence, since their causes cannot be compared.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (CompactionOutcome::Cut, CompactionOutcome::Cut)
            | (CompactionOutcome::Summarized, CompactionOutcome::Summarized) => true,
            (CompactionOutcome::Failed(one), CompactionOutcome::Failed(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// The reason why a summary was not made. Its text contains nothing of the messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryFailure {
    /// It was not done within its time limit, or the process that was to make it has ended.
    #[error("it was not done in time")]
    Late,
    /// The summarizer panicked, with this message if it is a fixed one.
    #[error("{0}")]
    Panicked(&'static str),
    /// The summarizer failed.
    #[error(transparent)]
    Summarizer(#[from] SummarizerError),
    /// The engine rejected the summary.
    #[error(transparent)]
    Rejected(#[from] SummaryRejected),
    /// The summary could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Functions that a session calls when a compaction begins, and when it ends. The end of a summary is reported from the
/// thread that made it. Each compaction is also a `tracing` span, `lookback.compaction`, with the same fields.
///
/// ```
/// use lookback::session::Hooks;
///
/// let hooks = Hooks::default()
///     .on_compact_start(|start| println!("{} messages leave", start.evicted_count))
///     .on_compact_end(|end| println!("{:.2} of the tokens, {:?}", end.ratio(), end.outcome));
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    start: Option<Arc<Hook<CompactStart>>>,
    end: Option<Arc<Hook<CompactEnd>>>,
}

type Hook<T> = dyn Fn(&T) + Send + Sync;

impl Hooks {
    /// Sets the function that is called when a compaction begins.
    #[must_use]
    pub fn on_compact_start(self, hook: impl Fn(&CompactStart) + Send + Sync + 'static) -> Self {
        Hooks { start: Some(Arc::new(hook)), ..self }
    }

    /// Sets the function that is called when a compaction has ended.
    #[must_use]
    pub fn on_compact_end(self, hook: impl Fn(&CompactEnd) + Send + Sync + 'static) -> Self {
        Hooks { end: Some(Arc::new(hook)), ..self }
    }

    /// Reports a beginning. Returns the span of the compaction.
    pub(super) fn start(&self, start: &CompactStart) -> Span {
        let CompactStart { session, evicted_count, total_tokens } = start;
        let span = tracing::info_span!(
            "lookback.compaction",
            %session,
            evicted_count,
            total_tokens,
            summary_tokens = Empty,
            tokens_before = Empty,
            tokens_after = Empty,
            ratio = Empty,
            outcome = Empty,
        );
        if let Some(hook) = &self.start {
            hook(start);
        }
        span
    }

    /// Reports an end, and records it in the span.
    pub(super) fn end(&self, span: &Span, end: &CompactEnd) {
        span.record("summary_tokens", end.summary_tokens);
        span.record("tokens_before", end.tokens_before);
        span.record("tokens_after", end.tokens_after);
        span.record("ratio", end.ratio());
        match &end.outcome {
            CompactionOutcome::Cut => _ = span.record("outcome", "cut"),
            CompactionOutcome::Summarized => _ = span.record("outcome", "summarized"),
            CompactionOutcome::Failed(failure) => {
                let reason = failure.to_string();
                span.record("outcome", "failed");
                span.in_scope(|| tracing::warn!(session = %end.session, reason, "no summary was made"));
            }
        }
        if let Some(hook) = &self.end {
            hook(end);
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.is_some(), self.end.is_some());
        f.debug_struct("Hooks").field("start", &start).field("end", &end).finish()
    }
}
