//! Walking through a whole log, for computing receipts and timelines.

use lookback_engine::transcript::{Entry, Position};
use lookback_engine::view::View;

use super::PAGE;
use super::log::{fold, newest_checkpoint};
use lookback_store::entries::read;
use lookback_store::{Damage, LogName, Store, StoreError};

/// A step of a walk through a log.
#[derive(Debug)]
pub enum Step<'a> {
    /// The log begins at a checkpoint, because contents before it were erased.
    Begin(Position, View),
    /// An entry.
    Read(Position, &'a Entry),
    /// A branch: the log continues from this position, with this view.
    GoBack(Position, View),
}

/// Walks through a log, page by page, and calls `step` for each entry.
pub async fn walk(store: &dyn Store, log: &LogName, step: &mut (dyn FnMut(Step<'_>) + Send)) -> Result<(), StoreError> {
    let end = store.head(log, None).await?.map_or(0, |head| head.end);
    let mut branch = None;
    let mut at = 0;
    if let Some((_, newest)) = newest_checkpoint(store, log, end).await?
        && newest.erased_before > 0
    {
        at = newest.erased_before;
        step(Step::Begin(at, fold(store, log, Some(at), at + 1).await?));
    }
    while at < end {
        let page = at..end.min(at + PAGE);
        for (position, entry) in page.clone().zip(read(store, log, page.clone()).await?) {
            match (branch.take(), &entry) {
                // Each branch begins with a checkpoint that has everything before it.
                (Some(before), Entry::Checkpoint(_)) => {
                    step(Step::GoBack(before, fold(store, log, Some(position), position + 1).await?));
                }
                (Some(_), _) => return Err(StoreError::damaged(log, position, Damage::Dangling)),
                (None, Entry::Branch { at }) => branch = Some(*at),
                (None, _) => step(Step::Read(position, &entry)),
            }
        }
        at = page.end;
    }
    Ok(())
}
