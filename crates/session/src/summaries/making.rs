//! Making one summary in the background, even if the session is closed before it is done.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::{FutureExt as _, future};
use lookback_engine::{SummaryClaim, SummaryRejected};
use lookback_tokens::TokenCounter;
use lookback_wire::message::Message;
use tracing::Span;

use super::no_summary::Reason;
use super::note::{Note, failed};
use crate::hooks::{CompactEnd, CompactionOutcome, Hooks, SummaryRefused};
use lookback_store::{LogName, Store, StoreError};
use lookback_summarize::{Spawner, Summarizer, Summary, SummaryFaults, SummarySource, SummaryTask, run};

/// Below this many bytes, a check takes a few milliseconds and runs without another thread.
const AT_ONCE: u64 = 64 << 10;

/// The inputs for making one summary.
pub(super) struct Making {
    pub(super) store: Arc<dyn Store>,
    pub(super) session: LogName,
    pub(super) log: LogName,
    /// The position of the result in the log. If the claim expires first, another writer takes this position.
    pub(super) at: u64,
    pub(super) summarizer: Arc<dyn Summarizer>,
    pub(super) spawner: Spawner,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) hooks: Hooks,
    pub(super) time_limit: Duration,
    pub(super) id: String,
    pub(super) claim: SummaryClaim,
    pub(super) failures: u32,
    /// The messages to summarize, for the check. Empty if summaries are not checked.
    pub(super) messages: Vec<Arc<Message>>,
}

/// A summary that was made.
enum Made {
    Passed(Summary),
    /// Neither this summary nor the one before it passed the check.
    Refused(Arc<SummaryFaults>),
}

impl Making {
    pub(super) async fn make(self, task: SummaryTask) {
        let begun = Instant::now();
        let tokens_before = self.claim.size.tokens;
        let (note, tokens_after, outcome) = match self.within_time(task).await {
            Ok(Made::Passed(Summary { text, tokens_after, .. })) => {
                let (id, claim, model) = (self.id.clone(), self.claim.clone(), self.summarizer.model().to_owned());
                let failures = self.failures;
                let note = Note::Made { id, claim, text, model, tokens_before, tokens_after, failures };
                (note, tokens_after, CompactionOutcome::Summarized)
            }
            Ok(Made::Refused(faults)) => {
                let note = Note::Refused { id: self.id.clone(), claim: self.claim.clone() };
                (note, 0, CompactionOutcome::Refused { faults })
            }
            Err(reason) => {
                let note = failed(reason.to_string(), self.failures);
                (note, 0, CompactionOutcome::Failed { reason: Arc::new(reason.into()) })
            }
        };
        let outcome = match self.write(&note).await {
            Ok(()) => outcome,
            Err(error) => CompactionOutcome::Failed { reason: Arc::new(Reason::from(error).into()) },
        };
        let end = end_of(&self.session, tokens_before, tokens_after, begun.elapsed(), outcome);
        self.hooks.end(&Span::current(), &end);
    }

    async fn within_time(&self, task: SummaryTask) -> Result<Made, Reason> {
        let late = async {
            async_io::Timer::after(self.time_limit).await;
            // A summarizer that keeps retrying knows the cause.
            Err(self.summarizer.take_error().map_or(Reason::Late, Reason::Summarizer))
        };
        future::or(self.make_checked(task), late).await
    }

    /// Makes a summary that passes its check, in at most two tries.
    async fn make_checked(&self, task: SummaryTask) -> Result<Made, Reason> {
        if self.messages.is_empty() {
            return Ok(Made::Passed(self.make_once(task).await?));
        }
        let first = self.make_once(task.clone()).await?;
        let source = Arc::new(self.source(task.previous.clone()).await);
        let faults = self.check(&source, &first.text, task.requested_tokens()).await;
        if faults.is_empty() {
            return Ok(Made::Passed(first));
        }
        let faults = Arc::new(faults);
        self.refuse(&faults, true);
        let second = self.make_once(task.clone().faults((*faults).clone())).await?;
        let faults = self.check(&source, &second.text, task.requested_tokens()).await;
        if faults.is_empty() {
            return Ok(Made::Passed(second));
        }
        let faults = Arc::new(faults);
        self.refuse(&faults, false);
        Ok(Made::Refused(faults))
    }

    /// Prepares the check. If that takes long, it runs on a thread of a pool, so that the executor is not blocked.
    async fn source(&self, previous: Option<String>) -> SummarySource {
        let messages = self.messages.clone();
        let prepare = move || SummarySource::new(messages.iter().map(|message| &**message), previous.as_deref());
        if self.claim.size.bytes < AT_ONCE { prepare() } else { blocking::unblock(prepare).await }
    }

    /// Checks a summary. If that takes long, it runs on a thread of a pool, so that the executor is not blocked.
    async fn check(&self, source: &Arc<SummarySource>, text: &str, aim: u64) -> SummaryFaults {
        let (source, text, counter) = (source.clone(), text.to_owned(), self.counter.clone());
        let check = move || source.check(&text, aim, &*counter);
        if self.claim.size.bytes < AT_ONCE { check() } else { blocking::unblock(check).await }
    }

    async fn make_once(&self, task: SummaryTask) -> Result<Summary, Reason> {
        match AssertUnwindSafe(run(&*self.summarizer, task, &*self.counter)).catch_unwind().await {
            // The messages have no text, so no model was asked.
            Ok(Ok(summary)) if summary.text.is_empty() => Err(SummaryRejected::Empty.into()),
            Ok(Ok(summary)) => Ok(summary),
            Ok(Err(error)) => {
                self.spawner.learn(&error);
                Err(error.into())
            }
            Err(panic) => {
                let message = panic.downcast_ref::<&'static str>().copied();
                Err(Reason::Panicked(message.unwrap_or("the summarizer panicked")))
            }
        }
    }

    fn refuse(&self, faults: &Arc<SummaryFaults>, again: bool) {
        let (session, model) = (self.session.clone(), self.summarizer.model().to_owned());
        self.hooks.refuse(&SummaryRefused { session, model, faults: faults.clone(), again });
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
    tokens_before: u64,
    tokens_after: u64,
    duration: Duration,
    outcome: CompactionOutcome,
) -> CompactEnd {
    let (session, summary_tokens) = (session.clone(), tokens_after);
    CompactEnd { session, summary_tokens, tokens_before, tokens_after, duration, outcome }
}
