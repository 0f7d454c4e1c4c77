//! A store in plain files, for people who want to read and compare the logs.
//!
//! ```text
//! .lookback/memory/NAME/turns.jsonl            a session: a header line, then one line for each record
//! .lookback/memory/NAME/facts.jsonl            its facts
//! .lookback/memory/NAME/summary.jsonl          its summaries
//! .lookback/memory/shared/memory.json          the shared facts of the workspace `shared`: one JSON document
//! .lookback/memory/shared/WORKSPACE.json       the same for other workspaces
//! .lookback/index/                             the places of the records; rebuilt if deleted
//! .lookback/lookback.lock                      the lock of writers
//! .lookback/lookback.erasing                   the names of logs during a joint erasure
//! .lookback/tenants/TENANT/                    the same tree for a tenant
//! ```
//!
//! A line is `{"at":POSITION,"time":MILLISECONDS,"text":TEXT,"role":ROLE,"name":NAME,"said":MILLISECONDS,
//! "entry":BODY,"sum":CHECKSUM}`. `text` and the speaker's role, name and time are for searches. `"part":[1,3]` means
//! that the line is the first of three of one append: readers take an append entirely or not at all. A file `*.used`
//! next to a log has the time of its last use, if that was not a write, and a checksum.
//!
//! The checksum reveals an altered line. A person who edits a line empties it: `"sum":""`.
//!
//! Writers hold the lock. Readers need none: a log grows by whole appends, and readers ignore incomplete ones. A
//! document is replaced by a new file.

mod disk;
mod document;
mod erasing;
mod index;
mod line;
mod lines;
mod place;
mod root;
mod used;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lookback_engine::transcript::Millis;

use self::root::{Files, PATIENCE};
use super::{Append, Durability, Head, Hit, LogInfo, LogName, Store, StoreError, StoreFuture, Tenant, Tombstone};
use crate::search::Query;

/// A store in plain files under a folder. Several processes may use it at once, and people can read it.
///
/// Another program may keep its own files in the folder. The store does not touch them.
///
/// There is no index of words. A search reads every line of the logs in its range, and keeps only the matches: it takes
/// about a second for 20 MB. For larger stores, use SQLite.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::{Append, FileStore, Record, Store};
///
/// let folder = tempfile::tempdir()?;
/// let store = FileStore::open(folder.path().join(".lookback"))?;
/// store.append(&"chat-1".parse()?, Append::new(0, [Record::new(r#"{"said":"Hello"}"#).text("Hello")])).await?;
/// let turns = std::fs::read_to_string(folder.path().join(".lookback/memory/chat-1/turns.jsonl"))?;
/// assert!(turns.contains(r#""text":"Hello""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct FileStore {
    files: Arc<Files>,
}

impl FileStore {
    /// Opens a store, and creates its folder if it does not exist. An append is done after it has reached the disk.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created, or is a file.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        FileStore::open_with(root, Durability::Disk)
    }

    /// Opens a store with this durability, and creates its folder if it does not exist.
    ///
    /// # Errors
    /// The same as [`FileStore::open`].
    pub fn open_with(root: impl AsRef<Path>, durability: Durability) -> Result<Self, StoreError> {
        let root = root.as_ref();
        if root.exists() && !root.is_dir() {
            return Err(StoreError::NotAStore { place: root.display().to_string() });
        }
        let files = Files::new(root.to_owned(), durability, PATIENCE);
        files.make_root()?;
        Ok(FileStore { files: Arc::new(files) })
    }

    /// Opens an existing store: a folder to which a store has written.
    ///
    /// # Errors
    /// The same as [`FileStore::open`]. Returns an error if the folder does not exist, or contains no store.
    pub fn open_existing(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        let missing = || StoreError::Missing { place: root.as_ref().display().to_string() };
        if !root.as_ref().exists() {
            return Err(missing());
        }
        let store = FileStore::open(&root)?;
        if store.files.is_there() { Ok(store) } else { Err(missing()) }
    }

    /// Sets how long to wait for another process before an error says that the store is locked. The default is 5
    /// seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        let files = Files::new(self.root().to_owned(), self.files.durability(), patience);
        FileStore { files: Arc::new(files) }
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        self.files.root()
    }

    /// Runs `work` on a thread that may block.
    fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Files) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let files = self.files.clone();
        Box::pin(blocking::unblock(move || work(&files)))
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("root", &self.root()).finish_non_exhaustive()
    }
}

impl Store for FileStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        let log = log.clone();
        self.run(move |files| files.append(&log, append.at, &append.records, append.time))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let log = log.clone();
        self.run(move |files| files.touch(&log, time))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let log = log.clone();
        self.run(move |files| Ok(files.read_many(&log, &[span])?.pop().unwrap_or_default()))
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        let (log, spans) = (log.clone(), spans.to_vec());
        self.run(move |files| files.read_many(&log, &spans))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let log = log.clone();
        self.run(move |files| files.head(&log, before))
    }

    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        let log = log.clone();
        self.run(move |files| files.tail(&log))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        let log = log.clone();
        self.run(move |files| files.info(&log))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        let prefix = prefix.to_owned();
        self.run(move |files| files.list(&prefix))
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        let logs = logs.to_vec();
        self.run(move |files| files.delete(&logs))
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        let log = log.clone();
        self.run(move |files| files.replace(&log, tombstones))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.run(Files::clear)
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        let (log, query) = (log.cloned(), query.clone());
        self.run(move |files| if query.is_empty() { Ok(Vec::new()) } else { files.search(log, &query, most) })
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(FileStore { files: Arc::new(self.files.for_tenant(tenant)) }))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        self.run(Files::probe)
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.run(Files::check)
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<String>> {
        self.run(Files::orphans)
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.run(Files::vacuum)
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.run(Files::tenants)
    }
}
