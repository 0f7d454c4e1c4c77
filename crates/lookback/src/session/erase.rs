//! Erasing what was said long ago: messages that have left the window, for good.

use std::collections::BTreeSet;

use lookback_core::engine::Engine;
use lookback_core::transcript::{Entry, Millis, Position};
use serde::Serialize;

use super::log::{parse, read};
use super::summaries::old_summaries;
use super::{Error, PAGE, Session, TRIES, now};
use crate::store::{LogName, StoreError, Tombstone, checksum};

/// Which contents of a session are old. By default none.
///
/// What the window shows is not old, even if it shows only a part of it. Nor is what a window has shown after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldContents {
    /// What was said before this time.
    pub before: Option<Millis>,
    /// What was said before the running summary was made. A session without one has nothing that is old.
    pub summarized: bool,
}

impl OldContents {
    /// What was said before this time. If a message has no time, it is as old as those behind it.
    #[must_use]
    pub fn before(mut self, time: impl Into<Option<Millis>>) -> Self {
        self.before = time.into();
        self
    }

    /// What was said before the running summary was made.
    #[must_use]
    pub fn summarized(mut self, summarized: bool) -> Self {
        self.summarized = summarized;
        self
    }
}

/// How much was erased, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ErasedContents {
    /// The messages.
    pub messages: u64,
    /// The bytes of all entries that are erased: messages, system prompts with tools, and earlier summaries.
    pub bytes: u64,
}

/// What is to be erased.
#[derive(Default)]
struct Plan {
    contents: ErasedContents,
    /// What takes the place of what is erased, in each log.
    tombstones: Vec<(LogName, Vec<Tombstone>)>,
    /// The checkpoint from which on everything that a view shows is kept; `None` for one that is yet to be written.
    since: Option<Position>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.tombstones.iter().all(|(_, tombstones)| tombstones.is_empty())
    }
}

