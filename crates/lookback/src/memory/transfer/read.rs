//! Reading an export: every line is looked at before anything is taken of it, and what stands at its end is found by a fold.

use std::collections::HashMap;

use lookback_core::transcript::Position;
use serde_json::error::Category;

use super::Line;
use super::taking::{Saying, Transferred};
use crate::memory::fact::{FactId, Scope, Statement};
use crate::memory::facts::{FactEntry, Facts, Refused, check};

/// An export of the facts of a scope, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    scope: Option<Scope>,
    lines: Vec<(usize, Line)>,
}

/// What is wrong with an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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

impl Export {
    /// Reads JSON lines as [`export`](super::export) writes them. Nothing of it is taken where a single line is bad.
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
                    // Whoever states it names so many facts at most; what is written down has those that were implied too.
                    let named = Statement { supersedes: Vec::new(), ..statement.clone() };
                    check(&named).map_err(|fault| BadLine::Unfit { line, fault })?;
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
    pub(super) fn is_whole(&self, scope: Scope) -> bool {
        self.scope == Some(scope) && (0..).zip(&self.lines).all(|(position, (_, line))| line.position == position)
    }

    /// All that happened, for another log: it may be another session's, in another workspace. What was shared has other identifiers there, and
    /// the messages that facts were drawn from are others. The positions stay.
    pub(super) fn entries(&self) -> Vec<FactEntry> {
        let elsewhere = |(_, line): &(usize, Line)| {
            let mut entry = line.entry.clone();
            match &mut entry {
                FactEntry::Stated(statement) => statement.supersedes.retain(|id| id.scope == line.scope),
                FactEntry::Drawn { from } => from.clear(),
                FactEntry::Confirmed { .. } | FactEntry::Resolved { .. } | FactEntry::Forgotten { .. } => {}
            }
            entry
        };
        self.lines.iter().map(elsewhere).collect()
    }

    /// What stands at its end, with the lines that state it.
    pub(super) fn standing(&self) -> Vec<(usize, Transferred)> {
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
