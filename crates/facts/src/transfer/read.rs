//! Reads an export, and checks all lines before anything is imported.

use std::collections::HashMap;

use lookback_engine::transcript::Position;
use lookback_wire::dialect::SyntaxError;
use serde_json::error::Category;

use super::Line;
use super::transferred::{Saying, Transferred};
use crate::entry::FactEntry;
use crate::fact::{FactId, Scope, Statement};
use crate::facts::Facts;
use crate::refused::{Refused, check};

/// An export of a scope's facts, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    scope: Option<Scope>,
    lines: Vec<(usize, Line)>,
}

/// The errors of reading an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct BadLine(#[from] BadLineKind);

/// The reason of a [`BadLine`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum BadLineKind {
    /// A line is not JSON.
    #[error("line {line}: not valid JSON: {}", .fault.reason())]
    Syntax {
        line: usize,
        /// The syntax error. Its own line number is always 1.
        fault: SyntaxError,
    },
    /// A line is JSON, but not an entry of an export.
    #[error("line {line}: not a line of a facts export: {reason}")]
    Entry {
        line: usize,
        /// The parser's message, without the line's texts.
        reason: String,
    },
    /// The file contains both a session's facts and shared ones.
    #[error("line {line}: the file contains both a session's facts and shared ones; put them into separate files")]
    Mixed { line: usize },
    /// The lines are not in order.
    #[error("line {line}: entry {position} comes after entry {after}; keep the lines in the order of the export")]
    Order { line: usize, position: Position, after: Position },
    /// An entry refers to a fact that is not stated before it.
    #[error("line {line}: entry {position} refers to {id}, which is not stated before it")]
    Ahead { line: usize, position: Position, id: FactId },
    /// The statement of a line cannot be a fact.
    #[error("line {line}: {fault}")]
    Invalid { line: usize, fault: Refused },
}

impl Export {
    /// Parses JSON lines that [`export`](super::export) has written. If one line is bad, nothing is read.
    ///
    /// # Errors
    /// Returns an error if a line cannot be read, or is not part of an export. The error names the line.
    pub fn read(text: &str) -> Result<Self, BadLine> {
        let mut export = Export { scope: None, lines: Vec::new() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            let read: Line = serde_json::from_str(text).map_err(|error| fault(line, error))?;
            if *export.scope.get_or_insert(read.scope) != read.scope {
                return Err(BadLineKind::Mixed { line }.into());
            }
            let position = read.position;
            if let Some((_, before)) = export.lines.last()
                && before.position >= position
            {
                return Err(BadLineKind::Order { line, position, after: before.position }.into());
            }
            let about = match &read.entry {
                FactEntry::Stated(statement) => {
                    // A speaker may name only so many facts, but an entry also lists facts that were replaced without
                    // being named.
                    let named = Statement { supersedes: Vec::new(), ..statement.clone() };
                    check(&named).map_err(|fault| BadLineKind::Invalid { line, fault })?;
                    statement.supersedes.as_slice()
                }
                FactEntry::Confirmed { id, .. } | FactEntry::Resolved { id, .. } | FactEntry::Forgotten { id, .. } => {
                    std::slice::from_ref(id)
                }
                FactEntry::Extracted { .. } => &[],
            };
            if let Some(id) = about.iter().find(|id| id.scope == read.scope && id.position >= position) {
                return Err(BadLineKind::Ahead { line, position, id: *id }.into());
            }
            export.lines.push((line, read));
        }
        Ok(export)
    }

    /// Returns the scope of the facts in the export, or `None` if it is empty.
    pub fn scope(&self) -> Option<Scope> {
        self.scope
    }

    /// Returns whether the export is a log from its first entry on, so that it can fill an empty one.
    pub(super) fn is_whole(&self, scope: Scope) -> bool {
        self.scope == Some(scope) && (0..).zip(&self.lines).all(|(position, (_, line))| line.position == position)
    }

    /// Returns all entries for another log, perhaps of another session in another workspace. There, shared facts have
    /// other identifiers, and messages other positions, so references to both are dropped. The entries keep their
    /// positions.
    pub(super) fn entries(&self) -> Vec<FactEntry> {
        let elsewhere = |(_, line): &(usize, Line)| {
            let mut entry = line.entry.clone();
            match &mut entry {
                FactEntry::Stated(statement) => statement.supersedes.retain(|id| id.scope == line.scope),
                FactEntry::Extracted { from } => from.clear(),
                FactEntry::Confirmed { .. } | FactEntry::Resolved { .. } | FactEntry::Forgotten { .. } => {}
            }
            entry
        };
        self.lines.iter().map(elsewhere).collect()
    }

    /// Returns the facts that are current at the end, with the lines that state them.
    pub(super) fn standing(&self) -> Vec<(usize, Transferred)> {
        let scope = self.scope.unwrap_or(Scope::Session);
        let mut facts = Facts::new(scope);
        let mut stated: HashMap<FactId, (usize, Statement)> = HashMap::new();
        let mut again: HashMap<FactId, Vec<Saying>> = HashMap::new();
        // Lines may be missing. A fact can then have another position here, and a missing fact has none.
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
                FactEntry::Extracted { .. } => {}
            }
            facts.apply(&entry);
        }
        let transferred = |id: FactId| {
            let (line, mut statement) = stated.remove(&id)?;
            let mut superseded = std::mem::take(&mut statement.supersedes);
            let mut replaces = Vec::new();
            // Each is removed when it is found, so the loop ends even if facts refer to each other in a circle.
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

/// Returns the parser's message about a line, without the line's content.
fn fault(line: usize, error: serde_json::Error) -> BadLineKind {
    match error.classify() {
        Category::Io | Category::Syntax | Category::Eof => BadLineKind::Syntax { line, fault: error.into() },
        Category::Data => {
            let text = error.to_string();
            // The parser was given one line, so its line number means nothing.
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
            // `invalid type: string "...", expected u64` contains the value that was found.
            let invalid = text.starts_with("invalid ") || text.starts_with("unknown variant");
            let expected = if invalid { text.rsplit_once(", expected ") } else { None };
            let reason =
                expected.map_or(text.to_owned(), |(_, what)| format!("expected {what} at column {}", error.column()));
            BadLineKind::Entry { line, reason }
        }
    }
}
