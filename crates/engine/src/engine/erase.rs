//! Erasing: removes messages from the window, and text that was made from them from other entries.
//!
//! Some entries quote other messages: an index has their names, and a running summary or a note may repeat their text.
//! When messages are erased, an index keeps the names of the other messages, and a placeholder replaces a summary or
//! note.

use std::ops::Range;
use std::sync::Arc;

use super::Engine;
use super::repair::own;
use crate::candidates::Sizing;
use crate::entry::{
    Arrival, Checkpoint, Compaction, Entry, Erased, Origin, Position, Repair, RunningSummary, ShownItem,
};
use crate::group::Pin;
use crate::plan::Reason;
use crate::policy::{Mode, Policy};
use lookback_tokens::TokenCounter;
use lookback_tokens::measure;
use lookback_wire::message::{Message, Role};

/// The text that replaces a running summary.
const SUMMARY: &str = "[The summary of earlier messages was erased with them.]";

/// Rewrites the log entries that were made from messages whose contents are erased.
///
/// ```
/// use lookback_engine::Redraw;
/// use lookback_tokens::Estimate;
/// use lookback_engine::transcript::{Entry, Origin};
/// use lookback_engine::{Engine, Settings};
/// use lookback_wire::message::Message;
///
/// let mut engine = Engine::new(Settings::default());
/// engine.push(Message::user("The password is hunter2."))?;
/// let note = engine.receive(Message::user("Remember: hunter2."), Origin::Lookback, None)?.remove(0);
/// // The first entry is erased.
/// let counter = Estimate::default();
/// let redrawing = Redraw::new(&[0..1], &counter).note(true);
/// let Some(Entry::Message(arrival)) = redrawing.redrawn(&note) else { panic!() };
/// assert!(arrival.is_erased() && !arrival.message.text().contains("hunter2"));
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Redraw<'a> {
    gone: &'a [Range<Position>],
    counter: &'a dyn TokenCounter,
    summary: bool,
    note: bool,
}

impl<'a> Redraw<'a> {
    /// Creates a redrawing. `gone` are the entries whose contents are erased, as ascending spans. `counter` measures
    /// the placeholders.
    pub fn new(gone: &'a [Range<Position>], counter: &'a dyn TokenCounter) -> Self {
        Redraw { gone, counter, summary: false, note: false }
    }

    /// Sets whether the running summary of a compaction was made from erased messages.
    #[must_use]
    pub fn summary(self, summary: bool) -> Self {
        Redraw { summary, ..self }
    }

    /// Sets whether a note by Lookback was made from erased messages.
    #[must_use]
    pub fn note(self, note: bool) -> Self {
        Redraw { note, ..self }
    }

    /// Returns the entry that replaces this one, or `None` if nothing in it was made from erased messages. Views can
    /// still be folded from the new entry.
    pub fn redrawn(&self, entry: &Entry) -> Option<Entry> {
        match entry {
            Entry::Compaction(compaction) => self.compaction(compaction).map(Entry::Compaction),
            Entry::Checkpoint(checkpoint) => self.checkpoint(checkpoint).map(Entry::Checkpoint),
            Entry::Message(arrival) if self.note => self.arrival(arrival).map(Entry::Message),
            // A stand-in has the identifier of the call and the name of the tool.
            Entry::Repair(Repair::StandIn { call, size, .. }) if holds(self.gone, *call) => {
                Some(Entry::Erased(Erased { role: None, size: *size, arrived: None, time: None }))
            }
            _ => None,
        }
    }

