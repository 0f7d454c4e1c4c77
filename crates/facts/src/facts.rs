//! The current facts: a fold over the log of statements, confirmations, resolutions and removals.
//!
//! Facts are never merged. A new fact replaces the facts that it names. It also replaces the fact of its kind that is
//! about the same thing (see the module `sameness`), unless that fact has more trust. A fact that says the same as
//! another confirms it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use lookback_engine::transcript::Position;
use serde::Serialize;

use super::entry::FactEntry;
use super::fact::{Fact, FactId, FactKind, Scope, Statement, Trust};
use super::refused::{Refused, check};
use super::sameness::Sameness;

/// The effect of a statement on the existing facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Judgment {
    /// It is a new fact.
    New {
        /// The facts that it replaces.
        supersedes: Vec<FactId>,
        /// A current fact that it contradicts and may not replace, because that one has more trust. Both are kept.
        disputes: Option<FactId>,
    },
    /// It says the same as a current fact, which is confirmed.
    Again {
        /// The fact.
        id: FactId,
    },
}

/// An entry that is to be written, and the fact that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEntry {
    /// The fact: the one that the entry states, or the one that it confirms.
    pub(crate) id: FactId,
    /// The entry.
    pub(crate) entry: FactEntry,
}

/// The current facts of one scope.
#[derive(Clone)]
pub struct Facts {
    scope: Scope,
    end: Position,
    standing: BTreeMap<Position, Fact>,
    by_kind: [BTreeSet<Position>; FactKind::ALL.len()],
    // Facts that say the same, or are about the same thing. There are several in a set if they dispute one another.
    same: HashMap<Sameness, BTreeSet<Position>>,
    // Shared facts that the session has replaced for itself, with the facts that replace them.
    over: HashMap<FactId, FactId>,
    extracted: Vec<std::ops::Range<Position>>,
}

impl fmt::Debug for Facts {
    /// Prints the number of facts, but not their texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("scope", &self.scope)
            .field("end", &self.end)
            .field("standing", &self.standing.len())
            .finish_non_exhaustive()
    }
}

impl Facts {
    /// Creates an empty set of facts.
    pub fn new(scope: Scope) -> Self {
        Facts {
            scope,
            end: 0,
            standing: BTreeMap::new(),
            by_kind: Default::default(),
            same: HashMap::new(),
            over: HashMap::new(),
            extracted: Vec::new(),
        }
    }

    /// Returns how many entries of the log were applied.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Returns the scope of the facts.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns how many facts are current.
    pub fn len(&self) -> usize {
        self.standing.len()
    }

