//! The file `-wal`, which SQLite writes before the database: its length, and the ways to keep it short.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The file `-wal` of a database. SQLite restarts it when there is no reader. With overlapping readers that never
/// happens, and it grows.
#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    /// The length from which writers wait a moment for readers to end.
    pub(super) limit: AtomicU64,
    /// The length at the last wait.
    waited_at: AtomicU64,
    /// The time of the last wait.
    waited: Mutex<Option<Instant>>,
    /// The milliseconds after which writers wait again, although it has hardly grown: the reader may have ended.
    pub(super) again: AtomicU64,
}

impl Wal {
    /// The length in bytes from which a writer tries to shorten it.
    const LIMIT: u64 = 64 << 20;
    /// The length in bytes from which the next write may take long: at a thousand pages, SQLite checkpoints into the
    /// database.
    const ALMOST_DUE: u64 = 950 * 4096;
    /// How long a writer waits for readers. Readers that come later do not prolong it.
    pub(super) const WAIT: Duration = Duration::from_millis(200);
    /// The milliseconds until the next wait.
    const AGAIN: u64 = 10_000;

    pub(super) fn for_database(path: &Path) -> Self {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        Wal {
            path: wal.into(),
            limit: AtomicU64::new(Wal::LIMIT),
            waited_at: AtomicU64::new(0),
            waited: Mutex::default(),
            again: AtomicU64::new(Wal::AGAIN),
        }
    }

    pub(super) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Returns whether a short write to it does not wait for the disk. The first write waits.
    pub(super) fn takes_quickly(&self) -> bool {
        (1..=Wal::ALMOST_DUE).contains(&self.length())
    }

    /// Empties it if it is long, and has grown by a quarter since a reader last prevented that, or if that was a while
    /// ago.
    pub(super) fn keep_short(&self, connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
        let (limit, waited_at) = (self.limit.load(Ordering::Relaxed), self.waited_at.load(Ordering::Relaxed));
        let length = self.length();
        if length < limit {
            return Ok(());
        }
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let again = Duration::from_millis(self.again.load(Ordering::Relaxed));
        let is_soon = waited.is_some_and(|waited| waited.elapsed() < again);
        if is_soon && length < waited_at.saturating_add(limit / 4) {
            return Ok(());
        }
        let is_empty = Wal::empty(connection, patience)?;
        if !is_empty && length >= waited_at.saturating_add(limit / 4) {
            tracing::warn!(
                file = %self.path.display(),
                bytes = length,
                "the file grows because a process keeps reading from it; it will be emptied when the reader ends"
            );
        }
        *waited = (!is_empty).then(Instant::now);
        self.waited_at.store(if is_empty { 0 } else { length.max(waited_at) }, Ordering::Relaxed);
        Ok(())
    }

    /// Empties it. Returns `false` if a reader prevents that. Waits only briefly, because other writers wait in the
    /// meantime.
    pub(super) fn empty(connection: &Connection, patience: Duration) -> rusqlite::Result<bool> {
        connection.busy_timeout(Wal::WAIT)?;
        let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        connection.busy_timeout(patience)?;
        Ok(is_busy? == 0)
    }
}
