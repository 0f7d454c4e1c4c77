//! Where logs are kept: the [`Store`] trait, named append-only logs, and one file for each backend.

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
pub(crate) use words::{folded, query_words, split, words};

/// The future that a store's methods return. It can be sent between threads.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Named append-only logs.
///
/// A writer says where it believes the log ends. If it is wrong, nothing is written. There is no other locking: if two
/// writers compete, one wins, and the other reads what the first wrote and tries again.
pub trait Store: fmt::Debug + Send + Sync {
    /// Appends all of these records, or none. `at` is the number of records that the writer believes the log has.
    /// `time` is the writer's clock, if it has one: the log's creation time on its first append, and its time of last
    /// use on every append.
    ///
    /// Fails with [`StoreError::Conflict`] if the log has more or fewer records.
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        at: u64,
        records: Vec<Record>,
        time: Option<Millis>,
    ) -> StoreFuture<'a, ()>;

    /// Records that a log was used at this time, unless it was used later already. Returns `false` if there is no such
    /// log.
    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool>;

    /// Returns the bodies of the records at these positions, in order. Records that do not exist are left out.
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>>;

    /// Returns the bodies of the records in each of these spans: one list for each span, in their order. Records that
    /// do not exist are left out, as by [`Store::read`].
    ///
    /// The default reads one span after another. A store for which each call costs a round trip should answer all of
    /// them in one.
    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        Box::pin(async move {
            let mut bodies = Vec::with_capacity(spans.len());
            for span in spans {
                bodies.push(self.read(log, span.clone()).await?);
            }
            Ok(bodies)
        })
    }

    /// Returns the length of a log, and the position of its newest checkpoint before `before`, or of its newest one at
    /// all; `None` if there is no such log.
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>>;

    /// Returns what [`Store::list`] says about one log; `None` if there is no such log.
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>>;

    /// Lists the logs whose names begin with `prefix`, byte for byte, in the byte order of their names. An empty prefix
    /// lists all. A log that cannot be read is listed with no records; [`Store::info`] returns the error for it.
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>>;

    /// Erases this log and no other. Returns `false` if there is no such log. To erase a session with all its logs, see
    /// [`purge`].
    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool>;

    /// Erases all logs, and returns their number.
    fn clear(&self) -> StoreFuture<'_, u64>;

    /// Finds the records whose text has every word of `query`, in one log or in all, the best first, and at most `most`
    /// of them.
    ///
    /// Case, accents and repeated words make no difference. Of a longer query only the first [`MOST_WORDS`] different
    /// words count. Derived logs are never searched. A search in all logs skips those that cannot be read.
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> StoreFuture<'a, Vec<Hit>>;
}

/// One record of a log. A store does not interpret its body.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The entry, as JSON.
    pub body: String,
    /// The text by which searches find it. An empty text is never found.
    pub text: String,
    /// Whether a reader can start here.
    pub checkpoint: bool,
}

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of its records.
    pub end: u64,
    /// The position of its newest checkpoint before the requested position.
    pub checkpoint: Option<u64>,
}

/// What a list of logs says about each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogInfo {
    /// Its name.
    pub name: LogName,
    /// The number of its records.
    pub records: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// The time of its first record; `None` if it is unknown.
    pub created: Option<Millis>,
    /// The time of its last use; `None` if it is unknown.
    pub used: Option<Millis>,
}

/// A record that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// Its log.
    pub log: LogName,
    /// Its position in the log.
    pub position: u64,
}

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When it has reached the disk. It survives a loss of power.
    #[default]
    Disk,
    /// When the operating system has it. It survives the end of the process, but not a loss of power: for data that can
    /// be made again.
    System,
}

