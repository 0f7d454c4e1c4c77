//! The facts that stand: a fold over the log of what was stated, confirmed, resolved and forgotten.
//!
//! A fact is never merged with another. Who states one may say which it supersedes; else it takes the place of the fact of its kind that is
//! about the same thing (see the module on sameness), unless that may be relied on further. The same again confirms.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use lookback_core::transcript::{Millis, Position};
use serde::{Deserialize, Serialize};

use super::fact::{Confidence, Fact, FactId, FactKind, Scope, Source, Statement, Trust};
use super::sameness::Sameness;

/// One thing that happened to the facts of a scope.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactEntry {
    /// A fact was stated. It is named by the position of this entry.
    Stated(Statement),
    /// It was said again.
    Confirmed {
        /// The fact.
        id: FactId,
        /// How sure whoever said it is.
        confidence: Confidence,
        /// Who said it.
        source: Source,
        /// How far that is to be relied on, where that is less than the source is worth.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trust: Option<Trust>,
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// A blocker stands in the way no longer.
    Resolved {
        /// The blocker.
        id: FactId,
        /// What resolved it.
        with: String,
        /// Who said so.
        source: Source,
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// A fact is to be shown no more.
    Forgotten {
        /// The fact.
        id: FactId,
        /// Why, where that was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Who said so.
        source: Source,
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// Facts were drawn from messages of a session, so they need not be drawn from them again.
    Drawn {
        /// The messages, by their positions in the session's log.
        from: Vec<std::ops::Range<Position>>,
    },
}

/// Why something is not written down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is nothing to remember.
    #[error("{field} is empty; it needs at least one visible character")]
    Empty {
        /// Which part of the statement.
        field: &'static str,
    },
    /// It is too long to be remembered as one fact.
    #[error("{field} has {length} characters; the most is {most}. Shorten it, or state several facts")]
    Long {
        /// Which part of the statement.
        field: &'static str,
        /// Its characters.
        length: usize,
        /// The most.
        most: usize,
    },
    /// Too many at once.
    #[error("there are {count} {field}; the most is {most}")]
    Many {
        /// Which part of the statement.
        field: &'static str,
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
    /// No such fact stands.
    #[error("there is no current fact {id}; it was superseded, resolved or forgotten, or never stated")]
    Gone {
        /// What was asked for.
        id: FactId,
    },
    /// It is one session's alone, and what is shared cannot take its place.
    #[error(
        "{id} belongs to the session, and a shared fact cannot replace it; forget it, or replace it in the session"
    )]
    Private {
        /// The fact.
        id: FactId,
    },
    /// It is no blocker, so there is nothing to resolve.
    #[error("{id} is a {kind}; only a blocker can be resolved")]
    NoBlocker {
        /// The fact.
        id: FactId,
        /// What it is.
        kind: FactKind,
    },
    /// Whoever says so is relied on less than the fact.
    #[error("{id} has {trust} trust, and a source of {worth} trust cannot remove it; ask whoever stated it")]
    Trusted {
        /// The fact.
        id: FactId,
        /// How far it may be relied on.
        trust: Trust,
        /// What the source is worth.
        worth: Trust,
    },
}

/// What comes of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgment {
    /// It is new.
    New {
        /// The facts whose place it takes.
        supersedes: Vec<FactId>,
        /// What it contradicts and may not replace, since that may be relied on further: both stand.
        disputes: Option<FactId>,
    },
    /// It stands already, and is confirmed.
    Again {
        /// The fact.
        id: FactId,
    },
}

/// The facts of one scope that stand.
#[derive(Clone)]
pub struct Facts {
    scope: Scope,
    end: Position,
    standing: BTreeMap<Position, Fact>,
    by_kind: [BTreeSet<Position>; FactKind::ALL.len()],
    /// Those that say the same, and those that are about the same thing: several where one disputes another.
    same: HashMap<Sameness, BTreeSet<Position>>,
    /// Shared facts whose place those of a session take, for that session.
    over: HashMap<FactId, FactId>,
    drawn: Vec<std::ops::Range<Position>>,
}

impl fmt::Debug for Facts {
    /// Says how many there are, and nothing of what they say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("scope", &self.scope)
            .field("end", &self.end)
            .field("standing", &self.standing.len())
            .finish_non_exhaustive()
    }
}

impl Facts {
    /// None yet.
    pub fn new(scope: Scope) -> Self {
        Facts {
            scope,
            end: 0,
            standing: BTreeMap::new(),
            by_kind: Default::default(),
            same: HashMap::new(),
            over: HashMap::new(),
            drawn: Vec::new(),
        }
    }

    /// How many entries their log has, as far as they were applied.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Whose they are.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// How many stand.
    pub fn len(&self) -> usize {
        self.standing.len()
    }

