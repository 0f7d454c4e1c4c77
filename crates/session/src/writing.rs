//! Writing the engine's changes into the store, and trying again if another writer was faster.

use std::time::Instant;

use lookback_engine::transcript::{Entry, Millis, Position};
use lookback_engine::{Engine, WindowOutcome};

use super::attempt::Attempt;
use super::log::load;
use super::{Batch, CompactEnd, CompactStart, CompactionOutcome, Error, Session, TRIES};
use lookback_store::now;
use lookback_store::{Append, Record, StoreError};

/// The result of a change of the engine, with the entries that must be written to the log.
pub(super) trait Recorded {
    fn entries(&self) -> &[Entry];
}

impl Recorded for Vec<Entry> {
    fn entries(&self) -> &[Entry] {
        self
    }
}

impl Recorded for WindowOutcome {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// A change whose entries are in the store.
pub(super) struct Written<T> {
    pub(super) outcome: T,
    /// The position of its first entry.
    at: Position,
    begun: Instant,
}

impl<T: Recorded> Written<T> {
    /// The positions of the messages among its entries.
    pub(super) fn messages(&self) -> Vec<Position> {
        let entries = (self.at..).zip(self.outcome.entries());
        entries.filter(|(_, entry)| matches!(entry, Entry::Message(_))).map(|(position, _)| position).collect()
    }
}

/// An append whose answer was lost, so that it is unknown whether it was written.
pub(super) struct Unclear {
    pub(super) attempt: Attempt,
    /// The positions of its messages.
    pub(super) messages: Vec<Position>,
    /// The batch, if the caller pushed one.
    pub(super) batch: Option<Batch>,
}

impl Unclear {
    pub(super) fn is_push_of(&self, batch: &Batch) -> bool {
        self.batch.as_ref().is_some_and(|lost| lost.is_same(batch))
    }
}

impl Session {
    /// Decides on a window, and begins the summary that the decision asks for. The outcome has the entries of all
    /// decisions.
    ///
    /// It decides again if a summary was taken up instead, or if other writers have written, because the window has
    /// changed then. It also does if the limits can no longer wait for a summary.
    pub(super) async fn decide(
        &mut self,
        mut decide: impl FnMut(&mut Engine) -> WindowOutcome + Send,
    ) -> Result<WindowOutcome, Error> {
        let mut outcome = WindowOutcome::default();
        let mut entries = Vec::new();
        for tries in 0..=TRIES {
            let drops = self.drops;
            let decided = |engine: &mut Engine| {
                engine.drop_at_limits(drops);
                let outcome = decide(engine);
                engine.drop_at_limits(false);
                Ok(outcome)
            };
            let written = self.commit(decided).await?;
            self.report(&written);
            outcome = written.outcome;
            entries.append(&mut outcome.entries);
            let Some(request) = outcome.summary_request.take() else { break };
            if tries >= TRIES {
                break;
            }
            let end = self.engine.end();
            entries.extend(self.begin(request).await);
            if self.engine.end() == end && self.drops == drops {
                break;
            }
        }
        outcome.entries = entries;
        Ok(outcome)
    }

    /// Reports the compactions among the entries that were written.
    pub(super) fn report<T: Recorded>(&self, written: &Written<T>) {
        for entry in written.outcome.entries() {
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
                duration: written.begun.elapsed(),
                outcome: CompactionOutcome::Cut,
            };
            self.hooks.end(&span, &end);
        }
    }

    /// Reads the log again if the engine may differ from it.
    pub(super) async fn reload_if_stale(&mut self) -> Result<(), Error> {
        if self.stale {
            let target = self.engine.target().clone();
            self.engine = load(&*self.store, &self.name, self.engine.settings().clone()).await?;
            self.engine.set_target(&target);
            if self.summary_pending {
                self.engine.hold_limits();
            }
            self.stale = false;
        }
        Ok(())
    }

    /// Changes the engine, and writes the entries of the change. If another writer was faster, the change is repeated
    /// after that writer's entries.
    pub(super) async fn commit<T: Recorded>(
        &mut self,
        change: impl FnMut(&mut Engine) -> Result<T, Error> + Send,
    ) -> Result<Written<T>, Error> {
        self.commit_again(None, change).await
    }

    /// Like [`Session::commit`]. If the change has the position of a lost attempt, it is written as that attempt.
    pub(super) async fn commit_again<T: Recorded>(
        &mut self,
        lost: Option<Attempt>,
        mut change: impl FnMut(&mut Engine) -> Result<T, Error> + Send,
    ) -> Result<Written<T>, Error> {
        let begun = Instant::now();
        for _ in 0..TRIES {
            if let Some(written) = self.try_write(now(), lost, &mut change).await? {
                return Ok(Written { begun, ..written });
            }
        }
        Err(self.overtaken())
    }

    /// Like [`Session::commit`], but tries once; `None` if another writer was faster.
    pub(super) async fn try_commit<T: Recorded>(
        &mut self,
        change: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> Result<Option<Written<T>>, Error> {
        self.try_write(now(), None, change).await
    }

    /// Like [`Session::try_commit`], but the write does not count as a use of the session.
    pub(super) async fn try_commit_without_use<T: Recorded>(
        &mut self,
        change: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> Result<Option<Written<T>>, Error> {
        self.try_write(None, None, change).await
    }

    async fn try_write<T: Recorded>(
        &mut self,
        time: Option<Millis>,
        lost: Option<Attempt>,
        change: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> Result<Option<Written<T>>, Error> {
        let begun = Instant::now();
        self.reload_if_stale().await?;
        let at = self.engine.end();
        // Stale until the store has the entries: if this future is dropped before, it is unknown whether it has them.
        self.stale = true;
        let before = self.engine.view().label().clone();
        let outcome = change(&mut self.engine)?;
        let mut label = &before;
        let mut records = Vec::with_capacity(outcome.entries().len());
        for (position, entry) in (at..).zip(outcome.entries()) {
            if let Entry::Label(next) = entry {
                label = next;
            }
            records.push(Record::from_entry(&self.name, position, entry, Some(label))?);
        }
        self.unclear = None;
        let written = Written { outcome, at, begun };
        if !records.is_empty() {
            let append = Append::new(at, records).time(time);
            // If the lost attempt arrives after all, only one of the two is written.
            let lost = lost.filter(|lost| lost.at == at);
            let key = lost.map_or(append.key, |lost| lost.key);
            let append = append.key(key);
            match self.store.append(&self.name, append).await {
                // The store may have the records of the lost attempt, with other times than these: it is read again.
                Ok(()) if lost.is_some() => return Ok(Some(written)),
                Ok(()) => {}
                Err(StoreError::Conflict { .. }) => return Ok(None),
                Err(error) => {
                    if lost.is_some() || error.is_unclear() {
                        let attempt = Attempt { at, key };
                        self.unclear = Some(Unclear { attempt, messages: written.messages(), batch: None });
                    }
                    return Err(error.into());
                }
            }
        }
        self.stale = false;
        Ok(Some(written))
    }

    pub(super) fn overtaken(&self) -> Error {
        StoreError::Overtaken { log: self.name.to_string(), tries: TRIES }.into()
    }
}
