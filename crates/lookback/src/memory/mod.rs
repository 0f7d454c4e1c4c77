//! Persistent memory: facts that outlive the window and the session, written by the model with tools and read from a fact sheet.
//!
//! A [`Memory`] is what one session knows: its own facts, and those that all sessions of a workspace share. Both are logs in the store of
//! the sessions, so every version of a fact stays readable.

mod extract;
mod fact;
mod facts;
mod history;
mod kb;
mod log;
mod recall;
mod sameness;
pub(crate) mod sheet;
pub mod tools;
mod transfer;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_core::tokens::TokenCounter;
use lookback_core::transcript::Position;
use serde::Serialize;

pub use extract::DrawError;
pub use fact::{BadFactId, Confidence, Fact, FactId, FactKind, Scope, Source, Speaker, Statement, Trust, UnknownKind};
pub use facts::{FactEntry, Facts, Judgment, Refused};
pub use history::Event;
pub use kb::{Damaged, KbError, KbImported, import_kb};
pub use recall::{Passage, Recall, Recalled, recall};
pub use sheet::{Sheet, SheetOptions, is_unseen, sheet};
pub use transfer::{BadLine, Counts, Effect, Export, Imported, RefusedLine, export, import};

use self::log::{Known, read};
use crate::session::now;
use crate::store::{BadName, IntoStore, LogName, Store, StoreError, folded, wanted, words};

/// What one session knows: its facts, and those that it shares with its workspace.
///
/// Clones know the same. Several memories of one session, in any processes, may write at once: nothing is lost or doubled.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback::MemoryStore;
/// use lookback::memory::{Judgment, FactKind, Memory, Scope, Source, Speaker, Statement};
///
/// let store = Arc::new(MemoryStore::new());
/// let memory = Memory::open(store.clone(), "chat-1").await?;
/// let by = || Source::of(Speaker::Model);
/// let port = memory.state(Scope::Session, Statement::new(FactKind::Finding, "It listens on port 5050.", by())).await?;
/// memory.state(Scope::Shared, Statement::new(FactKind::Preference, "Use pnpm, not npm.", by())).await?;
///
/// let other = Memory::open(store, "chat-2").await?;
/// let texts: Vec<_> = other.facts().await?.into_iter().map(|fact| fact.statement.text).collect();
/// assert_eq!(texts, ["Use pnpm, not npm."]);
/// assert!(matches!(port.judgment, Judgment::New { .. }));
/// # Ok::<(), lookback::memory::MemoryError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
    session: LogName,
    workspace: LogName,
    /// The message of the session in which what follows is said.
    at: Option<Position>,
    known: Arc<Mutex<Known>>,
}

/// What came of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stated {
    /// The fact: a new one, or the one that was confirmed.
    pub id: FactId,
    /// What it was taken for.
    pub judgment: Judgment,
}

/// Why a memory did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The name is none that a session or a workspace may have.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was stated cannot be written down.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// How often a write is tried that other writers keep overtaking.
const TRIES: usize = 100;

impl Memory {
    /// The workspace whose facts are shared, unless another is named.
    pub const WORKSPACE: &str = "shared";

    /// What a session knows, in the workspace `shared` of this store. Nothing is read yet: an agent begins though its memory is damaged, and
    /// is told of that when it asks.
    ///
    /// # Errors
    /// Where the name is none.
    pub async fn open(store: impl IntoStore, session: &str) -> Result<Self, MemoryError> {
        Memory::open_in(store, session, Memory::WORKSPACE).await
    }

    /// What a session knows, in this workspace. Nothing is read yet.
    ///
    /// # Errors
    /// Where either name is none.
    pub async fn open_in(store: impl IntoStore, session: &str, workspace: &str) -> Result<Self, MemoryError> {
        let (session, workspace) = (session.parse()?, workspace.parse()?);
        let known = Arc::new(Mutex::new(Known::new()));
        Ok(Memory { store: store.into_store(), session, workspace, at: None, known })
    }

    /// The same memory, for what is said in this message of the session: what is stated through it comes from there, where its source names
    /// no other.
    #[must_use]
    pub fn at(&self, message: Position) -> Self {
        Memory { at: Some(message), ..self.clone() }
    }

    /// The store in which it is kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The session whose memory it is.
    pub fn session(&self) -> &LogName {
        &self.session
    }

    /// The workspace whose facts it shares.
    pub fn workspace(&self) -> &LogName {
        &self.workspace
    }