    /// Whether none stands.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// Those that stand, in the order in which they were stated.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Fact> {
        self.standing.values()
    }

    /// Those of a kind that stand, in the order in which they were stated.
    pub fn of_kind(&self, kind: FactKind) -> impl DoubleEndedIterator<Item = &Fact> {
        self.by_kind.get(kind.index()).into_iter().flatten().filter_map(|position| self.standing.get(position))
    }

    /// How many of a kind stand.
    pub fn count(&self, kind: FactKind) -> usize {
        self.by_kind.get(kind.index()).map_or(0, BTreeSet::len)
    }

    /// One that stands.
    pub fn get(&self, id: FactId) -> Option<&Fact> {
        self.standing.get(&id.position).filter(|_| id.scope == self.scope)
    }

    /// The fact of a session that takes the place of a shared one, for that session.
    pub fn over(&self, shared: FactId) -> Option<FactId> {
        self.over.get(&shared).copied()
    }

    /// How many of a kind of these others' facts have their places taken by these, for this session.
    pub(super) fn hides(&self, others: &Facts, kind: FactKind) -> usize {
        self.over.keys().filter(|id| others.get(**id).is_some_and(|fact| fact.statement.kind == kind)).count()
    }

    /// The messages from which facts were drawn.
    pub fn drawn(&self) -> &[std::ops::Range<Position>] {
        &self.drawn
    }

    /// What would come of a statement now.
    ///
    /// # Errors
    /// Where the statement cannot be a fact, or names facts that it may not take the place of.
    ///
    /// ```
    /// use lookback::memory::{FactEntry, Facts, Judgment, FactKind, Scope, Source, Speaker, Statement};
    ///
    /// let mut facts = Facts::new(Scope::Session);
    /// let said = |text| Statement::new(FactKind::Finding, text, Source::of(Speaker::Model));
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
        let (same, thing) = Sameness::of(statement);
        let same: Vec<FactId> = self.alike(Some(same)).collect();
        let thing = self.alike(thing).filter(|id| !same.contains(id));
        let thing: Vec<FactId> = thing.collect();
        if statement.supersedes.is_empty()
            && let Some(id) = same.first()
            // It may settle a dispute, and then it stands alone.
            && !(takes(id) && thing.iter().any(takes))
        {
            return Ok(Judgment::Again { id: *id });
        }
        let mut supersedes = Vec::new();
        for id in &statement.supersedes {
            // What a session says of a shared fact holds for that session alone.
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

    /// The entry that writes a statement down as it was judged, and the fact that it is about.
    pub fn entry(&self, statement: &Statement, judgment: &Judgment) -> (FactId, FactEntry) {
        match judgment {
            Judgment::Again { id } => {
                let Statement { confidence, source, trust, time, .. } = statement.clone();
                (*id, FactEntry::Confirmed { id: *id, confidence, source, trust, time })
            }
            Judgment::New { supersedes, .. } => {
                let stated = Statement { supersedes: supersedes.clone(), ..statement.clone() };
                (self.id(self.end), FactEntry::Stated(stated))
            }
        }
    }

    /// The one that stands and says the same, whoever said it.
    pub(super) fn same(&self, statement: &Statement) -> Option<FactId> {
        self.alike(Some(Sameness::of(statement).0)).next()
    }

    /// Whether someone whose word is worth so much may take a fact away.
    ///
    /// # Errors
    /// Where it does not stand, or may be relied on further than that.
    pub fn may_take(&self, id: FactId, worth: Trust) -> Result<(), Refused> {
        let fact = self.get(id).ok_or(Refused::Gone { id })?;
        if fact.trust > worth { Err(Refused::Trusted { id, trust: fact.trust, worth }) } else { Ok(()) }
    }

    /// Adds one entry, that at [`Facts::end`]. What it says of a fact that does not stand is passed over, as of one that another has
    /// forgotten meanwhile.
    pub fn apply(&mut self, entry: &FactEntry) {
        let position = self.end;
        self.end += 1;
        match entry {
            FactEntry::Stated(statement) => self.state(position, statement),
            FactEntry::Confirmed { id, confidence, source, trust, time } => {
                if let Some(fact) = self.standing.get_mut(&id.position).filter(|_| id.scope == self.scope) {
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
            FactEntry::Drawn { from } => self.drawn.extend(from.iter().cloned()),
        }
    }

    fn state(&mut self, position: Position, statement: &Statement) {
        let id = self.id(position);
        for old in &statement.supersedes {
            if self.scope == Scope::Session && old.scope == Scope::Shared {
                self.over.insert(*old, id);
            } else if self.take(*old) {
                // What it stood over for this session must not come back.
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

    /// Takes a fact away; `false` where it does not stand.
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

    /// Says of all that are about the same thing as a statement whether they dispute one another: each the newest other one.
    fn settle(&mut self, statement: &Statement) {
        let about: Vec<FactId> = self.alike(Sameness::of(statement).1).collect();
        for id in &about {
            if let Some(fact) = self.standing.get_mut(&id.position) {
                fact.disputes = about.iter().find(|other| *other != id).copied();
            }
        }
    }

    /// Those that have this in common, the newest first.
    fn alike(&self, key: Option<Sameness>) -> impl Iterator<Item = FactId> {
        key.and_then(|key| self.same.get(&key)).into_iter().flatten().rev().map(|position| self.id(*position))
    }

    fn id(&self, position: Position) -> FactId {
        FactId { scope: self.scope, position }
    }
}

/// What others may have in common with a statement.
fn keys(statement: &Statement) -> impl Iterator<Item = Sameness> {
    let (same, thing) = Sameness::of(statement);
    [same].into_iter().chain(thing)
}

/// Whether a statement can be a fact at all.
pub(super) fn check(statement: &Statement) -> Result<(), Refused> {
    let text = |field, text: &str, most| {
        let length = text.chars().count();
        match length {
            _ if text.trim().is_empty() => Err(Refused::Empty { field }),
            length if length > most => Err(Refused::Long { field, length, most }),
            _ => Ok(()),
        }
    };
    let many = |field, count| {
        let most = Statement::MOST;
        if count > most { Err(Refused::Many { field, count, most }) } else { Ok(()) }
    };
    text("the text", &statement.text, Statement::LONGEST)?;
    statement.about.as_deref().map_or(Ok(()), |about| text("`about`", about, Statement::LONGEST_NAME))?;
    statement.tags.iter().try_for_each(|tag| text("a tag", tag, Statement::LONGEST_NAME))?;
    many("tags", statement.tags.len())?;
    many("superseded facts", statement.supersedes.len())
}