/// An error of a store. Nothing was written, unless the error says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log does not end where the writer believed.
    #[error("another writer was faster: the log has {end} entries, not {at}")]
    Conflict {
        /// The end that the writer believed.
        at: u64,
        /// The actual end.
        end: u64,
    },
    /// Other writers were faster at every try.
    #[error("`{log}` could not be written: other writers were faster {tries} times; try again")]
    Overtaken {
        /// The log.
        log: String,
        /// The number of tries.
        tries: usize,
    },
    /// Another process holds the store.
    #[error("the store {place} is locked by another process; try again when it has finished")]
    Locked {
        /// The file.
        place: String,
    },
    /// The store may not be written to. It cannot even be read then, if part of it is still in the file `-wal` beside
    /// it.
    #[error("the store {place} is read-only; make its file and its folder writable")]
    ReadOnly {
        /// The file.
        place: String,
    },
    /// The disk is full.
    #[error("no space is left for the store {place}; nothing was written")]
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
        /// The newest version that this version of Lookback knows.
        known: i64,
    },
    /// An older version of Lookback wrote the store, which is read-only and so cannot be migrated.
    #[error(
        "the store {place} has version {found} and must become version {known}, but it is read-only; make it writable"
    )]
    Older {
        /// The file.
        place: String,
        /// Its version.
        found: i64,
        /// The version to which it must be migrated.
        known: i64,
    },
    /// The file is not a store.
    #[error("{place} is not a store of lookback")]
    NotAStore {
        /// The file.
        place: String,
    },
    /// The path of a file leads to something else. It was not opened: opening a pipe waits, and a device may have no
    /// end.
    #[error(
        "{place} is not a regular file but a folder, a pipe, a device or a socket; move it, or choose another path"
    )]
    NotAFile {
        /// The path.
        place: String,
    },
    /// A document is damaged, or was never one.
    #[error("{place} is damaged: line {line} is not valid JSON; repair the file, or move it away")]
    NoJson {
        /// The file.
        place: String,
        /// The line, from 1.
        line: usize,
    },
    /// A search took too long, and was stopped.
    #[error("the search in {place} took longer than {} seconds; ask for fewer or rarer words", .limit.as_secs())]
    Slow {
        /// The file.
        place: String,
        /// The time limit.
        limit: std::time::Duration,
    },
    /// There is no file to open.
    #[error("there is no store at {place}")]
    Missing {
        /// The path.
        place: String,
    },
    /// A record cannot be read.
    #[error("entry {position} of `{log}` cannot be read: {reason}")]
    Damaged {
        /// The log.
        log: String,
        /// The record.
        position: u64,
        /// What is wrong with it, without any of its contents.
        reason: String,
    },
    /// Any other error of the backend.
    #[error("the store {place} failed")]
    Backend {
        /// Which store.
        place: String,
        /// The backend's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Opens the store at a path, and creates it if it does not exist: plain files if the path is a folder or ends in `/`,
/// otherwise a SQLite file.
///
/// # Errors
/// Returns an error if the store cannot be opened or created, or if something else is at the path.
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

/// Returns whether a path means a store of plain files: it is a folder, or ends in `/`.
pub fn is_folder(path: &std::path::Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Returns an error if the path leads to something other than a regular file. Call it before opening: opening a pipe
/// waits for its other end, perhaps forever. A link to a file counts as a file.
fn refuse_special(path: &std::path::Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::NotAFile { place: path.display().to_string() }),
        // If it cannot be looked at, it does not exist, or opening it gives the error.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Erases a session and the logs that are derived from it. Returns `false` if there is no such session.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn purge(store: &dyn Store, session: &LogName) -> Result<bool, StoreError> {
    // Derived logs first, in case a later step fails. A session without a summary makes another one, but summaries and
    // facts without their session would be taken for those of the next session of this name.
    for summaries in [Some(session.summary_of()), session.old_summary_of()].into_iter().flatten() {
        if crate::session::are_summaries_of(store, &summaries, session).await? {
            store.delete(&summaries).await?;
        }
    }
    store.delete(&session.facts_of()).await?;
    store.delete(session).await
}

/// Something that a session or a memory can be opened on: a store, or an [`Arc`] of one, which is shared and not
/// wrapped again.
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
