//! The [`Store`] trait for named append-only logs, with stores in memory and in plain files, encryption, and search.

mod append;
mod checksum;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copy;
#[cfg(feature = "encryption")]
mod encrypted;
#[doc(hidden)]
pub mod entries;
mod entry;
mod error;
mod files;
mod memory;
pub mod messages;
mod name;
mod record;
mod retention;
pub mod search;
#[doc(hidden)]
pub mod spans;
mod tenant;
#[doc(hidden)]
pub mod texts;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use lookback_engine::transcript::Millis;

use crate::search::Query;

pub use append::Append;
pub use checksum::{StoredRecord, checksum};
pub use copy::{Copied, CopyError, copy};
#[cfg(feature = "encryption")]
pub use encrypted::{BadKey, EncryptedStore, Key};
pub use error::{Damage, FileDamage, StoreError};
pub use files::FileStore;
pub use memory::MemoryStore;
pub use name::{BadName, Derived, LogName};
pub use record::{Head, Hit, LogInfo, Record, Tombstone};
pub use retention::{Expired, Retention, expired, prune};
pub use tenant::{BadTenant, Scope, Tenant};

/// The future that a store's methods return. It is `Send`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Named append-only logs.
///
/// A writer states where it believes the log ends. If it is wrong, nothing is written. There is no other locking: if
/// two writers compete, one wins, and the other reads the new records and tries again.
///
/// # Writing a store
///
/// Another crate can implement this trait, for example over a database on a network. Sessions rely on these promises:
///
/// - **An append is atomic.** It compares `at` with the end of the log and writes all records in one step, even if
///   other processes write at the same time. If it fails, or if its future is dropped, the log has all of the records
///   or none. An append of no records also compares, but it changes nothing and creates no log.
/// - **Bodies come back byte for byte**, and in order. Any text may be in them. If a body is missing, was swapped with
///   another or was altered after it was written, the read fails with [`StoreError::Damaged`]. [`StoredRecord`] checks
///   this.
/// - **A log exists from its first record until it is deleted.** After that its name can be used again, from position
///   0.
/// - **Names are compared byte for byte.** Configure a database accordingly if it ignores case or trailing spaces by
///   default. To turn a stored text into a name again, use [`LogName::from_stored`].
/// - **Times are only recorded.** The time of the first record never changes. The time of the last use is the latest of
///   all times that were given. An append without a time does not change it.
/// - **Every store finds the same records in the same order.** An index has the [`terms`](crate::search::terms()) of
///   the records, and [`rank`](crate::search::rank()) queries it for the best matches. A store without an index can
///   read its records into [`Texts`](crate::search::Texts).
/// - **Nothing blocks the thread.** Blocking work belongs on a thread pool.
/// - **Errors contain nothing of a record.** An error without a variant of its own in [`StoreError`] is
///   [`StoreError::Backend`].
///
/// The suite in the module `conformance` (feature `conformance`) checks these promises, except for damage, dropped
/// futures, and the last two. `crates/store/tests/it/store/own.rs` is a small store that passes it.
pub trait Store: fmt::Debug + Send + Sync {
    /// Appends all of these records, or none.
    ///
    /// Fails with [`StoreError::Conflict`] if the log has more or fewer records than [`Append::at`].
    ///
    /// A store whose answer can get lost, such as one over a network, keeps the [`Append::key`] with the records. If the
    /// log has records of this key at this position, the append was made before: the store answers as it did then, and
    /// writes nothing. So a writer that got no answer can repeat the append, or ask with an append of no records.
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()>;

    /// Records that a log was used at this time, unless a later use is recorded. Returns `false` if the log does not
    /// exist.
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

    /// Returns the length of a log, and the position of its newest checkpoint before `before`, or of its newest
    /// checkpoint if `before` is `None`. Returns `None` if the log does not exist.
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>>;

