//! The history of a fact: all its versions, and what happened to each.

use std::collections::HashSet;

use lookback_core::transcript::Position;
use serde::Serialize;

use super::fact::{FactId, Scope};
use super::facts::FactEntry;
use super::{Memory, MemoryError};

/// One thing that happened to a fact, as its history tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// Whose log it is.
    pub scope: Scope,
    /// The entry in the log of its scope.
    pub position: Position,
    /// What happened.
    pub entry: FactEntry,
}

impl Memory {
    /// All that happened to a fact and to those whose place it took or that took its: what all sessions share first, then what is this
    /// session's, each in order. It reads both logs whole.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn history(&self, id: FactId) -> Result<Vec<Event>, MemoryError> {
        let mut events = Vec::new();
        for scope in [Scope::Shared, Scope::Session] {
            let entries = self.entries(scope).await?;
            events.extend((0..).zip(entries).map(|(position, entry)| Event { scope, position, entry }));
        }
        let stated = || {
            events.iter().filter_map(|event| match &event.entry {
                FactEntry::Stated(statement) => {
                    Some((FactId { scope: event.scope, position: event.position }, &statement.supersedes))
                }
                _ => None,
            })
        };
        // Those whose place it took, and theirs; then those that took the place of any of these.
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

/// Adds to a family, as long as there is anyone to add.
fn grow(family: &mut HashSet<FactId>, more: impl Fn(&HashSet<FactId>) -> Vec<FactId>) {
    loop {
        let before = family.len();
        family.extend(more(family));
        if family.len() == before {
            return;
        }
    }
}
