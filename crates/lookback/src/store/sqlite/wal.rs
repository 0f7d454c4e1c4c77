//! The file `-wal`, to which SQLite writes before it brings that into the database: its length, and how it stays short.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
}

impl Wal {
    /// The bytes that it may have before a writer does something about it, and the bytes that it keeps.
    const LIMIT: u64 = 64 << 20;
    /// From these bytes on, the next write may take long: with a thousand pages, SQLite brings them into the file.
    const ALMOST_DUE: u64 = 950 * 4096;
    /// How long a writer waits for readers. Those that come later do not keep it from its end.
    pub(super) const WAIT: Duration = Duration::from_millis(200);

    pub(super) fn of(path: &Path) -> Self {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        Wal { path: wal.into(), limit: AtomicU64::new(Wal::LIMIT), waited_at: AtomicU64::new(0) }
    }

    pub(super) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Returns whether a short write to it does not wait for the disk. The first one does.
    pub(super) fn takes_quickly(&self) -> bool {
        (1..=Wal::ALMOST_DUE).contains(&self.length())
    }

    /// Begins it anew if it is long, and has grown by a quarter since a reader prevented that.
    pub(super) fn keep_short(&self, connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
        let (limit, waited_at) = (self.limit.load(Ordering::Relaxed), self.waited_at.load(Ordering::Relaxed));
        let length = self.length();
        if length < limit.max(waited_at.saturating_add(limit / 4)) {
            return Ok(());
        }
        let is_empty = Wal::empty(connection, patience)?;
        self.waited_at.store(if is_empty { 0 } else { length }, Ordering::Relaxed);
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
