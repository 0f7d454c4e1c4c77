//! Opens the file, and creates it readable only by its owner.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::connections::Connections;
use super::fault::explain;
use super::readers::{Readers, is_written};
use super::schema::prepare;
use super::{PATIENCE, SqliteStore};
use lookback_store::{Durability, NO_FILE, Scope, StoreError, is_no_file, refuse_special};

impl SqliteStore {
    /// Opens a store, and creates it if it does not exist. An append is done after it has reached the disk.
    ///
    /// # Errors
    /// Returns an error if the file is not a store, if a newer version wrote it, if another process holds it, or if it
    /// cannot be created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteStore::open_with(path, Durability::Disk)
    }

    /// Opens a store with this durability, and creates it if it does not exist.
    ///
    /// # Errors
    /// The same as [`SqliteStore::open`].
    pub fn open_with(path: impl AsRef<Path>, durability: Durability) -> Result<Self, StoreError> {
        let path = path.as_ref();
        make_private(path);
        SqliteStore::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, durability)
    }

    /// Opens an existing store. If it is not writable, it is opened for reading only.
    ///
    /// # Errors
    /// The same as [`SqliteStore::open`]. Returns an error if there is no file.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        if !path.exists() {
            return Err(StoreError::Missing { place: path.display().to_string() });
        }
        let opened = SqliteStore::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Durability::Disk);
        match (&opened, at_rest(path)) {
            (Err(StoreError::ReadOnly { .. }), Some(uri)) => SqliteStore::attach_at_rest(&uri, path),
            _ => opened,
        }
    }

    /// Sets how long to wait for another process before an error says that the store is locked. The default is 5
    /// seconds.
    ///
    /// # Errors
    /// None in practice: SQLite accepts any duration.
    pub fn with_patience(self, patience: Duration) -> Result<Self, StoreError> {
        self.file.set_patience(patience)?;
        Ok(self)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    fn connect(path: &Path, flags: OpenFlags, durability: Durability) -> Result<Self, StoreError> {
        if is_no_file(path) {
            return Err(NO_FILE);
        }
        // SQLite keeps its other files next to the target of a link, and the process may change its working directory.
        let file = path.canonicalize();
        let file = file.as_deref().unwrap_or(path);
        let connection = SqliteStore::attach(file, path, flags)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(|error| explain(path, error))?;
        let readers = Readers::new(file, (flags | OpenFlags::SQLITE_OPEN_NO_MUTEX) - OpenFlags::SQLITE_OPEN_CREATE);
        let connections = Connections::new(connection, readers, path, file);
        let connections = match durability {
            Durability::Disk => connections,
            Durability::System => connections.quick().map_err(|error| explain(path, error))?,
        };
        Ok(SqliteStore::from_connections(connections))
    }

    /// Opens a file that no process writes to, by its URI, for reading only. If a process writes to it later, the store
    /// follows the changes, or returns an error.
    fn attach_at_rest(uri: &str, path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = SqliteStore::attach(Path::new(uri), path, flags)?;
        let file = path.canonicalize();
        let file = file.as_deref().unwrap_or(path);
        let readers = Readers::new(Path::new(uri), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).at_rest(file);
        Ok(SqliteStore::from_connections(Connections::new(connection, readers, path, file)))
    }

    fn from_connections(connections: Connections) -> Self {
        SqliteStore { file: Arc::new(connections), scope: Scope::default() }
    }

    /// Opens `target`, which is a path, or a URI of `path`.
    fn attach(target: &Path, path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
        // The file, and the files that SQLite keeps next to it.
        for ending in ["", "-wal", "-shm", "-journal"] {
            let mut file = path.as_os_str().to_owned();
            file.push(ending);
            refuse_special(Path::new(&file))?;
        }
        let fault = |error| explain(path, error);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(target, flags).map_err(fault)?;
        connection.busy_timeout(PATIENCE).map_err(fault)?;
        prepare(&mut connection, path)?;
        Ok(connection)
    }
}

/// Creates the file if it does not exist, readable only by its owner, because it contains conversations. SQLite gives
/// the files next to it the same permissions.
fn make_private(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // If it cannot be created, SQLite reports the error.
        let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Returns the URI of a database in a folder where SQLite may not create files, which other readers need. `None` if a
/// process is writing to the database, because then part of it is not in the file.
fn at_rest(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let path = path.to_str()?;
    let is_written = is_written(Path::new(path));
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    (!is_written).then(|| format!("file:{escaped}?immutable=1"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use futures_lite::future::block_on;
    use lookback_store::{Append, LogName, Record, Store};

    #[test]
    fn a_file_at_rest_is_read_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let log: LogName = "one".parse().unwrap();
        for name in ["s.db", "100%.db", "%41?b#c&mode=rw.db", "ä b'\".db"] {
            let path = folder.path().join(name);
            let store = SqliteStore::open(&path).unwrap();
            let record = Record::new("{}").text("apple");
            block_on(store.append(&log, Append::new(0, [record.clone()]))).unwrap();
            assert_eq!(at_rest(&path), None, "somebody writes to it");
            drop(store);
            let uri = at_rest(&path).unwrap();
            let store = SqliteStore::attach_at_rest(&uri, &path).unwrap();
            assert_eq!(block_on(store.search(None, &"apple".into(), 9)).unwrap().len(), 1);
            let refused = block_on(store.append(&log, Append::new(1, [record]))).unwrap_err();
            assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
        }
    }

    #[test]
    fn a_file_that_was_at_rest_is_followed_or_refused_while_somebody_writes_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let log: LogName = "one".parse().unwrap();
        let append = |store: &SqliteStore, from: u64| {
            let records = (from..from + 200).map(|n| Record::new(format!("{{\"n\":{n}}}")));
            block_on(store.append(&log, Append::new(from, records))).unwrap();
        };
        append(&SqliteStore::open(&path).unwrap(), 0);
        let reader = SqliteStore::attach_at_rest(&at_rest(&path).unwrap(), &path).unwrap();
        let read = || block_on(reader.read(&log, 0..u64::MAX)).map(|bodies| bodies.len());
        assert_eq!(read().unwrap(), 200);
        for end in [200, 400, 600] {
            let writer = SqliteStore::open(&path).unwrap();
            append(&writer, end);
            let refused = read().unwrap_err();
            assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
            drop(writer);
            assert_eq!(read().unwrap() as u64, end + 200);
        }
    }

    #[test]
    fn readers_without_a_lock_never_get_a_part_of_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let log: LogName = "one".parse().unwrap();
        // They are long, so that each write changes the length of the file.
        let append = |from: u64| {
            let records = (0..20).map(|_| Record::new("x".repeat(5_000)));
            block_on(SqliteStore::open(&path).unwrap().append(&log, Append::new(from, records))).unwrap();
        };
        append(0);
        let reader = SqliteStore::attach_at_rest(&at_rest(&path).unwrap(), &path).unwrap();
        let (reads, torn, done) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        let read = block_on(reader.read(&log, 0..u64::MAX));
                        if !matches!(read, Err(StoreError::ReadOnly { .. } | StoreError::Locked { .. })) {
                            let is_whole = read.is_ok_and(|bodies| bodies.len() % 20 == 0);
                            torn.fetch_or(!is_whole, Ordering::SeqCst);
                            reads.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            for round in 1..40 {
                append(20 * round);
                // Waits for a read without a writer.
                let before = reads.load(Ordering::SeqCst);
                while reads.load(Ordering::SeqCst) == before {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        assert!(!torn.into_inner());
        assert_eq!(block_on(reader.read(&log, 0..u64::MAX)).unwrap().len(), 800);
    }
}
