//! Hooks: functions that a session calls when a compaction begins, when it ends, and when a summary is refused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use super::summaries::NoSummary;
use lookback_store::LogName;
use lookback_summarize::SummaryFaults;

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
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactEnd {
    /// The session.
    pub session: LogName,
    /// Tokens of the new running summary; 0 if there is none.
    pub summary_tokens: u64,
    /// Tokens of the summarized messages and the previous summary. If groups were only shortened or dropped, tokens of
    /// the window before.
    pub tokens_before: u64,
    /// Tokens of the new summary. If groups were only shortened or dropped, tokens of the window after.
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
pub enum CompactionOutcome {
    /// Results were shortened or groups were dropped. The window is already smaller.
    Cut,
    /// A summary was made. The next window uses it.
    Summarized,
    /// Two summaries in a row did not pass their check. Their messages leave the window without a summary, and the
    /// previous summary stays.
    Refused {
        /// The faults of the second one.
        faults: Arc<SummaryFaults>,
    },
    /// No summary was made. The messages stay in the window, and another try follows later.
    Failed {
        /// The cause.
        reason: Arc<NoSummary>,
    },
}

/// Describes a summary that did not pass its check, and was not published.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SummaryRefused {
    /// The session.
    pub session: LogName,
    /// The summarizer's model.
    pub model: String,
    /// The faults of the summary.
    pub faults: Arc<SummaryFaults>,
    /// Whether the summarizer is asked once more. If not, the messages leave the window without a summary.
    pub again: bool,
}

/// Functions that a session calls when a compaction begins, when it ends, and when a summary is refused. The outcome of
/// a summary is reported from the thread that made it. Each compaction is also a `tracing` span, `lookback.compaction`,
/// with the same fields.
///
/// ```
/// use lookback_session::Hooks;
///
/// let hooks = Hooks::default()
///     .on_compact_start(|start| println!("{} messages leave", start.evicted_count))
///     .on_compact_end(|end| println!("{:.2} of the tokens, {:?}", end.ratio(), end.outcome))
///     .on_summary_refused(|refused| println!("{} invented {:?}", refused.model, refused.faults.invented));
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    start: Option<Arc<Hook<CompactStart>>>,
    end: Option<Arc<Hook<CompactEnd>>>,
    refused: Option<Arc<Hook<SummaryRefused>>>,
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

    /// Sets the function that is called when a summary does not pass its check.
    #[must_use]
    pub fn on_summary_refused(self, hook: impl Fn(&SummaryRefused) + Send + Sync + 'static) -> Self {
        Hooks { refused: Some(Arc::new(hook)), ..self }
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
            CompactionOutcome::Refused { .. } => _ = span.record("outcome", "refused"),
            CompactionOutcome::Failed { reason } => {
                span.record("outcome", "failed");
                let reason = reason.to_string();
                span.in_scope(|| tracing::warn!(session = %end.session, reason, "no summary was made"));
            }
        }
        if let Some(hook) = &self.end {
            hook(end);
        }
    }

    /// Reports a summary that did not pass its check. The log event has no names from the summary, because they are
    /// contents.
    pub(super) fn refuse(&self, refused: &SummaryRefused) {
        let SummaryRefused { session, model, faults, again } = refused;
        let (invented, missing, orders) = (faults.invented.len(), faults.missing.len(), faults.orders.len());
        let language = faults.language.is_some();
        if *again {
            tracing::debug!(%session, model, invented, missing, orders, language, "a summary is asked for once more");
        } else {
            tracing::warn!(%session, model, invented, missing, orders, language, "no summary passed its check");
        }
        if let Some(hook) = &self.refused {
            hook(refused);
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end, refused) = (self.start.is_some(), self.end.is_some(), self.refused.is_some());
        f.debug_struct("Hooks").field("start", &start).field("end", &end).field("refused", &refused).finish()
    }
}
