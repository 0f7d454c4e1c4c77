//! Connections: one for writes, and one for each reader.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::{PATIENCE, SqliteStore};
use crate::store::StoreFuture;

/// Connections for readers, one for each at a time, so that a long search delays neither writers nor other readers.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    /// The path or URI that they open.
    target: PathBuf,
    flags: OpenFlags,
    patience: Mutex<Duration>,
}

impl Readers {
    /// How many stay open while nobody reads.
    const MOST_IDLE: usize = 4;

    pub(super) fn new(target: &Path, flags: OpenFlags) -> Self {
        Readers { idle: Mutex::default(), target: target.to_owned(), flags, patience: Mutex::new(PATIENCE) }
    }

    /// Sets how long to wait for another process, for connections that are opened from now on: those that are open are
    /// not used again.
    pub(super) fn set_patience(&self, patience: Duration) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn take(&self) -> Result<Connection, rusqlite::Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let connection = Connection::open_with_flags(&self.target, self.flags)?;
        connection.busy_timeout(*self.patience.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
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
                let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                work(&mut connection)
            });
            done.await.map_err(|fault| fault.explained(&self.path))
        })
    }

    /// Runs `work` on a connection of its own, on a thread that may block.
    pub(super) fn look<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let readers = self.readers.clone();
        Box::pin(async move {
            let done = blocking::unblock(move || {
                let mut connection = readers.take()?;
                let done = work(&mut connection)?;
                // After an error or a panic the connection is not used again.
                readers.give_back(connection);
                Ok(done)
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
