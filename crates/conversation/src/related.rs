//! Related sessions: those that may be the same conversation.
//!
//! A client that goes back to an earlier message begins another line, and so does one that asks with other tools. Their
//! sessions begin with the same messages. If a client names its conversations, all sessions with the name are related.

use std::sync::Arc;

use lookback_engine::Settings;
use lookback_session::adapter::oldest;
use lookback_session::{Error, Session};
use lookback_store::{LogName, Store, StoreError};
use lookback_wire::message::Role;

use super::load::path;
use super::path::Path;
use super::scope::{named_in, numbered_in};

/// The most sessions that are compared: the newest ones.
const MOST: usize = 32;
/// The most messages that are compared.
const MOST_MESSAGES: usize = 200;

/// A session that may be the same conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// Its name.
    pub session: LogName,
    /// The number of messages with which both begin, up to 200, without system messages at the beginning. If it is 0, only
    /// the client's identifier connects them.
    pub messages: u64,
}

/// Returns the other sessions that may be the same conversation, the oldest first: the newest 32 of those that begin with
/// the same messages, including an answer of the model, and of those with the same identifier from the client. They are
/// known by the identifier as long as the first session with it exists.
///
/// # Errors
/// Returns an error if the store fails. A session that cannot be read is not related to others.
pub async fn related(store: &Arc<dyn Store>, name: &LogName) -> Result<Vec<Related>, StoreError> {
    let scope = named_in(name);
    let listed = store.list(scope).await?.into_iter().filter(|info| !info.name.is_derived());
    let mut others: Vec<(u64, LogName)> =
        listed.filter_map(|info| Some((numbered_in(scope, &info.name)?, info.name))).collect();
    others.sort();
    // Only the first session of a conversation that the client names has no number.
    let is_named = others.first().is_some_and(|(number, _)| *number == 0);
    others.retain(|(_, other)| other != name);
    let skipped = others.len().saturating_sub(MOST);
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let Some(own) = beginning(store, name).await? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (_, session) in others.into_iter().skip(skipped) {
        let Some(path) = beginning(store, &session).await? else { continue };
        let common = own.common(&path);
        let has_answer = own.said().iter().take(common).any(|message| message.resent.role == Role::Assistant);
        let messages = if has_answer { common as u64 } else { 0 };
        if messages > 0 || is_named {
            found.push(Related { session, messages });
        }
    }
    Ok(found)
}

/// Returns the first messages of a session. `None` if it cannot be read.
async fn beginning(store: &Arc<dyn Store>, name: &LogName) -> Result<Option<Path>, StoreError> {
    let read = async {
        let mut session = Session::open(store.clone(), name.as_str(), Settings::default()).await?;
        oldest(&mut session, MOST_MESSAGES).await
    };
    match read.await {
        Ok(messages) => Ok(Some(path(&messages))),
        Err(Error::Store(error)) if !error.is_log_specific() => Err(error),
        Err(_) => Ok(None),
    }
}
