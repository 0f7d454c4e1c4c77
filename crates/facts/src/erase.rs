//! Erases facts together with the messages that they are from.
//!
//! Each fact is first forgotten, so that open memories no longer return it. Then its text is erased, because it may
//! quote the message.

use std::ops::Range;

use lookback_engine::transcript::Position;

use super::TRIES;
use super::entry::FactEntry;
use super::extract::UNKNOWN;
use super::fact::{FactId, Scope, Source, Speaker, Statement};
use super::facts::Facts;
use lookback_store::spans::{holds, overlap};
use lookback_store::{Append, Damage, Derived, LogName, Record, Store, StoreError, Tombstone, checksum};

/// How many entries are read at a time.
const PAGE: u64 = 1_024;

/// The replacement for a text.
const ERASED: &str = "[erased]";

/// Erases the facts that are from these messages of a session, given as ascending spans: the session's own facts, and
/// those shared in any workspace. Returns the bytes of their entries.
pub async fn erase_facts_from(
    store: &dyn Store,
    session: &LogName,
    gone: &[Range<Position>],
) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for meant in fact_logs(store, session, gone).await? {
        bytes += meant.erase(store).await?;
    }
    Ok(bytes)
}

/// Returns the bytes that [`erase_facts_from`] would erase.
pub async fn bytes_of_facts_from(
    store: &dyn Store,
    session: &LogName,
    gone: &[Range<Position>],
) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for meant in fact_logs(store, session, gone).await? {
        bytes += meant.find(store).await?.bytes;
    }
    Ok(bytes)
}

/// Returns the logs that may have facts from these messages: the session's own, and those of all workspaces.
async fn fact_logs<'a>(
    store: &dyn Store,
    session: &'a LogName,
    gone: &'a [Range<Position>],
) -> Result<Vec<Meant<'a>>, StoreError> {
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let meant = |scope, log| Meant { session, gone, scope, log };
    let mut logs = vec![meant(Scope::Session, session.facts_of())];
    for log in store.list(Derived::Shared.prefix()).await? {
        if matches!(log.name.derived(), Some((Derived::Shared, _))) {
            logs.push(meant(Scope::Shared, log.name));
        }
    }
    Ok(logs)
}

/// The messages to erase, and the log in which their facts are searched.
struct Meant<'a> {
    session: &'a LogName,
    gone: &'a [Range<Position>],
    scope: Scope,
    log: LogName,
}

/// The facts from these messages.
struct Found {
    /// The length of the log.
    end: Position,
    /// The facts that are still current.
    standing: Vec<FactId>,
    tombstones: Vec<Tombstone>,
    /// The bytes of the entries that the tombstones are for.
    bytes: u64,
}

