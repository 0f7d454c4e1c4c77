//! Facts on their way between stores: an export has every entry of a log on a line, and an import takes over what is new in one.

use std::collections::{HashMap, HashSet};

use lookback_core::transcript::{Millis, Position};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::error::Category;

use super::fact::{Confidence, FactId, Scope, Source, Speaker, Statement, Trust};
use super::facts::{FactEntry, Facts, Judgement, Refused, check};
use super::sameness::Sameness;
use super::{Memory, MemoryError, TRIES};

/// An export of the facts of a scope, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    scope: Option<Scope>,
    lines: Vec<(usize, Line)>,
}

/// A line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    scope: Scope,
    position: Position,
    entry: FactEntry,
}

/// What is wrong with an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// A line is not JSON.
    #[error("line {line}: not valid JSON: {reason}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// A line is JSON, and no entry of an export.
    #[error("line {line}: no line of an export of facts: {reason}")]
    Entry {
        /// The line, from 1.
        line: usize,
        /// What the parser says; none of the line's texts.
        reason: String,
    },
    /// Facts of a session and shared ones.
    #[error("line {line}: facts of a session and shared ones stand in one file; import each from a file of its own")]
    Mixed {
        /// The first line of the other scope, from 1.
        line: usize,
    },
    /// A line stands in the wrong place.
    #[error(
        "line {line}: entry {position} does not come behind entry {after}; leave the lines in the order of the export"
    )]
    Order {
        /// The line, from 1.
        line: usize,
        /// Its entry.
        position: Position,
        /// The entry before it.
        after: Position,
    },
    /// An entry is about a fact that cannot have been stated before it.
    #[error("line {line}: entry {position} is about {id}, which cannot have been stated before it")]
    Ahead {
        /// The line, from 1.
        line: usize,
        /// Its entry.
        position: Position,
        /// The fact.
        id: FactId,
    },
    /// What a line states cannot be a fact.
    #[error("line {line}: {fault}")]
    Unfit {
        /// The line, from 1.
        line: usize,
        /// Why not.
        fault: Refused,
    },
}

/// How many facts an import took over, and what became of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Facts that are new.
    pub new: u64,
    /// Facts that stood already, and were confirmed by what was imported.
    pub confirmed: u64,
    /// Facts that stood before, and whose place was taken.
    pub superseded: u64,
    /// New facts that contradict one that may be relied on further: both stand.
    pub disputed: u64,
    /// Facts that were imported, or said by the same speaker at the same time, before: nothing was written for them.
    pub known: u64,
    /// Facts that are older than what is known about the same thing: nothing was written for them.
    pub outdated: u64,
}

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Whether the log was empty, and is now as it was exported: with the same identifiers and the whole history.
    pub restored: bool,
    /// How many facts were taken over.
    #[serde(flatten)]
    pub counts: Counts,
    /// The facts that were not, since they may not take the place of others.
    pub refused: Vec<RefusedLine>,
}

/// A fact that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedLine {
    /// The line that states it, from 1.
    pub line: usize,
    /// Why not.
    #[serde(serialize_with = "as_text")]
    pub reason: Refused,
}

pub(super) fn as_text<S: Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The log of a scope as JSON lines, one entry each, superseded facts and all.
///
/// # Errors
/// Where the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::MemoryStore;
/// use lookback::memory::{Export, Kind, Memory, Scope, Source, Speaker, Statement, export, import};
///
/// let old = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let port = Statement::new(Kind::Finding, "It listens on port 5050.", Source::of(Speaker::Model));
/// old.state(Scope::Session, port).await?;
/// let text = export(&old, Scope::Session).await?;
///
/// let new = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let report = import(&new, Scope::Session, &Export::read(&text)?, false).await?;
/// assert!(report.restored);
/// assert_eq!(new.facts().await?, old.facts().await?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn export(memory: &Memory, scope: Scope) -> Result<String, MemoryError> {
    let entries = memory.entries(scope).await?;
    let line = |(position, entry)| {
        let line = serde_json::to_string(&Line { scope, position, entry });
        line.map(|line| line + "\n").unwrap_or_default()
    };
    Ok((0..).zip(entries).map(line).collect())
}

