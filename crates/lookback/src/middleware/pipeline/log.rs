//! What a pipeline writes into its session, and what it sees of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use lookback_core::message::{Content, Message, ToolCall, ToolResult, UserPart};
use lookback_core::tokens::measure;
use lookback_core::transcript::{Compaction, Entry, Origin, Position};
use lookback_core::{Mode, View};

use super::super::{Call, CallUsage, ModelAnswer};
use super::{Pipeline, Sent, Step};
use crate::session::log::read;
use crate::session::{Error, now};

/// The name under which a model's tokens are corrected: the session's own, where the provider's is the same with a date (`gpt-4o-2024-11-20`),
/// for under another nobody would look.
fn counted_as(asked: Option<&str>, told: Option<&str>) -> Option<String> {
    let date =
        |rest: &str| rest.len() >= "-20241120".len() && rest.bytes().all(|sign| sign == b'-' || sign.is_ascii_digit());
    let own = |asked: &&str| told.is_none_or(|told| told.strip_prefix(asked).is_some_and(date));
    asked.filter(own).or(told).map(str::to_owned)
}

/// The newest compaction among entries.
fn newest(entries: &[Entry]) -> Option<Arc<Compaction>> {
    entries.iter().rev().find_map(|entry| match entry {
        Entry::Compaction(compaction) => Some(Arc::new(compaction.clone())),
        _ => None,
    })
}

impl Pipeline {
    /// Puts an answer of the model's into the session, with what was reported of its call.
    pub(super) async fn take_answer(&mut self, message: Message, usage: Option<CallUsage>) -> Result<(), Error> {
        let calls: Vec<_> = message.tool_calls().map(|(_, call)| call.clone()).collect();
        let kept = Arc::new(message.clone());
        if let Some(usage) = &usage
            && let Some(model) = counted_as(self.session.settings().model.as_deref(), usage.model.as_deref())
        {
            self.report(&model, usage.input).await?;
        }
        self.push(message, Origin::Model).await?;
        (self.open, self.reported) = (calls, false);
        let Sent { view, tokens, since } = self.sent.take().unwrap_or_else(|| {
            let view = self.look();
            Sent { tokens: self.session.tokens_of(&view), view, since: Instant::now() }
        });
        match &usage {
            Some(usage) => self.costs.add(usage.input, usage.output),
            None => self.costs.add(tokens, measure(&kept, &[], &*self.session.settings().counter).tokens),
        }
        self.step = Step::Answered(ModelAnswer { message: kept, usage, sent: view, duration: since.elapsed() });
        Ok(())
    }

    /// A result of a call, which is open no longer.
    ///
    /// What a stage answers is as long as it is meant to be: were a page that was recalled cut again, its end could never be read.
    pub(super) async fn answer(&mut self, call: &ToolCall, text: &str, error: bool, ran: bool) -> Result<(), Error> {
        let Some(at) = self.open.iter().position(|open| open == call) else { return Ok(()) };
        let message = |error| {
            let result = ToolResult { error, ..ToolResult::new(&call.id, text) };
            Message::new(Content::User(vec![UserPart::ToolResult(result)]))
        };
        // Not every provider has a way to say that a result is an error; the text says it then.
        let failed =
            Some(message(true)).filter(|message| error && self.session.settings().dialect.convert(message).is_ok());
        self.write(failed.unwrap_or_else(|| message(false)), ran.then_some(Origin::Client)).await?;
        self.open.remove(at);
        Ok(())
    }

    /// Records what was reported of a call once, as [`Pipeline::push`] does.
    async fn report(&mut self, model: &str, input: u64) -> Result<(), Error> {
        let is_it =
            |entry: &Entry| matches!(entry, Entry::Usage(usage) if usage.model == model && usage.reported == input);
        if self.reported {
            return Ok(());
        }
        if !self.was_written(is_it).await? {
            self.writing = Some(self.session.stats().entries);
            self.session.usage(model, input).await?;
        }
        (self.reported, self.writing) = (true, None);
        Ok(())
    }

    /// Pushes a message once, though the future of an earlier try was dropped, or failed, with the message written.
    pub(super) async fn push(&mut self, message: Message, origin: Origin) -> Result<(), Error> {
        self.write(message, Some(origin)).await
    }

