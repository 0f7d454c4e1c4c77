//! Searching the messages of several sessions at once, for a model.

use lookback_store::messages::messages;
use lookback_store::search::{Query, excerpt};
use lookback_store::{Hit, Store, StoreError};
use serde_json::json;

use super::display::plain;
use super::{EXCERPT, Path, Reader};

/// The most hits that a model is shown.
const SHOWN: usize = 8;
/// The most hits of the whole store among which those of the sessions are.
const SEARCHED: usize = 100;
/// The most sessions that are searched alone, if there are too few.
const SESSIONS: usize = 50;

/// Finds messages in the sessions whose names begin with `prefix`, the best first, except for what models have asked
/// before. The text has the arguments with which the tool `recall` reads each of them.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn recall_below(store: &dyn Store, prefix: &str, words: &str) -> Result<String, StoreError> {
    let query = Query::new(words);
    let mut shown = Vec::new();
    let mut found = messages(store, None, &query, SEARCHED).await?;
    found.retain(|(hit, _)| hit.log.as_str().starts_with(prefix));
    if found.len() < SHOWN {
        // Other sessions have better hits, so these are searched alone, the newest first.
        let mut logs = store.list(prefix).await?;
        logs.sort_by_key(|log| std::cmp::Reverse(log.used));
        for log in logs.into_iter().filter(|log| !log.name.is_derived()).take(SESSIONS) {
            let known = |hit: &Hit| found.iter().any(|(other, _)| other == hit);
            let more = messages(store, Some(&log.name), &query, SHOWN).await?;
            let more: Vec<_> = more.into_iter().filter(|(hit, _)| !known(hit)).collect();
            found.extend(more);
        }
    }
    for (hit, arrival) in found {
        let (session, at) = (&hit.log, hit.position);
        if shown.len() == SHOWN {
            break;
        }
        let reader = Reader { store, session, end: at, path: Path::whole() };
        if reader.is_recalled(at, &arrival).await? {
            continue;
        }
        let arguments = json!({"session": session, "entry": at, "query": words}).to_string();
        let mut text = format!("#{at} of {session}; read it: recall {}\n", plain(&arguments));
        let said = reader.page(at, &arrival, 0, u64::MAX).await?.text;
        for line in said.get(excerpt(&said, &query, EXCERPT)).unwrap_or_default().lines() {
            text += &format!("| {}\n", plain(line));
        }
        shown.push(text);
    }
    if shown.is_empty() {
        return Ok("[no message has any of these words; use others]".to_owned());
    }
    Ok(shown.concat().trim_end().to_owned())
}
