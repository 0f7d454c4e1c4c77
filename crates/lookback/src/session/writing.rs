//! Writing what an engine says into the store, anew where another writer was faster.

use std::time::Instant;

use lookback_core::engine::{Engine, WindowOutcome};
use lookback_core::transcript::Entry;

use super::log::{load, record};
use super::{CompactEnd, CompactStart, CompactionOutcome, Error, Session, TRIES, now};
use crate::store::StoreError;

impl Session {
    /// Decides, and has the summary made that is wanted; decides anew where one was there to be taken up, or other writers have written
    /// meanwhile, since the window is another then. Adds what was recorded to `entries`.
    pub(super) async fn decide_and_begin(
        &mut self,
        mut decide: impl FnMut(&mut Engine) -> WindowOutcome + Send,
        entries: &mut Vec<Entry>,
    ) -> Result<WindowOutcome, Error> {
        let mut outcome = self.decide(&mut decide).await?;
        for _ in 0..TRIES {
            entries.append(&mut outcome.entries);
            let Some(wanted) = outcome.summary_request.take() else { break };
            let at = self.engine.end();
            entries.extend(self.begin(wanted).await);
            if self.engine.end() == at {
                break;
            }
            outcome = self.decide(&mut decide).await?;
        }
        entries.append(&mut outcome.entries);
        Ok(outcome)
    }

    pub(super) async fn decide(
        &mut self,
        mut decide: impl FnMut(&mut Engine) -> WindowOutcome + Send,
    ) -> Result<WindowOutcome, Error> {
        let mut outcome = WindowOutcome::default();
        self.commit_and_tell(|engine| {
            outcome = decide(engine);
            Ok(outcome.entries.clone())
        })
        .await?;
        Ok(outcome)
    }

    /// As [`Session::commit`], and tells of the compactions that are in what was written.
    pub(super) async fn commit_and_tell(
        &mut self,
        mut change: impl FnMut(&mut Engine) -> Result<Vec<Entry>, Error> + Send,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let mut written = Vec::new();
        self.commit(|engine| {
            written = change(engine)?;
            Ok(written.clone())
        })
        .await?;
        self.tell(&written, begun);
        Ok(())
    }

    /// Tells of the compactions among new entries, which are done as they begin.
    pub(super) fn tell(&self, entries: &[Entry], begun: Instant) {
        for entry in entries {
            let Entry::Compaction(compaction) = entry else { continue };
            let gone = compaction.groups.iter().filter(|group| group.decision.action.is_gone());
            let evicted_count = gone.map(|group| group.decision.before.messages).sum();
            let (session, total_tokens) = (self.name.clone(), compaction.before.size.tokens);
            let span = self.hooks.start(&CompactStart { session: session.clone(), evicted_count, total_tokens });
            let end = CompactEnd {
                session,
                summary_tokens: 0,
                tokens_before: total_tokens,
                tokens_after: compaction.after.size.tokens,
                duration: begun.elapsed(),
                outcome: CompactionOutcome::Cut,
            };
            self.hooks.end(&span, &end);
        }
    }

    /// Reads again what other writers may have written, where this session is not sure of what it has.
    pub(super) async fn refresh(&mut self) -> Result<(), Error> {
        if self.stale {
            self.engine = load(&*self.store, &self.name, self.engine.settings().clone()).await?;
            self.engine.set_summary_pending(self.summary_pending);
            self.stale = false;
        }
        Ok(())
    }

    /// Lets the engine change, and writes down what it says; anew after what another writer wrote in between.
    pub(super) async fn commit(
        &mut self,
        mut change: impl FnMut(&mut Engine) -> Result<Vec<Entry>, Error> + Send,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            if self.try_commit(&mut change).await? {
                return Ok(());
            }
        }
        Err(self.overtaken())
    }

    pub(super) async fn try_commit(
        &mut self,
        change: &mut (dyn FnMut(&mut Engine) -> Result<Vec<Entry>, Error> + Send),
    ) -> Result<bool, Error> {
        self.refresh().await?;
        let at = self.engine.end();
        self.stale = true;
        let entries = change(&mut self.engine)?;
        if entries.is_empty() {
            self.stale = false;
            return Ok(true);
        }
        let records = entries.iter().enumerate().map(|(index, entry)| record(&self.name, at + index as u64, entry));
        let records = records.collect::<Result<_, _>>()?;
        match self.store.append(&self.name, at, records, now()).await {
            Ok(()) => {
                self.stale = false;
                Ok(true)
            }
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn overtaken(&self) -> Error {
        StoreError::Overtaken { log: self.name.to_string(), tries: TRIES }.into()
    }
}
