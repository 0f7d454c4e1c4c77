//! Facts on their way between stores: an export has every entry of a log on a line, and an import takes over what is new in one.

mod read;
mod taking;

use lookback_core::transcript::Position;
use serde::{Deserialize, Serialize, Serializer};

use super::fact::Scope;
use super::facts::{FactEntry, Refused};
use super::{Memory, MemoryError};
use crate::store::StoreError;

pub use read::{BadLine, Export};
pub(super) use taking::{Outcome, Transferred};

/// A line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    scope: Scope,
    position: Position,
    entry: FactEntry,
}

/// Whether an import is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is written.
    Written,
    /// It is only told what it would come to; nothing is written.
    Told,
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
    /// Whether the log was empty, and is now as it was exported: with the same identifiers and the whole history, but for what was of elsewhere
    /// (see [`import`]).
    pub restored: bool,
    /// How many facts were taken over.
    #[serde(flatten)]
    pub counts: Counts,
    /// The facts that were not, since they may not take the place of others.
    pub refused: Vec<RefusedLine>,
}

/// A fact that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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
/// Where the store fails, or an entry cannot be written as JSON. No line is left out.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::MemoryStore;
/// use lookback::memory::{Effect, Export, FactKind, Memory, Scope, Source, Speaker, Statement, export, import};
///
/// let old = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let port = Statement::new(FactKind::Finding, "It listens on port 5050.", Source::of(Speaker::Model));
/// old.state(Scope::Session, port).await?;
/// let text = export(&old, Scope::Session).await?;
///
/// let new = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let report = import(&new, Scope::Session, &Export::read(&text)?, Effect::Written).await?;
/// assert!(report.restored);
/// assert_eq!(new.facts().await?, old.facts().await?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn export(memory: &Memory, scope: Scope) -> Result<String, MemoryError> {
    let entries = memory.entries(scope).await?;
    let line = |(position, entry)| {
        let damaged = |error: serde_json::Error| StoreError::Damaged {
            log: memory.log(scope).to_string(),
            position,
            reason: error.to_string(),
        };
        Ok(serde_json::to_string(&Line { scope, position, entry }).map_err(damaged)? + "\n")
    };
    (0..).zip(entries).map(line).collect()
}

/// Takes over what an export holds, or tells what that would come to.
///
/// Into an empty log a whole export goes as it is. Otherwise each fact that stands in it is stated anew, with those who confirmed it, and takes the
/// place of what it took the place of there. What was imported before is not imported again, even where it was superseded, resolved or
/// forgotten since. All is written at once, or nothing.
///
/// Either way what was of elsewhere is left behind: a fact of the session that hides a shared one hides none then, since the shared facts here may
/// be others; and no message counts as one that facts were drawn from.
///
/// # Errors
/// Where the store fails.
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
