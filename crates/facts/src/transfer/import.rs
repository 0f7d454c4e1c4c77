//! Imports facts into a log that has some: skips known facts, confirms current ones, and states the rest, all in one
//! append.

use std::collections::{BTreeSet, HashMap, HashSet};

use lookback_engine::transcript::Millis;

use super::transferred::{Saying, Transferred};
use super::{Effect, Export};
use crate::entry::FactEntry;
use crate::fact::{FactId, Scope, Source, Speaker, Statement};
use crate::facts::{Facts, Judgment};
use crate::refused::Refused;
use crate::sameness::Sameness;
use crate::{Memory, MemoryError, TRIES};

/// The outcome of one fact.
#[derive(Debug)]
pub(crate) enum Outcome {
    New { superseded: usize, disputed: bool },
    Confirmed,
    Known,
    Outdated,
    Refused(Refused),
}

/// All sayings in a log: which statement, by whom, and when.
struct Said(HashSet<(Sameness, Speaker, Option<Millis>)>);

impl Said {
    fn from_entries(scope: Scope, entries: &[FactEntry]) -> Self {
        let mut said = Said(HashSet::new());
        let mut stated = HashMap::new();
        for (position, entry) in (0..).zip(entries) {
            match entry {
                FactEntry::Stated(statement) => {
                    let what = Sameness::keys(statement).0;
                    stated.insert(FactId { scope, position }, what.clone());
                    said.add(what, &statement.source, statement.time);
                }
                FactEntry::Confirmed { id, source, time, .. } => {
                    if let Some(what) = stated.get(id) {
                        said.add(what.clone(), source, *time);
                    }
                }
                FactEntry::Resolved { .. } | FactEntry::Forgotten { .. } | FactEntry::Extracted { .. } => {}
            }
        }
        said
    }

    // A statement without a time is known if the speaker has said the same at any time.
    fn add(&mut self, what: Sameness, source: &Source, time: Option<Millis>) {
        self.0.insert((what.clone(), source.by.clone(), None));
        self.0.insert((what, source.by.clone(), time));
    }

    fn has(&self, what: &Sameness, source: &Source, time: Option<Millis>) -> bool {
        self.0.contains(&(what.clone(), source.by.clone(), time))
    }
}

impl Memory {
    /// Fills an empty log with a whole export. Returns `false` if the log is not empty.
    pub(super) async fn restore(&self, scope: Scope, export: &Export, effect: Effect) -> Result<bool, MemoryError> {
        let mut known = self.caught_up().await?;
        let facts = known.facts(scope);
        if facts.end() > 0 || effect == Effect::DryRun {
            return Ok(facts.end() == 0);
        }
        let entries = export.entries();
        Ok(self.append(facts, &entries).await?)
    }

    /// States facts from elsewhere, all in one append, and returns the outcome of each.
    pub(crate) async fn take_over(
        &self,
        scope: Scope,
        incoming: &[&Transferred],
        effect: Effect,
    ) -> Result<Vec<Outcome>, MemoryError> {
        for _ in 0..TRIES {
            let before = self.entries(scope).await?;
            let mut known = self.caught_up().await?;
            let facts = known.facts(scope);
            if facts.end() != before.len() as u64 {
                continue;
            }
            let mut taking =
                Taking { facts: facts.clone(), said: Said::from_entries(scope, &before), entries: Vec::new() };
            let outcomes = incoming.iter().map(|fact| taking.take(fact)).collect();
            if effect == Effect::DryRun || taking.entries.is_empty() || self.append(facts, &taking.entries).await? {
                return Ok(outcomes);
            }
        }
        Err(self.overtaken(scope).into())
    }
}

/// Facts that are being imported, before they are written.
struct Taking {
    facts: Facts,
    said: Said,
    entries: Vec<FactEntry>,
}

impl Taking {
    fn take(&mut self, fact: &Transferred) -> Outcome {
        let what = Sameness::keys(&fact.statement).0;
        let mut outcome = Outcome::Known;
        for (index, saying) in [&Saying::from_statement(&fact.statement)].into_iter().chain(&fact.again).enumerate() {
            let Saying { confidence, source, trust, time } = saying.clone();
            if self.said.has(&what, &source, time) {
                continue;
            }
            let stands = self.facts.same(&fact.statement).is_some();
            if index > 0 && !stands {
                // It was stated here before, and is no longer current: the events since then are newer than the import.
                break;
            }
            // These facts are not part of the judged statement, because there may be more than a speaker may name.
            let replaces: BTreeSet<FactId> = if stands {
                BTreeSet::new()
            } else {
                fact.replaces.iter().filter_map(|old| self.facts.same(old)).collect()
            };
            let statement = Statement { confidence, source, trust, time, ..fact.statement.clone() };
            self.said.add(what.clone(), &statement.source, time);
            let allowed = replaces.iter().try_for_each(|id| self.facts.may_take(*id, statement.trust()));
            let entry = match allowed.and_then(|()| self.facts.judge(&statement)) {
                Ok(Judgment::Again { id }) => {
                    if matches!(outcome, Outcome::Known) {
                        outcome = Outcome::Confirmed;
                    }
                    let Statement { confidence, source, trust, time, .. } = statement;
                    FactEntry::Confirmed { id, confidence, source, trust, time }
                }
                Ok(Judgment::New { supersedes: mut implied, disputes }) => {
                    implied.retain(|id| !replaces.contains(id));
                    if self.is_outdated(&statement, &implied) {
                        return Outcome::Outdated;
                    }
                    let supersedes: Vec<FactId> = replaces.into_iter().chain(implied).collect();
                    outcome = Outcome::New { superseded: supersedes.len(), disputed: disputes.is_some() };
                    FactEntry::Stated(Statement { supersedes, ..statement })
                }
                Err(refused) => return Outcome::Refused(refused),
            };
            self.facts.apply(&entry);
            self.entries.push(entry);
        }
        outcome
    }

    /// Returns whether a statement would replace a fact that was said later, and that it has not replaced before.
    fn is_outdated(&self, statement: &Statement, implied: &[FactId]) -> bool {
        let said = implied.iter().filter_map(|id| self.facts.get(*id)).filter_map(|fact| fact.said).max();
        said.zip(statement.time).is_some_and(|(said, time)| said > time)
    }
}
