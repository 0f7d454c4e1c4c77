//! Going through a session's log once, from its beginning, and comparing what each of its checkpoints says with that.

use lookback_engine::Settings;
use lookback_engine::transcript::{Checkpoint, Entry, Position, ShownItem};
use lookback_engine::view::View;

use super::log::{fold, load, newest_checkpoint};
use lookback_store::{Damage, LogName, Store, StoreError};

/// Whoever opens a session begins at a checkpoint, and must see what whoever reads all of it sees.
pub(crate) struct Compared<'a> {
    store: &'a dyn Store,
    log: &'a LogName,
    /// What the entries show up to here.
    view: View,
    /// Where the log can be read from: contents before may have been erased.
    from: Position,
    is_after_branch: bool,
    /// The first checkpoint that says something else than what comes before it.
    other: Option<Position>,
}

impl<'a> Compared<'a> {
    /// `end` is the end of the log.
    pub(crate) async fn begin(store: &'a dyn Store, log: &'a LogName, end: Position) -> Result<Self, StoreError> {
        let newest = newest_checkpoint(store, log, end).await?;
        let from = newest.map_or(0, |(_, checkpoint)| checkpoint.erased_before);
        Ok(Compared { store, log, view: View::default(), from, is_after_branch: false, other: None })
    }

    /// Takes the next entry.
    pub(crate) async fn see(&mut self, position: Position, entry: &Entry) -> Result<(), StoreError> {
        if position < self.from {
            return Ok(());
        }
        let begins = position == self.from && position > 0;
        if begins || self.is_after_branch {
            // Each branch begins with a checkpoint, which has what was before it. So does a log behind an erasure.
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

    /// Returns what is wrong, in words, after all entries up to `end` were seen.
    pub(crate) async fn finish(self, end: Position) -> Result<Option<String>, StoreError> {
        let Compared { store, log, view, is_after_branch, other, .. } = self;
        if is_after_branch {
            return Err(StoreError::damaged(log, end.saturating_sub(1), Damage::Dangling));
        }
        if let Some(position) = other {
            let what = "is a checkpoint of another window than the entries before it give";
            return Ok(Some(format!("entry {position} of `{log}` {what}")));
        }
        let opened = load(store, log, Settings::default()).await?;
        // Others may have written meanwhile.
        let is_other = opened.end() == end && !are_alike(&view.checkpoint(), &opened.view().checkpoint());
        Ok(is_other.then(|| format!("`{log}` shows another window when it is opened than its entries give")))
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
