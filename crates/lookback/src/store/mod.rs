//! Where logs are kept: one primitive, named append-only logs, and one backend a file.

mod files;
mod memory;
mod name;
#[cfg(feature = "sqlite")]
mod sqlite;
mod words;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use lookback_core::transcript::Millis;
use serde::Serialize;

pub use files::FileStore;
pub use memory::MemoryStore;
pub use name::{BadName, Derived, LogName};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use words::MOST_WORDS;
pub(crate) use words::{folded, split, wanted, words};

/// What a store's methods return: a future that can be sent between threads.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Named append-only logs.
///
/// A writer says where it believes the log ends; where it is wrong, nothing is written. That is all the locking there is: of
/// two writers one wins, and the other reads what the first wrote and tries again.
pub trait Store: fmt::Debug + Send + Sync {
    /// Appends records, all or none. `at` is the number of records that the writer believes are there, `time` the writer's
    /// clock, where it has one: the log is created with its first record, and used with each.
    ///
    /// Fails with [`StoreError::Conflict`] where there are more, or fewer.
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        at: u64,
        records: Vec<Record>,
        time: Option<Millis>,
    ) -> StoreFuture<'a, ()>;

    /// Says that a log was used at this time; where it was used later already, nothing changes. `false` where there is no log.
    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool>;

    /// The bodies of the records at these positions; those that do not exist are left out.
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>>;

    /// Returns the bodies of the records in each of these spans: one list for each span, in their order. Records that do not exist are
    /// left out, as by [`Store::read`].
    ///
    /// The default reads one span after another. A store for which each call costs a round trip should answer all of them in one.
    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        Box::pin(async move {
            let mut bodies = Vec::with_capacity(spans.len());
            for span in spans {
                bodies.push(self.read(log, span.clone()).await?);
            }
            Ok(bodies)
        })
    }

    /// How long a log is, and where its newest checkpoint before position `before` stands. `None`: there is no such log.
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>>;

    /// What a list would say of one log. `None`: there is no such log.
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>>;

    /// The logs whose names begin with `prefix`, byte for byte, in the order of their names' bytes; with an empty one, all. Of a log that
    /// cannot be read there is the name, and no records: [`Store::info`] fails with what is wrong.
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>>;

    /// Erases this log and no other; `false` where there is none. See [`purge`] for a session with all that is its.
    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool>;

    /// Erases all logs, and says how many there were.
    fn clear(&self) -> StoreFuture<'_, u64>;

    /// Where the records stand whose text holds every word of `query`, the best first; in one log, or in all. Capitals and
    /// accents make no difference, nor does a word that is said twice; of more than [`MOST_WORDS`] different words the first count. Nothing is found in a derived log, nor, where all are searched, in one that cannot be read.
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> StoreFuture<'a, Vec<Hit>>;
}

/// One record of a log. To a store it is text that it does not read.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The entry, as JSON.
    pub body: String,
    /// What a search finds it by; empty, it is not found.
    pub text: String,
    /// Whether a reader can start here.
    pub checkpoint: bool,
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// How many records it has.
    pub end: u64,
    /// Its newest checkpoint before the position that was asked for.
    pub checkpoint: Option<u64>,
}

/// What a list of logs says of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogInfo {
    /// Its name.
    pub name: LogName,
    /// How many records it has.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// When its first record came; `None` where that was not written down.
    pub created: Option<Millis>,
    /// When it was last used; `None` where that was not written down.
    pub used: Option<Millis>,
}

/// A record that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The log.
    pub log: LogName,
    /// Its position there.
    pub position: u64,
}

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When it has reached the disk: it survives a loss of power.
    #[default]
    Disk,
    /// When the operating system has it: it survives the end of the process, not of the machine. For what can be made again.
    System,
}

