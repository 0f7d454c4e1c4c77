//! The view: what the model would see now, computed by a fold over the log.

mod calls;
mod checkpoint;
mod compaction;
mod late;
mod repair;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;

use self::calls::{Answer, Calls};
use self::late::Late;
use crate::dialect::{ConversionError, Mend, Preamble, Shown};
use crate::edit::{self, Change, Edit};
use crate::entry::{Arrival, Entry, Label, Origin, Position, RunningSummary, ShownItem};
use crate::group::{GroupKind, Tally};
use crate::hidden::Hidden;
use crate::message::{Message, PartRef, ToolResult};
use crate::size::{Size, Totals};
use crate::tokens::Calibration;
use crate::wire::Dialect;
use crate::wire::Role;

/// What the model would see of a log now.
///
/// `View::default()` is the view of an empty log, and [`View::apply`] adds one entry. A view holds only the messages of
/// the window, so its memory depends on the window and not on the length of the history.
#[derive(Clone, Default)]
pub struct View {
    groups: Vec<ViewGroup>,
    /// The number of the group that has a tool call with this identifier. If several have one, the newest counts.
    calls: HashMap<String, Position>,
    /// The names of the calls that are not shown under their own identifier.
    renamed: HashSet<String>,
    /// The number of calls that have neither a result nor a stand-in.
    open: u64,
    /// Results that arrived after their stand-ins were sent. They wait for the next compaction.
    late: Late,
    /// The sum of the groups, kept up to date.
    tally: Tally,
    /// The number of turns in the whole history.
    turn: u64,
    /// The number of assistant messages in the whole history.
    round: u64,
    /// The number of messages of the branch, without Lookback's own.
    messages: u64,
    /// The chain of their digests (see [`chain`]).
    chain: u128,
    /// The entries of the branch.
    path: Vec<Range<Position>>,
    /// The preamble, and the entry that set it.
    preamble: Option<(Position, Arc<Preamble>)>,
    preamble_size: Size,
    /// The last entry that replaced a system message, or put one before everything else.
    changed: Option<Position>,
    /// Whether it shows signed reasoning that is older than the preamble or than `changed`.
    outdated: bool,
    /// The running summary, and the compaction that recorded it.
    summary: Option<(Position, Arc<RunningSummary>)>,
    /// The number of messages in groups of kind [`GroupKind::System`] and [`GroupKind::Summary`].
    uncounted: u64,
    /// What was learned from usage reports about each model's tokens.
    calibrations: HashMap<String, Calibration>,
    /// The current author and tags.
    label: Label,
}

/// A group with its messages.
#[derive(Debug, Clone)]
pub(crate) struct ViewGroup {
    /// The number by which the group is found: the position of its first message, or the number of the next group if it
    /// was inserted before that one. So the numbers never decrease from one group to the next, and can be searched.
    number: Position,
    pub(crate) kind: GroupKind,
    pub(crate) turn: u64,
    pub(crate) round: u64,
    pub(crate) items: Vec<Item>,
    pub(crate) size: Size,
    calls: Calls,
}

/// A message of the view.
#[derive(Debug, Clone)]
pub struct Item {
    pub(crate) position: Position,
    pub(crate) message: Arc<Message>,
    pub(crate) edits: Arc<[Edit]>,
    pub(crate) size: Size,
    pub(crate) by: Author,
}

/// The author of a message of the view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Author {
    /// A person, the application or the model.
    Others,
    /// Lookback: a note for the model.
    Note,
    /// Lookback: a stand-in, an opening or a summary.
    Mend,
}

impl Author {
    fn of(arrival: &Arrival) -> Author {
        let note = arrival.origin == Origin::Lookback && arrival.message.opens_turn();
        if note { Author::Note } else { Author::Others }
    }
}

impl fmt::Debug for View {
    /// Writes counts and sizes only, because the messages are a private conversation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("groups", &self.groups.len())
            .field("totals", &self.totals())
            .field("history", &self.messages)
            .field("open", &self.open)
            .field("summary", &self.summary.as_ref().map(|(position, _)| position))
            .finish_non_exhaustive()
    }
}

impl Item {
    /// Returns its position in the log.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the whole message, without its edits applied.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the edits under which it is shown.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Returns its size as it is shown.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns whether Lookback wrote it: a note, a stand-in for a missing result, an opening or a summary.
    pub fn is_own(&self) -> bool {
        self.by != Author::Others
    }

    /// Returns whether it is a note, such as a nudge or a fact sheet.
    pub fn is_note(&self) -> bool {
        self.by == Author::Note
    }

