//! Searching all messages of a store, also those that have left the window.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use lookback_core::transcript::{Entry, Position};
use serde::Serialize;

use super::log::read_many;
use crate::store::{LogName, Store, StoreError, folded, query_words, split};

/// Messages that a search reads at once.
const AT_ONCE: usize = 256;

/// A message that a search found.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session.
    pub session: LogName,
    /// The message's position in its log. As JSON it is called `entry`, as in everything that the command line writes.
    #[serde(rename = "entry")]
    pub position: Position,
    /// An excerpt of its text around the first word that was found.
    pub excerpt: String,
}

/// Finds the messages that have every word of the query, in one session or in all of a store: the best first, and at
/// most `most` of them.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn search(
    store: &dyn Store,
    log: Option<&LogName>,
    query: &str,
    most: usize,
) -> Result<Vec<SearchHit>, StoreError> {
    let hits = store.search(log, query, most).await?;
    let mut spans: BTreeMap<&LogName, Vec<Range<Position>>> = BTreeMap::new();
    for hit in &hits {
        spans.entry(&hit.log).or_default().push(hit.position..hit.position + 1);
    }
    let mut excerpts = HashMap::new();
    for (log, spans) in spans {
        // In pieces, because only the excerpts must be in memory together.
        for spans in spans.chunks(AT_ONCE) {
            for (position, entry) in read_many(store, log, spans).await? {
                if let Entry::Message(arrival) = entry {
                    excerpts.insert((log, position), excerpt(&arrival.message.text(), query));
                }
            }
        }
    }
    let mut found = Vec::with_capacity(excerpts.len());
    for hit in &hits {
        if let Some(excerpt) = excerpts.remove(&(&hit.log, hit.position)) {
            found.push(SearchHit { session: hit.log.clone(), position: hit.position, excerpt });
        }
    }
    Ok(found)
}

/// A line of text around the first word of the query in it.
pub(crate) fn excerpt(text: &str, query: &str) -> String {
    const BEFORE: usize = 60;
    const LENGTH: usize = 160;
    let terms = query_words(query);
    let at = split(text).find(|word| terms.contains(&folded(word)));
    // The word is a slice of the text, so its address gives its place.
    let at = at.map_or(0, |word| word.as_ptr() as usize - text.as_ptr() as usize);
    let start = text.get(..at).unwrap_or_default().char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
    let piece: String = text.get(start..).unwrap_or_default().chars().take(LENGTH).collect();
    piece.split_whitespace().collect::<Vec<_>>().join(" ")
}