    /// Returns the end of a log, as [`Store::head`] does, and the bodies of its records from the newest checkpoint on,
    /// or of all records if it has no checkpoint. Returns `None` if the log does not exist. Opening a session begins
    /// with this call.
    ///
    /// The default calls [`Store::head`] and then [`Store::read`]. A store for which each call costs a round trip
    /// should answer both in one.
    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        Box::pin(async move {
            let Some(head) = self.head(log, None).await? else { return Ok(None) };
            let bodies = self.read(log, head.checkpoint.unwrap_or(0)..head.end).await?;
            Ok(Some((head, bodies)))
        })
    }

    /// Returns the description of one log, as in [`Store::list`]; `None` if the log does not exist.
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>>;

    /// Lists the logs whose names begin with `prefix`, byte for byte, in the byte order of their names. An empty prefix
    /// lists all.
    ///
    /// A log that cannot be read, or that is lost except for its name, is listed with no records; [`Store::info`]
    /// returns the error. [`Store::orphans`] reports files and rows whose log is unknown.
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>>;

    /// Erases these logs and no others, and returns how many of them existed. To erase a session with all its logs, see
    /// [`purge`]; to erase the contents of some records, see [`Store::erase`].
    ///
    /// All of them disappear for every reader at the same moment. When the call returns, their contents are gone from
    /// the store and from its index. If the future is dropped, or the process dies, the next call finishes the work.
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64>;

    /// Replaces records of a log with tombstones, and removes their texts from the index. The length, the times and the
    /// checkpoints of the log do not change.
    ///
    /// A tombstone is skipped if its record does not exist or has another checksum: the log may have been erased and
    /// started again in the meantime. If the call fails, or if its future is dropped, some records may be replaced and
    /// others not; the same call does the rest. When it returns, the old contents are gone from the store and from its
    /// index, as after [`Store::delete`].
    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()>;

    /// Erases all logs of this namespace, as [`Store::delete`] does, and returns their number.
    fn clear(&self) -> StoreFuture<'_, u64>;

    /// Finds the records whose text matches a query, in one log or in all: the best first, and at most `most` of them
    /// (see [`search`]).
    ///
    /// A record that has the words of a phrase may be found although it does not have the phrase itself. Callers read
    /// the text and check it with [`Query::has_phrases`]. Derived logs are never searched. A search in all logs skips
    /// those that cannot be read.
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>>;

    /// Returns the store of a tenant: a namespace in the same place. Its calls reach only the tenant's logs, and calls
    /// of this store do not reach them. The namespace is empty until something is appended to it.
    ///
    /// A tenant may have tenants of its own. No name leads out of a namespace (see [`Scope`]).
    ///
    /// Fails with [`StoreError::NoTenants`] if the store cannot keep tenants apart, as the default does.
    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        let _ = tenant;
        Err(StoreError::NoTenants)
    }

    /// Checks everything that the store keeps in addition to records, including that of its tenants, and describes each
    /// problem: an index that does not match its records, or a list that does not match its log.
    ///
    /// It may take long. The default finds nothing. To check the records, see `session::verify`.
    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns an error if nothing can be written now: the disk is full, the folder is gone, or the server does not
    /// answer. It costs little and leaves nothing behind, so that a monitor may call it often. The default only reads.
    ///
    /// An append may still fail after a successful probe.
    fn probe(&self) -> StoreFuture<'_, ()> {
        // No log has this name.
        Box::pin(async move { self.list("\u{1}").await.map(drop) })
    }

    /// Describes data of the store and its tenants that belongs to no log in [`Store::list`]. It can neither be read
    /// nor copied, so `session::verify` reports it, and [`copy`](copy()) refuses to run. The default finds nothing.
    fn orphans(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Finishes interrupted erasures and frees unused space. It may take long, and other callers may have to wait. The
    /// default does nothing.
    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the tenants that have logs, or whose own tenants have, in the byte order of their names. The default
    /// returns none.
    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns why the server of the store cannot be reached, if the last connection to it failed. It does no I/O.
    ///
    /// A caller whose own time limit ends before the store's reports this error as the reason. The default returns
    /// `None`.
    fn last_error(&self) -> Option<StoreError> {
        None
    }
}

/// A namespace: the names of its tenants, outermost first, and its store; `None` for the store itself.
#[doc(hidden)]
pub type Namespace = (Vec<Tenant>, Option<Arc<dyn Store>>);

/// Returns all namespaces of a store: its own first, and then those of its tenants.
///
/// # Errors
/// Returns an error if the store fails.
#[doc(hidden)]
pub async fn every_namespace(store: &dyn Store) -> Result<Vec<Namespace>, StoreError> {
    let mut found: Vec<Namespace> = vec![(Vec::new(), None)];
    let mut next = 0;
    while let Some((outer, scoped)) = found.get(next).cloned() {
        let within = scoped.as_deref().unwrap_or(store);
        for tenant in within.tenants().await? {
            let inner = within.scoped(&tenant)?;
            found.push((outer.iter().cloned().chain([tenant]).collect(), Some(inner)));
        }
        next += 1;
    }
    Ok(found)
}

