//! Where logs are kept: the [`Store`] trait, named append-only logs, and one file for each backend.

mod checksum;
mod error;
mod files;
mod memory;
mod name;
mod record;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use lookback_core::transcript::Millis;

use crate::search::Query;

pub use checksum::{StoredRecord, checksum};
pub use error::{Damage, LineFault, StoreError};
pub use files::FileStore;
pub use memory::MemoryStore;
pub use name::{BadName, Derived, LogName};
pub use record::{Head, Hit, LogInfo, Record};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// The future that a store's methods return. It can be sent between threads.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Named append-only logs.
///
/// A writer says where it believes the log ends. If it is wrong, nothing is written. There is no other locking: if two
/// writers compete, one wins, and the other reads what the first wrote and tries again.
///
/// # Writing a store
///
/// Another crate can implement this trait, for example over a database on a network. Sessions rely on these promises:
///
/// - **An append is atomic.** It compares `at` with the end of the log and writes all records in one step, even if
///   other processes write at the same time. If it fails, or if its future is dropped, the log has all of the records
///   or none. An append of no records also compares, but it changes nothing and creates no log.
/// - **Bodies come back byte for byte**, and in order. Any text may be in them. If one is missing, stands where another
///   belongs, or was altered after it was written, the read fails with [`StoreError::Damaged`]. [`StoredRecord`] checks
///   this.
/// - **A log exists from its first record until it is deleted.** After that its name can be used again, from position 0.
/// - **Names are compared byte for byte.** A database that ignores case or spaces at the end must be told not to. To
///   turn a stored text into a name again, use [`LogName::stored`].
/// - **Times are only recorded.** The time of the first record never changes. The time of the last use is the latest of
///   all times that were given, and an append without a time leaves it as it is.
/// - **Every store finds the same records in the same order.** An index has the [`terms`](crate::search::terms()) of the
///   records, and [`rank`](crate::search::rank()) asks it for the best. A store without an index can read its records
///   into [`Texts`](crate::search::Texts).
/// - **Nothing blocks the thread.** Work that waits belongs on a pool of threads.
/// - **Errors contain nothing of a record.** An error that [`StoreError`] has no variant for is
///   [`StoreError::Backend`].
///
/// The suite in `crates/lookback/tests/it/store.rs` checks all this but the last two, and
/// `crates/lookback/tests/it/store/own.rs` is a small store that passes it.
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

    /// Finds the records whose text fits a query, in one log or in all: the best first, and at most `most` of them (see
    /// [`search`](crate::search)).
    ///
    /// A record that has the words of a phrase may be found although it does not have the phrase itself. Callers read
    /// the text, and ask [`Query::has_phrases`]. Derived logs are never searched. A search in all logs skips those that
    /// cannot be read.
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>>;
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

/// Opens the store at a path, and creates it if it does not exist: plain files if the path is a folder or ends in `/`,
/// otherwise an SQLite file.
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
