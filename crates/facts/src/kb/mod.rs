//! Imports a memory folder of KB Labs: its shared memory, the entries and fact sheets of its sessions, and their turns.

mod entries;
mod fault;
mod folder;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookback_engine::policy::Policy;
use lookback_engine::transcript::Origin;
use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::ConversionError;
use serde::Serialize;

use crate::fact::Scope;
use crate::transfer::{Counts, Effect, Transferred};
use crate::{Memory, MemoryError};
use lookback_store::now;
use lookback_store::{Append, LogName, Record, Store, StoreError};

pub use fault::KbFault;

/// The report of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KbImported {
    /// How many files were read.
    pub files: u64,
    /// The outcomes of the facts.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many conversations were imported.
    pub conversations: u64,
    /// How many messages they have.
    pub messages: u64,
    /// How many conversations were skipped because their sessions already have messages.
    pub passed_over: u64,
    /// The parts that could not be imported, and why. All others were.
    pub damaged: Vec<KbDamage>,
}

/// Something in the folder that could not be imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KbDamage {
    /// The file or folder, relative to the folder that was imported.
    pub path: String,
    /// The reason.
    #[serde(serialize_with = "crate::transfer::as_text")]
    pub reason: KbFault,
}

/// The errors of importing a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KbError {
    /// The folder cannot be read.
    #[error("{place} cannot be read")]
    Unreadable {
        /// The folder.
        place: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The folder contains no memory of KB Labs.
    #[error(
        "{place} contains no memory of KB Labs; give a `.kb` folder, or one with `memory/shared/memory.json` or \
         `memory/SESSION/mem-*.json`"
    )]
    Nothing {
        /// The folder.
        place: String,
    },
    /// The facts could not be written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The messages could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message cannot be a message of a session.
    #[error(transparent)]
    Message(#[from] ConversionError),
}

/// Imports a memory folder of KB Labs, in either layout, or reports what an import would do.
///
/// `folder` is a `.kb`, a folder that contains one, or its `memory`. Preferences, constraints and the project's
/// description become shared facts of the workspace. Findings, blockers, corrections and the facts on fact sheets
/// become facts of their sessions. Turns become the messages of a session with their name, unless it already has
/// messages. Times are kept. A user's facts have a person's trust, an agent's have the model's. Facts without a source
/// have the model's trust too, because a tool of the agent wrote them.
///
/// Importing the same folder again changes nothing. Damaged files are reported and skipped. Links that lead out of the
/// folder are not followed.
///
/// # Errors
/// Returns an error if there is nothing to import, or if the store fails.
pub async fn import_kb(
    store: Arc<dyn Store>,
    workspace: &str,
    folder: &Path,
    effect: Effect,
) -> Result<KbImported, KbError> {
    let path: PathBuf = folder.to_owned();
    let read = blocking::unblock(move || folder::read(&path)).await?;
    let mut report = KbImported { files: read.files, damaged: read.damaged, ..KbImported::default() };
    // Shared facts belong to no session, but a memory needs one.
    let shared = Memory::open_in(store.clone(), Memory::WORKSPACE, workspace).await?;
    report.take(&shared, Scope::Shared, &read.shared, effect).await?;
    for (name, session) in read.sessions {
        if !session.facts.is_empty() {
            let memory = Memory::open_in(store.clone(), name.as_str(), workspace).await?;
            report.take(&memory, Scope::Session, &session.facts, effect).await?;
        }
        if !session.messages.is_empty() {
            report.converse(&store, &name, session.messages, effect).await?;
        }
    }
    Ok(report)
}

impl KbImported {
    async fn take(
        &mut self,
        memory: &Memory,
        scope: Scope,
        found: &[(String, Transferred)],
        effect: Effect,
    ) -> Result<(), MemoryError> {
        let incoming: Vec<&Transferred> = found.iter().map(|(_, fact)| fact).collect();
        let outcomes = memory.take_over(scope, &incoming, effect).await?;
        for ((path, _), outcome) in found.iter().zip(outcomes) {
            if let Err(refused) = self.counts.add(outcome) {
                self.damaged.push(KbDamage { path: path.clone(), reason: KbFault::Refused(refused) });
            }
        }
        Ok(())
    }

    async fn converse(
        &mut self,
        store: &Arc<dyn Store>,
        name: &LogName,
        messages: Vec<entries::Turn>,
        effect: Effect,
    ) -> Result<(), KbError> {
        let count = messages.len() as u64;
        let is_free = store.head(name, None).await.map_err(MemoryError::from)?.is_none();
        if is_free && (effect == Effect::DryRun || begin(&**store, name, messages).await?) {
            self.conversations += 1;
            self.messages += count;
        } else {
            self.passed_over += 1;
        }
        Ok(())
    }
}

/// Writes a conversation into a new log. Returns `false` if the log exists by now: a session would append to it.
async fn begin(store: &dyn Store, name: &LogName, messages: Vec<entries::Turn>) -> Result<bool, KbError> {
    // Imported messages stay complete: the session that continues the conversation decides what to show.
    let mut engine = Engine::new(Settings::default().policy(Policy::never_compact()));
    let mut entries = Vec::new();
    for (message, time) in messages {
        entries.extend(engine.receive(message, Origin::Client, time)?);
    }
    let records = (0..).zip(&entries).map(|(position, entry)| Record::from_entry(name, position, entry, None));
    match store.append(name, Append::new(0, records.collect::<Result<Vec<_>, _>>()?).time(now())).await {
        Ok(()) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
