//! Claiming a summary for this session, and starting the work on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lookback_engine::SummaryRequest;
use lookback_engine::transcript::Entry;
use tracing::Instrument as _;

use super::adopt::{Free, SummaryPoll};
use super::maker::{ActiveClaim, Maker};
use super::making::Making;
use super::missed::is_gone;
use super::note::{Note, millis};
use super::{GRACE, POLL_INTERVAL, Work};
use crate::hooks::CompactStart;
use crate::{Error, Session};
use lookback_store::StoreError;
use lookback_store::now;
use lookback_summarize::calls;

impl Session {
    /// Takes up a summary that is ready, or begins the requested one, unless another is being made. Returns the entries
    /// that were written. An error is logged and changes nothing.
    pub(crate) async fn begin(&mut self, request: SummaryRequest) -> Vec<Entry> {
        let dropped = is_gone(&request.claim, self.engine.view());
        let mut request = Some(request);
        let begun = self.take_up_or_start(&mut request).await;
        // The engine requests a summary of dropped messages only once.
        if dropped
            && let Some(request) = request
            && !self.summaries.missed.push(request)
        {
            tracing::warn!(session = %self.name, "too many messages wait for a summary: the oldest will be in none");
        }
        match begun {
            Ok(entries) => entries,
            Err(error) => {
                self.waive(&error);
                Vec::new()
            }
        }
    }

    /// Does the work of [`Session::begin`]. Takes the request out of the option if the work on it starts.
    async fn take_up_or_start(&mut self, request: &mut Option<SummaryRequest>) -> Result<Vec<Entry>, Error> {
        if matches!(&self.summaries.work, Work::Own { .. }) && !self.ours_is_over() {
            return Ok(Vec::new());
        }
        let end = self.engine.end();
        match self.poll_summary().await? {
            SummaryPoll::TakenUp(entries) => Ok(entries),
            SummaryPoll::Wait => Ok(Vec::new()),
            // Without the runtime that the summarizer needs, every try would fail like the first one.
            SummaryPoll::Free(_) if self.summaries.options.spawner.lacks_runtime() => Ok(Vec::new()),
            SummaryPoll::Free(free) => {
                self.refresh().await?;
                // If other writers have written meanwhile, such as a summary, the window must be decided on again.
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
        // Before the claim is written: a reader of the claim must find that this process works on it.
        let (at_work, by) = (ActiveClaim::on(&id), Maker::here());
        let note = Note::Started { id: id.clone(), by, claim: claim.clone(), model, until, failures };
        self.engine.hold_limits();
        self.summary_pending = true;
        // Also before the claim is written: if this future is dropped meanwhile, the closed channel shows that the work
        // has ended.
        let (closes, done) = async_channel::bounded(1);
        summaries.work = Work::Own { id: id.clone(), done, until: Instant::now() + time_limit + GRACE };
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

/// Returns a unique identifier, made from the process, the time, and a counter.
fn unique() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{:x}-{moment:x}-{:x}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}
