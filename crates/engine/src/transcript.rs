//! The log of a conversation, its entries, and the fold that turns it into a view.
//!
//! The entries are defined in a separate module, because the view imports them, and the transcript imports the view.

pub use crate::entry::{
    Arrival, Checkpoint, CompactedGroups, Compaction, Entry, Erased, IndexedName, Label, LastCall, Millis, NameIndex,
    Origin, Position, Reading, Repair, RunningSummary, SavedGroup, ShownItem, UsageReport, spans,
};
use crate::view::View;

/// A log in memory: the entries of a conversation in order, never rewritten.
///
/// Stores keep logs elsewhere, and fold them in the same way.
///
/// ```
/// use lookback_engine::{Engine, Settings, transcript::Transcript};
/// use lookback_wire::message::Message;
///
/// let mut engine = Engine::new(Settings::default());
/// let mut log = Transcript::default();
/// log.extend(engine.push(Message::user("Hello"))?);
/// assert_eq!(log.view(log.len()).unwrap().messages().count(), 1);
/// assert_eq!(log.view(0).unwrap().messages().count(), 0);
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    entries: Vec<Entry>,
}

impl Transcript {
    /// Returns the number of entries.
    pub fn len(&self) -> Position {
        self.entries.len() as Position
    }

    /// Returns whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns what the model would have seen when the log had `end` entries.
    ///
    /// Returns `None` if the view needs erased contents, or if the log is damaged. For example, Lookback never writes a
    /// branch that points forward.
    pub fn view(&self, end: Position) -> Option<View> {
        let at = |position: Position| self.entries.get(usize::try_from(position).ok()?);
        // Only the newest branch matters: it says from which earlier point the fold continues. The checkpoint that
        // announced an erasure has the state before it.
        let newest = (self.erased_before()..end).rev().find_map(|position| match at(position)? {
            Entry::Branch { at } => Some((position, *at)),
            _ => None,
        });
        let (mut view, start) = match newest {
            Some((position, at)) if at <= position => {
                let mut view = self.view(at)?;
                // The preamble, usage reports and label do not belong to a branch, so those of all branches apply.
                let mut beside = View::default();
                let said = self.entries.iter().take(usize::try_from(position).unwrap_or(usize::MAX)).enumerate();
                for (position, entry) in said.filter(|(_, entry)| {
                    matches!(entry, Entry::Preamble { .. } | Entry::Usage(_) | Entry::Label(_) | Entry::Checkpoint(_))
                }) {
                    beside.apply(position as Position, entry);
                }
                view.branch(&beside, position + 1);
                (view, position + 1)
            }
            Some(_) => return None,
            None => {
                // The contents before it no longer exist.
                let start = self.erased_before();
                let from = self.before(end).get(usize::try_from(start).unwrap_or(usize::MAX)..).unwrap_or_default();
                let is_known = start == 0 || end == 0 || start < end;
                return if is_known { fold(start, from, at) } else { None };
            }
        };
        view.apply_all(start, self.before(end).iter().skip(usize::try_from(start).unwrap_or(usize::MAX)));
        Some(view)
    }

    /// Returns the entry before which contents may have been erased.
    fn erased_before(&self) -> Position {
        let of = |entry: &Entry| if let Entry::Checkpoint(checkpoint) = entry { checkpoint.erased_before } else { 0 };
        self.entries.iter().map(of).max().unwrap_or(0)
    }

    /// Returns the entries before a position.
    fn before(&self, end: Position) -> &[Entry] {
        let end = usize::try_from(end).map_or(self.entries.len(), |end| end.min(self.entries.len()));
        self.entries.get(..end).unwrap_or_default()
    }
}

/// Folds the end of a log into a view.
///
/// `entries` are the entries from position `start` on, which is 0 or the position of a checkpoint. They must not
/// contain a branch. A session writes a checkpoint right after each branch, so fold from the newest checkpoint.
/// `earlier` returns the entries at the positions in [`Checkpoint::spans`].
///
/// Returns `None` if one of those entries is missing, as in a damaged log.
///
/// ```
/// use lookback_engine::{Engine, Settings, transcript};
/// use lookback_wire::message::Message;
///
/// let mut engine = Engine::new(Settings::default());
/// let mut log = engine.push(Message::user("Hello"))?;
/// engine.checkpoint(&mut log);
/// log.extend(engine.push(Message::user("And again"))?);
/// let view = transcript::fold(1, &log[1..], |position| log.get(position as usize)).unwrap();
/// assert_eq!(view.messages().count(), 2);
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
pub fn fold<'a>(
    start: Position,
    entries: &'a [Entry],
    earlier: impl FnMut(Position) -> Option<&'a Entry>,
) -> Option<View> {
    let mut view = match entries.first() {
        Some(Entry::Checkpoint(checkpoint)) => View::restore(checkpoint, earlier)?,
        _ => View::default(),
    };
    view.apply_all(start, entries);
    Some(view)
}

impl Extend<Entry> for Transcript {
    fn extend<I: IntoIterator<Item = Entry>>(&mut self, entries: I) {
        self.entries.extend(entries);
    }
}