    /// Writes a fact down, or confirms the one that says the same.
    ///
    /// # Errors
    /// Where the statement cannot be a fact, names facts that it may not take the place of, or the store fails.
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
            let facts = known.of(scope);
            let judgment = facts.judge(&statement)?;
            let (id, entry) = facts.entry(&statement, &judgment);
            if self.append(facts, &[entry]).await? {
                return Ok(Stated { id, judgment });
            }
        }
        Err(self.overtaken(scope).into())
    }

    /// A blocker stands in the way no longer; `with` says what resolved it.
    ///
    /// # Errors
    /// Where it does not stand, or is no blocker; where nothing is said of what resolved it; and where the store fails. (What stands in the
    /// way is a matter of fact: whoever finds it gone may say so, also of a person's.)
    pub async fn resolve(&self, id: FactId, with: &str, source: Source) -> Result<(), MemoryError> {
        let length = with.chars().count();
        if with.trim().is_empty() {
            return Err(Refused::Empty { field: "what resolved it" }.into());
        }
        if length > Statement::LONGEST {
            return Err(Refused::Long { field: "what resolved it", length, most: Statement::LONGEST }.into());
        }
        self.end(id, source, |fact, source| match fact.statement.kind {
            FactKind::Blocker => Ok(FactEntry::Resolved { id, with: with.to_owned(), source, time: now() }),
            kind => Err(Refused::NoBlocker { id, kind }),
        })
        .await
    }

    /// A fact is shown no more. Its versions stay readable by [`Memory::history`].
    ///
    /// # Errors
    /// Where it does not stand, or may be relied on further than who says so; and where the store fails.
    pub async fn forget(&self, id: FactId, source: Source) -> Result<(), MemoryError> {
        self.forget_because(id, None, source).await
    }

    /// The same, saying why.
    ///
    /// # Errors
    /// As [`Memory::forget`], and where the reason is longer than [`Statement::LONGEST`].
    pub async fn forget_because(&self, id: FactId, why: Option<&str>, source: Source) -> Result<(), MemoryError> {
        let length = why.map_or(0, |why| why.chars().count());
        if length > Statement::LONGEST {
            return Err(Refused::Long { field: "the reason", length, most: Statement::LONGEST }.into());
        }
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
            let facts = known.of(id.scope);
            let entry = entry(facts.get(id).ok_or(Refused::Gone { id })?, source.clone())?;
            if self.append(facts, &[entry]).await? {
                return Ok(());
            }
        }
        Err(self.overtaken(id.scope).into())
    }

    /// The facts that stand: the session's, then those that it shares, each in the order in which they were stated.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn facts(&self) -> Result<Vec<Fact>, MemoryError> {
        let known = self.caught_up().await?;
        let shared = known.shared.iter().filter(|fact| known.session.over(fact.id).is_none());
        Ok(known.session.iter().chain(shared).cloned().collect())
    }

    /// The names of the facts that stand, those of the session and the shared.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn ids(&self) -> Result<BTreeSet<FactId>, MemoryError> {
        let known = self.caught_up().await?;
        let shared = known.shared.iter().map(|fact| fact.id).filter(|id| known.session.over(*id).is_none());
        Ok(known.session.iter().map(|fact| fact.id).chain(shared).collect())
    }

    /// One fact that stands.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn get(&self, id: FactId) -> Result<Option<Fact>, MemoryError> {
        Ok(self.caught_up().await?.of(id.scope).get(id).cloned())
    }

    /// What was stated under a name, whether or not it stands.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn stated(&self, id: FactId) -> Result<Option<Statement>, MemoryError> {
        let end = id.position.saturating_add(1);
        let entries = read(&*self.store, &self.log(id.scope), id.position..end).await?;
        Ok(entries.into_iter().find_map(|entry| if let FactEntry::Stated(said) = entry { Some(said) } else { None }))
    }

    /// The facts that stand and hold every word of a query, in their text, in what they are about or in their tags; the newest first.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<Fact>, MemoryError> {
        let wanted = wanted(query);
        let holds = |fact: &Fact| {
            let statement = &fact.statement;
            let texts = [&statement.text].into_iter().chain(&statement.about).chain(&statement.tags);
            let said: Vec<String> = texts.flat_map(|text| words(text)).chain([folded(statement.kind.name())]).collect();
            wanted.iter().all(|word| said.contains(word))
        };
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut found: Vec<Fact> = self.facts().await?.into_iter().filter(holds).collect();
        // Of those that were said at the same time, the later one first too.
        found.reverse();
        found.sort_by_key(|fact| std::cmp::Reverse(fact.said));
        found.truncate(most);
        Ok(found)
    }

    /// The fact sheet (see [`sheet`]).
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn sheet(&self, options: &SheetOptions, counter: &dyn TokenCounter) -> Result<Sheet, MemoryError> {
        let known = self.caught_up().await?;
        Ok(sheet(&[&known.session, &known.shared], options, counter))
    }

    /// Says where a source speaks that does not say so itself.
    fn place(&self, source: &mut Source) {
        if source.session.is_none() {
            source.session = Some(self.session.to_string());
            source.message = source.message.or(self.at);
        }
    }
}