/// The point at which an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After it has reached the disk. It survives a loss of power.
    #[default]
    Disk,
    /// After the operating system has it. It survives the end of the process, but not a loss of power: for data that
    /// can be recreated. A short append to SQLite runs on the thread that awaits it, which takes a moment.
    System,
}

/// Returns whether a path means a store of plain files: it is a folder, or ends in `/`.
#[doc(hidden)]
pub fn is_folder(path: &std::path::Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The error for a path that SQLite opens as a private temporary database, which ends with its connection.
#[doc(hidden)]
pub const NO_FILE: StoreError =
    StoreError::Url { reason: "an SQLite store needs the path of a file; for process memory, use memory:" };

/// Returns whether SQLite would open a private temporary database for this path.
#[doc(hidden)]
pub fn is_no_file(path: &std::path::Path) -> bool {
    path.as_os_str().is_empty() || path.as_os_str() == ":memory:"
}

/// Returns an error if the path leads to something other than a regular file. Call it before opening: opening a pipe
/// waits for its other end, perhaps forever. A link to a file counts as a file.
#[doc(hidden)]
pub fn refuse_special(path: &std::path::Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::NotAFile { place: path.display().to_string() }),
        // A path that cannot be inspected does not exist, or opening it gives the error.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns a URL without its password and its parameters.
#[doc(hidden)]
pub fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (before, behind) = rest.split_once('?').unwrap_or((rest, ""));
    if !before.contains('@') && behind.contains('@') {
        // The password contains an unescaped question mark.
        return format!("{scheme}://");
    }
    // A password may contain any character, even one that should be escaped.
    let (user, host) = before.rsplit_once('@').map_or(("", before), |(user, host)| (user, host));
    let user = user.split_once(':').map_or(user, |(user, _)| user);
    let at = if user.is_empty() { "" } else { "@" };
    format!("{scheme}://{user}{at}{host}")
}

/// How many bytes a probe writes. A disk without room for them counts as full.
const PROBE: usize = 64 << 10;

/// Returns an error if a small file cannot be written to a folder. Removes the file again.
#[doc(hidden)]
pub fn probe_folder(folder: &std::path::Path) -> Result<(), StoreError> {
    use std::io::{ErrorKind, Write as _};

    let path = folder.join(format!("lookback-probe-{}.tmp", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // A dead process with the same number may have left one.
    let _ = std::fs::remove_file(&path);
    let written = options.open(&path).and_then(|mut file| file.write_all(&vec![b'.'; PROBE]));
    let _ = std::fs::remove_file(&path);
    written.map_err(|error| {
        let place = folder.display().to_string();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StoreError::Full { place },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { place },
            _ => StoreError::Backend { place, source: Box::new(error) },
        }
    })
}

/// Erases a session and the logs that are derived from it. Returns `false` if none of them exists.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn purge(store: &dyn Store, session: &LogName) -> Result<bool, StoreError> {
    Ok(store.delete(&logs_of(session)).await? > 0)
}

/// Returns the names of a session's own log and of those that are derived from it.
fn logs_of(session: &LogName) -> Vec<LogName> {
    let derived = Derived::ALL.into_iter().filter(|derived| derived.is_of_session());
    std::iter::once(session.clone()).chain(derived.map(|derived| session.derive(derived))).collect()
}

/// A value that a session or a memory can be opened on: a store, or an [`Arc`] of one, which is shared and not wrapped
/// again.
///
/// ```
/// use std::sync::Arc;
///
/// use lookback_store::{IntoStore, MemoryStore, Store};
///
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// assert!(Arc::ptr_eq(&store.clone().into_store(), &store));
/// ```
pub trait IntoStore: Send + 'static {
    /// Returns the store as an [`Arc`].
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

/// Returns the current time: that of the system's clock, unless [`set_now`] has set one. `None` if the system's clock is
/// set to before 1970.
#[doc(hidden)]
pub fn now() -> Option<Millis> {
    let set = CLOCK.load(Ordering::Relaxed);
    if set != SYSTEM {
        return Some(set);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// Sets the time that all sessions of this process go by, for benchmarks and tests that replay recorded times. The clock
/// then stands still until the next call. With `None`, it is the system's again.
#[doc(hidden)]
pub fn set_now(time: Option<Millis>) {
    CLOCK.store(time.unwrap_or(SYSTEM), Ordering::Relaxed);
}

/// The time that was set, or [`SYSTEM`].
static CLOCK: AtomicI64 = AtomicI64::new(SYSTEM);
/// No time was set: the system's clock counts.
const SYSTEM: Millis = Millis::MIN;
