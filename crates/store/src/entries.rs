//! Reading the entries of a session's log.

use std::ops::Range;

use lookback_engine::transcript::{Entry, Position};

use super::{Damage, LogName, Store, StoreError};

/// Reads the entries in this span.
pub async fn read(store: &dyn Store, log: &LogName, span: Range<Position>) -> Result<Vec<Entry>, StoreError> {
    let bodies = store.read(log, span.clone()).await?;
    span.zip(bodies).map(|(position, body)| parse(log, position, &body)).collect()
}

/// Reads the entries in these spans, each with its position, in one call of the store.
pub async fn read_many(
    store: &dyn Store,
    log: &LogName,
    spans: &[Range<Position>],
) -> Result<Vec<(Position, Entry)>, StoreError> {
    let bodies = store.read_many(log, spans).await?;
    let found = spans.iter().cloned().zip(bodies).flat_map(|(span, bodies)| span.zip(bodies));
    found.map(|(position, body)| Ok((position, parse(log, position, &body)?))).collect()
}

/// Parses the body of an entry.
pub fn parse(log: &LogName, position: Position, body: &str) -> Result<Entry, StoreError> {
    serde_json::from_str(body).map_err(|error| StoreError::damaged(log, position, Damage::from_json_error(&error)))
}
