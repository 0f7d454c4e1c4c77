//! Related sessions: those that are the same conversation.
//!
//! A client that goes back to an earlier message begins another line, and so does one that asks with other tools. Their
//! sessions begin with the same messages. If a client names its conversations, all sessions with the name are related.

use lookback_engine::transcript::{Entry, Origin, Position};
use lookback_store::entries::read;
use lookback_store::{LogName, Store, StoreError};
use lookback_wire::message::Role;

use super::scope::{named_in, numbered_in};

/// The most sessions that are compared: the newest ones.
const MOST: usize = 64;
/// The entries that are read at once, at first. Most sessions with the same beginning differ at the first answer.
const FIRST_PAGE: u64 = 4;
/// The most entries that are read at once.
const LARGEST_PAGE: u64 = 1024;

/// A session of the same conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// Its name.
    pub session: LogName,
    /// The number of messages with which both sessions begin. If it is 0, only the client's identifier connects them.
    pub messages: u64,
}

/// Returns the other sessions of the same conversation, the oldest first: those that begin with the same messages,
/// including an answer of the model, and those with the same identifier from the client.
///
/// # Errors
/// Returns an error if the store fails. A session that cannot be read is not related to others.
pub async fn related(store: &dyn Store, name: &LogName) -> Result<Vec<Related>, StoreError> {
    let scope = named_in(name);
    let listed = store.list(scope).await?.into_iter().filter(|info| !info.name.is_derived());
    let mut others: Vec<(u64, LogName)> =
        listed.filter_map(|info| Some((numbered_in(scope, &info.name)?, info.name))).collect();
    others.sort();
    // Only the first session of a conversation that the client names has no number.
    let is_named = others.first().is_some_and(|(number, _)| *number == 0);
    others.retain(|(_, other)| other != name);
    let skipped = others.len().saturating_sub(MOST);
    let mut own = Beginning::new(store, name);
    let mut found = Vec::new();
    for (_, session) in others.into_iter().skip(skipped) {
        let messages = match common(&mut own, &mut Beginning::new(store, &session)).await {
            Err(StoreError::Damaged { .. } | StoreError::Newer { .. }) => 0,
            messages => messages?,
        };
        if messages > 0 || is_named {
            found.push(Related { session, messages });
        }
    }
    Ok(found)
}

/// Returns the number of messages with which two logs begin. 0 if no answer of the model is among them.
async fn common(one: &mut Beginning<'_>, other: &mut Beginning<'_>) -> Result<u64, StoreError> {
    let (mut at, mut has_answer) = (0, false);
    while let Some(said) = one.message(at).await?
        && other.message(at).await? == Some(said)
    {
        has_answer |= said.1 == Role::Assistant;
        at += 1;
    }
    Ok(if has_answer { at as u64 } else { 0 })
}

/// The beginning of a log, read as far as necessary.
struct Beginning<'a> {
    store: &'a dyn Store,
    log: &'a LogName,
    /// The digests and roles of the messages so far.
    messages: Vec<(u128, Role)>,
    /// The position up to which the log was read.
    read: Position,
    page: u64,
    is_over: bool,
}

impl<'a> Beginning<'a> {
    fn new(store: &'a dyn Store, log: &'a LogName) -> Beginning<'a> {
        Beginning { store, log, messages: Vec::new(), read: 0, page: FIRST_PAGE, is_over: false }
    }

    /// Returns a message of the client or the model, before the log first goes back.
    async fn message(&mut self, at: usize) -> Result<Option<(u128, Role)>, StoreError> {
        while self.messages.len() <= at && !self.is_over {
            let end = self.store.head(self.log, None).await?.map_or(0, |head| head.end);
            let page = self.read..end.min(self.read + self.page);
            self.is_over = page.is_empty();
            for entry in read(self.store, self.log, page.clone()).await? {
                match entry {
                    Entry::Message(said) if said.origin != Origin::Lookback => {
                        self.messages.push((said.digest, said.message.role()));
                    }
                    // What follows continues other messages.
                    Entry::Branch { .. } | Entry::Erased(_) => {
                        self.is_over = true;
                        break;
                    }
                    _ => {}
                }
            }
            (self.read, self.page) = (page.end, (self.page * 2).min(LARGEST_PAGE));
        }
        Ok(self.messages.get(at).copied())
    }
}
