//! Permanent erasure of messages that have left the window or are named, and of summaries, notes and facts from them.

use std::collections::BTreeSet;
use std::ops::Range;

use lookback_engine::transcript::{Entry, Millis, Origin, Position};
use lookback_engine::view::View;
use lookback_engine::{Engine, Redraw};
use lookback_tokens::TokenCounter;
use serde::Serialize;

use super::erased_sources::Sources;
use super::summaries::old_summaries;
use super::{Error, PAGE, Session, TRIES};
use lookback_facts::{bytes_of_facts_from, erase_facts_from};
use lookback_store::entries::{parse, read};
use lookback_store::now;
use lookback_store::spans::{holds, join};
use lookback_store::{StoreError, Tombstone, checksum};

/// Selects the contents of a session to erase. The default selects none.
///
/// A selection by age never includes messages that the window shows, even if it shows only a part of them. It also
/// excludes messages that any window after the selected span showed. Entries that are named by position leave the
/// window first, unless the window needs them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldContents {
    /// Selects messages from before this time.
    pub(crate) before: Option<Millis>,
    /// Selects messages from before the running summary was made. In a session without a summary, it selects nothing.
    pub(crate) summarized: bool,
    /// Selects these entries of the log. Combined with the other selections, only entries that meet both are erased.
    pub(crate) entries: Vec<Range<Position>>,
    /// Whether the texts that were made from the messages stay: the window's running summary, its notes, and the facts.
    /// The names of erased messages leave the index in any case, because the index quotes them.
    /// [`OldContents::summarized`] implies `keep_derived`.
    pub(crate) keep_derived: bool,
}

impl OldContents {
    /// Selects messages from before this time. A message without a time counts as being as old as those after it.
    #[must_use]
    pub fn before(mut self, time: impl Into<Option<Millis>>) -> Self {
        self.before = time.into();
        self
    }

    /// Selects messages from before the running summary was made.
    #[must_use]
    pub fn summarized(mut self, summarized: bool) -> Self {
        self.summarized = summarized;
        self
    }

    /// Selects these entries of the log, such as those of messages without a time.
    #[must_use]
    pub fn entries(mut self, entries: impl IntoIterator<Item = Range<Position>>) -> Self {
        self.entries = entries.into_iter().collect();
        self
    }

    /// Keeps the texts that were made from the messages: the running summary, the notes in the window, and the facts.
    #[must_use]
    pub fn keep_derived(mut self, keeps: bool) -> Self {
        self.keep_derived = keeps;
        self
    }

    /// Whether entries are named.
    fn is_by_entry(&self) -> bool {
        !self.entries.is_empty()
    }

    fn keeps_derived(&self) -> bool {
        self.keep_derived || self.summarized
    }
}

/// The amount that was erased, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ErasedContents {
    /// The number of messages.
    pub messages: u64,
    /// The bytes of all entries that are erased or rewritten without the erased contents: messages, system prompts with
    /// tools, summaries, indexes of names, notes, and facts.
    pub bytes: u64,
    /// The number of messages that have left the window and may be old, but were not erased: neither they nor any old
    /// messages after them have a time.
    #[serde(skip_serializing_if = "is_zero")]
    pub undated: u64,
    /// The entries of the undated messages, for erasing them by position (see [`OldContents::entries`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undated_entries: Vec<Range<Position>>,
    /// The number of entries that were named, but not erased because the window needs them: the newest message, the
    /// current task, the open round, or the system prompt.
    #[serde(skip_serializing_if = "is_zero")]
    pub needed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The selected contents, as entries of the log.
struct Selected {
    /// In ascending order.
    spans: Vec<Range<Position>>,
    undated: Undated,
}

impl Selected {
    fn until(&self) -> Position {
        self.spans.last().map_or(0, |span| span.end)
    }
}

/// Messages without a time, which may or may not be old.
#[derive(Default)]
struct Undated {
    messages: u64,
    /// Their entries, in ascending order, including entries between them that the window does not show.
    spans: Vec<Range<Position>>,
}

/// The plan of an erasure.
#[derive(Default)]
struct Plan {
    contents: ErasedContents,
    /// The replacements of erased entries in the session's own log.
    tombstones: Vec<Tombstone>,
    /// The erased contents, to find texts that were made from them in other logs.
    sources: Sources,
    /// Whether an entry that the window shows is rewritten.
    redraws: bool,
    /// The earliest checkpoint to which a writer may go back after the erasure; `None` if it has not been written yet.
    /// Everything that views from there on show is kept.
    since: Option<Position>,
}

