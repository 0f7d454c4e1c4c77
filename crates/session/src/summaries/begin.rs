//! Claiming a summary for this session, and starting the work on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lookback_engine::SummaryRequest;
use lookback_engine::transcript::Entry;
use tracing::Instrument as _;

use super::maker::{AtWork, Maker};
use super::making::Making;
use super::missed::is_gone;
use super::note::{Note, millis};
use super::take_up::{Free, SummaryPoll};
use super::{GRACE, POLL_INTERVAL, Work};
use crate::hooks::CompactStart;
use crate::{Error, Session};
use lookback_store::StoreError;
use lookback_store::now;
use lookback_summarize::calls;

impl Session {
    /// Takes up a summary that is ready, or begins the one that the engine asks for, unless one is being made. Returns
    /// the entries that were written. An error is logged and changes nothing.
    pub(crate) async fn begin(&mut self, request: SummaryRequest) -> Vec<Entry> {
        let dropped = is_gone(&request.claim, self.engine.view());
        let mut request = Some(request);
        let begun = self.take_up_or_start(&mut request).await;
        // The engine asks only once for messages that it has dropped.
        if dropped
            && let Some(request) = request
            && !self.summaries.missed.push(request)
        {
            tracing::warn!(session = %self.name, "what was dropped long ago will be in no summary, since none is made");
        }
        match begun {
            Ok(entries) => entries,
            Err(error) => {
                self.waive(&error);
                Vec::new()
            }
        }
    }

    /// Takes the request if it starts the work on it.
    async fn take_up_or_start(&mut self, request: &mut Option<SummaryRequest>) -> Result<Vec<Entry>, Error> {
        if matches!(&self.summaries.work, Work::Ours { .. }) && !self.ours_is_over() {
            return Ok(Vec::new());
        }
        let end = self.engine.end();
        match self.poll_summary().await? {
            SummaryPoll::TakenUp(entries) => Ok(entries),
            SummaryPoll::Wait => Ok(Vec::new()),
            // Without the runtime that the summarizer needs, every try would fail as the first one did.
            SummaryPoll::Free(_) if self.summaries.options.spawner.lacks_runtime() => Ok(Vec::new()),
            SummaryPoll::Free(free) => {
                self.catch_up().await?;
                // Other writers may have had their entries summarized: then the window must be decided on again.
                if self.engine.end() == end
                    && let Some(request) = request.take()
                {
                    self.start(request, free).await?;
                }
                Ok(Vec::new())
            }
        }
    }

    async fn start(&mut self, request: SummaryRequest, free: Free) -> Result<(), Error> {
        let (summaries, name) = (&mut self.summaries, &self.name);
        let Free { end, failures } = free;
        let request = summaries.missed.take_into(request, self.engine.view());
        let time_limit = summaries.options.time_limit;
        let until = now().unwrap_or_default().saturating_add(millis(time_limit.saturating_add(GRACE)));
        let claim = request.claim.clone();
        let model = summaries.options.summarizer.model().to_owned();
        let id = unique();
        // Before the claim is written, too: whoever finds it there finds that somebody works on it.
        let (at_work, by) = (AtWork::on(&id), Maker::here());
        let note = Note::Started { id: id.clone(), by, claim: claim.clone(), model, until, failures };
        self.engine.hold_limits();
        self.summary_pending = true;
        // Before the claim is written: if this future is dropped meanwhile, the channel closes, which shows that nobody
        // works on it.
        let (closes, done) = async_channel::bounded(1);
        summaries.work = Work::Ours { id: id.clone(), done, until: Instant::now() + time_limit + GRACE };
        match note.append(&*self.store, &summaries.log, end).await {
            Err(StoreError::Conflict { .. }) => {
                summaries.work = Work::Wait { until: Instant::now() + POLL_INTERVAL };
                return Ok(());
            }
            result => result?,
        }
        let evicted_count = request.messages.len() as u64;
        let total_tokens = self.engine.tokens(self.engine.view());
        let span = self.hooks.start(&CompactStart { session: name.clone(), evicted_count, total_tokens });
        let task = calls::task(&request).focus(summaries.options.focus.iter().cloned());
        let messages = if summaries.options.check { request.messages } else { Vec::new() };
        let making = Making {
            store: self.store.clone(),
            session: name.clone(),
            log: summaries.log.clone(),
            at: end + 1,
            summarizer: summaries.options.summarizer.clone(),
            spawner: summaries.options.spawner.clone(),
            counter: self.engine.settings().counter.clone(),
            hooks: self.hooks.clone(),
            time_limit,
            id,
            claim,
            failures,
            messages,
        };
        let made = async move {
            making.make(task).await;
            drop(at_work);
            drop(closes);
        };
        summaries.options.spawner.spawn(Box::pin(made.instrument(span)));
        Ok(())
    }
}

/// An identifier that nothing else has: it is made of the process, the time, and a counter.
fn unique() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{:x}-{moment:x}-{:x}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}
