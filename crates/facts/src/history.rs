//! The history of a fact: all its versions and events.

use std::collections::HashSet;

use lookback_engine::transcript::Position;
use serde::Serialize;

use super::entry::FactEntry;
use super::fact::{FactId, Scope};
use super::{Memory, MemoryError};

/// One event in the history of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FactEvent {
    /// The scope of the log that has the entry.
    pub scope: Scope,
    /// The position of the entry in that log.
    pub position: Position,
    /// The entry.
    pub entry: FactEntry,
}

impl Memory {
    /// Returns all events of a fact, of the facts that it replaced, and of the facts that replaced it: first those in
    /// the shared log, then those in the session's, each in order. It reads both logs from the beginning.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn history(&self, id: FactId) -> Result<Vec<FactEvent>, MemoryError> {
        Ok(history(&self.events().await?, id))
    }

    /// Returns all events: first those in the shared log, then those in the session's, each in order. It reads both
    /// logs from the beginning.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn events(&self) -> Result<Vec<FactEvent>, MemoryError> {
        let mut events = Vec::new();
        for scope in [Scope::Shared, Scope::Session] {
            let entries = self.entries(scope).await?;
            events.extend((0..).zip(entries).map(|(position, entry)| FactEvent { scope, position, entry }));
        }
        Ok(events)
    }
}

/// Selects the [events](Memory::events) of a fact, of the facts that it replaced, and of the facts that replaced it.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_facts::{Memory, Statement, history};
///
/// let memory = Memory::open(MemoryStore::new(), "chat-1").await?;
/// memory.learn("It listens on port 5050.").await?;
/// memory.decide("Ship on Friday.").await?;
/// let port = memory.learn("It listens on port 6060.").await?;
/// assert_eq!(history(&memory.events().await?, port.id).len(), 2);
/// # Ok::<(), lookback_facts::MemoryError>(())
/// # }).unwrap();
/// ```
pub fn history(events: &[FactEvent], id: FactId) -> Vec<FactEvent> {
    let stated = || events.iter().filter_map(|event| Some((event.stated()?, event.supersedes())));
    // First the facts that it replaced, and those that they replaced. Then the facts that replaced any of these.
    let mut family = HashSet::from([id]);
    grow(&mut family, |family| {
        stated().filter(|(own, _)| family.contains(own)).flat_map(|(_, old)| old).copied().collect()
    });
    let takes = |family: &HashSet<FactId>, old: &[FactId]| old.iter().any(|old| family.contains(old));
    grow(&mut family, |family| stated().filter(|(_, old)| takes(family, old)).map(|(own, _)| own).collect());
    let is_of_family = |event: &&FactEvent| event.fact().is_some_and(|id| family.contains(&id));
    events.iter().filter(is_of_family).cloned().collect()
}

impl FactEvent {
    /// Returns the fact of this event; `None` if there is none.
    pub fn fact(&self) -> Option<FactId> {
        match &self.entry {
            FactEntry::Stated(_) => Some(FactId { scope: self.scope, position: self.position }),
            FactEntry::Confirmed { id, .. } | FactEntry::Resolved { id, .. } | FactEntry::Forgotten { id, .. } => {
                Some(*id)
            }
            FactEntry::Extracted { .. } => None,
        }
    }

    /// Returns the fact that the event states.
    fn stated(&self) -> Option<FactId> {
        if matches!(self.entry, FactEntry::Stated(_)) { self.fact() } else { None }
    }

    /// Returns the facts that the event replaces.
    fn supersedes(&self) -> &[FactId] {
        if let FactEntry::Stated(statement) = &self.entry { &statement.supersedes } else { &[] }
    }
}

/// Adds facts to a family until there are none left to add.
fn grow(family: &mut HashSet<FactId>, more: impl Fn(&HashSet<FactId>) -> Vec<FactId>) {
    loop {
        let before = family.len();
        family.extend(more(family));
        if family.len() == before {
            return;
        }
    }
}