impl Session {
    /// Permanently erases contents of the session: the named entries; or messages that have left the window, replaced
    /// system prompts and tools, and earlier summaries, also on earlier branches. An
    /// [`Erased`](lookback_engine::transcript::Erased) replaces each, with its role, size and times.
    ///
    /// Texts that were made from them are erased with them: their names leave the index, and a note replaces the
    /// running summary and Lookback's own notes in the window. Facts extracted from them are forgotten and their texts
    /// erased, including facts that the sessions of a workspace share. [`OldContents::keep_derived`] keeps all of these
    /// but the names.
    ///
    /// Searches no longer find erased messages, and a recall reports that they were erased. If a client later changes
    /// its history before the erased part, the session restarts with the client's history.
    ///
    /// If the call is interrupted, the same call again does the rest.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_session::OldContents;
    /// use lookback_engine::{Settings, policy::{Limits, Policy}};
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_session::Session;
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
    ///
    /// // By its entry, also what the window shows.
    /// session.erase(&OldContents::default().entries([1..2])).await?;
    /// assert_eq!(session.view().messages().count(), 1);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn erase(&mut self, old: &OldContents) -> Result<ErasedContents, Error> {
        self.reload_if_stale().await?;
        let selected = self.select(old).await?;
        if old.is_by_entry() {
            self.leave_out(&selected).await?;
        }
        let plan = self.plan(old, &selected, self.view(), None).await?;
        if plan.contents.bytes == 0 {
            // An earlier erasure may have been interrupted after it had replaced the records, but before it had cleaned
            // the store's search index.
            if self.view().erased_before() > 0 {
                self.store.erase(&self.name, Vec::new()).await?;
            }
            return Ok(plan.contents);
        }
        self.announce_erasure(plan.since).await?;
        let mut contents: Option<ErasedContents> = None;
        for _ in 0..TRIES {
            // Others may have written meanwhile. From now on, no writer goes back to the erased part.
            let plan = self.plan(old, &selected, self.view(), now()).await?;
            let end = self.engine.end();
            contents.get_or_insert_with(|| plan.contents.clone());
            let redraws = plan.redraws;
            self.carry_out(plan).await?;
            if !redraws {
                return Ok(contents.unwrap_or_default());
            }
            // All open sessions of this name, including this one, must read the rewritten entries. Entries that another
            // writer has added meanwhile may still show erased contents, so try again then.
            self.stale = true;
            self.reload_if_stale().await?;
            let tell = |engine: &mut Engine| {
                let mut entries = Vec::new();
                engine.checkpoint(&mut entries);
                Ok(entries)
            };
            if self.engine.end() == end && self.try_commit_without_use(tell).await?.is_some() {
                return Ok(contents.unwrap_or_default());
            }
        }
        Err(self.overtaken())
    }

    /// Removes the named entries from the window. It does not count as a use of the session.
    async fn leave_out(&mut self, selected: &Selected) -> Result<(), Error> {
        for _ in 0..TRIES {
            let leave = |engine: &mut Engine| Ok(engine.leave_out(&selected.spans));
            if let Some(written) = self.try_commit_without_use(leave).await? {
                self.report(&written);
                return Ok(());
            }
        }
        Err(self.overtaken())
    }

    /// Records that no writer may go back to an entry before this checkpoint, or before the one that is written now. It
    /// does not count as a use of the session.
    async fn announce_erasure(&mut self, since: Option<Position>) -> Result<(), Error> {
        for _ in 0..TRIES {
            let announce = |engine: &mut Engine| {
                let is_on_path = |at: &Position| engine.view().is_on_path(&(*at..at.saturating_add(1)));
                let since = since.filter(is_on_path).unwrap_or(engine.end());
                let is_said = engine.view().erased_before() >= since;
                Ok(if is_said { Vec::new() } else { engine.erase_before(since) })
            };
            if self.try_commit_without_use(announce).await?.is_some() {
                return Ok(());
            }
        }
        Err(self.overtaken())
    }

    /// Erases the derived texts first, and then the contents: after an interruption, the contents are still needed to
    /// find the derived texts.
    async fn carry_out(&self, plan: Plan) -> Result<(), Error> {
        let Plan { tombstones, sources, .. } = plan;
        self.give_up_summary(&sources).await?;
        let (summaries, _) = old_summaries(&*self.store, &self.name, self.view(), &sources).await?;
        if !summaries.is_empty() {
            self.store.erase(&self.name.summary_of(), summaries).await?;
        }
        erase_facts_from(&*self.store, &self.name, sources.of_facts()).await?;
        self.store.erase(&self.name, tombstones).await?;
        // A model may have extracted facts meanwhile. From now on, it finds the messages erased.
        erase_facts_from(&*self.store, &self.name, sources.of_facts()).await?;
        Ok(())
    }

    /// Plans the erasure. `view` is the view of the next window, and `time` is recorded as the time of the erasure.
    async fn plan(
        &self,
        old: &OldContents,
        selected: &Selected,
        view: &View,
        time: Option<Millis>,
    ) -> Result<Plan, Error> {
        let Undated { messages, spans } = &selected.undated;
        let contents =
            ErasedContents { undated: *messages, undated_entries: spans.clone(), ..ErasedContents::default() };
        let mut plan = Plan { contents, ..Plan::default() };
        let (until, end) = (selected.until(), self.engine.end());
        if until == 0 {
            return Ok(plan);
        }
        let mut shown = view.checkpoint().spans();
        let mut at = if old.is_by_entry() { end } else { until };
        while at < end {
            let page = at..end.min(at + PAGE);
            for (position, entry) in page.clone().zip(read(&*self.store, &self.name, page.clone()).await?) {
                let Entry::Checkpoint(checkpoint) = entry else { continue };
                let is_on_path = view.is_on_path(&(position..position + 1));
                plan.since = plan.since.or(is_on_path.then_some(position));
                if plan.since.is_some() {
                    shown.extend(checkpoint.spans());
                }
            }
            at = page.end;
        }
        let shown: BTreeSet<Position> = shown.into_iter().flatten().collect();
        plan.sources.until = if old.is_by_entry() { 0 } else { until };
        plan.sources.keeps_derived = old.keeps_derived();
        let counter = self.engine.settings().counter.clone();
        let sweep = Sweep { selected, shown: &shown, by_entry: old.is_by_entry(), counter: &*counter, time };
        let mut at = 0;
        while at < end {
            let page = at..end.min(at + PAGE);
            for (position, body) in page.clone().zip(self.store.read(&self.name, page.clone()).await?) {
                let entry = parse(&self.name, position, &body)?;
                let Some(left) = sweep.left(position, &entry, &mut plan) else { continue };
                let left = serde_json::to_string(&left)
                    .map_err(|error| StoreError::unwritable(&self.name, position, error))?;
                if left == body {
                    continue;
                }
                plan.redraws |= shown.contains(&position);
                plan.contents.bytes += body.len() as u64;
                plan.tombstones.push(Tombstone::new(position, checksum(&self.name, position, &body), left));
            }
            at = page.end;
        }
        let (_, bytes) = old_summaries(&*self.store, &self.name, view, &plan.sources).await?;
        plan.contents.bytes += bytes + bytes_of_facts_from(&*self.store, &self.name, plan.sources.of_facts()).await?;
        Ok(plan)
    }

    /// Finds the selected entries.
    async fn select(&self, old: &OldContents) -> Result<Selected, Error> {
        let end = self.engine.end();
        let is_by_time = old.before.is_some() || old.summarized;
        let (until, undated) = if is_by_time { self.old_until(old).await? } else { (end, Undated::default()) };
        let mut wanted: Vec<Range<Position>> = match (is_by_time, old.is_by_entry()) {
            (true, false) => std::iter::once(0..until).collect(),
            (_, true) => old.entries.iter().map(|span| span.start.min(until)..span.end.min(until)).collect(),
            (false, false) => Vec::new(),
        };
        wanted.retain(|span| !span.is_empty());
        wanted.sort_by_key(|span| span.start);
        let mut spans: Vec<Range<Position>> = Vec::new();
        for span in wanted {
            match spans.last_mut().filter(|last| last.end >= span.start) {
                Some(last) => last.end = last.end.max(span.end),
                None => spans.push(span),
            }
        }
        Ok(Selected { spans, undated })
    }

    /// Returns the end of the old entries, and the messages that may be old but have no time.
    async fn old_until(&self, old: &OldContents) -> Result<(Position, Undated), Error> {
        let mut undated = Undated::default();
        let mut until = match (old.before, old.summarized) {
            (None, false) => 0,
            (Some(_), false) => self.engine.end(),
            (_, true) => self.view().summary_position().unwrap_or(0),
        };
        let Some(before) = old.before else { return Ok((until, undated)) };
        let shown: BTreeSet<Position> = self.view().checkpoint().spans().into_iter().flatten().collect();
        let (mut at, mut last, mut is_apart) = (0, 0, true);
        while at < until {
            let page = at..until.min(at + PAGE);
            for (position, entry) in page.clone().zip(read(&*self.store, &self.name, page.clone()).await?) {
                if position >= until {
                    break;
                }
                let is_shown = shown.contains(&position);
                let said = match &entry {
                    Entry::Message(arrival) => arrival.time,
                    Entry::Erased(erased) => erased.arrived,
                    _ => None,
                };
                match said {
                    Some(said) if said >= before => until = position,
                    // Messages without a time before this one are as old as it.
                    Some(_) => (last, undated) = (position + 1, Undated::default()),
                    None if is_said(&entry) && !is_shown => {
                        undated.messages += 1;
                        match undated.spans.last_mut() {
                            Some(span) if !is_apart => span.end = position + 1,
                            _ => undated.spans.push(position..position + 1),
                        }
                        is_apart = false;
                    }
                    None => is_apart |= is_shown,
                }
            }
            at = page.end;
        }
        Ok((last.min(until), undated))
    }
}

