//! Connections: one for writes, and one for each reader. And files that are read without any lock, as long as nobody
//! writes to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::{PATIENCE, SqliteStore};
use crate::store::{StoreError, StoreFuture};

/// Connections for readers, one for each at a time, so that a long search delays neither writers nor other readers.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    /// The path or URI that they open.
    target: PathBuf,
    flags: OpenFlags,
    patience: Mutex<Duration>,
    /// The file, if it is read without a lock: SQLite believes then that it never changes.
    at_rest: Option<AtRest>,
}

/// A file in a folder where SQLite may not create the files that readers and writers share.
#[derive(Debug)]
struct AtRest {
    path: PathBuf,
    /// How the file was when the connections were opened that are idle.
    seen: Mutex<Option<Stamp>>,
}

/// Tells a file from what it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl AtRest {
    /// Returns how the file is now. Fails if somebody writes to it: then a part of it is not in the file.
    fn stamp(&self) -> Result<Stamp, StoreError> {
        let place = || self.path.display().to_string();
        if is_written(&self.path) {
            return Err(StoreError::ReadOnly { place: place() });
        }
        let file = fs::metadata(&self.path)
            .map_err(|error| StoreError::Backend { place: place(), source: Box::new(error) })?;
        Ok(Stamp { length: file.len(), modified: file.modified().ok() })
    }
}

/// Returns whether somebody writes to a database, or has left something that is not in its file.
pub(super) fn is_written(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    /// How many stay open while nobody reads.
    const MOST_IDLE: usize = 4;

    pub(super) fn new(target: &Path, flags: OpenFlags) -> Self {
        let (idle, patience) = (Mutex::default(), Mutex::new(PATIENCE));
        Readers { idle, target: target.to_owned(), flags, patience, at_rest: None }
    }

    /// Reads `path` as a file that nobody writes to. If it changes, it is opened anew.
    pub(super) fn at_rest(self, path: &Path) -> Self {
        Readers { at_rest: Some(AtRest { path: path.to_owned(), seen: Mutex::default() }), ..self }
    }

    /// Returns whether the file has changed since this was called last. If it has, connections are opened anew from now
    /// on. Fails if somebody writes to the file.
    fn has_changed(&self) -> Result<bool, StoreError> {
        let Some(rest) = &self.at_rest else { return Ok(false) };
        let now = rest.stamp()?;
        let before = locked(&rest.seen).replace(now);
        if before == Some(now) {
            return Ok(false);
        }
        locked(&self.idle).clear();
        Ok(true)
    }

    /// Sets how long to wait for another process, for connections that are opened from now on: those that are open are
    /// not used again.
    pub(super) fn set_patience(&self, patience: Duration) {
        *locked(&self.patience) = patience;
        locked(&self.idle).clear();
    }

    fn take(&self) -> Result<Connection, rusqlite::Error> {
        let idle = locked(&self.idle).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let connection = Connection::open_with_flags(&self.target, self.flags)?;
        connection.busy_timeout(*locked(&self.patience))?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = locked(&self.idle);
        if idle.len() < Readers::MOST_IDLE {
            idle.push(connection);
        }
    }
}

impl SqliteStore {
    /// Runs `work` on the connection for writes, on a thread that may block.
    pub(super) fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let connection = self.writer.clone();
        Box::pin(async move {
            let done = blocking::unblock(move || {
                // A panic leaves no transaction behind: dropping it rolls it back.
                work(&mut locked(&connection))
            });
            done.await.map_err(|fault| fault.explained(&self.path))
        })
    }

    /// Runs `work` on a connection of its own, on a thread that may block. If the file is read without a lock and has
    /// changed meanwhile, `work` runs again.
    pub(super) fn look<'a, T: Send + 'static>(
        &'a self,
        work: impl Fn(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let (readers, place) = (self.readers.clone(), self.path.display().to_string());
        Box::pin(async move {
            let done = blocking::unblock(move || {
                let begun = Instant::now();
                readers.has_changed().map_err(Fault::Store)?;
                loop {
                    let mut connection = readers.take()?;
                    let done = work(&mut connection);
                    if !readers.has_changed().map_err(Fault::Store)? {
                        let done = done?;
                        // After an error or a panic the connection is not used again.
                        readers.give_back(connection);
                        return Ok(done);
                    }
                    if begun.elapsed() > *locked(&readers.patience) {
                        return Err(Fault::Store(StoreError::Locked { place }));
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
    use crate::store::{LogName, Record, Store};
    use futures_lite::future::block_on;
    use std::sync::Arc;

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
            block_on(reader.look(move |_| {
                begun.send(()).unwrap();
                ended.recv().unwrap();
                Ok(())
            }))
        });
        began.recv().unwrap();
        block_on(store.append(&log, 0, record(), None)).unwrap();
        assert_eq!(block_on(store.search(None, &"apple".into(), 9)).unwrap().len(), 1);
        assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().end, 1);
        assert!(!long.is_finished());
        end.send(()).unwrap();
        long.join().unwrap().unwrap();
    }
}
