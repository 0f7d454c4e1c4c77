//! Making one summary beside its session, which may be closed by the time it is done.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::{FutureExt as _, future};
use lookback_core::engine::{SummaryClaim, SummaryRejected};
use lookback_core::tokens::TokenCounter;
use tracing::Span;

use super::note::{Note, failed};
use crate::session::hooks::{CompactEnd, CompactionOutcome, Hooks};
use crate::store::{LogName, Store, StoreError};
use crate::summarize::{Spawner, Summarizer, Task, run};

/// All that making one summary needs, without its session.
pub(super) struct Making {
    pub(super) store: Arc<dyn Store>,
    pub(super) session: LogName,
    pub(super) log: LogName,
    /// Where in the log what comes of it belongs. Whoever thinks it dead writes there instead.
    pub(super) at: u64,
    pub(super) summarizer: Arc<dyn Summarizer>,
    pub(super) spawner: Spawner,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) hooks: Hooks,
    pub(super) time_limit: Duration,
    pub(super) id: String,
    pub(super) claim: SummaryClaim,
    pub(super) failures: u32,
}

impl Making {
    pub(super) async fn make(self, task: Task) {
        let begun = Instant::now();
        let made = self.within_time(task).await;
        let of = self.session.to_string();
        let (note, tokens_after, outcome) = match made {
            Ok((text, tokens)) => {
                let (id, claim, model) = (self.id.clone(), self.claim.clone(), self.summarizer.model().to_owned());
                let tokens_before = self.claim.size.tokens;
                let failures = self.failures;
                let note = Note::Made { of, id, claim, text, model, tokens_before, tokens_after: tokens, failures };
                (note, tokens, CompactionOutcome::Summarized)
            }
            Err(reason) => {
                (failed(&self.session, reason.clone(), self.failures), 0, CompactionOutcome::Failed { reason })
            }
        };
        let written = self.write(&note).await;
        let outcome = match written {
            Ok(()) => outcome,
            Err(error) => CompactionOutcome::Failed { reason: error.to_string() },
        };
        self.hooks.end(
            &Span::current(),
            &end_of(&self.session, self.claim.size.tokens, tokens_after, begun.elapsed(), outcome),
        );
    }

    /// The summary and its tokens, or why there is none.
    async fn within_time(&self, task: Task) -> Result<(String, u64), String> {
        let summary = AssertUnwindSafe(run(&*self.summarizer, task, &*self.counter)).catch_unwind();
        let timer = async {
            async_io::Timer::after(self.time_limit).await;
            Err(Box::new("it was not done in time") as Box<dyn Any + Send>)
        };
        match future::or(summary, timer).await {
            Ok(Ok(summary)) => {
                let tokens = summary.tokens_after;
                // Where nothing was said no model was asked, and there is nothing to take up.
                if summary.text.is_empty() {
                    return Err(SummaryRejected::Empty.to_string());
                }
                Ok((summary.text, tokens))
            }
            Ok(Err(error)) => {
                self.spawner.learn(&error);
                Err(error.to_string())
            }
            Err(panic) => Err((*panic.downcast_ref::<&str>().unwrap_or(&"the summarizer panicked")).to_owned()),
        }
    }

    async fn write(&self, note: &Note) -> Result<(), StoreError> {
        const TRIES: u32 = 3;
        let mut result = note.append(&*self.store, &self.log, self.at).await;
        for tries in 1..TRIES {
            if matches!(result, Ok(()) | Err(StoreError::Conflict { .. })) {
                break;
            }
            async_io::Timer::after(Duration::from_millis(100) * tries).await;
            result = note.append(&*self.store, &self.log, self.at).await;
        }
        result
    }
}

pub(super) fn end_of(
    session: &LogName,
    before: u64,
    after: u64,
    duration: Duration,
    outcome: CompactionOutcome,
) -> CompactEnd {
    let (tokens_before, tokens_after) = (before, after);
    CompactEnd { session: session.clone(), summary_tokens: after, tokens_before, tokens_after, duration, outcome }
}
