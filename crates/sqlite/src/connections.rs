//! Connections to one file: one for writes, and one for each reader.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fault::{Fault, explain};
use super::index;
use super::readers::{Readers, locked};
use super::wal::Wal;
use lookback_store::{StoreError, StoreFuture};

/// The connections to a file.
#[derive(Debug)]
pub(super) struct Connections {
    /// The connection for writes, and for the reads within them.
    writer: Arc<Mutex<Connection>>,
    readers: Arc<Readers>,
    pub(super) path: PathBuf,
    /// The file that was opened.
    opened: Opened,
    wal: Arc<Wal>,
    /// Whether a write is done after the system has it.
    is_quick: bool,
}

/// Identifies the opened file, to detect another one at its path. SQLite continues to write to a deleted file, and
/// loses these writes when the last process closes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Opened {
    /// Absolute, because the folder of the process may change.
    path: PathBuf,
    number: Option<(u64, u64)>,
}

impl Opened {
    fn from_path(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let number = file_number(&path);
        Opened { path, number }
    }

    /// Returns an error if the file was deleted or replaced.
    fn check(&self) -> Result<(), Fault> {
        if file_number(&self.path) == self.number {
            return Ok(());
        }
        Err(Fault::Store(StoreError::Replaced { place: self.place() }))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Returns the numbers of the device and of the file. Other systems do not allow deleting an open file.
fn file_number(path: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let file = fs::metadata(path).ok()?;
        Some((file.dev(), file.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// A connection that does not wait for other processes until this is dropped.
struct Impatient<'a>(&'a mut Connection, Duration);

impl Impatient<'_> {
    fn new(connection: &mut Connection, patience: Duration) -> rusqlite::Result<Impatient<'_>> {
        connection.busy_timeout(Duration::ZERO)?;
        Ok(Impatient(connection, patience))
    }
}

impl Drop for Impatient<'_> {
    fn drop(&mut self) {
        // SQLite accepts any duration.
        let _ = self.0.busy_timeout(self.1);
    }
}

impl Connections {
    /// Creates the connections. `file` is `path` with its links resolved.
    pub(super) fn new(writer: Connection, readers: Readers, path: &Path, file: &Path) -> Self {
        let (writer, readers) = (Arc::new(Mutex::new(writer)), Arc::new(readers));
        let (opened, wal) = (Opened::from_path(file), Arc::new(Wal::for_database(file)));
        Connections { writer, readers, path: path.to_owned(), opened, wal, is_quick: false }
    }

    /// Makes a write done after the system has it, without waiting for the disk.
    pub(super) fn quick(self) -> rusqlite::Result<Self> {
        {
            let writer = self.writer();
            writer.pragma_update(None, "synchronous", "NORMAL")?;
            // Then the length of `-wal` shows how much of it is in use.
            writer.pragma_update(None, "journal_size_limit", 0)?;
        }
        Ok(Connections { is_quick: true, ..self })
    }

    /// The folder of the file.
    pub(super) fn folder(&self) -> PathBuf {
        self.opened.path.parent().unwrap_or(Path::new("")).to_owned()
    }

    /// The connection for writes.
    pub(super) fn writer(&self) -> MutexGuard<'_, Connection> {
        locked(&self.writer)
    }

    /// Empties the file `-wal`, which may still contain erased data. Retries for as long as the store's patience, and
    /// lets others write in between. Returns `false` if a reader prevented it all the time.
    pub(super) async fn empty_wal(&self) -> Result<bool, StoreError> {
        let (begun, patience) = (Instant::now(), self.readers.patience());
        loop {
            let is_empty = self.run(move |connection| Ok(Wal::empty(connection, patience)?)).await?;
            if is_empty || begun.elapsed() > patience {
                return Ok(is_empty);
            }
            async_io::Timer::after(Wal::WAIT).await;
        }
    }

