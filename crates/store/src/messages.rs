//! Searches all messages of a store, also those that have left the window.

use lookback_content::Redacted;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use lookback_engine::transcript::{Arrival, Entry, Position};
use serde::Serialize;

use crate::entries::read_many;
use crate::search::{Query, passage};
use crate::{Hit, LogName, Store, StoreError};

/// A message that a search found.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The name of the session.
    pub session: LogName,
    /// The message's position in its log. In JSON it is called `entry`, as everywhere in the output of the command
    /// line.
    #[serde(rename = "entry")]
    pub position: Position,
    /// The passage of the text that matches the query best.
    #[debug("{:?}", Redacted(excerpt))]
    pub excerpt: String,
}

/// Finds the messages that match a query, in one session or in the whole store: the best first, and at most `most` of
/// them (see [`search`](crate::search)).
///
/// # Errors
/// Returns an error if the store fails.
pub async fn search(
    store: &dyn Store,
    log: Option<&LogName>,
    query: impl Into<Query>,
    most: usize,
) -> Result<Vec<SearchHit>, StoreError> {
    let query = query.into();
    let mut found = Vec::new();
    for (hit, arrival) in messages(store, log, &query, most).await? {
        let excerpt = passage(&arrival.message.text(), &query);
        found.push(SearchHit { session: hit.log, position: hit.position, excerpt });
    }
    Ok(found)
}

/// Finds the messages that match a query, without those that lack one of its phrases.
pub async fn messages(
    store: &dyn Store,
    log: Option<&LogName>,
    query: &Query,
    most: usize,
) -> Result<Vec<(Hit, Arrival)>, StoreError> {
    let mut asked = most;
    loop {
        let hits = store.search(log, query, asked).await?;
        let all = hits.len() < asked;
        let mut found = read(store, hits).await?;
        if query.is_exact() {
            found.retain(|(_, arrival)| query.has_phrases(&arrival.message.text()));
        }
        found.truncate(most);
        if all || found.len() == most {
            return Ok(found);
        }
        if !query.is_exact() {
            // The missing hits were erased in the meantime, or are not messages.
            return Ok(found);
        }
        asked = asked.saturating_mul(4);
    }
}

/// Reads the messages that were found, in their order.
async fn read(store: &dyn Store, hits: Vec<Hit>) -> Result<Vec<(Hit, Arrival)>, StoreError> {
    let mut spans: BTreeMap<&LogName, Vec<Range<Position>>> = BTreeMap::new();
    for hit in &hits {
        spans.entry(&hit.log).or_default().push(hit.position..hit.position.saturating_add(1));
    }
    let mut messages = HashMap::new();
    for (log, spans) in spans {
        for (position, entry) in read_many(store, log, &spans).await? {
            if let Entry::Message(arrival) = entry {
                messages.insert((log.clone(), position), arrival);
            }
        }
    }
    let message = |hit: Hit| messages.remove(&(hit.log.clone(), hit.position)).map(|arrival| (hit, arrival));
    Ok(hits.into_iter().filter_map(message).collect())
}
