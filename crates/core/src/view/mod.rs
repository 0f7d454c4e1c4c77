//! The view: what the model would see now, computed by a fold over the log.

mod calls;
mod checkpoint;
mod compaction;
mod groups;
mod history;
mod index;
mod late;
mod repair;
mod sizes;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;

use self::calls::Answer;
use self::groups::Author;
use self::history::History;
use self::index::Index;
use self::late::Late;
use self::sizes::Sizes;
use crate::dialect::{ConversionError, Mend, Preamble, Shown};
use crate::edit::{self, Change, Edit};
use crate::entry::{Arrival, Entry, Label, Position, Summary};
use crate::group::GroupKind;
use crate::hidden::Hidden;
use crate::size::{Size, Totals};
use crate::tokens::Calibration;
use crate::wire::Dialect;
use crate::wire::Role;

pub use groups::Item;
pub(crate) use groups::ViewGroup;
pub use history::chain;

/// What the model would see of a log now.
///
/// `View::default()` is the view of an empty log, and [`View::apply`] adds one entry. A view holds only the messages of
/// the window, so its memory depends on the window and not on the length of the history.
#[derive(Clone, Default)]
pub struct View {
    groups: Vec<ViewGroup>,
    calls: Index,
    /// Results that arrived after their stand-ins were sent. They wait for the next compaction.
    late: Late,
    sizes: Sizes,
    /// What is counted over the whole history.
    history: History,
    beside: Beside,
    /// The last entry that replaced a system message, or put one before everything else.
    changed: Option<Position>,
    /// Whether it shows signed reasoning that is older than the preamble or than `changed`.
    outdated: bool,
    /// The running summary, and the compaction that recorded it.
    summary: Option<(Position, Arc<Summary>)>,
}

/// What is recorded beside the conversation, and belongs to no branch of it.
#[derive(Clone, Default)]
struct Beside {
    /// The preamble, and the entry that set it.
    preamble: Option<(Position, Arc<Preamble>)>,
    preamble_size: Size,
    /// What was learned from usage reports about each model's tokens.
    calibrations: HashMap<String, Calibration>,
    /// The current author and tags.
    label: Label,
}

impl fmt::Debug for View {
    /// Writes counts and sizes only, because the messages are a private conversation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("groups", &self.groups.len())
            .field("totals", &self.totals())
            .field("history", &self.history.messages)
            .field("open", &self.calls.open())
            .field("summary", &self.summary.as_ref().map(|(position, _)| position))
            .finish_non_exhaustive()
    }
}

