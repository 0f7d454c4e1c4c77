//! Exports and imports facts: an export has one line for each entry of a log.

mod import;
mod read;
mod transferred;

use lookback_engine::transcript::Position;
use serde::{Deserialize, Serialize, Serializer};

use super::entry::FactEntry;
use super::fact::Scope;
use super::refused::Refused;
use super::{Memory, MemoryError};
use lookback_store::StoreError;

pub(super) use import::Outcome;
pub use read::{BadLine, Export};
pub(super) use transferred::Transferred;

/// A line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    scope: Scope,
    position: Position,
    entry: FactEntry,
}

/// Whether an import writes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// The import writes.
    Write,
    /// A dry run: the report says what the import would do, and nothing is written.
    DryRun,
}

/// The number of facts that an import accepted, and the outcomes of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// New facts.
    pub new: u64,
    /// Facts that were already current, and that the import confirmed.
    pub confirmed: u64,
    /// Facts that were current before, and that the import replaced.
    pub superseded: u64,
    /// New facts that contradict one with more trust. Both are kept.
    pub disputed: u64,
    /// Facts that were imported before, or stated by the same speaker at the same time. The import wrote nothing for
    /// them.
    pub known: u64,
    /// Facts that are older than a current one about the same thing. The import wrote nothing for them.
    pub outdated: u64,
}

/// The report of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// Whether the log was empty and is now a copy of the exported one, with the same identifiers and the whole
    /// history, except for references to other logs (see [`import`]).
    pub restored: bool,
    /// The outcomes of the facts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The facts that were refused because they may not replace others.
    pub refused: Vec<RefusedLine>,
}

/// A fact that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedLine {
    /// The line that states it, from 1.
    pub line: usize,
    /// The reason.
    #[serde(serialize_with = "as_text")]
    pub reason: Refused,
}

pub(super) fn as_text<S: Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Exports the log of a scope as JSON lines, one for each entry, including superseded facts.
///
/// # Errors
/// Returns an error if the store fails, or if an entry cannot be written as JSON. No line is left out.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_facts::{Effect, Export, FactKind, Memory, Scope, Source, Speaker, Statement, export, import};
///
/// let old = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let port = Statement::new(FactKind::Finding, "It listens on port 5050.", Source::new(Speaker::Model));
/// old.state(Scope::Session, port).await?;
/// let text = export(&old, Scope::Session).await?;
///
/// let new = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let report = import(&new, Scope::Session, &Export::read(&text)?, Effect::Write).await?;
/// assert!(report.restored);
/// assert_eq!(new.facts().await?, old.facts().await?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn export(memory: &Memory, scope: Scope) -> Result<String, MemoryError> {
    let entries = memory.entries(scope).await?;
    let line = |(position, entry)| {
        let unwritable = |error| StoreError::unwritable(&memory.log(scope), position, error);
        Ok(serde_json::to_string(&Line { scope, position, entry }).map_err(unwritable)? + "\n")
    };
    (0..).zip(entries).map(line).collect()
}

/// Imports facts, or reports what an import would do.
///
/// If the log is empty and the export is complete, the log becomes a copy of it. Otherwise each fact that is current at
/// the end of the export is stated again, with its confirmations, and replaces the facts that it replaced there. A fact
/// that was imported before is not imported again, even if it was superseded, resolved or forgotten since. Everything
/// is written at once, or nothing.
///
/// In both cases, references to other logs are dropped. A session's fact that replaced a shared one no longer replaces
/// it, because the shared facts here may be different ones. Also, no message is marked as one that facts were extracted
/// from.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn import(memory: &Memory, scope: Scope, export: &Export, effect: Effect) -> Result<Imported, MemoryError> {
    if export.is_whole(scope) && memory.restore(scope, export, effect).await? {
        let new = export.standing().len() as u64;
        return Ok(Imported { restored: true, counts: Counts { new, ..Counts::default() }, refused: Vec::new() });
    }
    let standing = export.standing();
    let incoming: Vec<&Transferred> = standing.iter().map(|(_, transferred)| transferred).collect();
    let mut report = Imported::default();
    let outcomes = memory.take_over(scope, &incoming, effect).await?;
    for ((line, _), outcome) in standing.iter().zip(outcomes) {
        if let Err(reason) = report.counts.add(outcome) {
            report.refused.push(RefusedLine { line: *line, reason });
        }
    }
    Ok(report)
}

impl Counts {
    /// Counts one outcome. Returns the reason if the fact was refused.
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
