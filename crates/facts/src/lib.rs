//! Facts that outlive the window and the session: tools to write and recall them, and a fact sheet.
//!
//! A [`Memory`] has the facts of one session, and those that all sessions of a workspace share. Both are logs in the
//! store of the sessions, so every version of a fact stays readable.

mod entry;
mod erase;
mod extract;
mod fact;
mod facts;
mod history;
mod kb;
mod log;
mod read;
mod recall;
mod refused;
mod sameness;
#[doc(hidden)]
pub mod sheet;
pub mod tools;
mod transfer;

use std::sync::Arc;

use async_lock::Mutex;
use lookback_engine::transcript::Position;
use serde::Serialize;

pub use entry::FactEntry;
#[doc(hidden)]
pub use erase::{bytes_of_facts_from, erase_facts_from};
pub use extract::{ExtractError, LeftMessage};
pub use fact::{BadFactId, Confidence, Fact, FactId, FactKind, Scope, Source, Speaker, Statement, Trust, UnknownKind};
pub use facts::{Facts, Judgment, NewEntry};
pub use history::{FactEvent, history};
pub use kb::{KbDamage, KbError, KbFolder, KbImported};
#[doc(hidden)]
pub use recall::recall_below;
pub use recall::{Recall, Recalled, RecalledPassage, recall};
pub use refused::Refused;
pub use sheet::{LeftOut, Sheet, SheetOptions, sheet};
pub use transfer::{BadLine, Counts, Effect, Export, Imported, RefusedLine, export, import};

use self::log::Known;
use lookback_store::now;
use lookback_store::{BadName, IntoStore, LogName, Store, StoreError};

/// The facts of one session, and those that it shares with its workspace.
///
/// Clones share their state. Several memories of one session, in any processes, can write at the same time without
/// losing or duplicating facts.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback_store::MemoryStore;
/// use lookback_facts::{Judgment, Memory};
///
/// let store = Arc::new(MemoryStore::new());
/// let memory = Memory::open(store.clone(), "chat-1").await?;
/// let port = memory.learn("It listens on port 5050.").await?;
/// memory.prefer("Use pnpm, not npm.").await?;
///
/// let other = Memory::open(store, "chat-2").await?;
/// let texts: Vec<_> = other.facts().await?.into_iter().map(|fact| fact.statement.text).collect();
/// assert_eq!(texts, ["Use pnpm, not npm."]);
/// assert!(matches!(port.judgment, Judgment::New { .. }));
/// # Ok::<(), lookback_facts::MemoryError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
    session: LogName,
    workspace: LogName,
    /// The message of the session that new statements come from.
    at: Option<Position>,
    known: Arc<Mutex<Known>>,
}

/// The result of stating a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stated {
    /// The fact: a new one, or the one that was confirmed.
    pub id: FactId,
    /// Whether it is new, and which facts it replaces or contradicts.
    pub judgment: Judgment,
}

/// The errors of a memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The name cannot be a session's or a workspace's.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The memory does not accept the statement.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// How many times a write is tried while other writers are faster.
const TRIES: usize = 100;

impl Memory {
    /// The name of the default workspace.
    pub const WORKSPACE: &str = "shared";

    /// Opens the memory of a session, in the workspace `shared`.
    ///
    /// Nothing is read yet, so an agent can start even if its memory is damaged. It gets the error at the first use.
    ///
    /// # Errors
    /// Returns an error if the name is invalid.
    pub async fn open(store: impl IntoStore, session: &str) -> Result<Self, MemoryError> {
        Memory::open_in(store, session, Memory::WORKSPACE).await
    }

    /// Opens the memory of a session, in a workspace of your choice. Nothing is read yet.
    ///
    /// # Errors
    /// Returns an error if either name is invalid.
    pub async fn open_in(store: impl IntoStore, session: &str, workspace: &str) -> Result<Self, MemoryError> {
        let (session, workspace) = (session.parse()?, workspace.parse()?);
        let known = Arc::new(Mutex::new(Known::new()));
        Ok(Memory { store: store.into_store(), session, workspace, at: None, known })
    }