/// Takes over what an export holds; with `only_told`, it is only told what that would come to.
///
/// Into an empty log a whole export goes as it is. Otherwise each fact that stands in it is stated anew, with those who confirmed it, and takes the
/// place of what it took the place of there. A fact of the session that hides a shared one hides none then. What was imported before is not
/// imported again, even where it was superseded, resolved or forgotten since. All is written at once, or nothing.
///
/// # Errors
/// Where the store fails.
pub async fn import(memory: &Memory, scope: Scope, export: &Export, only_told: bool) -> Result<Imported, MemoryError> {
    if export.is_whole(scope) && memory.restore(scope, export, only_told).await? {
        let new = export.standing().len() as u64;
        return Ok(Imported { restored: true, counts: Counts { new, ..Counts::default() }, refused: Vec::new() });
    }
    let standing = export.standing();
    let incoming: Vec<&Transferred> = standing.iter().map(|(_, transferred)| transferred).collect();
    let mut report = Imported::default();
    let outcomes = memory.take_over(scope, &incoming, only_told).await?;
    for ((line, _), outcome) in standing.iter().zip(outcomes) {
        if let Err(reason) = report.counts.add(outcome) {
            report.refused.push(RefusedLine { line: *line, reason });
        }
    }
    Ok(report)
}

impl Export {
    /// Reads JSON lines as [`export`] writes them. Nothing of it is taken where a single line is bad.
    ///
    /// # Errors
    /// Where a line cannot be read, or is no part of an export: its number, and why.
    pub fn read(text: &str) -> Result<Self, BadLine> {
        let mut export = Export { scope: None, lines: Vec::new() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            let read: Line = serde_json::from_str(text).map_err(|error| fault(line, &error))?;
            if *export.scope.get_or_insert(read.scope) != read.scope {
                return Err(BadLine::Mixed { line });
            }
            let position = read.position;
            if let Some((_, before)) = export.lines.last()
                && before.position >= position
            {
                return Err(BadLine::Order { line, position, after: before.position });
            }
            let about = match &read.entry {
                FactEntry::Stated(statement) => {
                    check(statement).map_err(|fault| BadLine::Unfit { line, fault })?;
                    statement.supersedes.as_slice()
                }
                FactEntry::Confirmed { id, .. } | FactEntry::Resolved { id, .. } | FactEntry::Forgotten { id, .. } => {
                    std::slice::from_ref(id)
                }
                FactEntry::Drawn { .. } => &[],
            };
            if let Some(id) = about.iter().find(|id| id.scope == read.scope && id.position >= position) {
                return Err(BadLine::Ahead { line, position, id: *id });
            }
            export.lines.push((line, read));
        }
        Ok(export)
    }

    /// Whose facts it holds; `None` where it is empty.
    pub fn scope(&self) -> Option<Scope> {
        self.scope
    }

    /// Whether it is a log from its beginning on, so that it can be put in the place of an empty one.
    fn is_whole(&self, scope: Scope) -> bool {
        self.scope == Some(scope) && (0..).zip(&self.lines).all(|(position, (_, line))| line.position == position)
    }

