//! The history of a fact: all its versions, and what happened to each.

use std::collections::HashSet;

use lookback_core::transcript::Position;
use serde::Serialize;

use super::entry::FactEntry;
use super::fact::{FactId, Scope};
use super::{Memory, MemoryError};

/// One event in the history of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FactEvent {
    /// Whose log the entry is in.
    pub scope: Scope,
    /// The position of the entry in that log.
    pub position: Position,
    /// What happened.
    pub entry: FactEntry,
}

impl Memory {
    /// Returns all events of a fact, of the facts that it replaced, and of the facts that replaced it: first those in
    /// the shared log, then those in the session's, each in order. It reads both logs from the beginning.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn history(&self, id: FactId) -> Result<Vec<FactEvent>, MemoryError> {
        let mut events = Vec::new();
        for scope in [Scope::Shared, Scope::Session] {
            let entries = self.entries(scope).await?;
            events.extend((0..).zip(entries).map(|(position, entry)| FactEvent { scope, position, entry }));
        }
        let stated = || {
            events.iter().filter_map(|event| match &event.entry {
                FactEntry::Stated(statement) => {
                    Some((FactId { scope: event.scope, position: event.position }, &statement.supersedes))
                }
                _ => None,
            })
        };
        // First the facts that it replaced, and those that they replaced. Then the facts that replaced any of these.
        let mut family = HashSet::from([id]);
        grow(&mut family, |family| {
            stated().filter(|(own, _)| family.contains(own)).flat_map(|(_, old)| old).copied().collect()
        });
        let takes = |family: &HashSet<FactId>, old: &[FactId]| old.iter().any(|old| family.contains(old));
        grow(&mut family, |family| stated().filter(|(_, old)| takes(family, old)).map(|(own, _)| own).collect());
        events.retain(|event| match &event.entry {
            FactEntry::Stated(_) => family.contains(&FactId { scope: event.scope, position: event.position }),
            FactEntry::Confirmed { id, .. } | FactEntry::Resolved { id, .. } | FactEntry::Forgotten { id, .. } => {
                family.contains(id)
            }
            FactEntry::Drawn { .. } => false,
        });
        Ok(events)
    }
}

/// Adds to a family until nothing is left to add.
fn grow(family: &mut HashSet<FactId>, more: impl Fn(&HashSet<FactId>) -> Vec<FactId>) {
    loop {
        let before = family.len();
        family.extend(more(family));
        if family.len() == before {
            return;
        }
    }
}
