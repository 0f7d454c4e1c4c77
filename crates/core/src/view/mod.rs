//! The view: what the model would see of the log now, as a fold over its entries.

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
use crate::edit::{self, Change, Edit, Hidden};
use crate::entry::{Arrival, Entry, Label, Origin, Position, ShownItem, Summary};
use crate::group::{GroupKind, Tally};
use crate::message::{Message, PartRef, Role, ToolResult};
use crate::size::{Size, Totals};
use crate::tokens::Calibration;
use crate::wire::Dialect;

/// What the model would see of a log now. `View::default()` is that of an empty log; [`View::apply`] adds one entry.
///
/// It holds the messages of the window and no others, so its size follows the window and not the history.
#[derive(Clone, Default)]
pub struct View {
    groups: Vec<ViewGroup>,
    /// Group by the identifier of a tool call in it, the newest where several have it.
    calls: HashMap<String, Position>,
    /// The names of calls that are shown by another than their identifier.
    renamed: HashSet<String>,
    /// Calls without a result and without a stand-in.
    open: u64,
    late: Late,
    tally: Tally,
    turn: u64,
    round: u64,
    messages: u64,
    chain: u128,
    path: Vec<Range<Position>>,
    preamble: Option<(Position, Arc<Preamble>)>,
    preamble_size: Size,
    /// Where a system message took another's place, or came before what was there.
    changed: Option<Position>,
    /// It shows signed reasoning that is older than the preamble, or than such a change.
    outdated: bool,
    /// The running summary, and the compaction that brought it.
    summary: Option<(Position, Arc<Summary>)>,
    /// Messages of [`GroupKind::System`] and [`GroupKind::Summary`].
    uncounted: u64,
    calibrations: HashMap<String, Calibration>,
    label: Label,
}

/// What belongs together, with its messages.
#[derive(Debug, Clone)]
pub(crate) struct ViewGroup {
    /// By which it is found: the position of its first message as it came, and of what was put before others, theirs. So the
    /// numbers of a view never fall.
    number: Position,
    pub(crate) kind: GroupKind,
    pub(crate) turn: u64,
    pub(crate) round: u64,
    pub(crate) items: Vec<Item>,
    pub(crate) size: Size,
    calls: Calls,
}

/// One message of the view.
#[derive(Debug, Clone)]
pub struct Item {
    pub(crate) position: Position,
    pub(crate) message: Arc<Message>,
    pub(crate) edits: Arc<[Edit]>,
    pub(crate) size: Size,
    pub(crate) by: Author,
}

/// Who wrote a message of the view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Author {
    /// A person, the application or the model.
    Others,
    /// Lookback, to tell the model something.
    Note,
    /// Lookback, so that the request is valid: a stand-in, an opening, a summary.
    Mend,
}

impl Author {
    fn of(arrival: &Arrival) -> Author {
        let note = arrival.origin == Origin::Lookback && arrival.message.opens_turn();
        if note { Author::Note } else { Author::Others }
    }
}

impl fmt::Debug for View {
    /// Leaves out what it shows, which is a conversation.
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
    /// Where it stands in the log.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The message, whole.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// What of it is shown.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Its size as it is shown.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Whether it is Lookback's own: a note, a stand-in for a missing result, an opening, or a summary.
    pub fn is_own(&self) -> bool {
        self.by != Author::Others
    }

    /// Whether it is a note: what Lookback tells the model, such as a nudge or a fact sheet.
    pub fn is_note(&self) -> bool {
        self.by == Author::Note
    }

    /// Whether a person speaks in what is shown of it.
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

    /// The parts of signed reasoning that it shows.
    pub(crate) fn signed_parts(&self) -> impl Iterator<Item = usize> {
        let signed =
            |part: &PartRef<'_>| matches!(part, PartRef::Reasoning(reasoning) if reasoning.signature.is_some());
        let parts = self.message.parts().enumerate().filter(move |(_, part)| signed(part)).map(|(index, _)| index);
        parts.filter(|part| !edit::is_hidden(&self.edits, *part))
    }

    /// Whether it shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.signed_parts().next().is_some()
    }

    /// The results that it shows: each with its part, and the name of the call that it answers.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &ToolResult, &str)> {
        let shown = self.message.tool_results().filter(|(part, _)| !edit::is_hidden(&self.edits, *part));
        shown.map(|(part, result)| (part, result, edit::renamed(&self.edits, part).unwrap_or(&result.call_id)))
    }

    fn saved(&self) -> ShownItem {
        ShownItem { position: self.position, edits: self.edits.to_vec(), size: self.size }
    }
}