    /// What stands at its end, with the lines that state it.
    fn standing(&self) -> Vec<(usize, Transferred)> {
        let scope = self.scope.unwrap_or(Scope::Session);
        let mut facts = Facts::new(scope);
        let mut stated: HashMap<FactId, (usize, Statement)> = HashMap::new();
        let mut again: HashMap<FactId, Vec<Saying>> = HashMap::new();
        // Lines may have been left out, so a fact has another place here; and one that was left out has none.
        let mut here: HashMap<FactId, FactId> = HashMap::new();
        let nowhere = FactId { scope, position: Position::MAX };
        for (line, Line { position, entry, .. }) in &self.lines {
            let own = FactId { scope, position: facts.end() };
            here.insert(FactId { scope, position: *position }, own);
            let mut entry = entry.clone();
            match &mut entry {
                FactEntry::Stated(statement) => {
                    statement.supersedes = statement.supersedes.iter().filter_map(|id| here.get(id).copied()).collect();
                    stated.insert(own, (*line, statement.clone()));
                }
                FactEntry::Confirmed { id, confidence, source, trust, time } => {
                    *id = here.get(id).copied().unwrap_or(nowhere);
                    let saying = Saying { confidence: *confidence, source: source.clone(), trust: *trust, time: *time };
                    again.entry(*id).or_default().push(saying);
                }
                FactEntry::Resolved { id, .. } | FactEntry::Forgotten { id, .. } => {
                    *id = here.get(id).copied().unwrap_or(nowhere);
                }
                FactEntry::Drawn { .. } => {}
            }
            facts.apply(&entry);
        }
        let transferred = |id: FactId| {
            let (line, mut statement) = stated.remove(&id)?;
            let mut superseded = std::mem::take(&mut statement.supersedes);
            let mut replaces = Vec::new();
            // Each is taken out as it is found, so however they refer to each other, it ends.
            while let Some(id) = superseded.pop() {
                if let Some((_, mut old)) = stated.remove(&id) {
                    superseded.append(&mut old.supersedes);
                    replaces.push(old);
                }
            }
            Some((line, Transferred { statement, replaces, again: again.remove(&id).unwrap_or_default() }))
        };
        facts.iter().map(|fact| fact.id).filter_map(transferred).collect()
    }
}

/// That something was said: how surely, by whom, how far to be relied on, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saying {
    confidence: Confidence,
    source: Source,
    trust: Option<Trust>,
    time: Option<Millis>,
}

impl Saying {
    fn of(statement: &Statement) -> Self {
        let Statement { confidence, source, trust, time, .. } = statement;
        Saying { confidence: *confidence, source: source.clone(), trust: *trust, time: *time }
    }
}

/// A fact on its way into a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transferred {
    /// What was stated; it names no facts that it supersedes, since these have other names where it goes.
    pub statement: Statement,
    /// Those whose place it took where it comes from.
    pub replaces: Vec<Statement>,
    /// Who said it again.
    pub again: Vec<Saying>,
}

/// What came of one fact.
#[derive(Debug)]
pub(super) enum Outcome {
    New { superseded: usize, disputed: bool },
    Confirmed,
    Known,
    Outdated,
    Refused(Refused),
}

impl Counts {
    /// Counts one more; one that was refused is given back.
    pub(super) fn add(&mut self, outcome: Outcome) -> Result<(), Refused> {
        match outcome {
            Outcome::New { superseded, disputed } => {
                self.new += 1;
                self.superseded += superseded as u64;
                self.disputed += u64::from(disputed);
            }
            Outcome::Confirmed => self.confirmed += 1,
            Outcome::Known => self.known += 1,
            Outcome::Outdated => self.outdated += 1,
            Outcome::Refused(refused) => return Err(refused),
        }
        Ok(())
    }
}

/// Who said what and when, by all that was ever written into a log.
struct Said(HashSet<(Sameness, Speaker, Option<Millis>)>);

impl Said {
    fn of(scope: Scope, entries: &[FactEntry]) -> Self {
        let mut said = Said(HashSet::new());
        let mut stated = HashMap::new();
        for (position, entry) in (0..).zip(entries) {
            match entry {
                FactEntry::Stated(statement) => {
                    let what = Sameness::of(statement).0;
                    stated.insert(FactId { scope, position }, what.clone());
                    said.add(what, &statement.source, statement.time);
                }
                FactEntry::Confirmed { id, source, time, .. } => {
                    if let Some(what) = stated.get(id) {
                        said.add(what.clone(), source, *time);
                    }
                }
                FactEntry::Resolved { .. } | FactEntry::Forgotten { .. } | FactEntry::Drawn { .. } => {}
            }
        }
        said
    }

    /// What comes without a time is the same, whenever it was said.
    fn add(&mut self, what: Sameness, source: &Source, time: Option<Millis>) {
        self.0.insert((what.clone(), source.by.clone(), None));
        self.0.insert((what, source.by.clone(), time));
    }

    fn has(&self, what: &Sameness, source: &Source, time: Option<Millis>) -> bool {
        self.0.contains(&(what.clone(), source.by.clone(), time))
    }
}