    /// Returns the same memory for a message of the session. Statements through it come from this message, unless their
    /// source names a session or a message.
    #[must_use]
    pub fn at(&self, message: Position) -> Self {
        Memory { at: Some(message), ..self.clone() }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the name of the session.
    pub fn session(&self) -> &LogName {
        &self.session
    }

    /// Returns the name of the workspace.
    pub fn workspace(&self) -> &LogName {
        &self.workspace
    }

    /// Writes a fact, or confirms the one that says the same.
    ///
    /// # Errors
    /// Returns an error if the statement cannot be a fact, if it names facts that it may not replace, or if the store
    /// fails.
    pub async fn state(&self, scope: Scope, mut statement: Statement) -> Result<Stated, MemoryError> {
        statement.time = statement.time.or_else(now);
        self.place(&mut statement.source);
        let mut known = self.known.lock().await;
        for _ in 0..TRIES {
            self.read_on(&mut known).await?;
            let shared = statement.supersedes.iter().filter(|id| id.scope == Scope::Shared && scope == Scope::Session);
            for id in shared {
                known.shared.may_take(*id, statement.trust())?;
            }
            let facts = known.facts(scope);
            let judgment = facts.judge(&statement)?;
            let NewEntry { id, entry } = facts.entry(&statement, &judgment);
            if self.append(facts, &[entry]).await? {
                return Ok(Stated { id, judgment });
            }
        }
        Err(self.overtaken(scope).into())
    }

    /// Writes a correction by a person, for this session: an earlier belief was wrong, and this is true instead.
    ///
    /// This method and the five like it are shortcuts for [`Memory::state`] with full confidence, in the
    /// [default scope](FactKind::default_scope) of the kind. For other confidences, sources or scopes, build a
    /// [`Statement`].
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn correct(&self, text: impl Into<String>) -> Result<Stated, MemoryError> {
        self.remember(Statement::correction(text)).await
    }

    /// Writes a constraint by a person, shared with the workspace: something that must hold in any case.
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn constrain(&self, text: impl Into<String>) -> Result<Stated, MemoryError> {
        self.remember(Statement::constraint(text)).await
    }

    /// Writes a blocker by a person, for this session: something that prevents progress until [`Memory::resolve`] ends
    /// it.
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn blocked_by(&self, text: impl Into<String>) -> Result<Stated, MemoryError> {
        self.remember(Statement::blocker(text)).await
    }

    /// Writes a preference by a person, shared with the workspace: how someone wants things done.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_store::MemoryStore;
    /// use lookback_facts::{Memory, Scope, Speaker, Statement};
    ///
    /// let memory = Memory::open(MemoryStore::new(), "chat-1").await?;
    /// memory.prefer("Use pnpm, not npm.").await?;
    ///
    /// // To say more than the text, build a statement.
    /// let port = Statement::finding("It listens on port 5050.").about("the port").confidence(0.9).by(Speaker::Model);
    /// memory.state(Scope::Shared, port).await?;
    /// # Ok::<(), lookback_facts::MemoryError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn prefer(&self, text: impl Into<String>) -> Result<Stated, MemoryError> {
        self.remember(Statement::preference(text)).await
    }

    /// Writes a decision by a person, for this session.
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn decide(&self, text: impl Into<String>) -> Result<Stated, MemoryError> {
        self.remember(Statement::decision(text)).await
    }

    /// Writes a finding by a person, for this session: something that was found out.
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn learn(&self, text: impl Into<String>) -> Result<Stated, MemoryError> {
        self.remember(Statement::finding(text)).await
    }

    /// Writes a statement in the [default scope](FactKind::default_scope) of its kind.
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub async fn remember(&self, statement: Statement) -> Result<Stated, MemoryError> {
        self.state(statement.kind.default_scope(), statement).await
    }

    /// Ends a blocker. `with` is the resolution.
    ///
    /// Any source may resolve any blocker, even a person's: whether something still blocks the work is a matter of
    /// fact, not of trust.
    ///
    /// # Errors
    /// Returns an error if the fact is not current or not a blocker, if `with` is blank or longer than
    /// [`Statement::LONGEST`], or if the store fails.
    pub async fn resolve(&self, id: FactId, with: &str, source: Source) -> Result<(), MemoryError> {
        let length = with.chars().count();
        if with.trim().is_empty() {
            return Err(Refused::Empty { field: "the resolution" }.into());
        }
        if length > Statement::LONGEST {
            return Err(Refused::Long { field: "the resolution", length, most: Statement::LONGEST }.into());
        }
        self.end(id, source, |fact, source| match fact.statement.kind {
            FactKind::Blocker => Ok(FactEntry::Resolved { id, with: with.to_owned(), source, time: now() }),
            kind => Err(Refused::NoBlocker { id, kind }),
        })
        .await
    }

    /// Removes a fact from the fact sheet. [`Memory::history`] still returns its versions.
    ///
    /// # Errors
    /// Returns an error if the fact is not current, if it has more trust than the source, or if the store fails.
    pub async fn forget(&self, id: FactId, source: Source) -> Result<(), MemoryError> {
        self.forget_for(id, None, source).await
    }

    /// Removes a fact from the fact sheet, and records the reason.
    ///
    /// # Errors
    /// As [`Memory::forget`]. Also returns an error if the reason is longer than [`Statement::LONGEST`].
    pub async fn forget_because(&self, id: FactId, why: &str, source: Source) -> Result<(), MemoryError> {
        let length = why.chars().count();
        if length > Statement::LONGEST {
            return Err(Refused::Long { field: "the reason", length, most: Statement::LONGEST }.into());
        }
        self.forget_for(id, Some(why), source).await
    }

    async fn forget_for(&self, id: FactId, why: Option<&str>, source: Source) -> Result<(), MemoryError> {
        self.end(id, source, |fact, source| {
            let worth = source.by.trust();
            if fact.trust > worth {
                return Err(Refused::Trusted { id, trust: fact.trust, worth });
            }
            Ok(FactEntry::Forgotten { id, why: why.map(str::to_owned), source, time: now() })
        })
        .await
    }

    async fn end(
        &self,
        id: FactId,
        mut source: Source,
        entry: impl Fn(&Fact, Source) -> Result<FactEntry, Refused>,
    ) -> Result<(), MemoryError> {
        self.place(&mut source);
        let mut known = self.known.lock().await;
        for _ in 0..TRIES {
            self.read_on(&mut known).await?;
            let facts = known.facts(id.scope);
            let entry = entry(facts.get(id).ok_or(Refused::Gone { id })?, source.clone())?;
            if self.append(facts, &[entry]).await? {
                return Ok(());
            }
        }
        Err(self.overtaken(id.scope).into())
    }

    /// Fills in the session and the message of a source that does not name a session.
    fn place(&self, source: &mut Source) {
        if source.session.is_none() {
            source.session = Some(self.session.to_string());
            source.message = source.message.or(self.at);
        }
    }
}