/// Why a store did not do as it was told. Nothing was written, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log does not end where the writer believed.
    #[error("another writer was faster: the log has {end} entries, not {at}")]
    Conflict {
        /// Where the writer believed that it ends.
        at: u64,
        /// Where it ends.
        end: u64,
    },
    /// Other writers were faster each time.
    #[error("`{log}` could not be written: other writers were faster {tries} times; try again")]
    Overtaken {
        /// The log.
        log: String,
        /// How often it was tried.
        tries: usize,
    },
    /// Another process holds the store.
    #[error("the store {place} is locked by another process; try again when that is done")]
    Locked {
        /// The file.
        place: String,
    },
    /// The store may not be written to; nor can it be read then, while some of it still stands in the file `-wal` beside it.
    #[error("the store {place} may only be read; let its file and its folder be written to")]
    ReadOnly {
        /// The file.
        place: String,
    },
    /// The disk is full.
    #[error("no room is left for the store {place}; nothing was written")]
    Full {
        /// The file.
        place: String,
    },
    /// A newer version of Lookback wrote the store.
    #[error("the store {place} has version {found}, and this version of lookback reads up to {known}; update lookback")]
    Newer {
        /// The file.
        place: String,
        /// Its version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// An older version of Lookback wrote the store, and it may only be read: it cannot be brought up to date.
    #[error(
        "the store {place} has version {found} and must become version {known}, but may only be read; let it be written to"
    )]
    Older {
        /// The file.
        place: String,
        /// Its version.
        found: i64,
        /// The one that it must become.
        known: i64,
    },
    /// The file is not a store.
    #[error("{place} is not a store of lookback")]
    NotAStore {
        /// The file.
        place: String,
    },
    /// Something else stands where a file is kept. It was not opened: a pipe is waited for, and a device may have no end.
    #[error("{place} is no regular file, but a folder, a pipe, a device or a socket; move it away, or name another")]
    NotAFile {
        /// Where it stands.
        place: String,
    },
    /// A document is damaged, or was never one.
    #[error("{place} is damaged: line {line} is no JSON; mend it, or move it away")]
    NoJson {
        /// The file.
        place: String,
        /// The line, from 1.
        line: usize,
    },
    /// A search took too long, and was broken off.
    #[error("the search in {place} took longer than {} seconds; ask for fewer or rarer words", .limit.as_secs())]
    Slow {
        /// The file.
        place: String,
        /// The time it had.
        limit: std::time::Duration,
    },
    /// There is no file to open.
    #[error("there is no store at {place}")]
    Missing {
        /// The file.
        place: String,
    },
    /// A record cannot be read.
    #[error("entry {position} of `{log}` cannot be read: {reason}")]
    Damaged {
        /// The log.
        log: String,
        /// The record.
        position: u64,
        /// What is wrong with it; none of its contents.
        reason: String,
    },
    /// Something else that the backend reports.
    #[error("the store {place} failed")]
    Backend {
        /// Which one.
        place: String,
        /// What it says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The store at a path, made where there is none: plain files where it is a folder, or is written like one (`PATH/`), and else SQLite's file.
///
/// # Errors
/// Where it cannot be opened or made, or is of another kind.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("memory.db");
/// let store = lookback::store::open(&path)?;
/// # assert!(path.is_file());
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "sqlite")]
pub fn open(path: impl AsRef<std::path::Path>) -> Result<Arc<dyn Store>, StoreError> {
    let path = path.as_ref();
    Ok(if is_folder(path) { Arc::new(FileStore::open(path)?) } else { Arc::new(SqliteStore::open(path)?) })
}

/// Whether a path stands for a folder of plain files: it is one, or is written like one.
pub fn is_folder(path: &std::path::Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Refuses a path where something stands that is no regular file. To be asked before it is opened: who opens a pipe waits for its other
/// end, maybe for good. A link to a file is one.
fn refuse_special(path: &std::path::Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::NotAFile { place: path.display().to_string() }),
        // What cannot be looked at is not there, or whoever opens it is told.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Erases a session and the logs that are derived from it; `false` where there is no such session.
///
/// # Errors
/// Where the store fails.
pub async fn purge(store: &dyn Store, session: &LogName) -> Result<bool, StoreError> {
    // What is derived first: should a later step fail, a session without a summary makes another, whereas a summary or facts without
    // their session would be taken for those of the next session of this name.
    for summaries in [Some(session.summary_of()), session.old_summary_of()].into_iter().flatten() {
        if crate::session::are_summaries_of(store, &summaries, session).await? {
            store.delete(&summaries).await?;
        }
    }
    store.delete(&session.facts_of()).await?;
    store.delete(session).await
}

/// Something that a session or a memory can be opened on: a store, or an [`Arc`] of one, which is shared and not wrapped again.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback::{MemoryStore, Session, Settings, Store};
///
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let session = Session::open(store.clone(), "chat-1", Settings::default()).await?;
/// assert!(Arc::ptr_eq(session.store(), &store));
/// # Ok::<(), lookback::Error>(())
/// # }).unwrap();
/// ```
pub trait IntoStore: Send + 'static {
    /// Returns the store behind a shared pointer.
    fn into_store(self) -> Arc<dyn Store>;
}

impl<S: Store + 'static> IntoStore for S {
    fn into_store(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl<S: Store + 'static> IntoStore for Arc<S> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

impl IntoStore for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}
