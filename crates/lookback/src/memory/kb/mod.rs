//! Import of a memory folder of KB Labs: its shared memory, its sessions' entries and fact sheets, and their turns.

mod entries;
mod folder;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookback_core::engine::{Engine, Settings};
use lookback_core::transcript::Origin;
use serde::Serialize;

use super::fact::Scope;
use super::transfer::{Counts, Effect, Transferred};
use super::{Memory, MemoryError};
use crate::session::log::record;
use crate::session::now;
use crate::store::{LogName, Store, StoreError};

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KbImported {
    /// How many files were read.
    pub files: u64,
    /// How many facts were taken over.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many conversations were taken over.
    pub conversations: u64,
    /// How many messages these have.
    pub messages: u64,
    /// How many conversations were left out, since their sessions have messages already.
    pub passed_over: u64,
    /// What could not be taken over, and why; all else was.
    pub damaged: Vec<Damaged>,
}

/// Something in the folder that could not be taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Damaged {
    /// The file, or the folder, relative to the one that was imported.
    pub path: String,
    /// Why not; none of its contents.
    pub reason: String,
}

/// Why a folder was not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KbError {
    /// The folder cannot be read.
    #[error("{place} cannot be read: {source}")]
    Unreadable {
        /// The folder.
        place: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is nothing of KB Labs in it.
    #[error(
        "{place} holds no memory of KB Labs; name its `.kb`, or a folder that has `memory/shared/memory.json` or `memory/SESSION/mem-*.json`"
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
    Session(#[from] crate::Error),
}

/// Takes over a memory folder of KB Labs, of either layout, or tells what that would come to.
///
/// `folder` is a `.kb`, what holds one, or its `memory`. Preferences, constraints and the project's description become facts that the workspace
/// shares; findings, blockers and corrections, and what stands on fact sheets, those of their sessions. Turns become messages of a session
/// of their name, where that has none. Times are kept, and facts are relied on by who said them: a user as a person, an agent as the model, and
/// where nobody is named, the model too, since tools of the agent wrote it.
///
/// The same folder again changes nothing. Damaged files are told of and left out; a link that leads out of the folder is not followed.
///
/// # Errors
/// Where there is nothing to import, or the store fails.
pub async fn import_kb(
    store: Arc<dyn Store>,
    workspace: &str,
    folder: &Path,
    effect: Effect,
) -> Result<KbImported, KbError> {
    let path: PathBuf = folder.to_owned();
    let read = blocking::unblock(move || folder::read(&path)).await?;
    let mut report = KbImported { files: read.files, damaged: read.damaged, ..KbImported::default() };
    // Shared facts are no session's, but a memory wants one.
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
                self.damaged.push(Damaged { path: path.clone(), reason: refused.to_string() });
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
        if is_free && (effect == Effect::Told || begin(&**store, name, messages).await?) {
            self.conversations += 1;
            self.messages += count;
        } else {
            self.passed_over += 1;
        }
        Ok(())
    }
}

/// Writes a conversation into a log that is not there; `false` where it is there by now. A session would read on, and write it behind the other.
async fn begin(store: &dyn Store, name: &LogName, messages: Vec<entries::Turn>) -> Result<bool, crate::Error> {
    let mut engine = Engine::new(Settings::default());
    let mut entries = Vec::new();
    for (message, time) in messages {
        entries.extend(engine.receive(message, Origin::Client, time)?);
    }
    let records = (0..).zip(&entries).map(|(position, entry)| record(name, position, entry));
    match store.append(name, 0, records.collect::<Result<_, _>>()?, now()).await {
        Ok(()) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