impl View {
    /// What is shown, in order.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.groups.iter().flat_map(|group| &group.items)
    }

    /// What is shown, as an encoder takes it.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.messages().map(|item| Shown { message: &item.message, edits: &item.edits })
    }

    /// The messages of the request that shows it.
    ///
    /// # Errors
    /// Where a message came in another dialect, and something of it cannot be said in this one.
    pub fn encode(&self, dialect: Dialect) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        dialect.encode_behind(self.preamble(), self.shown())
    }

    /// What is done to the messages that are shown, beyond their edits, so that the request is valid: those that are sent before
    /// what came before them, and what [`View::encode`] does. Each with the index of its message among [`View::messages`], in
    /// their order; a message may have several. It costs as much as encoding.
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

    /// The messages that are shown before one that came before them. Lookback's own have their places by what they mend.
    fn moved(&self) -> Vec<usize> {
        let items: Vec<_> = self.messages().enumerate().filter(|(_, item)| !item.is_own()).collect();
        // From the last to the first: whatever exceeds the least of those behind it has overtaken one of them.
        let mut least = Position::MAX;
        let overtook = |(index, item): (usize, &Item)| {
            let overtook = item.position > least;
            least = least.min(item.position);
            overtook.then_some(index)
        };
        items.into_iter().rev().filter_map(overtook).collect()
    }

    /// System prompt and tools outside the messages.
    pub fn preamble(&self) -> Option<&Preamble> {
        self.preamble.as_ref().map(|(_, preamble)| &**preamble)
    }

    /// Its size in every measure, the preamble's included; tokens by our count, not yet corrected. Costs nothing.
    pub fn totals(&self) -> Totals {
        let totals = self.tally.totals();
        Totals { size: totals.size + self.preamble_size, ..totals }
    }

    /// Messages of the branch since it began, Lookback's own not counted.
    pub fn history_len(&self) -> u64 {
        self.messages
    }

    /// The chain of the digests of those messages (see [`chain`]).
    pub fn chain(&self) -> u128 {
        self.chain
    }

    /// The entries that led here, in the order of the conversation.
    pub fn path(&self) -> &[Range<Position>] {
        &self.path
    }

    /// Whether all of these entries led here: whether they are of the branch that the view shows.
    pub fn is_on_path(&self, span: &Range<Position>) -> bool {
        self.path.iter().any(|own| own.start <= span.start && span.end <= own.end)
    }

    /// The running summary of what has left the window, and the position of the compaction that brought it.
    pub fn summary(&self) -> Option<(Position, &Summary)> {
        self.summary.as_ref().map(|(position, summary)| (*position, &**summary))
    }

    /// The system messages of the history that stand by themselves.
    pub(crate) fn system_messages(&self) -> impl Iterator<Item = &Item> {
        self.groups.iter().filter(|group| group.kind == GroupKind::System).flat_map(|group| &group.items)
    }

    /// Whether a turn is under way: the model has begun to answer, and is not done.
    pub(crate) fn in_turn(&self) -> bool {
        self.groups
            .iter()
            .rfind(|group| group.kind != GroupKind::Note)
            .is_some_and(|group| group.kind == GroupKind::Round)
    }

    /// System messages in the history, and the summary: what a policy may leave uncounted.
    pub(crate) fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// Assistant messages over the whole history.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Who writes now, and under which tags.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// What was learned of a model's tokens.
    pub fn calibration(&self, model: &str) -> Calibration {
        self.calibrations.get(model).copied().unwrap_or_default()
    }

    pub(crate) fn groups(&self) -> &[ViewGroup] {
        &self.groups
    }

    /// Whether it shows signed reasoning that was made under another system prompt or other tools.
    pub(crate) fn outdated(&self) -> bool {
        self.outdated
    }

    pub(crate) fn preamble_size(&self) -> Size {
        self.preamble_size
    }

    /// Adds one entry. An entry that does not fit the view, as only a damaged log holds one, is passed over.
    pub fn apply(&mut self, position: Position, entry: &Entry) {
        match self.path.last_mut() {
            Some(last) if last.end == position => last.end = position + 1,
            _ => self.path.push(position..position + 1),
        }
        match entry {
            Entry::Message(arrival) => self.arrive(position, arrival),
            Entry::Repair(repair) => self.repair(position, repair),
            Entry::Preamble { preamble, size } => {
                // Signed reasoning holds only under the system prompt and tools that it was made under.
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

    /// Adds entries, the first of which has this position.
    pub(crate) fn apply_all<'a>(&mut self, start: Position, entries: impl IntoIterator<Item = &'a Entry>) {
        (start..).zip(entries).for_each(|(position, entry)| self.apply(position, entry));
    }

    /// Takes up another branch: this view is what it was at its point, `newest` what it was at the log's end, and entries from
    /// `position` on belong to it. What is not the conversation's goes along: the preamble, the label, and what was learned of tokens.
    pub fn branch(&mut self, newest: &View, position: Position) {
        self.preamble = newest.preamble.clone();
        self.preamble_size = newest.preamble_size;
        self.calibrations = newest.calibrations.clone();
        self.label = newest.label.clone();
        self.outdated = self.is_outdated();
        self.path.push(position..position);
    }

    fn arrive(&mut self, position: Position, arrival: &Arrival) {
        if arrival.origin != Origin::Lookback {
            self.messages = self.messages.saturating_add(1);
            self.chain = chain(self.chain, arrival.digest);
        }
        let message = arrival.message.clone();
        let by = Author::of(arrival);
        let item = |edits: &[Edit], size| Item { position, message: message.clone(), edits: edits.into(), size, by };
        if arrival.edits.iter().any(|edit| edit.change == Change::Hide(Hidden::Late)) {
            // What is hidden as late waits beside the view, with nothing else of its message.
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
            // A message that holds results too belongs to the round they answer; the turn begins after it.
            self.turn = self.turn.saturating_add(1);
        }
        self.place(item);
    }

    /// Puts a message into the group it belongs to, or begins one with it.
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
            // There a system message may only stand behind a user's: it lives and goes with what it follows. A note that it follows goes
            // no sooner than it.
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

    fn add_group(&mut self, mut group: ViewGroup, at: Option<usize>) {
        group.size = group.items.iter().map(|item| item.size).sum();
        for id in group.calls.ids() {
            // Of several groups that have an identifier, the newest is found by it.
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

    /// Takes a group out that stands for no turn, by its first entry.
    fn take_out(&mut self, position: Position) {
        let found = self.groups.iter().position(|group| {
            group.kind == GroupKind::System && group.items.first().is_some_and(|item| item.position == position)
        });
        if let Some(group) = found.map(|index| self.groups.remove(index)) {
            self.tally.remove(group.kind, group.turn, group.size);
            self.uncounted = self.uncounted.saturating_sub(group.items.len() as u64);
        }
    }

    fn add_to(&mut self, index: usize, item: Item) {
        if let Some(group) = self.groups.get_mut(index) {
            group.size += item.size;
            self.tally.resize(Size::default(), item.size);
            // A system message that lives with a round may have come between its call and its results.
            let system = |item: &Item| item.message.role() == Role::System;
            let behind =
                if system(&item) { 0 } else { group.items.iter().rev().take_while(|item| system(item)).count() };
            group.items.insert(group.items.len() - behind, item);
        }
    }

    /// The group that has a call of this identifier: the newest, where several have one.
    fn group_of(&self, call: &str) -> Option<usize> {
        self.numbered(*self.calls.get(call)?)
    }

    /// The group of a number, behind those that were put before it.
    fn numbered(&self, number: Position) -> Option<usize> {
        let end = self.groups.partition_point(|group| group.number <= number);
        let index = end.checked_sub(1)?;
        self.groups.get(index).filter(|group| group.number == number).map(|_| index)
    }

    /// Marks a call as answered: among several of one identifier, the one that is shown by this name.
    fn answer(&mut self, index: usize, id: &str, shown: &str, answer: Answer) {
        let Some(group) = self.groups.get_mut(index) else { return };
        self.open = self.open.saturating_sub(u64::from(group.calls.answer(id, shown, answer)));
    }

    /// Takes in a result whose place a stand-in has taken.
    fn await_result(&mut self, item: Item) {
        for (_, result, name) in item.answers() {
            if let Some(group) = self.group_of(&result.call_id).and_then(|index| self.groups.get_mut(index)) {
                group.calls.await_result(&result.call_id, name);
            }
        }
        self.late.push(item);
    }

    /// Takes in all results that wait.
    fn await_all(&mut self, items: Vec<Item>) {
        self.late = Late::default();
        items.into_iter().for_each(|item| self.await_result(item));
    }

    /// The late results whose stand-ins stand in a group: the item that takes their place, and the stand-ins' positions.
    pub(crate) fn late_for(&self, group: &ViewGroup) -> Vec<(Item, Vec<Position>)> {
        self.late.of_group(group)
    }

    /// Finds a group no more by the identifiers of its calls.
    fn forget(&mut self, group: &ViewGroup) {
        for id in group.calls.ids() {
            if self.calls.get(id) == Some(&group.number) {
                self.calls.remove(id);
            }
        }
    }

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

    /// Whether it shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.items.iter().any(Item::shows_signed)
    }

    /// Finds out anew which calls are answered, and by what.
    fn refresh(&mut self) {
        self.calls.refresh(&self.items);
        self.size = self.items.iter().map(|item| item.size).sum();
    }
}

/// What a group of these messages is.
fn kind(items: &[Item], calls: &Calls) -> GroupKind {
    match items.first().map_or(Role::User, |first| first.message.role()) {
        Role::System => GroupKind::System,
        Role::User if matches!(items, [only] if only.is_note()) => GroupKind::Note,
        Role::User => GroupKind::User,
        Role::Assistant if calls.is_empty() => GroupKind::Assistant,
        Role::Assistant => GroupKind::Round,
    }
}

/// The chain of digests, one message further: equal chains are equal histories.
pub fn chain(before: u128, digest: u128) -> u128 {
    let mut bytes = [0; 32];
    let (left, right) = bytes.split_at_mut(16);
    left.copy_from_slice(&before.to_le_bytes());
    right.copy_from_slice(&digest.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
