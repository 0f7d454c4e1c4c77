//! Searching what was ever said, whether or not a window still shows it.

use lookback_core::transcript::{Entry, Position};
use serde::Serialize;

use super::log::read;
use crate::store::{LogName, Store, StoreError, folded, split, wanted};

/// What a search found.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    /// The session.
    pub session: LogName,
    /// The message's position in its log; as JSON it is `entry`, as in all that the command line writes.
    #[serde(rename = "entry")]
    pub position: Position,
    /// A piece of its text around the first word found.
    pub excerpt: String,
}

/// The messages, in one session or in all of a store, that hold every word of a query, the best first.
///
/// # Errors
/// Where the store fails.
pub async fn search(
    store: &dyn Store,
    log: Option<&LogName>,
    query: &str,
    most: usize,
) -> Result<Vec<SearchHit>, StoreError> {
    let mut found = Vec::new();
    for hit in store.search(log, query, most).await? {
        let entries = read(store, &hit.log, hit.position..hit.position + 1).await?;
        if let Some(Entry::Message(arrival)) = entries.first() {
            let excerpt = excerpt(&arrival.message.text(), query);
            found.push(SearchHit { session: hit.log, position: hit.position, excerpt });
        }
    }
    Ok(found)
}

/// A line of a text, around the first word of a query in it.
pub(crate) fn excerpt(text: &str, query: &str) -> String {
    const BEFORE: usize = 60;
    const LENGTH: usize = 160;
    let wanted = wanted(query);
    let at = split(text).find(|word| wanted.contains(&folded(word)));
    // The word is a slice of the text, so its address tells where it stands.
    let at = at.map_or(0, |word| word.as_ptr() as usize - text.as_ptr() as usize);
    let start = text.get(..at).unwrap_or_default().char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
    let piece: String = text.get(start..).unwrap_or_default().chars().take(LENGTH).collect();
    piece.split_whitespace().collect::<Vec<_>>().join(" ")
}