    pub(super) fn set_patience(&self, patience: Duration) -> Result<(), StoreError> {
        self.writer().busy_timeout(patience).map_err(|error| explain(&self.path, error))?;
        self.readers.set_patience(patience);
        Ok(())
    }

    /// Runs `work`, a short append with this many texts, on the connection for writes. Runs it on this thread unless it
    /// would wait for the disk or for another writer: handing it to another thread takes longer than running it.
    pub(super) fn append<'a, T: Send + 'static>(
        &'a self,
        texts: usize,
        work: impl Fn(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            match self.at_once(texts, &work) {
                Some(done) => done.map_err(|fault| fault.explained(&self.path)),
                None => self.run(move |connection| work(connection)).await,
            }
        })
    }

    /// Does the same as [`Connections::append`]; `None` if it would wait.
    fn at_once<T>(&self, texts: usize, work: impl Fn(&mut Connection) -> Result<T, Fault>) -> Option<Result<T, Fault>> {
        if !self.is_quick || !self.wal.takes_quickly() {
            return None;
        }
        let mut connection = match self.writer.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let patience = self.readers.patience();
        let connection = Impatient::new(&mut connection, patience).ok()?;
        if !index::has_room(connection.0, texts).ok()? {
            return None;
        }
        let done = self.opened.check().and_then(|()| work(connection.0));
        Some(done).filter(|done| !matches!(done, Err(fault) if fault.is_busy()))
    }

    /// Runs `work` on the connection for writes, on a thread that may block.
    pub(super) fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let (connection, opened, wal) = (self.writer.clone(), self.opened.clone(), self.wal.clone());
        let patience = self.readers.patience();
        Box::pin(async move {
            let done = blocking::unblock(move || {
                let mut connection = locked(&connection);
                opened.check()?;
                // After a panic no transaction stays open: dropping it rolls it back.
                let done = work(&mut connection)?;
                // The write itself has succeeded, whatever the length of the file.
                let _ = wal.keep_short(&connection, patience);
                Ok(done)
            });
            done.await.map_err(|fault: Fault| fault.explained(&self.path))
        })
    }

    /// Runs `work` on a connection for one reader, on a thread that may block. If the file is read without a lock and
    /// has changed in the meantime, `work` runs again.
    pub(super) fn read<'a, T: Send + 'static>(
        &'a self,
        work: impl Fn(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let (readers, opened) = (self.readers.clone(), self.opened.clone());
        Box::pin(async move {
            let done = blocking::unblock(move || {
                opened.check()?;
                let begun = Instant::now();
                loop {
                    let mut reader = readers.take()?;
                    let done = work(&mut reader.connection);
                    if readers.stamp()? == reader.stamp {
                        let done = done?;
                        // After an error or a panic the connection is not used again.
                        readers.give_back(reader);
                        return Ok(done);
                    }
                    if begun.elapsed() > readers.patience() {
                        return Err(Fault::Store(StoreError::Locked { place: opened.place() }));
                    }
                }
            });
            done.await.map_err(|fault: Fault| fault.explained(&self.path))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::SqliteStore;
    use futures_lite::future::{block_on, poll_once};
    use lookback_store::{Append, Durability, LogName, Record, Store};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn readers_that_come_one_after_another_do_not_let_the_wal_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = SqliteStore::open_with(&path, Durability::System).unwrap();
        store.file.wal.limit.store(1 << 20, Ordering::Relaxed);
        let log: LogName = "one".parse().unwrap();
        let records = || (0..20).map(|_| Record::new("x".repeat(5_000)));
        block_on(store.append(&log, Append::new(0, records()))).unwrap();
        let done = AtomicBool::new(false);
        let (mut longest, length) = (0, || fs::metadata(folder.path().join("s.db-wal")).unwrap().len());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                // Each begins before another one ends.
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        block_on(store.file.read(|connection| {
                            let transaction = connection.transaction()?;
                            transaction.query_row("SELECT count(*) FROM entries", [], |_| Ok(()))?;
                            std::thread::sleep(Duration::from_millis(30));
                            Ok(())
                        }))
                        .unwrap();
                    }
                });
            }
            for round in 1..150 {
                block_on(store.append(&log, Append::new(20 * round, records()))).unwrap();
                longest = longest.max(length());
            }
            done.store(true, Ordering::SeqCst);
        });
        assert!(longest < 4 << 20, "{longest} bytes");
        assert_eq!(block_on(store.read(&log, 0..u64::MAX)).unwrap().len(), 3_000);
    }

    #[test]
    fn what_a_long_reader_has_let_grow_is_short_again_when_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = SqliteStore::open(&path).unwrap();
        store.file.wal.limit.store(2 << 20, Ordering::Relaxed);
        let log: LogName = "one".parse().unwrap();
        let append = |round: u64| {
            let records = (0..20).map(|_| Record::new("x".repeat(5_000)));
            block_on(store.append(&log, Append::new(20 * round, records))).unwrap();
        };
        append(0);
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        let seen: i64 = reader.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap();
        (1..60).for_each(append);
        assert!(store.file.wal.length() > 4 << 20, "{} bytes", store.file.wal.length());
        assert_eq!(seen, 20);
        reader.execute_batch("ROLLBACK").unwrap();
        store.file.wal.again.store(0, Ordering::Relaxed);
        append(60);
        assert!(store.file.wal.length() < 1 << 20, "{} bytes", store.file.wal.length());
    }

    #[test]
    fn an_append_that_need_not_wait_is_done_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let log: LogName = "one".parse().unwrap();
        let append = |store: &SqliteStore, at, length| {
            block_on(store.append(&log, Append::new(at, [Record::new("x".repeat(length)).text("apple")]))).unwrap();
        };
        let begin = |connection: &mut Connection| Ok(connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK")?);
        let is_at_once = |store: &SqliteStore| store.file.at_once(1, begin).is_some();
        let disk = SqliteStore::open(&path).unwrap();
        append(&disk, 0, 9);
        assert!(!is_at_once(&disk), "it waits for the disk");
        drop(disk);
        let store = SqliteStore::open_with(&path, Durability::System).unwrap();
        assert!(!is_at_once(&store), "the first one makes `-wal`");
        append(&store, 1, 9);
        assert!(is_at_once(&store));
        let polled = block_on(poll_once(store.append(&log, Append::new(2, [Record::new("{}")]))));
        assert!(polled.unwrap().is_ok());
        // Another process writes.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(!is_at_once(&store));
        let record = vec![Record::new("{}")];
        let mut waits = store.append(&log, Append::new(3, record));
        assert!(block_on(poll_once(&mut waits)).is_none());
        other.execute_batch("ROLLBACK").unwrap();
        block_on(waits).unwrap();
        // SQLite's checkpoints into the database run on another thread, and `-wal` stays short.
        let (mut longest, mut others) = (0, 0);
        for at in 4..2_000 {
            others += u32::from(!is_at_once(&store));
            append(&store, at, 5_000);
            longest = longest.max(store.file.wal.length());
        }
        assert!((1..400).contains(&others), "{others} writes waited");
        assert!(longest < 5 << 20, "{longest} bytes");
        assert_eq!(block_on(store.check()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn whoever_reads_for_long_holds_up_neither_writers_nor_readers() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap());
        let log: LogName = "one".parse().unwrap();
        let record = || vec![Record::new("{}").text("apple")];
        let (begun, began) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let reader = store.clone();
        let long = std::thread::spawn(move || {
            block_on(reader.file.read(move |_| {
                begun.send(()).unwrap();
                ended.recv().unwrap();
                Ok(())
            }))
        });
        began.recv().unwrap();
        block_on(store.append(&log, Append::new(0, record()))).unwrap();
        assert_eq!(block_on(store.search(None, &"apple".into(), 9)).unwrap().len(), 1);
        assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().end, 1);
        assert!(!long.is_finished());
        end.send(()).unwrap();
        long.join().unwrap().unwrap();
    }
}
