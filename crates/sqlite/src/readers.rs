//! Connections for readers, also to files that are read without a lock while no process writes to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};

use super::PATIENCE;
use super::fault::Fault;
use super::wal::Wal;
use lookback_store::StoreError;

/// The connections for readers, one for each read, so that a long search delays neither writers nor other readers.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<Reader>>,
    /// The path or URI that they open.
    target: PathBuf,
    flags: OpenFlags,
    patience: Mutex<Duration>,
    /// The file, if it is in a folder where SQLite may not create the files that readers and writers share. It is then
    /// read without a lock, and SQLite assumes that it never changes.
    at_rest: Option<PathBuf>,
}

/// A connection, with the stamp of the file from before it was opened, if the file is read without a lock.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) stamp: Option<Stamp>,
}

/// The length and the time of a file, to detect a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// Reads the stamp of a file. Fails while a process writes to it, because then part of the data is not in the file.
    fn read(path: &Path) -> Result<Stamp, StoreError> {
        let place = path.display().to_string();
        if is_written(path) {
            return Err(StoreError::ReadOnly { place });
        }
        match fs::metadata(path) {
            Ok(file) => Ok(Stamp { length: file.len(), modified: file.modified().ok() }),
            Err(error) => Err(StoreError::Backend { place, source: Box::new(error) }),
        }
    }
}

/// Returns whether a process is writing to a database, or has left data outside of the file.
pub(super) fn is_written(path: &Path) -> bool {
    Wal::for_database(path).length() > 0
}

impl Readers {
    /// How many idle connections stay open.
    const MOST_IDLE: usize = 4;

    pub(super) fn new(target: &Path, flags: OpenFlags) -> Self {
        let (idle, patience) = (Mutex::default(), Mutex::new(PATIENCE));
        Readers { idle, target: target.to_owned(), flags, patience, at_rest: None }
    }

    /// Reads `path` as a file that no process writes to. If it changes, it is opened again.
    pub(super) fn at_rest(self, path: &Path) -> Self {
        Readers { at_rest: Some(path.to_owned()), ..self }
    }

    /// Returns how long to wait for another process.
    pub(super) fn patience(&self) -> Duration {
        *locked(&self.patience)
    }

    /// Returns the current stamp of the file, if it is read without a lock.
    pub(super) fn stamp(&self) -> Result<Option<Stamp>, Fault> {
        self.at_rest.as_deref().map(Stamp::read).transpose().map_err(Fault::Store)
    }

    /// Sets how long to wait for another process, for connections that are opened from now on. Idle connections are
    /// closed.
    pub(super) fn set_patience(&self, patience: Duration) {
        *locked(&self.patience) = patience;
        locked(&self.idle).clear();
    }

    /// Returns a connection that sees the current state of the file.
    pub(super) fn take(&self) -> Result<Reader, Fault> {
        let stamp = self.stamp()?;
        let mut idle = locked(&self.idle);
        idle.retain(|reader| reader.stamp == stamp);
        if let Some(reader) = idle.pop() {
            return Ok(reader);
        }
        drop(idle);
        let connection = Connection::open_with_flags(&self.target, self.flags)?;
        connection.busy_timeout(self.patience())?;
        Ok(Reader { connection, stamp })
    }

    pub(super) fn give_back(&self, reader: Reader) {
        let mut idle = locked(&self.idle);
        if idle.len() < Readers::MOST_IDLE {
            idle.push(reader);
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
