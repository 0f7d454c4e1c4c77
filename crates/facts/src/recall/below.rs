//! Searching the messages of several sessions at once, for a model.

use std::fmt::Write as _;

use lookback_store::messages::search;
use lookback_store::{Store, StoreError};
use serde_json::json;

use super::display::plain;

/// The most hits that a model is shown.
const SHOWN: usize = 8;
/// The most hits of the whole store among which those of the sessions are.
const SEARCHED: usize = 500;
/// The most characters of a hit.
const EXCERPT: usize = 400;

/// Finds messages in the sessions whose names begin with `prefix`, the best first. The text has the arguments with which
/// the tool `recall` reads each of them.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn recall_below(store: &dyn Store, prefix: &str, query: &str) -> Result<String, StoreError> {
    let found = search(store, None, query, SEARCHED).await?;
    let found = found.into_iter().filter(|hit| hit.session.as_str().starts_with(prefix));
    let mut text = String::new();
    for hit in found.take(SHOWN) {
        let arguments = json!({"session": hit.session, "entry": hit.position, "query": query}).to_string();
        // Writing to memory does not fail.
        let _ = writeln!(text, "#{} of {}; read it: recall {}", hit.position, hit.session, plain(&arguments));
        let excerpt: String = hit.excerpt.chars().take(EXCERPT).collect();
        for line in excerpt.lines() {
            let _ = writeln!(text, "| {}", plain(line));
        }
    }
    if text.is_empty() {
        text = "[no message has any of these words; use others]".to_owned();
    }
    Ok(text.trim_end().to_owned())
}