impl Session {
    /// Returns how much [`Session::erase`] would erase.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn erasable(&mut self, old: &OldContents) -> Result<ErasedContents, Error> {
        self.refresh().await?;
        let until = self.old_until(old).await?;
        Ok(self.plan(until, None).await?.contents)
    }

    /// Erases old contents of the session for good: messages that have left the window, system prompts and tools that were
    /// replaced, and earlier summaries, also on earlier branches. In the place of each stands an
    /// [`Erased`](lookback_core::transcript::Erased) with its role, its size and its times. Facts that were drawn from
    /// them are kept, and so are the window and its summary.
    ///
    /// Searches no longer find them, and a recall says that they were erased. If a client changes its history at a place
    /// before the erasure, the session begins anew with what the client has.
    ///
    /// It can be broken off: the same call does the rest.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::session::OldContents;
    /// use lookback::{Limits, MemoryStore, Message, Policy, Session, Settings};
    ///
    /// let settings = Settings::default().policy(Policy { limits: Limits::messages(2), ..Policy::unlimited() });
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// for text in ["My pin is 4711.", "Thanks.", "Now the weather."] {
    ///     session.push(Message::user(text)).await?;
    /// }
    /// session.window().await?;
    ///
    /// let erased = session.erase(&OldContents::default().before(i64::MAX)).await?;
    /// assert_eq!(erased.messages, 1);
    /// assert!(session.search("pin", 9).await?.is_empty());
    /// assert_eq!(session.view().messages().count(), 2);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn erase(&mut self, old: &OldContents) -> Result<ErasedContents, Error> {
        self.refresh().await?;
        let until = self.old_until(old).await?;
        let plan = self.plan(until, None).await?;
        if plan.is_empty() {
            // An earlier erasure may have been broken off when there was nothing left but the index.
            if self.view().erased_before() > 0 {
                self.store.erase(&self.name, Vec::new()).await?;
            }
            return Ok(plan.contents);
        }
        self.announce_erasure(plan.since).await?;
        // Others may have written meanwhile. From now on, nobody goes back to what is erased.
        let plan = self.plan(until, now()).await?;
        for (log, tombstones) in plan.tombstones {
            self.store.erase(&log, tombstones).await?;
        }
        Ok(plan.contents)
    }

    /// Records that no writer may go back to an entry before this checkpoint, or before the one that is written now. It is no
    /// use of the session.
    async fn announce_erasure(&mut self, since: Option<Position>) -> Result<(), Error> {
        for _ in 0..TRIES {
            let announce = |engine: &mut Engine| {
                let is_on_path = |at: &Position| engine.view().is_on_path(&(*at..at.saturating_add(1)));
                let since = since.filter(is_on_path).unwrap_or(engine.end());
                let is_said = engine.view().erased_before() >= since;
                Ok(if is_said { Vec::new() } else { engine.erase_before(since) })
            };
            if self.try_commit_at(None, announce).await?.is_some() {
                return Ok(());
            }
        }
        Err(self.overtaken())
    }

    /// Decides what is erased of the entries before `until`, at this time.
    async fn plan(&self, until: Position, time: Option<Millis>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        if until == 0 {
            return Ok(plan);
        }
        let mut shown = self.view().checkpoint().spans();
        let mut at = until;
        while at < self.engine.end() {
            let page = at..self.engine.end().min(at + PAGE);
            for (position, entry) in page.clone().zip(read(&*self.store, &self.name, page.clone()).await?) {
                let Entry::Checkpoint(checkpoint) = entry else { continue };
                let is_on_path = self.view().is_on_path(&(position..position + 1));
                plan.since = plan.since.or(is_on_path.then_some(position));
                if plan.since.is_some() {
                    shown.extend(checkpoint.spans());
                }
            }
            at = page.end;
        }
        let shown: BTreeSet<Position> = shown.into_iter().flatten().filter(|position| *position < until).collect();
        let mut tombstones = Vec::new();
        let mut at = 0;
        while at < until {
            let page = at..until.min(at + PAGE);
            for (position, body) in page.clone().zip(self.store.read(&self.name, page.clone()).await?) {
                let entry = parse(&self.name, position, &body)?;
                let left = if shown.contains(&position) { entry.without_edits() } else { entry.erased(time) };
                let Some(left) = left else { continue };
                let left = serde_json::to_string(&left)
                    .map_err(|error| StoreError::unwritable(&self.name, position, error))?;
                plan.contents.messages += u64::from(matches!(entry, Entry::Message(_)));
                plan.contents.bytes += body.len() as u64;
                tombstones.push(Tombstone::new(position, checksum(&self.name, position, &body), left));
            }
            at = page.end;
        }
        plan.tombstones.push((self.name.clone(), tombstones));
        let (summaries, bytes) = old_summaries(&*self.store, &self.name, self.view(), until).await?;
        plan.contents.bytes += bytes;
        plan.tombstones.extend(summaries.into_iter().filter(|(_, tombstones)| !tombstones.is_empty()));
        Ok(plan)
    }

    /// Where the entries end that are old.
    async fn old_until(&self, old: &OldContents) -> Result<Position, Error> {
        let mut until = match (old.before, old.summarized) {
            (None, false) => 0,
            (Some(_), false) => self.engine.end(),
            (_, true) => self.view().summary_position().unwrap_or(0),
        };
        let Some(before) = old.before else { return Ok(until) };
        let (mut at, mut last) = (0, 0);
        while at < until {
            let page = at..until.min(at + PAGE);
            for (position, entry) in page.clone().zip(read(&*self.store, &self.name, page.clone()).await?) {
                let said = match &entry {
                    Entry::Message(arrival) => arrival.time,
                    Entry::Erased(erased) => erased.arrived,
                    _ => None,
                };
                match said {
                    Some(said) if said >= before => until = until.min(position),
                    Some(_) if position < until => last = position + 1,
                    _ => {}
                }
            }
            at = page.end;
        }
        Ok(last.min(until))
    }
}