impl Meant<'_> {
    async fn find(&self, store: &dyn Store) -> Result<Found, StoreError> {
        let end = store.head(&self.log, None).await?.map_or(0, |head| head.end);
        let mut entries: Vec<(FactEntry, String)> = Vec::new();
        while (entries.len() as u64) < end {
            let at = entries.len() as u64;
            let page = at..end.min(at + PAGE);
            let bodies = store.read(&self.log, page.clone()).await?;
            if bodies.is_empty() {
                break;
            }
            for (position, body) in page.zip(bodies) {
                let entry = serde_json::from_str(&body)
                    .map_err(|error| StoreError::damaged(&self.log, position, Damage::from_json_error(&error)))?;
                entries.push((entry, body));
            }
        }
        let mut facts = Facts::new(self.scope);
        entries.iter().for_each(|(entry, _)| facts.apply(entry));
        let mut found = Found { end: facts.end(), standing: Vec::new(), tombstones: Vec::new(), bytes: 0 };
        let unnamed = self.unnamed(&entries);
        for (position, (entry, body)) in (0..).zip(&entries) {
            if !unnamed.contains(&position) && !entry.source().is_some_and(|source| self.is_from(source)) {
                continue;
            }
            let id = FactId { scope: self.scope, position };
            if matches!(entry, FactEntry::Stated(_)) && facts.get(id).is_some() {
                found.standing.push(id);
            }
            let Some(left) = without_texts(entry) else { continue };
            let left =
                serde_json::to_string(&left).map_err(|error| StoreError::unwritable(&self.log, position, error))?;
            found.bytes += body.len() as u64;
            found.tombstones.push(Tombstone::new(position, checksum(&self.log, position, body), left));
        }
        Ok(found)
    }

    /// Returns whether a source names one of the messages.
    fn is_from(&self, source: &Source) -> bool {
        let is_own = self.scope == Scope::Session;
        let is_of_session = source.session.as_deref().map_or(is_own, |session| session == self.session.as_str());
        is_of_session && source.message.is_some_and(|message| holds(self.gone, message))
    }

    /// Returns the facts that a model has extracted from several messages without naming one, if any of these messages is
    /// to be erased. Such facts were written together with the entry that lists their messages.
    fn unnamed(&self, entries: &[(FactEntry, String)]) -> Vec<Position> {
        let mut unnamed = Vec::new();
        let mut before: Vec<Position> = Vec::new();
        for (position, (entry, _)) in (0..).zip(entries) {
            match entry {
                FactEntry::Extracted { from } => {
                    if from.iter().any(|span| overlap(self.gone, span)) {
                        unnamed.append(&mut before);
                    }
                    before.clear();
                }
                FactEntry::Stated(Statement { source, .. }) | FactEntry::Confirmed { source, .. }
                    if source.by != Speaker::Person =>
                {
                    // Facts that name a message are found by it.
                    if source.message.is_none() {
                        before.push(position);
                    }
                }
                _ => before.clear(),
            }
        }
        unnamed
    }

    /// Forgets the facts, and erases their texts. Returns the bytes of the entries.
    async fn erase(&self, store: &dyn Store) -> Result<u64, StoreError> {
        for _ in 0..TRIES {
            let found = self.find(store).await?;
            let forgotten: Vec<Record> = (found.end..)
                .zip(&found.standing)
                .map(|(position, id)| {
                    let source = Source { session: Some(self.session.to_string()), ..Source::new(Speaker::Person) };
                    let entry = FactEntry::Forgotten { id: *id, why: None, source, time: None };
                    let body = serde_json::to_string(&entry)
                        .map_err(|error| StoreError::unwritable(&self.log, position, error))?;
                    Ok(Record::new(body))
                })
                .collect::<Result<_, StoreError>>()?;
            if !forgotten.is_empty() {
                match store.append(&self.log, Append::new(found.end, forgotten)).await {
                    Err(StoreError::Conflict { .. }) => continue,
                    appended => appended?,
                }
            }
            if !found.tombstones.is_empty() {
                store.erase(&self.log, found.tombstones).await?;
            }
            return Ok(found.bytes);
        }
        Err(StoreError::Overtaken { log: self.log.to_string(), tries: TRIES })
    }
}

/// Returns an entry without its texts; `None` if it has none. Folding the log gives the same facts as before.
fn without_texts(entry: &FactEntry) -> Option<FactEntry> {
    let mut left = entry.clone();
    let source = match &mut left {
        FactEntry::Stated(statement) => {
            ERASED.clone_into(&mut statement.text);
            statement.about = None;
            statement.tags.clear();
            &mut statement.source
        }
        FactEntry::Resolved { with, source, .. } => {
            ERASED.clone_into(with);
            source
        }
        FactEntry::Forgotten { why, source, .. } => {
            *why = None;
            source
        }
        FactEntry::Confirmed { source, .. } => source,
        FactEntry::Extracted { .. } => return None,
    };
    if let Speaker::Tool(name) = &mut source.by {
        UNKNOWN.clone_into(name);
    }
    (left != *entry).then_some(left)
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::Memory;
    use lookback_store::MemoryStore;

    #[test]
    fn facts_from_erased_messages_are_forgotten_and_say_nothing() {
        block_on(async {
            let store = std::sync::Arc::new(MemoryStore::new());
            let memory = Memory::open(store.clone(), "chat-1").await.unwrap();
            let said = |text: &str| Statement::finding(text).about(format!("{text} thing")).tag(format!("{text} tag"));
            memory.at(3).state(Scope::Session, said("hunter2")).await.unwrap();
            memory.at(3).state(Scope::Shared, said("hunter2")).await.unwrap();
            memory.at(4).state(Scope::Session, said("kept")).await.unwrap();
            let session: LogName = "chat-1".parse().unwrap();
            let gone = [1..2, 3..4];

            let counted = bytes_of_facts_from(&*store, &session, &gone).await.unwrap();
            assert!(counted > 0);
            assert_eq!(erase_facts_from(&*store, &session, &gone).await.unwrap(), counted);
            assert_eq!(erase_facts_from(&*store, &session, &gone).await.unwrap(), 0);
            for memory in [&memory, &Memory::open(store.clone(), "chat-1").await.unwrap()] {
                let facts = memory.facts().await.unwrap();
                assert_eq!(facts.into_iter().map(|fact| fact.statement.text).collect::<Vec<_>>(), ["kept"]);
            }
            for log in store.list("").await.unwrap() {
                let bodies = store.read(&log.name, 0..log.records).await.unwrap();
                assert!(bodies.iter().all(|body| !body.contains("hunter2")), "{}", log.name);
            }
        });
    }
}
