//! An agent's SQLite database, which is read and never changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, OpenFlags, Params, Row};
use serde_json::value::RawValue;
use tempfile::TempDir;

/// The largest database that is copied: 4 GiB.
const LARGEST: u64 = 4 << 30;

/// A database that is open for reading.
pub(crate) struct Database {
    connection: Connection,
    // Removed when the connection is closed.
    _copy: Option<TempDir>,
}

impl Database {
    /// Opens a database. SQLite would create files beside it if the agent has written to its log, so such a database is
    /// copied first.
    pub(crate) fn open(path: &Path) -> Result<Database, String> {
        // The changes since the file was complete, or what they have replaced.
        let is_written = |ending: &&str| fs::metadata(beside(path, ending)).is_ok_and(|about| about.len() > 0);
        let log = ["-wal", "-journal"].into_iter().find(is_written);
        let copy = log.map(|ending| copied(path, ending)).transpose().map_err(|error| error.to_string())?;
        let place = match &copy {
            Some(folder) => format!("file:{}", escaped(&folder.path().join("copy.db"))),
            None => format!("file:{}?immutable=1", escaped(path)),
        };
        // The copy may be written, so that SQLite can read its log.
        let access = if copy.is_some() { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let connection = Connection::open_with_flags(place, access | OpenFlags::SQLITE_OPEN_URI);
        let connection = connection.map_err(|error| error.to_string())?;
        // A file that is damaged or cut off shows that here, and not as a database without tables.
        let count = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0));
        count.map_err(|error| error.to_string())?;
        Ok(Database { connection, _copy: copy })
    }

    /// Returns whether there is a table with these columns.
    pub(crate) fn has(&self, table: &str, columns: &[&str]) -> bool {
        let read = self.all("SELECT name FROM pragma_table_info(?1)", [table], |row| row.get::<_, String>(0));
        read.is_ok_and(|found| columns.iter().all(|column| found.iter().any(|name| name == column)))
    }

    /// Returns what a query finds. Rows that cannot be read are left out.
    pub(crate) fn all<T>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, String> {
        let mut statement = self.connection.prepare_cached(query).map_err(|error| error.to_string())?;
        let rows = statement.query_map(params, read).map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        for row in rows {
            match row {
                Ok(row) => all.push(row),
                Err(error @ rusqlite::Error::SqliteFailure(..)) => return Err(error.to_string()),
                // A value of another type.
                Err(_) => {}
            }
        }
        Ok(all)
    }
}

/// Returns a value that is JSON, as text or as bytes.
pub(crate) fn json(row: &Row<'_>, column: usize) -> Option<Box<RawValue>> {
    let value = row.get_ref(column).ok()?;
    let bytes = value.as_bytes().ok()?;
    RawValue::from_string(std::str::from_utf8(bytes).ok()?.to_owned()).ok()
}

/// Returns the first column as bytes.
pub(crate) fn bytes(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    Ok(row.get_ref(0)?.as_bytes().map(<[u8]>::to_vec).unwrap_or_default())
}

/// Returns the first column as the number of a row.
pub(crate) fn number(row: &Row<'_>) -> rusqlite::Result<usize> {
    Ok(usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Copies a database with its log. Copies again if one of them has changed meanwhile.
fn copied(path: &Path, ending: &str) -> io::Result<TempDir> {
    const TRIES: usize = 5;
    let log = beside(path, ending);
    let state = || -> io::Result<[(u64, SystemTime); 2]> {
        let of = |path: &Path| fs::metadata(path).and_then(|about| Ok((about.len(), about.modified()?)));
        Ok([of(path)?, of(&log)?])
    };
    let folder = tempfile::tempdir()?;
    for _ in 0..TRIES {
        let before = state()?;
        if before.iter().map(|(length, _)| length).sum::<u64>() > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "an agent is using it, and it is over 4 GiB"));
        }
        fs::copy(path, folder.path().join("copy.db"))?;
        fs::copy(&log, beside(&folder.path().join("copy.db"), ending))?;
        if state()? == before {
            return Ok(folder);
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "an agent is writing to it; try again later"))
}

/// Writes a path for a URI.
fn escaped(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    // What follows two slashes would be the name of a host.
    if path.starts_with("//") { format!("/{}", path.trim_start_matches('/')) } else { path }
}
