//! Hooks: what a session tells of its compactions, as they begin and as they end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use crate::store::LogName;

/// A compaction begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactStart {
    /// The session.
    pub session: LogName,
    /// Messages that are to leave the window.
    pub evicted_count: u64,
    /// Tokens of the window as it is.
    pub total_tokens: u64,
}

/// A compaction is done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompactEnd {
    /// The session.
    pub session: LogName,
    /// Tokens of the running summary that came of it; 0 where none did.
    pub summary_tokens: u64,
    /// Tokens before: of what is summarized, the summary before it included; of the window, where things were only cut or dropped.
    pub tokens_before: u64,
    /// Tokens after: of the summary, or of the window.
    pub tokens_after: u64,
    /// How long it took.
    pub duration: Duration,
    /// What came of it.
    pub outcome: CompactionOutcome,
}

impl CompactEnd {
    /// Tokens after over tokens before; 1 where there was nothing.
    pub fn ratio(&self) -> f64 {
        if self.tokens_before == 0 { 1.0 } else { self.tokens_after as f64 / self.tokens_before as f64 }
    }
}

/// What came of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionOutcome {
    /// Results were shortened, or groups dropped, and the window is smaller already.
    Cut,
    /// There is a summary, which the next window takes up.
    Summarized,
    /// There is no summary: what was to be summarized stays in the window, and it is tried again later. The reason holds nothing of
    /// the messages.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// What is called when a compaction begins, and when it ends: from a thread of its own, where a summary is made. Each compaction is a
/// `tracing` span too, `lookback.compaction`, with the same fields.
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
    /// Calls this when a compaction begins.
    #[must_use]
    pub fn on_compact_start(self, hook: impl Fn(&CompactStart) + Send + Sync + 'static) -> Self {
        Hooks { start: Some(Arc::new(hook)), ..self }
    }

    /// Calls this when a compaction is done.
    #[must_use]
    pub fn on_compact_end(self, hook: impl Fn(&CompactEnd) + Send + Sync + 'static) -> Self {
        Hooks { end: Some(Arc::new(hook)), ..self }
    }

    /// Tells of a beginning, and gives the span in which the compaction is made.
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

    /// Tells of an end, and writes it into the span.
    pub(super) fn end(&self, span: &Span, end: &CompactEnd) {
        span.record("summary_tokens", end.summary_tokens);
        span.record("tokens_before", end.tokens_before);
        span.record("tokens_after", end.tokens_after);
        span.record("ratio", end.ratio());
        match &end.outcome {
            CompactionOutcome::Cut => _ = span.record("outcome", "cut"),
            CompactionOutcome::Summarized => _ = span.record("outcome", "summarized"),
            CompactionOutcome::Failed { reason } => {
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
