//! Entries in a store: how they are written, read, and folded into a view.

use std::collections::HashMap;
use std::ops::Range;

use lookback_core::engine::{Engine, LogState, Settings};
use lookback_core::message::PartRef;
use lookback_core::transcript::{self, Arrival, Entry, Label, Position};
use lookback_core::view::View;
use lookback_core::{Dialect, Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::TRIES;
use crate::store::{Damage, Head, LogName, Record, Store, StoreError};

/// Makes the record of an entry. `label` is the label that is in force there.
pub(crate) fn record(
    log: &LogName,
    position: Position,
    entry: &Entry,
    label: Option<&Label>,
) -> Result<Record, StoreError> {
    let body = serde_json::to_string(entry).map_err(|error| StoreError::unwritable(log, position, error))?;
    let record = Record { checkpoint: matches!(entry, Entry::Checkpoint(_)), ..Record::new(body) };
    Ok(match entry {
        Entry::Message(arrival) => said(record, arrival, label),
        _ => record,
    })
}

/// Adds to the record of a message what searches look at.
pub(crate) fn said(record: Record, arrival: &Arrival, label: Option<&Label>) -> Record {
    let message = &arrival.message;
    let mut parts = message.parts().filter(|part| !part.is_cache_marker()).peekable();
    let of_tools = parts.peek().is_some() && parts.all(|part| matches!(part, PartRef::ToolResult(_)));
    let role = match message.role() {
        _ if of_tools => "tool",
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    // A label names the agent, which is not who asks it or what answers its calls.
    let agent = || label.filter(|_| message.role() == Role::Assistant)?.agent.clone();
    let chat = message.wire().filter(|wire| wire.dialect == Dialect::OpenAiChat);
    let name = chat.and_then(|wire| name(&wire.raw)).or_else(agent);
    Record { name, ..record.text(message.text()).time(arrival.time).role(role) }
}

/// The name of who speaks, which OpenAI Chat has beside the content.
fn name(message: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: Option<String>,
    }
    // Most messages have no name, and need not be parsed again.
    let may_have = message.get().contains("\"name\"");
    may_have.then(|| serde_json::from_str::<Named>(message.get()).ok()?.name)?
}

pub(crate) async fn read(store: &dyn Store, log: &LogName, span: Range<Position>) -> Result<Vec<Entry>, StoreError> {
    let bodies = store.read(log, span.clone()).await?;
    span.zip(bodies).map(|(position, body)| parse(log, position, &body)).collect()
}

/// The entries in these spans, each with its position, in one call of the store.
pub(crate) async fn read_many(
    store: &dyn Store,
    log: &LogName,
    spans: &[Range<Position>],
) -> Result<Vec<(Position, Entry)>, StoreError> {
    let bodies = store.read_many(log, spans).await?;
    let found = spans.iter().cloned().zip(bodies).flat_map(|(span, bodies)| span.zip(bodies));
    found.map(|(position, body)| Ok((position, parse(log, position, &body)?))).collect()
}

pub(super) fn parse(log: &LogName, position: Position, body: &str) -> Result<Entry, StoreError> {
    serde_json::from_str(body).map_err(|error| StoreError::damaged(log, position, Damage::of_body(&error)))
}

pub(crate) async fn load(store: &dyn Store, log: &LogName, settings: Settings) -> Result<Engine, StoreError> {
    let mut tries = TRIES;
    loop {
        let Some((head, tail)) = store.tail(log).await? else { return Ok(Engine::new(settings)) };
        match resume(store, log, settings.clone(), (head, tail)).await {
            // Between the two reads, somebody may have erased the log or contents of it.
            Err(StoreError::Damaged { .. }) if tries > 0 && store.head(log, None).await? != Some(head) => tries -= 1,
            resumed => return resumed,
        }
    }
}

/// The engine of a log whose end was read.
async fn resume(
    store: &dyn Store,
    log: &LogName,
    settings: Settings,
    (head, tail): (Head, Vec<String>),
) -> Result<Engine, StoreError> {
    let start = head.checkpoint.unwrap_or(0);
    let tail = (start..).zip(tail).map(|(position, body)| parse(log, position, &body));
    let tail: Vec<Entry> = tail.collect::<Result<_, _>>()?;
    // A store keeps apart which records are checkpoints. One that is none would hide all that is before it.
    if head.checkpoint.is_some() && !matches!(tail.first(), Some(Entry::Checkpoint(_))) {
        return Err(StoreError::damaged(log, start, Damage::NotAnEntry));
    }
    let view = fold_entries(store, log, start, tail).await?;
    let since_checkpoint = head.end - head.checkpoint.map_or(0, |checkpoint| checkpoint + 1);
    Ok(Engine::resume(settings, LogState { view, end: head.end, since_checkpoint }))
}

/// The view of a log that ends at `end`, folded from a checkpoint on.
///
/// There is no branch entry between the two, because each has its own checkpoint right behind it.
pub(super) async fn fold(
    store: &dyn Store,
    log: &LogName,
    checkpoint: Option<Position>,
    end: Position,
) -> Result<View, StoreError> {
    let start = checkpoint.unwrap_or(0);
    let entries = read(store, log, start..end).await?;
    fold_entries(store, log, start, entries).await
}

/// The view of the entries of a log from a checkpoint at `start` on.
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