    fn compaction(&self, compaction: &Compaction) -> Option<Compaction> {
        let index = compaction.index.as_ref().and_then(|index| index.without(self.gone, self.counter));
        let summary = match &compaction.summary {
            Some(summary) if self.summary => self.blank(summary),
            _ => None,
        };
        let mut shown = compaction.groups.iter().filter_map(|group| group.shown.as_ref()).flatten();
        if index.is_none() && summary.is_none() && !shown.any(|item| self.quotes(item)) {
            return None;
        }
        let mut redrawn = compaction.clone();
        redrawn.index = index.map(Arc::new).or(redrawn.index);
        redrawn.summary = summary.map(Arc::new).or(redrawn.summary);
        let shown = redrawn.groups.iter_mut().filter_map(|group| group.shown.as_mut()).flatten();
        shown.for_each(|item| self.forget(item));
        Some(redrawn)
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> Option<Checkpoint> {
        let groups = checkpoint.groups.iter().map(|group| &group.items);
        if !groups.chain([&checkpoint.late]).flatten().any(|item| self.quotes(item)) {
            return None;
        }
        let mut redrawn = checkpoint.clone();
        let groups = redrawn.groups.iter_mut().map(|group| &mut group.items);
        groups.chain([&mut redrawn.late]).flatten().for_each(|item| self.forget(item));
        Some(redrawn)
    }

    /// Returns whether an item has edits of an erased message, which may quote it.
    fn quotes(&self, item: &ShownItem) -> bool {
        !item.edits.is_empty() && holds(self.gone, item.position)
    }

    fn forget(&self, item: &mut ShownItem) {
        if self.quotes(item) {
            item.edits.clear();
        }
    }

    /// Returns a summary that covers the same entries and has no text.
    fn blank(&self, summary: &RunningSummary) -> Option<RunningSummary> {
        if summary.text.is_empty() {
            return None;
        }
        let message = in_place_of(&summary.message, SUMMARY)?;
        let size = measure(&message, &[], self.counter);
        Some(RunningSummary { message, text: String::new(), size, ..summary.clone() })
    }

    fn arrival(&self, arrival: &Arrival) -> Option<Arrival> {
        let is_note = arrival.origin == Origin::Lookback && arrival.message.opens_turn();
        if !is_note || arrival.is_erased() {
            return None;
        }
        let message = in_place_of(&arrival.message, Arrival::ERASED_NOTE)?;
        let (digest, size) = (message.digest(), measure(&message, &[], self.counter));
        Some(Arrival { message, digest, size, edits: Vec::new(), ..arrival.clone() })
    }
}

impl Engine {
    /// Removes messages from the window, because their contents are about to be erased. `entries` are ascending spans.
    /// Every group with one of these entries leaves, except for the newest message, the current task and the open
    /// round, which a window needs. While signed reasoning of an open tool loop forbids any change, no group leaves.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings};
    /// use lookback_wire::message::Message;
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// for text in ["The password is hunter2.", "Thanks.", "And now?"] {
    ///     engine.push(Message::user(text))?;
    /// }
    /// engine.leave_out(&[0..1]);
    /// assert_eq!(engine.view().messages().next().unwrap().message().text(), "Thanks.");
    /// assert!(engine.leave_out(&[2..3]).is_empty());
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn leave_out(&mut self, entries: &[Range<Position>]) -> Vec<Entry> {
        let mut recorded = Vec::new();
        if self.is_bound() {
            return recorded;
        }
        // The index must not list names of erased messages, so this compaction does not rewrite it.
        let policy = Policy { stages: Vec::new(), index: None, mode: Mode::Recorded, ..self.policy.clone() };
        let sizing = Sizing { policy: &policy, ..self.sizing() };
        let (candidates, plan) = self.planned(sizing, |candidates| {
            candidates.without(|index| {
                let group = self.view.groups().get(index)?;
                let mut said = group.items.iter().filter(|item| !item.stands_for_others());
                let is_meant = said.any(|item| holds(entries, item.position));
                let pin = candidates.group(index).and_then(|group| group.pin);
                let is_needed = matches!(pin, Some(Pin::Newest | Pin::Task | Pin::OpenRound));
                (is_meant && !is_needed).then_some(Reason::Erased)
            })
        });
        if let Some(mut plan) = plan {
            self.carry_out(candidates, &policy, &mut plan, &mut recorded);
        }
        recorded
    }
}

/// Returns whether a position is in one of these ascending spans.
pub(super) fn holds(spans: &[Range<Position>], position: Position) -> bool {
    let at = spans.partition_point(|span| span.end <= position);
    spans.get(at).is_some_and(|span| span.contains(&position))
}

/// Returns a message with this text, in the role and dialect of a message by Lookback.
pub(super) fn in_place_of(message: &Message, text: &str) -> Option<Arc<Message>> {
    let said = match message.role() {
        Role::System => Message::system(text),
        Role::User => Message::user(text),
        Role::Assistant => Message::assistant(text),
    };
    own(message.wire()?.dialect, &said)
}
