//! Writing to the pipeline's session, and observing its window.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use lookback_engine::transcript::{Compaction, Entry, Origin, Position};
use lookback_engine::{policy::Mode, view::View};
use lookback_wire::message::Message;

use super::super::Call;
use super::Pipeline;
use super::state::Sent;
use super::state::Step;
use lookback_facts::LeftMessage;
use lookback_session::Batch;
use lookback_session::Error;
use lookback_store::entries::read;
use lookback_store::now;

/// The treatment of a message on arrival.
#[derive(Clone, Copy)]
enum Arrival {
    /// The policy's cap on long results applies, if it has one.
    Capped(Origin),
    /// It is shown whole.
    Whole,
}

impl Pipeline {
    /// Records the usage that was reported for a call. Like [`Pipeline::push`], it writes once.
    pub(super) async fn report(&mut self, model: &str, input: u64) -> Result<(), Error> {
        let is_it =
            |entry: &Entry| matches!(entry, Entry::Usage(usage) if usage.model == model && usage.reported == input);
        if self.exchange.reported {
            return Ok(());
        }
        if !self.was_written(is_it).await? {
            self.writing = Some(self.session.stats().entries);
            self.session.usage(model, input).await?;
        }
        (self.exchange.reported, self.writing) = (true, None);
        Ok(())
    }

    /// Pushes a message once, even if an earlier try wrote it and then failed or had its future dropped.
    pub(super) async fn push(&mut self, message: Message, origin: Origin) -> Result<(), Error> {
        self.write(message, Arrival::Capped(origin)).await
    }

    /// Like [`Pipeline::push`], for a message from the client that is not truncated on arrival.
    pub(super) async fn push_whole(&mut self, message: Message) -> Result<(), Error> {
        self.write(message, Arrival::Whole).await
    }

    async fn write(&mut self, message: Message, arrival: Arrival) -> Result<(), Error> {
        let said = self.session.settings().dialect.convert(&message)?;
        let digests: Vec<_> = said.iter().map(Message::digest).collect();
        let is_it = |entry: &Entry| matches!(entry, Entry::Message(arrival) if digests.contains(&arrival.digest));
        if !self.was_written(is_it).await? {
            self.writing = Some(self.session.stats().entries);
            match arrival {
                Arrival::Capped(origin) => self.session.append(Batch::from(message).origin(origin).at(now())).await?,
                Arrival::Whole => self.session.append(Batch::from(message).unshortened()).await?,
            };
        }
        self.writing = None;
        Ok(())
    }

    /// Whether an earlier write with an unknown result wrote such an entry.
    async fn was_written(&mut self, is_it: impl Fn(&Entry) -> bool) -> Result<bool, Error> {
        let Some(end) = self.writing else { return Ok(false) };
        Ok(self.since(end).await?.iter().any(is_it))
    }

    /// Reads the entries that any writer has added since the log ended at this position.
    async fn since(&mut self, end: Position) -> Result<Vec<Entry>, Error> {
        self.session.refresh().await?;
        let now = self.session.stats().entries;
        let span = end.min(now)..now;
        Ok(read(&**self.session.store(), self.session.name(), span).await?)
    }

    /// Pushes the pending notes into the session.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        while let Some(note) = self.notes.pending.front().cloned() {
            self.push(Message::user(&*note.text), Origin::Lookback).await?;
            self.notes.pending.pop_front();
            self.notes.written.push(note);
        }
        Ok(())
    }

    /// Makes the refused window smaller, unless an earlier try with an unknown result already did.
    pub(super) async fn reduce(&mut self) -> Result<(), Error> {
        let Step::Overflow(cause, end) = self.run.step else { return Ok(()) };
        let mut made = newest(&self.since(end).await?);
        if made.is_none() {
            match self.session.overflow(cause).await {
                // Another try would fail, too.
                Err(error @ Error::Irreducible(_)) => {
                    self.run.step = Step::Call;
                    return Err(error);
                }
                done => done?,
            }
            made = newest(&self.since(end).await?);
        }
        self.shown.compaction = made.or(self.shown.compaction.take());
        self.refresh_view();
        self.run.step = Step::Call;
        Ok(())
    }

    /// Makes the window, and records the messages that have left it. Returns its view and its tokens.
    pub(super) async fn window(&mut self) -> Result<(Arc<View>, u64), Error> {
        self.refresh_view();
        let window = self.session.window().await?;
        let made = newest(window.entries());
        let (view, tokens) = (Arc::new(window.view().clone()), window.tokens());
        self.shown.compaction = made.or(self.shown.compaction.take());
        self.see(view.clone());
        Ok((view, tokens))
    }

    /// Makes the window again, because notes may have been pushed, and returns the call.
    pub(super) async fn call(&mut self) -> Result<Call, Error> {
        let (view, tokens) = self.window().await?;
        self.exchange.reported = false;
        self.exchange.sent = Some(Sent { view: view.clone(), tokens, since: Instant::now() });
        self.exchange.allowed = self.run.tools.clone();
        let dialect = self.session.settings().dialect;
        Ok(Call { view, dialect, tokens, tools: self.run.tools.clone(), iteration: self.run.iteration })
    }

    /// Returns the current view.
    pub(super) fn refresh_view(&mut self) -> Arc<View> {
        match &self.shown.view {
            Some((end, view)) if *end == self.session.stats().entries => view.clone(),
            _ => {
                let view = Arc::new(self.session.view().clone());
                self.see(view.clone());
                view
            }
        }
    }

    /// Remembers a view, and for each middleware the messages that have left since the previous view.
    fn see(&mut self, view: Arc<View>) {
        let before = self.shown.view.replace((self.session.stats().entries, view.clone()));
        // Messages that a policy leaves out on read may come back, so they do not count as having left.
        if self.session.settings().policy.mode != Mode::Recorded {
            return;
        }
        let Some((_, before)) = before else { return };
        let shown: HashSet<_> = view.messages().map(|item| item.position()).collect();
        let gone = before.messages().filter(|item| !item.is_own() && !shown.contains(&item.position()));
        let left: Vec<_> = gone.map(|item| LeftMessage::new(item.position(), item.message().clone())).collect();
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_out()) {
            slot.left.extend(left.iter().cloned());
        }
    }
}

/// Returns the newest compaction among entries.
fn newest(entries: &[Entry]) -> Option<Arc<Compaction>> {
    entries.iter().rev().find_map(|entry| match entry {
        Entry::Compaction(compaction) => Some(Arc::new(compaction.clone())),
        _ => None,
    })
}
