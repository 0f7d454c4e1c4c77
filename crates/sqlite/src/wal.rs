//! The file `-wal`, to which SQLite writes before it brings that into the database: its length, and how it stays short.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The file `-wal` of a database. SQLite begins it anew when nobody reads from it. If readers come one after another, that
/// never happens, and it grows.
#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    /// The length from which on writers wait a moment for readers to end.
    pub(super) limit: AtomicU64,
    /// The length at which they waited last.
    waited_at: AtomicU64,
    /// When that was.
    waited: Mutex<Option<Instant>>,
    /// The milliseconds after which they wait again, although it has hardly grown: whoever read may have ended.
    pub(super) again: AtomicU64,
}

impl Wal {
    /// The bytes that it may have before a writer does something about it, and the bytes that it keeps.
    const LIMIT: u64 = 64 << 20;
    /// From these bytes on, the next write may take long: with a thousand pages, SQLite brings them into the file.
    const ALMOST_DUE: u64 = 950 * 4096;
    /// How long a writer waits for readers. Those that come later do not keep it from its end.
    pub(super) const WAIT: Duration = Duration::from_millis(200);
    /// The milliseconds until they wait again.
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

    /// Returns whether a short write to it does not wait for the disk. The first one does.
    pub(super) fn takes_quickly(&self) -> bool {
        (1..=Wal::ALMOST_DUE).contains(&self.length())
    }

    /// Begins it anew if it is long, and has grown by a quarter since a reader prevented that, or if that was a while ago.
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
                "the file grows, because somebody has been reading from it for long; it is emptied when they end"
            );
        }
        *waited = (!is_empty).then(Instant::now);
        self.waited_at.store(if is_empty { 0 } else { length.max(waited_at) }, Ordering::Relaxed);
        Ok(())
    }

    /// Empties it. Returns `false` if somebody reads from it: other writers wait meanwhile, so it does not wait for long.
    pub(super) fn empty(connection: &Connection, patience: Duration) -> rusqlite::Result<bool> {
        connection.busy_timeout(Wal::WAIT)?;
        let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        connection.busy_timeout(patience)?;
        Ok(is_busy? == 0)
    }
}