impl Memory {
    /// Puts a whole export in the place of an empty log; `false` where it is not empty.
    async fn restore(&self, scope: Scope, export: &Export, only_told: bool) -> Result<bool, MemoryError> {
        let mut known = self.caught_up().await?;
        let facts = known.of(scope);
        if facts.end() > 0 || only_told {
            return Ok(facts.end() == 0);
        }
        let entries: Vec<FactEntry> = export.lines.iter().map(|(_, line)| line.entry.clone()).collect();
        Ok(self.append(facts, &entries).await?)
    }

    /// States facts as they come from elsewhere, all in one write, and says of each what came of it.
    pub(super) async fn take_over(
        &self,
        scope: Scope,
        incoming: &[&Transferred],
        only_told: bool,
    ) -> Result<Vec<Outcome>, MemoryError> {
        for _ in 0..TRIES {
            let before = self.entries(scope).await?;
            let mut known = self.caught_up().await?;
            let facts = known.of(scope);
            if facts.end() != before.len() as u64 {
                continue;
            }
            let mut taking = Taking { facts: facts.clone(), said: Said::of(scope, &before), entries: Vec::new() };
            let outcomes = incoming.iter().map(|fact| taking.take(fact)).collect();
            if only_told || taking.entries.is_empty() || self.append(facts, &taking.entries).await? {
                return Ok(outcomes);
            }
        }
        Err(self.overtaken(scope).into())
    }
}

/// Facts that are taken over, before they are written.
struct Taking {
    facts: Facts,
    said: Said,
    entries: Vec<FactEntry>,
}

impl Taking {
    fn take(&mut self, fact: &Transferred) -> Outcome {
        let what = Sameness::of(&fact.statement).0;
        let mut outcome = Outcome::Known;
        for (index, saying) in [&Saying::of(&fact.statement)].into_iter().chain(&fact.again).enumerate() {
            let Saying { confidence, source, trust, time } = saying.clone();
            if self.said.has(&what, &source, time) {
                continue;
            }
            let stands = self.facts.same(&fact.statement).is_some();
            if index > 0 && !stands {
                // It was stated here before, and stands no longer: what happened since is newer than the import.
                break;
            }
            let replaces = fact.replaces.iter().filter(|_| !stands);
            let supersedes = replaces.filter_map(|old| self.facts.same(old)).collect();
            let statement = Statement { confidence, source, trust, time, supersedes, ..fact.statement.clone() };
            self.said.add(what.clone(), &statement.source, time);
            let entry = match self.facts.judge(&statement) {
                Ok(Judgement::Again { id }) => {
                    if matches!(outcome, Outcome::Known) {
                        outcome = Outcome::Confirmed;
                    }
                    let Statement { confidence, source, trust, time, .. } = statement;
                    FactEntry::Confirmed { id, confidence, source, trust, time }
                }
                Ok(Judgement::New { supersedes, disputes }) => {
                    if self.is_outdated(&statement, &supersedes) {
                        return Outcome::Outdated;
                    }
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

    /// Whether it would take the place of something that was said later, and that it never took the place of before.
    fn is_outdated(&self, statement: &Statement, supersedes: &[FactId]) -> bool {
        let implied = supersedes.iter().filter(|id| !statement.supersedes.contains(id));
        let said = implied.filter_map(|id| self.facts.get(*id)).filter_map(|fact| fact.said).max();
        said.zip(statement.time).is_some_and(|(said, time)| said > time)
    }
}

/// What a parser says of a line, without what the line says.
fn fault(line: usize, error: &serde_json::Error) -> BadLine {
    let text = error.to_string();
    // The parser counts lines too, but it was given only one.
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    match error.classify() {
        Category::Io | Category::Syntax | Category::Eof => BadLine::Syntax { line, reason: text.to_owned() },
        Category::Data => {
            // `invalid type: string "...", expected u64` holds what was found.
            let invalid = text.starts_with("invalid ") || text.starts_with("unknown variant");
            let expected = text.rsplit_once(", expected ").filter(|_| invalid);
            let reason =
                expected.map_or(text.to_owned(), |(_, what)| format!("expected {what} at column {}", error.column()));
            BadLine::Entry { line, reason }
        }
    }
}