    /// The same. Without an origin it is the client's, and is not cut as it arrives.
    async fn write(&mut self, message: Message, origin: Option<Origin>) -> Result<(), Error> {
        let said = self.session.settings().dialect.convert(&message)?;
        let digests: Vec<_> = said.iter().map(Message::digest).collect();
        let is_it = |entry: &Entry| matches!(entry, Entry::Message(arrival) if digests.contains(&arrival.digest));
        if !self.was_written(is_it).await? {
            self.writing = Some(self.session.stats().entries);
            match origin {
                Some(origin) => self.session.receive(message, origin, now()).await?,
                None => self.session.receive_whole(message).await?,
            };
        }
        self.writing = None;
        Ok(())
    }

    /// Whether a write that was begun before, and whose end nobody heard of, wrote this.
    async fn was_written(&mut self, is_it: impl Fn(&Entry) -> bool) -> Result<bool, Error> {
        let Some(end) = self.writing else { return Ok(false) };
        Ok(self.since(end).await?.iter().any(is_it))
    }

    /// What was written since the log ended there, by whomever.
    async fn since(&mut self, end: Position) -> Result<Vec<Entry>, Error> {
        self.session.catch_up().await?;
        let now = self.session.stats().entries;
        let span = end.min(now)..now;
        Ok(read(&**self.session.store(), self.session.name(), span).await?)
    }

    /// Puts what the stages said into the session.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        while let Some(note) = self.pending.front().cloned() {
            self.push(Message::user(&*note.text), Origin::Lookback).await?;
            self.pending.pop_front();
            self.notes.push(note);
        }
        Ok(())
    }

    /// Makes a window smaller that the provider refused, unless a try before this did, whose end nobody heard of.
    pub(super) async fn reduce(&mut self) -> Result<(), Error> {
        let Step::Overflow(cause, end) = self.step else { return Ok(()) };
        let mut made = newest(&self.since(end).await?);
        if made.is_none() {
            match self.session.overflow(cause).await {
                // Nothing comes of another try.
                Err(error @ Error::Irreducible(_)) => {
                    self.step = Step::Call;
                    return Err(error);
                }
                done => done?,
            }
            made = newest(&self.since(end).await?);
        }
        self.compaction = made.or(self.compaction.take());
        self.look();
        self.step = Step::Call;
        Ok(())
    }

    /// Makes the window, and takes note of what left it.
    pub(super) async fn window(&mut self) -> Result<(Arc<View>, u64), Error> {
        self.look();
        let window = self.session.window().await?;
        let made = newest(window.entries());
        let (view, tokens) = (Arc::new(window.view().clone()), window.tokens());
        self.compaction = made.or(self.compaction.take());
        self.see(view.clone());
        Ok((view, tokens))
    }

    pub(super) async fn call(&mut self) -> Result<Call, Error> {
        let (view, tokens) = self.window().await?;
        self.reported = false;
        self.sent = Some(Sent { view: view.clone(), tokens, since: Instant::now() });
        self.allowed = self.tools.clone();
        let dialect = self.session.settings().dialect;
        Ok(Call { view, dialect, tokens, tools: self.tools.clone(), iteration: self.iteration })
    }

    /// The view as it is.
    pub(super) fn look(&mut self) -> Arc<View> {
        match &self.seen {
            Some((end, view)) if *end == self.session.stats().entries => view.clone(),
            _ => {
                let view = Arc::new(self.session.view().clone());
                self.see(view.clone());
                view
            }
        }
    }

    /// Takes note of a view, and for each stage of what has left it since the one before.
    pub(super) fn see(&mut self, view: Arc<View>) {
        let before = self.seen.replace((self.session.stats().entries, view.clone()));
        // What is left out on read comes back at the next.
        let Some((_, before)) = before.filter(|_| self.session.settings().policy.mode == Mode::Recorded) else {
            return;
        };
        let shown: HashSet<_> = view.messages().map(|item| item.position()).collect();
        let gone = before.messages().filter(|item| !item.is_own() && !shown.contains(&item.position()));
        let left: Vec<_> = gone.map(|item| (item.position(), Arc::new(item.message().clone()))).collect();
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_out()) {
            slot.left.extend(left.iter().cloned());
        }
    }
}