    /// Returns whether no fact is current.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// Returns the current facts, in the order in which they were stated.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Fact> {
        self.standing.values()
    }

    /// Returns the current facts of a kind, in the order in which they were stated.
    pub fn of_kind(&self, kind: FactKind) -> impl DoubleEndedIterator<Item = &Fact> {
        self.by_kind.get(kind.index()).into_iter().flatten().filter_map(|position| self.standing.get(position))
    }

    /// Returns how many facts of a kind are current.
    pub fn count(&self, kind: FactKind) -> usize {
        self.by_kind.get(kind.index()).map_or(0, BTreeSet::len)
    }

    /// Returns a fact, or `None` if it is not current.
    pub fn get(&self, id: FactId) -> Option<&Fact> {
        if id.scope == self.scope { self.standing.get(&id.position) } else { None }
    }

    /// Returns the fact by which this session has replaced a shared one for itself.
    pub fn over(&self, shared: FactId) -> Option<FactId> {
        self.over.get(&shared).copied()
    }

    /// Returns how many facts of a kind among `others` these facts replace for this session.
    pub(super) fn hides(&self, others: &Facts, kind: FactKind) -> usize {
        self.over.keys().filter(|id| others.get(**id).is_some_and(|fact| fact.statement.kind == kind)).count()
    }

    /// Returns the messages that facts were already extracted from.
    pub(crate) fn extracted(&self) -> &[std::ops::Range<Position>] {
        &self.extracted
    }

    /// Judges whether a statement is new, and which facts it replaces.
    ///
    /// # Errors
    /// Returns an error if the statement cannot be a fact, or if it names facts that it may not replace.
    ///
    /// ```
    /// use lookback_facts::{FactEntry, FactKind, Facts, Judgment, Scope, Source, Speaker, Statement};
    ///
    /// let mut facts = Facts::new(Scope::Session);
    /// let said = |text| Statement::new(FactKind::Finding, text, Source::new(Speaker::Model));
    /// facts.apply(&FactEntry::Stated(said("The service listens on port 5050.")));
    /// let again = facts.judge(&said("the service listens on port 5050"))?;
    /// assert_eq!(again, Judgment::Again { id: "f0".parse()? });
    /// let other = facts.judge(&said("The service listens on port 6060."))?;
    /// assert_eq!(other, Judgment::New { supersedes: vec!["f0".parse()?], disputes: None });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn judge(&self, statement: &Statement) -> Result<Judgment, Refused> {
        check(statement)?;
        let takes = |id: &FactId| self.may_take(*id, statement.trust()).is_ok();
        let (same, thing) = Sameness::keys(statement);
        let same: Vec<FactId> = self.alike(Some(same)).collect();
        let thing = self.alike(thing).filter(|id| !same.contains(id));
        let thing: Vec<FactId> = thing.collect();
        if statement.supersedes.is_empty()
            && let Some(id) = same.first()
            // A repeated statement may still settle a dispute. It is then new, and the only fact left about its
            // subject.
            && !(takes(id) && thing.iter().any(takes))
        {
            return Ok(Judgment::Again { id: *id });
        }
        let mut supersedes = Vec::new();
        for id in &statement.supersedes {
            // A session replaces a shared fact only for itself.
            if id.scope == self.scope {
                self.may_take(*id, statement.trust())?;
            } else if self.scope == Scope::Shared {
                return Err(Refused::Private { id: *id });
            }
            if !supersedes.contains(id) {
                supersedes.push(*id);
            }
        }
        for id in same.iter().chain(&thing).filter(|id| takes(id)) {
            if !supersedes.contains(id) {
                supersedes.push(*id);
            }
        }
        let disputes = thing.into_iter().find(|id| !supersedes.contains(id));
        Ok(Judgment::New { supersedes, disputes })
    }

    /// Returns the entry to write for a statement that was judged.
    pub(crate) fn entry(&self, statement: &Statement, judgment: &Judgment) -> NewEntry {
        match judgment {
            Judgment::Again { id } => {
                let Statement { confidence, source, trust, time, .. } = statement.clone();
                NewEntry { id: *id, entry: FactEntry::Confirmed { id: *id, confidence, source, trust, time } }
            }
            Judgment::New { supersedes, .. } => {
                let stated = Statement { supersedes: supersedes.clone(), ..statement.clone() };
                NewEntry { id: self.id(self.end), entry: FactEntry::Stated(stated) }
            }
        }
    }

    /// Returns the current fact that says the same, by any source.
    pub(super) fn same(&self, statement: &Statement) -> Option<FactId> {
        self.alike(Some(Sameness::keys(statement).0)).next()
    }

    /// Checks that a source with this much trust may remove or replace a fact.
    ///
    /// # Errors
    /// Returns an error if the fact is not current, or has more trust.
    pub(crate) fn may_take(&self, id: FactId, worth: Trust) -> Result<(), Refused> {
        let fact = self.get(id).ok_or(Refused::Gone { id })?;
        if fact.trust > worth { Err(Refused::Trusted { id, trust: fact.trust, worth }) } else { Ok(()) }
    }

    /// Applies the entry at [`Facts::end`]. An entry about a fact that is not current has no effect: another writer may
    /// have removed the fact in the meantime.
    pub fn apply(&mut self, entry: &FactEntry) {
        let position = self.end;
        self.end += 1;
        match entry {
            FactEntry::Stated(statement) => self.state(position, statement),
            FactEntry::Confirmed { id, confidence, source, trust, time } => {
                if id.scope == self.scope
                    && let Some(fact) = self.standing.get_mut(&id.position)
                {
                    fact.confirmations = fact.confirmations.saturating_add(1);
                    fact.confidence = fact.confidence.max(*confidence);
                    let worth = source.by.trust();
                    fact.trust = fact.trust.max(trust.map_or(worth, |trust| trust.min(worth)));
                    fact.said = fact.said.max(*time);
                }
            }
            FactEntry::Resolved { id, .. } | FactEntry::Forgotten { id, .. } => {
                if self.take(*id) {
                    self.over.retain(|_, by| by != id);
                }
            }
            FactEntry::Extracted { from } => self.extracted.extend(from.iter().cloned()),
        }
    }

    fn state(&mut self, position: Position, statement: &Statement) {
        let id = self.id(position);
        for old in &statement.supersedes {
            if self.scope == Scope::Session && old.scope == Scope::Shared {
                self.over.insert(*old, id);
            } else if self.take(*old) {
                // The shared fact that it replaced must stay replaced.
                self.over.values_mut().filter(|by| *by == old).for_each(|by| *by = id);
            }
        }
        for key in keys(statement) {
            self.same.entry(key).or_default().insert(position);
        }
        if let Some(of_kind) = self.by_kind.get_mut(statement.kind.index()) {
            of_kind.insert(position);
        }
        let (confidence, trust, said) = (statement.confidence, statement.trust(), statement.time);
        let fact = Fact { id, statement: statement.clone(), confidence, trust, confirmations: 0, disputes: None, said };
        self.standing.insert(position, fact);
        self.settle(statement);
    }

    /// Removes a fact. Returns `false` if it is not current.
    fn take(&mut self, id: FactId) -> bool {
        if id.scope != self.scope {
            return false;
        }
        let Some(fact) = self.standing.remove(&id.position) else { return false };
        if let Some(of_kind) = self.by_kind.get_mut(fact.statement.kind.index()) {
            of_kind.remove(&id.position);
        }
        for key in keys(&fact.statement) {
            if let Some(alike) = self.same.get_mut(&key) {
                alike.remove(&id.position);
                if alike.is_empty() {
                    self.same.remove(&key);
                }
            }
        }
        self.settle(&fact.statement);
        true
    }

    /// Updates the disputes between the facts that are about the same thing as a statement: each names the newest of
    /// the others.
    fn settle(&mut self, statement: &Statement) {
        let about: Vec<FactId> = self.alike(Sameness::keys(statement).1).collect();
        for id in &about {
            if let Some(fact) = self.standing.get_mut(&id.position) {
                fact.disputes = about.iter().find(|other| *other != id).copied();
            }
        }
    }

    /// Returns the facts with this key, newest first.
    fn alike(&self, key: Option<Sameness>) -> impl Iterator<Item = FactId> {
        key.and_then(|key| self.same.get(&key)).into_iter().flatten().rev().map(|position| self.id(*position))
    }

    fn id(&self, position: Position) -> FactId {
        FactId { scope: self.scope, position }
    }
}

/// Returns the keys that a statement may share with other facts.
fn keys(statement: &Statement) -> impl Iterator<Item = Sameness> {
    let (same, thing) = Sameness::keys(statement);
    [same].into_iter().chain(thing)
}
