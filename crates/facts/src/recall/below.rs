//! Searching the messages of several sessions at once, for a model.

use lookback_store::messages::messages;
use lookback_store::search::{Query, excerpt};
use lookback_store::{Store, StoreError};
use serde_json::json;

use super::display::plain;
use super::{EXCERPT, Path, Reader};

/// The most hits that a model is shown.
const SHOWN: usize = 8;
/// The most hits of the whole store among which those of the sessions are.
const SEARCHED: usize = 500;

/// Finds messages in the sessions whose names begin with `prefix`, the best first, except for what models have asked
/// before. The text has the arguments with which the tool `recall` reads each of them.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn recall_below(store: &dyn Store, prefix: &str, words: &str) -> Result<String, StoreError> {
    let query = Query::new(words);
    let mut shown = Vec::new();
    for (hit, arrival) in messages(store, None, &query, SEARCHED).await? {
        let (session, at) = (&hit.log, hit.position);
        if shown.len() == SHOWN || !session.as_str().starts_with(prefix) {
            continue;
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
