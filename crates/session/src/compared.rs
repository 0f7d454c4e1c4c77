//! Folding a session's log from its beginning, and comparing each checkpoint with the folded view.

use lookback_engine::Settings;
use lookback_engine::transcript::{Checkpoint, Entry, Position, ShownItem};
use lookback_engine::view::View;

use super::log::{fold, load, newest_checkpoint};
use lookback_store::{Damage, LogName, Store, StoreError};

/// The state of the comparison. Opening a session starts at a checkpoint, and must give the same view as reading the
/// whole log.
pub(crate) struct Compared<'a> {
    store: &'a dyn Store,
    log: &'a LogName,
    /// The view of the entries so far.
    view: View,
    /// The first position that can be folded: earlier contents may have been erased.
    from: Position,
    is_after_branch: bool,
    /// The first checkpoint that differs from the view of the entries before it.
    other: Option<Position>,
}

impl<'a> Compared<'a> {
    /// `end` is the end of the log.
    pub(crate) async fn begin(store: &'a dyn Store, log: &'a LogName, end: Position) -> Result<Self, StoreError> {
        let newest = newest_checkpoint(store, log, end).await?;
        let from = newest.map_or(0, |(_, checkpoint)| checkpoint.erased_before);
        Ok(Compared { store, log, view: View::default(), from, is_after_branch: false, other: None })
    }

    /// Compares the next entry, or adds it to the view.
    pub(crate) async fn see(&mut self, position: Position, entry: &Entry) -> Result<(), StoreError> {
        if position < self.from {
            return Ok(());
        }
        let begins = position == self.from && position > 0;
        if begins || self.is_after_branch {
            // A branch begins with a checkpoint that has everything before it. So does the readable rest of a log after
            // an erasure.
            if !matches!(entry, Entry::Checkpoint(_)) {
                return Err(StoreError::damaged(self.log, position, Damage::Dangling));
            }
            self.view = fold(self.store, self.log, Some(position), position + 1).await?;
            self.is_after_branch = false;
            return Ok(());
        }
        match entry {
            Entry::Branch { .. } => self.is_after_branch = true,
            Entry::Checkpoint(checkpoint) => {
                if !are_alike(&self.view.checkpoint(), checkpoint) {
                    self.other = self.other.or(Some(position));
                }
                self.view.apply(position, entry);
            }
            _ => self.view.apply(position, entry),
        }
        Ok(())
    }

    /// Returns a description of the first difference, after all entries up to `end` were seen.
    pub(crate) async fn finish(self, end: Position) -> Result<Option<String>, StoreError> {
        let Compared { store, log, view, is_after_branch, other, .. } = self;
        if is_after_branch {
            return Err(StoreError::damaged(log, end.saturating_sub(1), Damage::Dangling));
        }
        if let Some(position) = other {
            let what = "is a checkpoint whose window differs from the entries before it";
            return Ok(Some(format!("entry {position} of `{log}` {what}")));
        }
        let opened = load(store, log, Settings::default()).await?;
        // Others may have written meanwhile.
        let is_other = opened.end() == end && !are_alike(&view.checkpoint(), &opened.view().checkpoint());
        Ok(is_other.then(|| format!("the window of `{log}` when opened differs from its entries")))
    }
}

/// Whether two checkpoints show the same.
fn are_alike(one: &Checkpoint, other: &Checkpoint) -> bool {
    one.preamble == other.preamble && items(one).eq(items(other))
}

fn items(checkpoint: &Checkpoint) -> impl Iterator<Item = (Position, &[lookback_wire::edit::Edit])> {
    let items = checkpoint.groups.iter().flat_map(|group| &group.items).chain(&checkpoint.late);
    items.map(|ShownItem { position, edits, .. }| (*position, edits.as_slice()))
}