    /// Returns whether the shown parts contain words of a person.
    pub(crate) fn speaks(&self) -> bool {
        let says = |part: PartRef<'_>| match part {
            PartRef::ToolResult(_) => false,
            PartRef::Opaque(opaque) => !opaque.is_cache_marker(),
            _ => true,
        };
        let mut parts = self.message.parts().enumerate();
        self.message.role() == Role::User
            && parts.any(|(index, part)| !edit::is_hidden(&self.edits, index) && says(part))
    }

    /// Returns the indexes of the signed reasoning that it shows.
    pub(crate) fn signed_parts(&self) -> impl Iterator<Item = usize> {
        let signed =
            |part: &PartRef<'_>| matches!(part, PartRef::Reasoning(reasoning) if reasoning.signature.is_some());
        let parts = self.message.parts().enumerate().filter(move |(_, part)| signed(part)).map(|(index, _)| index);
        parts.filter(|part| !edit::is_hidden(&self.edits, *part))
    }

    /// Returns whether it shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.signed_parts().next().is_some()
    }

    /// Returns the tool results that it shows, each with the index of its part and the name of its call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &ToolResult, &str)> {
        let shown = self.message.tool_results().filter(|(part, _)| !edit::is_hidden(&self.edits, *part));
        shown.map(|(part, result)| (part, result, edit::renamed(&self.edits, part).unwrap_or(&result.call_id)))
    }

    fn saved(&self) -> ShownItem {
        ShownItem { position: self.position, edits: self.edits.to_vec(), size: self.size }
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
    /// let mut engine = Engine::new(Settings::default().dialect(Dialect::Anthropic));
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
        self.preamble.as_ref().map(|(_, preamble)| &**preamble)
    }

    /// Returns the size of the view in every measure, including the preamble.
    ///
    /// Tokens are as Lookback counted them, not corrected by usage reports. The call is cheap, because the totals are
    /// kept up to date.
    pub fn totals(&self) -> Totals {
        let totals = self.tally.totals();
        Totals { size: totals.size + self.preamble_size, ..totals }
    }

    /// Returns the number of messages of the whole branch, without Lookback's own.
    pub fn history_len(&self) -> u64 {
        self.messages
    }

    /// Returns the chain of the digests of these messages (see [`chain`]).
    pub fn chain(&self) -> u128 {
        self.chain
    }

    /// Returns the entries of the branch, in the order of the conversation.
    pub fn path(&self) -> &[Range<Position>] {
        &self.path
    }

    /// Returns whether all entries of a span belong to the branch that the view shows.
    pub fn is_on_path(&self, span: &Range<Position>) -> bool {
        self.path.iter().any(|own| own.start <= span.start && span.end <= own.end)
    }

    /// Returns the running summary of what has left the window, and the position of the compaction that recorded it.
    pub fn summary(&self) -> Option<(Position, &RunningSummary)> {
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
        self.uncounted
    }

    /// Returns the number of assistant messages in the whole history.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Returns the current author and tags.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Returns what was learned about a model's tokens from usage reports.
    pub fn calibration(&self, model: &str) -> Calibration {
        self.calibrations.get(model).copied().unwrap_or_default()
    }

    pub(crate) fn groups(&self) -> &[ViewGroup] {
        &self.groups
    }

    /// Returns whether it shows signed reasoning that was made under another system prompt or other tools.
    pub(crate) fn outdated(&self) -> bool {
        self.outdated
    }

    pub(crate) fn preamble_size(&self) -> Size {
        self.preamble_size
    }

    /// Adds one entry. An entry that does not fit the view is ignored. Only a damaged log contains one.
    pub fn apply(&mut self, position: Position, entry: &Entry) {
        match self.path.last_mut() {
            Some(last) if last.end == position => last.end = position + 1,
            _ => self.path.push(position..position + 1),
        }
        match entry {
            Entry::Message(arrival) => self.arrive(position, arrival),
            Entry::Repair(repair) => self.repair(position, repair),
            Entry::Preamble { preamble, size } => {
                // Signed reasoning is valid only under the system prompt and tools that it was made under.
                self.preamble = Some((position, preamble.clone()));
                self.preamble_size = *size;
                self.outdated = self.is_outdated();
            }
            Entry::Compaction(compaction) => self.compact(position, compaction),
            Entry::Usage(usage) => {
                self.calibrations.entry(usage.model.clone()).or_default().observe(usage.estimated, usage.reported);
            }
            Entry::Label(label) => self.label = label.clone(),
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
        self.preamble = newest.preamble.clone();
        self.preamble_size = newest.preamble_size;
        self.calibrations = newest.calibrations.clone();
        self.label = newest.label.clone();
        self.outdated = self.is_outdated();
        self.path.push(position..position);
    }

    /// Adds a message that arrived.
    fn arrive(&mut self, position: Position, arrival: &Arrival) {
        if arrival.origin != Origin::Lookback {
            self.messages = self.messages.saturating_add(1);
            self.chain = chain(self.chain, arrival.digest);
        }
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
            if let Some(group) = ViewGroup::of(vec![item], self.turn, self.round) {
                self.add_group(group, Some(0));
            }
            return;
        }
        if item.speaks() && !item.is_own() {
            // A message that also holds results belongs to their round. The turn begins after it.
            self.turn = self.turn.saturating_add(1);
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
            && let Some(last) = self.groups.len().checked_sub(1).filter(|_| self.turn > 0)
            && self.groups.last().is_some_and(|group| group.kind.is_said() || group.kind == GroupKind::Note)
        {
            // In this dialect a system message must follow a user's message, so it joins the group before it. If that
            // group is a note, it becomes a user's group, because a compaction would otherwise drop the system message
            // with it.
            self.add_to(last, item);
            if let Some(mut group) = self.groups.pop_if(|group| group.kind == GroupKind::Note) {
                self.tally.remove(group.kind, group.turn, group.size);
                group.kind = GroupKind::User;
                self.add_group(group, None);
            }
            return;
        }
        if message.role() == Role::Assistant {
            self.round = self.round.saturating_add(1);
        }
        if let Some(group) = ViewGroup::of(vec![item], self.turn, self.round) {
            self.add_group(group, None);
        }
    }

    /// Adds a group at index `at`, or at the end.
    fn add_group(&mut self, mut group: ViewGroup, at: Option<usize>) {
        group.size = group.items.iter().map(|item| item.size).sum();
        for id in group.calls.ids() {
            // If several groups have an identifier, it leads to the newest.
            match self.calls.get_mut(id) {
                Some(number) => *number = group.number.max(*number),
                None => drop(self.calls.insert(id.to_owned(), group.number)),
            }
        }
        self.renamed.extend(group.calls.renamed().map(str::to_owned));
        self.open += group.calls.open().count() as u64;
        if group.kind.may_be_uncounted() {
            self.uncounted += group.items.len() as u64;
        }
        self.tally.add(group.kind, group.turn, group.size);
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
            self.tally.remove(group.kind, group.turn, group.size);
            self.uncounted = self.uncounted.saturating_sub(group.items.len() as u64);
        }
    }

    /// Adds a message to a group.
    fn add_to(&mut self, index: usize, item: Item) {
        if let Some(group) = self.groups.get_mut(index) {
            group.size += item.size;
            self.tally.resize(Size::default(), item.size);
            // A system message of a round may have arrived before the results. It goes after them.
            let system = |item: &Item| item.message.role() == Role::System;
            let behind =
                if system(&item) { 0 } else { group.items.iter().rev().take_while(|item| system(item)).count() };
            group.items.insert(group.items.len() - behind, item);
        }
    }

    /// Returns the index of the group that has a call with this identifier: the newest, if several have one.
    fn group_of(&self, call: &str) -> Option<usize> {
        self.numbered(*self.calls.get(call)?)
    }

    /// Returns the index of the group with a number. Groups that were inserted before it have the same number, and come
    /// before it.
    fn numbered(&self, number: Position) -> Option<usize> {
        let end = self.groups.partition_point(|group| group.number <= number);
        let index = end.checked_sub(1)?;
        self.groups.get(index).filter(|group| group.number == number).map(|_| index)
    }

    /// Marks a call as answered. If several calls have this identifier, it is the one that is shown under this name.
    fn answer(&mut self, index: usize, id: &str, shown: &str, answer: Answer) {
        let Some(group) = self.groups.get_mut(index) else { return };
        self.open = self.open.saturating_sub(u64::from(group.calls.answer(id, shown, answer)));
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

    /// Removes the identifiers of a group's calls from the index.
    fn forget(&mut self, group: &ViewGroup) {
        for id in group.calls.ids() {
            if self.calls.get(id) == Some(&group.number) {
                self.calls.remove(id);
            }
        }
    }

    /// Computes `outdated`.
    fn is_outdated(&self) -> bool {
        let changed = self.preamble.as_ref().map(|(position, _)| *position).max(self.changed);
        changed.is_some_and(|changed| self.messages().any(|item| item.position < changed && item.shows_signed()))
    }
}

