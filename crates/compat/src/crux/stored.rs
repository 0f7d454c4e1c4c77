//! The two keys under which the original's documentation keeps a window.

use lookback_engine::policy::Policy;
use lookback_engine::view::Item;
use lookback_wire::dialect::{self, Shown};
use serde::Serialize;

use super::{DIALECT, Error, log_of, settings};
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::IntoStore;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stored {
    /// The text of the summary, or the messages as a JSON list.
    pub content: String,
    /// The type of the content, and its window.
    pub(crate) metadata: Metadata,
}

/// The description of a key's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Metadata {
    /// `sliding-window-messages` or `sliding-window-summary`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The window's id.
    pub(crate) window_id: String,
}

/// Returns the value of one of the two keys of a window.
///
/// `compact:ID:messages` holds the window's messages, and `compact:ID:summary` the running summary of the messages
/// before them. Returns `None` if there is no such window, if it has no summary yet, or for any other key.
///
/// This is for programs that have the store but no window. It only reads: it does not wait for a summary that is being
/// made, and it changes nothing.
///
/// # Errors
/// Returns an error if the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
///
/// use lookback_compat::crux::{SlidingWindow, get};
/// use lookback_summarize::Function;
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
///
/// let store = Arc::new(MemoryStore::new());
/// let model = Function::new("small-model", |_ask| async { Ok("The user is called Ada.".to_owned()) });
/// let window = SlidingWindow::builder(2, model).id("chat-1").store(store.clone()).open().await?;
/// for text in ["My name is Ada.", "Hi Ada!", "What is my name?"] {
///     window.push(Message::user(text)).await?;
/// }
/// window.get_messages().await?;
/// let summary = get(store.clone(), "compact:chat-1:summary").await?.map(|stored| stored.content);
/// assert_eq!(summary.as_deref(), Some("The user is called Ada."));
/// assert!(get(store, "compact:chat-2:summary").await?.is_none());
/// # Ok::<(), lookback_compat::crux::Error>(())
/// # }).unwrap();
/// ```
pub async fn get(store: impl IntoStore, key: &str) -> Result<Option<Stored>, Error> {
    const MESSAGES: &str = "sliding-window-messages";
    const SUMMARY: &str = "sliding-window-summary";
    let Some(rest) = key.strip_prefix("compact:") else { return Ok(None) };
    let ends = [(":messages", MESSAGES), (":summary", SUMMARY)];
    let Some((id, kind)) = ends.into_iter().find_map(|(end, kind)| Some((rest.strip_suffix(end)?, kind))) else {
        return Ok(None);
    };
    let Ok(name) = log_of(id) else { return Ok(None) };
    let session = Session::open(store, &name, settings(Policy::unlimited())).await?;
    if session.stats().entries == 0 {
        return Ok(None);
    }
    let summary = adapter::newest_summary(&session).await?;
    let content = if kind == SUMMARY {
        summary.map(|summary| summary.text)
    } else {
        let replaced = summary.map(|summary| summary.replaces).unwrap_or_default();
        let is_shown = |item: &&Item| !item.is_own() && !replaced.iter().any(|span| span.contains(&item.position()));
        let items = session.view().messages().filter(is_shown);
        let shown = items.map(|item| Shown { message: item.message(), edits: item.edits() });
        Some(dialect::json_list(&DIALECT.encode(shown)?))
    };
    let metadata = Metadata { kind, window_id: id.to_owned() };
    Ok(content.map(|content| Stored { content, metadata }))
}
