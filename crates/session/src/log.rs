//! Reading a log's entries from a store, and folding them into a view.

use std::collections::HashMap;

use lookback_engine::transcript::{self, Checkpoint, Entry, Position};
use lookback_engine::view::View;
use lookback_engine::{Engine, LogState, Settings};

use super::TRIES;
use lookback_store::entries::{parse, read, read_many};
use lookback_store::{Damage, Head, LogName, Store, StoreError};

/// Creates the engine of a log from its newest checkpoint and the entries after it.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn load(store: &dyn Store, log: &LogName, settings: Settings) -> Result<Engine, StoreError> {
    let mut tries = TRIES;
    loop {
        let Some((head, tail)) = store.tail(log).await? else { return Ok(Engine::new(settings)) };
        match resume(store, log, settings.clone(), (head, tail)).await {
            // Between the two reads, the log or contents of it may have been erased.
            Err(StoreError::Damaged { .. }) if tries > 0 && store.head(log, None).await? != Some(head) => tries -= 1,
            resumed => return resumed,
        }
    }
}

/// Creates the engine of a log from its head and tail.
async fn resume(
    store: &dyn Store,
    log: &LogName,
    settings: Settings,
    (head, tail): (Head, Vec<String>),
) -> Result<Engine, StoreError> {
    let start = head.checkpoint.unwrap_or(0);
    let tail = (start..).zip(tail).map(|(position, body)| parse(log, position, &body));
    let tail: Vec<Entry> = tail.collect::<Result<_, _>>()?;
    let (start, tail) = from_checkpoint(store, log, start, tail).await?;
    let has_checkpoint = matches!(tail.first(), Some(Entry::Checkpoint(_)));
    let view = fold_entries(store, log, start, tail).await?;
    let since_checkpoint = head.end.saturating_sub(start).saturating_sub(u64::from(has_checkpoint));
    Ok(Engine::resume(settings, LogState { view, end: head.end, since_checkpoint }))
}

/// Returns the entries from the newest checkpoint on, with its position, or the whole log if it has no checkpoint.
/// `entries` start at `start`, where the store says that the newest checkpoint is.
///
/// A store marks checkpoints separately from the records, and the marks may be wrong. So the entries themselves decide:
/// a marked entry that is not a checkpoint is skipped, and an unmarked checkpoint is used.
async fn from_checkpoint(
    store: &dyn Store,
    log: &LogName,
    mut start: Position,
    mut entries: Vec<Entry>,
) -> Result<(Position, Vec<Entry>), StoreError> {
    loop {
        if let Some(at) = entries.iter().rposition(|entry| matches!(entry, Entry::Checkpoint(_))) {
            entries.drain(..at);
            return Ok((start + at as u64, entries));
        }
        if start == 0 {
            return Ok((0, entries));
        }
        let earlier = store.head(log, Some(start)).await?.and_then(|head| head.checkpoint);
        let earlier = earlier.filter(|earlier| *earlier < start).unwrap_or(0);
        let mut before = read(store, log, earlier..start).await?;
        before.append(&mut entries);
        (start, entries) = (earlier, before);
    }
}

/// Returns the newest checkpoint of a log before a position.
pub(super) async fn newest_checkpoint(
    store: &dyn Store,
    log: &LogName,
    mut before: Position,
) -> Result<Option<(Position, Checkpoint)>, StoreError> {
    while let Some(at) = store.head(log, Some(before)).await?.and_then(|head| head.checkpoint) {
        if let Some(Entry::Checkpoint(checkpoint)) = read(store, log, at..at + 1).await?.pop() {
            return Ok(Some((at, checkpoint)));
        }
        before = at;
    }
    Ok(None)
}

/// Returns the view of a log that ends at `end`, folded from a checkpoint on.
///
/// There is no branch entry between the two, because each branch entry has its own checkpoint directly after it.
pub(super) async fn fold(
    store: &dyn Store,
    log: &LogName,
    checkpoint: Option<Position>,
    end: Position,
) -> Result<View, StoreError> {
    let start = checkpoint.unwrap_or(0);
    let entries = read(store, log, start..end).await?;
    let (start, entries) = from_checkpoint(store, log, start, entries).await?;
    fold_entries(store, log, start, entries).await
}

/// Folds the entries of a log, from a checkpoint at `start` on, into a view.
async fn fold_entries(
    store: &dyn Store,
    log: &LogName,
    start: Position,
    entries: Vec<Entry>,
) -> Result<View, StoreError> {
    let spans = match entries.first() {
        Some(Entry::Checkpoint(checkpoint)) => checkpoint.spans(),
        _ => Vec::new(),
    };
    let earlier: HashMap<_, _> = read_many(store, log, &spans).await?.into_iter().collect();
    transcript::fold(start, &entries, |position| earlier.get(&position))
        .ok_or_else(|| StoreError::damaged(log, start, Damage::Dangling))
}