impl View {
    /// Returns the messages in the order in which they are shown.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.groups.iter().flat_map(|group| &group.items)
    }

    /// Returns the messages and their edits, as an encoder takes them.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.messages().map(|item| Shown { message: &item.message, edits: &item.edits })
    }

    /// Encodes the messages of the request.
    ///
    /// # Errors
    /// Returns an error if a message arrived in another dialect, and a part of it cannot be expressed in this one.
    pub fn encode(&self, dialect: Dialect) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        dialect.encode_behind(self.preamble(), self.shown())
    }

    /// Returns what is done to messages in addition to their edits, so that the request is valid.
    ///
    /// This includes messages that are sent before an older one, and the changes that [`View::encode`] makes. Each has
    /// the index of its message in [`View::messages`]. They are sorted by that index, and a message may have several.
    /// The call costs as much as encoding.
    ///
    /// ```
    /// use lookback_core::dialect::Mend;
    /// use lookback_core::{Dialect, Engine, Message, Settings};
    ///
    /// let mut engine = Engine::new(Settings { dialect: Dialect::Anthropic, ..Settings::default() });
    /// engine.push(Message::user("Is it done?"))?;
    /// engine.push(Message::user("Well?"))?;
    /// assert_eq!(engine.view().mends(Dialect::Anthropic), [(1, Mend::MergedWithPrevious)]);
    /// # Ok::<(), lookback_core::ConversionError>(())
    /// ```
    pub fn mends(&self, dialect: Dialect) -> Vec<(usize, Mend)> {
        let mut mends: Vec<_> = self.moved().into_iter().map(|index| (index, Mend::Moved)).collect();
        mends.extend(dialect.mends_behind(self.preamble(), self.shown()));
        mends.sort_by_key(|(index, _)| *index);
        mends
    }

    /// Returns the indexes of the messages that are shown before an older one. Lookback's own messages do not count,
    /// because their place depends on what they repair.
    fn moved(&self) -> Vec<usize> {
        let items: Vec<_> = self.messages().enumerate().filter(|(_, item)| !item.is_own()).collect();
        // Going from the last to the first, a message was moved if a message after it has a lower position.
        let mut least = Position::MAX;
        let overtook = |(index, item): (usize, &Item)| {
            let overtook = item.position > least;
            least = least.min(item.position);
            overtook.then_some(index)
        };
        items.into_iter().rev().filter_map(overtook).collect()
    }

    /// Returns the system prompt and the tools that are sent outside the messages, if there are any.
    pub fn preamble(&self) -> Option<&Preamble> {
        self.beside.preamble.as_ref().map(|(_, preamble)| &**preamble)
    }

    /// Returns the size of the view in every measure, including the preamble.
    ///
    /// Tokens are as Lookback counted them, not corrected by usage reports. The call is cheap, because the totals are
    /// kept up to date.
    pub fn totals(&self) -> Totals {
        let totals = self.sizes.totals();
        Totals { size: totals.size + self.beside.preamble_size, ..totals }
    }

    /// Returns the number of messages of the whole branch, without Lookback's own.
    pub fn history_len(&self) -> u64 {
        self.history.messages
    }

    /// Returns the chain of the digests of these messages (see [`chain`]).
    pub fn chain(&self) -> u128 {
        self.history.chain
    }

    /// Returns the entries of the branch, in the order of the conversation.
    pub fn path(&self) -> &[Range<Position>] {
        &self.history.path
    }

    /// Returns whether all entries of a span belong to the branch that the view shows.
    pub fn is_on_path(&self, span: &Range<Position>) -> bool {
        self.history.path.iter().any(|own| own.start <= span.start && span.end <= own.end)
    }

    /// Returns the running summary of what has left the window, and the position of the compaction that recorded it.
    pub fn summary(&self) -> Option<(Position, &Summary)> {
        self.summary.as_ref().map(|(position, summary)| (*position, &**summary))
    }

    /// Returns the system messages that are groups of their own.
    pub(crate) fn system_messages(&self) -> impl Iterator<Item = &Item> {
        self.groups.iter().filter(|group| group.kind == GroupKind::System).flat_map(|group| &group.items)
    }

    /// Returns whether a turn is under way: the newest group, apart from notes, is a round of tool calls.
    pub(crate) fn in_turn(&self) -> bool {
        self.groups
            .iter()
            .rfind(|group| group.kind != GroupKind::Note)
            .is_some_and(|group| group.kind == GroupKind::Round)
    }

    /// Returns the number of messages that a policy may leave uncounted: system messages and the running summary.
    pub(crate) fn uncounted(&self) -> u64 {
        self.sizes.uncounted()
    }

    /// Returns the number of assistant messages in the whole history.
    pub(crate) fn round(&self) -> u64 {
        self.history.round
    }

    /// Returns the current author and tags.
    pub fn label(&self) -> &Label {
        &self.beside.label
    }

    /// Returns what was learned about a model's tokens from usage reports.
    pub fn calibration(&self, model: &str) -> Calibration {
        self.beside.calibrations.get(model).copied().unwrap_or_default()
    }

    pub(crate) fn groups(&self) -> &[ViewGroup] {
        &self.groups
    }

    /// Returns whether it shows signed reasoning that was made under another system prompt or other tools.
    pub(crate) fn outdated(&self) -> bool {
        self.outdated
    }

    pub(crate) fn preamble_size(&self) -> Size {
        self.beside.preamble_size
    }

    /// Adds one entry. An entry that does not fit the view is ignored. Only a damaged log contains one.
    pub fn apply(&mut self, position: Position, entry: &Entry) {
        self.history.extend(position);
        match entry {
            Entry::Message(arrival) => self.arrive(position, arrival),
            Entry::Repair(repair) => self.repair(position, repair),
            Entry::Preamble { preamble, size } => {
                // Signed reasoning is valid only under the system prompt and tools that it was made under.
                self.beside.preamble = Some((position, preamble.clone()));
                self.beside.preamble_size = *size;
                self.outdated = self.is_outdated();
            }
            Entry::Compaction(compaction) => self.compact(position, compaction),
            Entry::Usage(usage) => {
                let calibration = self.beside.calibrations.entry(usage.model.clone()).or_default();
                calibration.observe(usage.estimated, usage.reported);
            }
            Entry::Label(label) => self.beside.label = label.clone(),
            Entry::Checkpoint(_) | Entry::Branch { .. } => {}
        }
    }

    /// Adds entries. The first of them is at position `start`.
    pub(crate) fn apply_all<'a>(&mut self, start: Position, entries: impl IntoIterator<Item = &'a Entry>) {
        (start..).zip(entries).for_each(|(position, entry)| self.apply(position, entry));
    }

    /// Begins a branch from this view. `newest` is the view at the end of the log, and the entries of the branch begin
    /// at `position`.
    ///
    /// The preamble, the label and what was learned about tokens are taken from `newest`, because they do not belong to
    /// a branch.
    pub fn branch(&mut self, newest: &View, position: Position) {
        self.beside = newest.beside.clone();
        self.outdated = self.is_outdated();
        self.history.path.push(position..position);
    }

    /// Adds a message that arrived.
    fn arrive(&mut self, position: Position, arrival: &Arrival) {
        self.history.count(arrival);
        let message = arrival.message.clone();
        let by = Author::of(arrival);
        let item = |edits: &[Edit], size| Item { position, message: message.clone(), edits: edits.into(), size, by };
        if arrival.edits.iter().any(|edit| edit.change == Change::Hide(Hidden::Late)) {
            // The late results wait beside the view, without the other parts of their message.
            let late = |part| edit::is_hidden_as(&arrival.edits, part, Hidden::Late);
            let edits = arrival.edits.iter().filter(|edit| edit.change != Change::Hide(Hidden::Late)).cloned();
            let others = (0..message.parts().count()).filter(|part| !late(*part));
            let hide = others.map(|part| Edit { part, change: Change::Hide(Hidden::Late) });
            self.await_result(item(&edit::in_order(edits.chain(hide).collect()), arrival.size));
        }
        if edit::hides_all(&message, &arrival.edits) {
            return;
        }
        let item = item(&arrival.edits, arrival.size);
        for position in &arrival.replaces {
            self.take_out(*position);
        }
        if arrival.first || !arrival.replaces.is_empty() {
            self.changed = Some(position);
            self.outdated = self.is_outdated();
        }
        if arrival.first {
            if let Some(group) = ViewGroup::of(vec![item], self.history.turn, self.history.round) {
                self.add_group(group, Some(0));
            }
            return;
        }
        if item.speaks() && !item.is_own() {
            // A message that also holds results belongs to their round. The turn begins after it.
            self.history.turn = self.history.turn.saturating_add(1);
        }
        self.place(item);
    }

    /// Puts a message into the group that it belongs to, or into a new one.
    fn place(&mut self, item: Item) {
        let message = item.message.clone();
        let home = message.tool_results().find_map(|(part, result)| {
            if edit::is_hidden(&item.edits, part) {
                return None;
            }
            self.group_of(&result.call_id)
        });
        if let Some(index) = home {
            for (_, result, name) in item.answers() {
                self.answer(index, &result.call_id, name, Answer::Given);
            }
            self.add_to(index, item);
            return;
        }
        if message.role() == Role::System
            && message.wire().is_some_and(|wire| wire.dialect.quirks().system_follows_user)
            && let Some(last) = self.groups.len().checked_sub(1).filter(|_| self.history.turn > 0)
            && self.groups.last().is_some_and(|group| group.kind.is_said() || group.kind == GroupKind::Note)
        {
            // In this dialect a system message must follow a user's message, so it joins the group before it. If that
            // group is a note, it becomes a user's group, because a compaction would otherwise drop the system message
            // with it.
            self.add_to(last, item);
            if let Some(mut group) = self.groups.pop_if(|group| group.kind == GroupKind::Note) {
                self.sizes.remove(&group);
                group.kind = GroupKind::User;
                self.add_group(group, None);
            }
            return;
        }
        if message.role() == Role::Assistant {
            self.history.round = self.history.round.saturating_add(1);
        }
        if let Some(group) = ViewGroup::of(vec![item], self.history.turn, self.history.round) {
            self.add_group(group, None);
        }
    }

    /// Adds a group at index `at`, or at the end.
    fn add_group(&mut self, mut group: ViewGroup, at: Option<usize>) {
        group.size = group.items.iter().map(|item| item.size).sum();
        self.calls.add(&group);
        self.sizes.add(&group);
        match at {
            Some(at) => {
                group.number = self.groups.get(at).map_or(group.number, |next| next.number);
                self.groups.insert(at, group);
            }
            None => self.groups.push(group),
        }
    }

    /// Removes the system message at a position.
    fn take_out(&mut self, position: Position) {
        let found = self.groups.iter().position(|group| {
            group.kind == GroupKind::System && group.items.first().is_some_and(|item| item.position == position)
        });
        if let Some(group) = found.map(|index| self.groups.remove(index)) {
            self.sizes.remove(&group);
        }
    }

    /// Adds a message to a group.
    fn add_to(&mut self, index: usize, item: Item) {
        if let Some(group) = self.groups.get_mut(index) {
            group.size += item.size;
            self.sizes.resize(Size::default(), item.size);
            // A system message of a round may have arrived before the results. It goes after them.
            let system = |item: &Item| item.message.role() == Role::System;
            let behind =
                if system(&item) { 0 } else { group.items.iter().rev().take_while(|item| system(item)).count() };
            group.items.insert(group.items.len() - behind, item);
        }
    }

    /// Adds a late result, whose call already has a stand-in.
    fn await_result(&mut self, item: Item) {
        for (_, result, name) in item.answers() {
            if let Some(group) = self.group_of(&result.call_id).and_then(|index| self.groups.get_mut(index)) {
                group.calls.await_result(&result.call_id, name);
            }
        }
        self.late.push(item);
    }

    /// Replaces all late results.
    fn await_all(&mut self, items: Vec<Item>) {
        self.late = Late::default();
        items.into_iter().for_each(|item| self.await_result(item));
    }

    /// Returns the late results that belong to a group: the item that replaces the stand-ins, and the positions of
    /// these stand-ins.
    pub(crate) fn late_for(&self, group: &ViewGroup) -> Vec<(Item, Vec<Position>)> {
        self.late.of_group(group)
    }

    /// Computes `outdated`.
    fn is_outdated(&self) -> bool {
        let changed = self.beside.preamble.as_ref().map(|(position, _)| *position).max(self.changed);
        changed.is_some_and(|changed| self.messages().any(|item| item.position < changed && item.shows_signed()))
    }
}