impl ViewGroup {
    fn of(items: Vec<Item>, turn: u64, round: u64) -> Option<ViewGroup> {
        let first = items.first()?;
        let calls = Calls::of(first);
        let kind = kind(&items, &calls);
        Some(ViewGroup { number: first.position, kind, turn, round, items, size: Size::default(), calls })
    }

    /// Returns whether it shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.items.iter().any(Item::shows_signed)
    }

    /// Computes the size of the group and the answers of its calls again.
    fn refresh(&mut self) {
        self.calls.refresh(&self.items);
        self.size = self.items.iter().map(|item| item.size).sum();
    }
}

/// Returns the kind of a group with these messages.
fn kind(items: &[Item], calls: &Calls) -> GroupKind {
    match items.first().map_or(Role::User, |first| first.message.role()) {
        Role::System => GroupKind::System,
        Role::User if matches!(items, [only] if only.is_note()) => GroupKind::Note,
        Role::User => GroupKind::User,
        Role::Assistant if calls.is_empty() => GroupKind::Assistant,
        Role::Assistant => GroupKind::Round,
    }
}

/// Extends a chain of digests by one message. Two histories are equal if their chains are equal.
pub fn chain(before: u128, digest: u128) -> u128 {
    let mut bytes = [0; 32];
    let (left, right) = bytes.split_at_mut(16);
    left.copy_from_slice(&before.to_le_bytes());
    right.copy_from_slice(&digest.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
