//! The view: the messages that the model would see now, computed by a fold over the log.

mod admit;
mod arrive;
mod calls;
mod checkpoint;
mod compaction;
mod groups;
mod history;
mod index;
mod item;
mod late;
mod names;
mod repair;
mod shown;
mod sizes;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use self::history::History;
use self::index::Index;
use self::late::Late;
use self::sizes::Sizes;
use crate::entry::{Entry, Label, LastCall, Millis, NameIndex, Position, Reading, RunningSummary};
use crate::group::GroupKind;
use crate::totals::Totals;
use lookback_tokens::Calibration;
use lookback_wire::dialect::Preamble;
use lookback_wire::size::Size;

pub(crate) use groups::ViewGroup;
pub use history::{chain, chained};
pub use item::Item;
pub(crate) use item::Lasting;

/// The messages of a log that the model would see now.
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
    /// Counts over the whole history.
    history: History,
    beside: Beside,
    /// The last entry that replaced a system message, or placed one before all other messages.
    changed: Option<Position>,
    /// Whether the view shows signed reasoning that is older than the preamble or than `changed`.
    outdated: bool,
    /// Whether a result is shown after messages of later groups, because it arrived there and its provider allows that.
    is_parted: bool,
    /// The running summary, and the compaction that recorded it.
    summary: Option<(Position, Arc<RunningSummary>)>,
    /// The index of the names that have left the window.
    index: Option<Arc<NameIndex>>,
}

/// State that does not belong to a branch of the conversation.
#[derive(Clone, Default)]
struct Beside {
    /// The preamble, and the entry that set it.
    preamble: Option<(Position, Arc<Preamble>)>,
    preamble_size: Size,
    /// The correction of each model's token counts, from usage reports.
    calibrations: BTreeMap<String, Calibration>,
    /// The current author and tags.
    label: Label,
    /// The last call of the model.
    last_call: LastCall,
    /// The entry before which contents may have been erased.
    erased_before: Position,
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
    /// Returns the system prompt and the tools that are sent outside the messages, if there are any.
    pub fn preamble(&self) -> Option<&Preamble> {
        self.beside.preamble.as_ref().map(|(_, preamble)| &**preamble)
    }

    /// Returns the position of the entry that set the preamble.
    pub(crate) fn preamble_position(&self) -> Option<Position> {
        self.beside.preamble.as_ref().map(|(position, _)| *position)
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

    /// Returns whether messages of this branch were ever removed or shortened because of a limit, a refusal of
    /// reasoning or an erasure. If not, the view shows the messages that the client sent, apart from repairs.
    pub fn is_cut(&self) -> bool {
        self.history.cut
    }

    /// Returns the entry before which contents may have been erased, or 0 if none were.
    pub fn erased_before(&self) -> Position {
        self.beside.erased_before
    }

    /// Allows erasing contents before this entry, except for those that a later view needs.
    pub(crate) fn erase_before(&mut self, position: Position) {
        self.beside.erased_before = self.beside.erased_before.max(position);
    }

    /// Returns the running summary of the messages that have left the window.
    pub fn summary(&self) -> Option<&RunningSummary> {
        self.summary.as_ref().map(|(_, summary)| &**summary)
    }

    /// Returns the position of the compaction that recorded the running summary.
    pub fn summary_position(&self) -> Option<Position> {
        self.summary.as_ref().map(|(position, _)| *position)
    }

    /// Returns the index of the names that have left the window.
    pub fn index(&self) -> Option<&NameIndex> {
        self.index.as_deref()
    }

    /// Returns the system messages that form their own groups.
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

    /// Returns the number of messages that a policy may leave uncounted: system messages, the running summary and
    /// the index.
    pub(crate) fn uncounted(&self) -> u64 {
        self.sizes.uncounted()
    }

    /// Returns whether the view has messages that are not part of the client's conversation (see [`Item::is_beside`]).
    /// The call is cheap, because they are counted as they come and go.
    pub fn has_beside(&self) -> bool {
        self.sizes.beside() > 0
    }

    /// Returns the number of assistant messages in the whole history.
    pub(crate) fn round(&self) -> u64 {
        self.history.round
    }

    /// Returns the current author and tags.
    pub fn label(&self) -> &Label {
        &self.beside.label
    }

    /// Returns the correction of a model's token counts, from usage reports.
    pub fn calibration(&self, model: &str) -> Calibration {
        self.beside.calibrations.get(model).copied().unwrap_or_default()
    }

    /// Returns the models whose usage the provider has reported, with the correction of their token counts.
    pub fn calibrations(&self) -> impl Iterator<Item = (&str, Calibration)> {
        self.beside.calibrations.iter().map(|(model, calibration)| (model.as_str(), *calibration))
    }

    pub(crate) fn groups(&self) -> &[ViewGroup] {
        &self.groups
    }

    /// Returns whether the view shows signed reasoning that was made with another system prompt or other tools.
    pub(crate) fn outdated(&self) -> bool {
        self.outdated
    }

    /// Returns the size of the system prompt and the tools that are sent outside the messages.
    pub fn preamble_size(&self) -> Size {
        self.beside.preamble_size
    }

    /// Adds one entry. An entry that does not fit the view, which only a damaged log contains, is ignored.
    pub fn apply(&mut self, position: Position, entry: &Entry) {
        self.history.extend(position);
        match entry {
            Entry::Message(arrival) => self.arrive(position, arrival),
            Entry::Repair(repair) => self.repair(position, repair),
            Entry::Preamble { preamble, size } => {
                // Signed reasoning is valid only with the system prompt and tools that it was made with.
                self.beside.preamble = Some((position, preamble.clone()));
                self.beside.preamble_size = *size;
                self.outdated = self.is_outdated();
            }
            Entry::Compaction(compaction) => self.compact(position, compaction),
            Entry::Usage(usage) => {
                let calibration = self.beside.calibrations.entry(usage.model.clone()).or_default();
                calibration.observe(usage.estimated, usage.reported);
                let (pause, compacted) = (self.pause(), self.history.compacted);
                let is_same = self.beside.last_call.report.as_ref().map(|(_, asked)| asked) == usage.asked.as_ref();
                let extends = is_same && compacted < self.beside.last_call.answer && !self.has_new_preamble();
                self.beside.last_call.note_cache(usage.reported, usage.cached, pause, extends);
                if let Some(asked) = &usage.asked {
                    self.beside.last_call.report = Some((position, asked.clone()));
                    self.beside.last_call.reports.insert(asked.clone(), position);
                }
            }
            Entry::Label(label) => self.beside.label = label.clone(),
            Entry::Checkpoint(checkpoint) => {
                self.beside.erased_before = self.beside.erased_before.max(checkpoint.erased_before);
            }
            Entry::Branch { .. } | Entry::Erased(_) => {}
        }
    }

    /// Adds entries. The first one is at position `start`.
    pub(crate) fn apply_all<'a>(&mut self, start: Position, entries: impl IntoIterator<Item = &'a Entry>) {
        (start..).zip(entries).for_each(|(position, entry)| self.apply(position, entry));
    }

