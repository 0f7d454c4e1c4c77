//! Retention: the sessions that a store keeps, by age and by number.

use std::collections::BTreeMap;

use lookback_engine::transcript::Millis;
use serde::Serialize;

use super::{LogName, Store, StoreError, logs_of};

/// The sessions that a store keeps: all, by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Sessions that were last used before this time are not kept. A session whose last use is unknown is kept.
    pub(crate) unused_since: Option<Millis>,
    /// How many sessions are kept: those that were used last. A session whose last use is unknown is the first to go.
    pub(crate) keep: Option<usize>,
}

impl Retention {
    /// Does not keep sessions that were last used before this time.
    #[must_use]
    pub fn unused_since(mut self, time: impl Into<Option<Millis>>) -> Self {
        self.unused_since = time.into();
        self
    }

    /// Keeps this many sessions.
    #[must_use]
    pub fn keep(mut self, sessions: impl Into<Option<usize>>) -> Self {
        self.keep = sessions.into();
        self
    }
}

/// A session that is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Expired {
    /// Its name.
    pub session: LogName,
    /// The number of records in its logs: its own, its facts and its summaries.
    pub records: u64,
    /// The bytes of the records' bodies.
    pub bytes: u64,
    /// The time when any of its logs was last used; `None` if it is unknown.
    pub used: Option<Millis>,
    /// Whether any of its logs cannot be read.
    #[serde(skip)]
    is_damaged: bool,
}

/// Returns the sessions of a namespace that are not kept, the longest unused first. Erases nothing.
///
/// Logs that all sessions of a workspace share belong to no session, and are always kept. A session that cannot be read
/// is kept, too: a newer version may have written it.
///
/// # Errors
/// Returns an error if the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::{Append, MemoryStore, Record, Retention, Store, expired, prune};
///
/// let store = std::sync::Arc::new(MemoryStore::new());
/// for name in ["chat-1", "chat-2", "chat-3"] {
///     store.append(&name.parse()?, Append::new(0, [Record::new("{}")])).await?;
/// }
/// let retention = Retention::default().keep(2);
/// assert_eq!(expired(&*store, &retention).await?.len(), 1);
/// prune(&*store, &retention).await?;
/// assert_eq!(store.list("").await?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn expired(store: &dyn Store, retention: &Retention) -> Result<Vec<Expired>, StoreError> {
    let mut sessions: BTreeMap<LogName, Expired> = BTreeMap::new();
    for log in store.list("").await? {
        let session = match log.name.derived() {
            None => Some(log.name.clone()),
            Some((derived, of)) if derived.is_of_session() => of.parse().ok(),
            Some(_) => None,
        };
        let Some(session) = session else { continue };
        let of = Expired { session: session.clone(), records: 0, bytes: 0, used: None, is_damaged: false };
        let of = sessions.entry(session).or_insert(of);
        // A log that cannot be read is listed with no records.
        of.is_damaged |= log.records == 0;
        of.records += log.records;
        of.bytes += log.bytes;
        of.used = of.used.max(log.used);
    }
    let mut sessions: Vec<Expired> = sessions.into_values().filter(|session| !session.is_damaged).collect();
    sessions.sort_by(|one, other| (one.used, &one.session).cmp(&(other.used, &other.session)));
    let extra = retention.keep.map_or(0, |keep| sessions.len().saturating_sub(keep));
    let is_old = |session: &Expired| match (session.used, retention.unused_since) {
        (Some(used), Some(since)) => used < since,
        _ => false,
    };
    let expired = sessions.into_iter().enumerate().filter(|(at, session)| *at < extra || is_old(session));
    Ok(expired.map(|(_, session)| session).collect())
}

/// Erases the sessions of a namespace that are not kept, with their facts and their summaries, in one call of
/// [`Store::delete`]. Returns them.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn prune(store: &dyn Store, retention: &Retention) -> Result<Vec<Expired>, StoreError> {
    let expired = expired(store, retention).await?;
    let logs: Vec<LogName> = expired.iter().flat_map(|expired| logs_of(&expired.session)).collect();
    store.delete(&logs).await?;
    Ok(expired)
}