/// One pass over a log, from its beginning.
struct Sweep<'a> {
    selected: &'a Selected,
    /// The entries that any view shows that can still be folded.
    shown: &'a BTreeSet<Position>,
    by_entry: bool,
    counter: &'a dyn TokenCounter,
    time: Option<Millis>,
}

impl Sweep<'_> {
    /// Returns the rest of an entry after the erasure; `None` if it stays unchanged. Updates the plan.
    fn left(&self, position: Position, entry: &Entry, plan: &mut Plan) -> Option<Entry> {
        let (is_selected, is_shown) = (holds(&self.selected.spans, position), self.shown.contains(&position));
        match entry {
            Entry::Message(_) | Entry::Preamble { .. } if is_selected && !is_shown => {
                join(&mut plan.sources.gone, position);
                plan.sources.first_new.get_or_insert(position);
                plan.contents.messages += u64::from(matches!(entry, Entry::Message(_)));
                return entry.erased(self.time);
            }
            Entry::Message(_) | Entry::Preamble { .. } if is_selected && self.by_entry => plan.contents.needed += 1,
            Entry::Erased(_) if is_selected => {
                join(&mut plan.sources.gone, position);
                return None;
            }
            _ => {}
        }
        // If entries are named, the others stay, except for quotes of erased contents. Old entries are never folded
        // again.
        let is_old = !self.by_entry && is_selected;
        let is_from_gone = self.summary(position, entry, plan);
        let Sources { gone, first_new, keeps_derived, .. } = &plan.sources;
        let redrawing = Redraw::new(gone, self.counter)
            .summary(is_from_gone && !keeps_derived || is_old && !is_shown)
            .note(first_new.is_some() && !keeps_derived);
        let redrawn = redrawing.redrawn(entry);
        if !is_old {
            return redrawn;
        }
        let left = redrawn.as_ref().unwrap_or(entry);
        let further = if is_shown { left.without_edits() } else { left.erased(self.time) };
        further.or(redrawn)
    }

    /// Records and returns whether the running summary of a compaction was made from erased contents.
    fn summary(&self, position: Position, entry: &Entry, plan: &mut Plan) -> bool {
        let Entry::Compaction(compaction) = entry else { return false };
        let Some(summary) = &compaction.summary else { return false };
        let is_from_gone = plan.sources.made(&summary.covers, summary.replaces);
        plan.sources.summaries.insert(position, is_from_gone);
        is_from_gone
    }
}

/// Whether the entry is a message of the conversation. Lookback's own notes have no times, and are erased with the
/// messages they were made from.
fn is_said(entry: &Entry) -> bool {
    matches!(entry, Entry::Message(arrival) if arrival.origin != Origin::Lookback)
}

/// Returns the amount that [`Session::erase`] would erase.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn erasable(session: &mut Session, old: &OldContents) -> Result<ErasedContents, Error> {
    session.reload_if_stale().await?;
    let selected = session.select(old).await?;
    let mut draft = session.engine.clone();
    if old.is_by_entry() {
        draft.leave_out(&selected.spans);
    }
    Ok(session.plan(old, &selected, draft.view(), None).await?.contents)
}