    /// Begins a branch from this view. `newest` is the view at the end of the log, and the entries of the branch begin
    /// at `position`.
    ///
    /// The preamble, the label, the last call and the corrections of token counts are taken from `newest`, because they
    /// do not belong to a branch.
    pub fn branch(&mut self, newest: &View, position: Position) {
        self.beside = newest.beside.clone();
        self.outdated = self.is_outdated();
        self.history.path.push(position..position);
    }

    /// Counts the call that the message at this position answers.
    fn was_called(&mut self, position: Position) {
        let last = &mut self.beside.last_call;
        (last.before, last.answer, last.asked) = (last.answer, Some(position), self.history.newest);
        self.history.reading.add(self.sizes.totals().size.tokens);
    }

    /// Returns the time between the last call and the newest message, in milliseconds, if that is known.
    pub(crate) fn pause(&self) -> Option<Millis> {
        Some(self.history.newest?.saturating_sub(self.beside.last_call.asked?))
    }

    /// Returns whether the provider's cache had the window after the last pause that was longer than five minutes.
    pub(crate) fn cache_outlasted_pause(&self) -> bool {
        self.beside.last_call.outlasted
    }

    /// Returns the tokens that calls have read since the last compaction because of a limit.
    pub(crate) fn reading(&self) -> &Reading {
        &self.history.reading
    }

    /// Returns whether the system prompt or the tools have changed since the last call.
    pub(crate) fn has_new_preamble(&self) -> bool {
        self.beside.last_call.answer.is_some_and(|answer| self.changed().is_some_and(|changed| changed > answer))
    }

    /// Returns whether the last call went to another model, and the cache of this model does not have the window.
    pub(crate) fn is_new_to(&self, model: &str) -> bool {
        let LastCall { before, report, reports, .. } = &self.beside.last_call;
        // Only a usage report of the last call names its model.
        let last = report.as_ref().filter(|(position, _)| Some(*position) > *before).map(|(_, model)| model);
        last.is_some_and(|last| last != model)
            // This model may have read the window earlier.
            && reports.get(model).is_none_or(|report| Some(*report) < self.history.compacted.max(self.changed()))
    }

    /// Returns the last entry that changed the system prompt or the tools.
    fn changed(&self) -> Option<Position> {
        self.beside.preamble.as_ref().map(|(position, _)| *position).max(self.changed)
    }

    /// Computes `outdated`.
    fn is_outdated(&self) -> bool {
        let changed = self.changed();
        changed.is_some_and(|changed| self.messages().any(|item| item.position < changed && item.shows_signed()))
    }
}
