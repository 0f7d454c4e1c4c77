//! The location of a store: a path, or a URL that names the kind of store.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookback_store::{
    Durability, FileStore, MemoryStore, NO_FILE, Store, StoreError, is_folder, is_no_file, probe_folder,
    without_secrets,
};

/// The location of a store.
///
/// | text | store |
/// |---|---|
/// | `sqlite:PATH` | an SQLite file |
/// | `files:PATH` | a folder of plain files |
/// | `memory:` | the memory of this process |
/// | `postgres://…`, `postgresql://…` | a PostgreSQL database (see [`PostgresStore`](lookback_postgres::PostgresStore)) |
/// | `redis://…`, `rediss://…`, `valkey://…`, `valkeys://…` | Redis or Valkey (see [`RedisStore`](lookback_redis::RedisStore)) |
/// | any other text | a path: plain files if it is a folder or ends in `/`, otherwise an SQLite file |
///
/// It is displayed without the password of a URL.
///
/// ```
/// use lookback_location::Location;
///
/// let location = Location::parse("postgres://me:secret@db.example.com/agents")?;
/// assert_eq!(location.to_string(), "postgres://me@db.example.com/agents");
/// assert_eq!(Location::parse("files:notes")?, Location::Files("notes".into()));
/// assert_eq!(Location::parse("memory.db")?, Location::Sqlite("memory.db".into()));
/// # Ok::<(), lookback_store::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// An SQLite file.
    Sqlite(PathBuf),
    /// A folder of plain files.
    Files(PathBuf),
    /// The memory of this process.
    Memory,
    /// A PostgreSQL database, by its URL.
    Postgres(String),
    /// Redis or Valkey, by its URL.
    Redis(String),
}

impl Location {
    /// Parses a path or a URL.
    ///
    /// # Errors
    /// Returns an error if the text is a URL of another kind. The rest of the URL is checked when the store is opened.
    pub fn parse(text: impl AsRef<OsStr>) -> Result<Self, StoreError> {
        let text = text.as_ref();
        // A text that is not UTF-8 is a path.
        let Some(url) = text.to_str() else { return Ok(Location::from_path(text)) };
        match url.split_once(':') {
            Some(("sqlite", path)) => Ok(Location::Sqlite(path.into())),
            Some(("files", path)) => Ok(Location::Files(path.into())),
            Some(("memory", "")) => Ok(Location::Memory),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Ok(Location::Postgres(url.to_owned())),
            Some(("redis" | "rediss" | "valkey" | "valkeys", rest)) if rest.starts_with("//") => {
                Ok(Location::Redis(url.to_owned()))
            }
            Some((_, rest)) if rest.starts_with("//") => {
                let reason =
                    "expected sqlite:, files:, memory:, postgres://, redis://, rediss:// or valkey:// at its beginning";
                Err(StoreError::Url { reason })
            }
            _ => Ok(Location::from_path(text)),
        }
    }

    fn from_path(path: &OsStr) -> Self {
        let path = PathBuf::from(path);
        if is_folder(&path) { Location::Files(path) } else { Location::Sqlite(path) }
    }

    /// Returns the path, if the store is a file or a folder.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Location::Sqlite(path) | Location::Files(path) => Some(path),
            Location::Memory | Location::Postgres(_) | Location::Redis(_) => None,
        }
    }

    /// Opens the store, and creates it if it does not exist. Blocks until a server has answered.
    ///
    /// # Errors
    /// Returns an error if the store cannot be opened or created, if the place has something else, or if this build of
    /// Lookback does not support this kind of store.
    pub fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.open_with(Durability::Disk)
    }

    /// Opens the store with this durability, and creates it if it does not exist. A server's own settings decide when
    /// an append is done.
    ///
    /// # Errors
    /// The same as [`Location::open`].
    pub fn open_with(&self, durability: Durability) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Location::Sqlite(path) => sqlite(path, Some(durability)),
            Location::Files(path) => Ok(Arc::new(FileStore::open_with(path, durability)?)),
            Location::Memory => Ok(Arc::new(MemoryStore::new())),
            Location::Postgres(url) => postgres(url),
            Location::Redis(url) => redis(url),
        }
    }

    /// Checks that the store can be opened and written to, or created if it does not exist. Creates no file and no
    /// folder, but the tables of a database if they do not exist. Blocks until a server has answered.
    ///
    /// # Errors
    /// Returns the error that opening the store, or writing to it, would return.
    ///
    /// ```
    /// use lookback_location::Location;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("new").join("memory.db");
    /// assert!(Location::Sqlite(path.clone()).check().is_ok() && !path.exists());
    /// std::fs::write(folder.path().join("new"), "a file")?;
    /// assert!(Location::Sqlite(path).check().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn check(&self) -> Result<(), StoreError> {
        match (self.open_existing(), self) {
            (Ok(store), _) => futures_lite::future::block_on(store.probe()),
            (Err(StoreError::Missing { .. }), Location::Sqlite(path)) if !is_no_file(path) => {
                can_be_made(path.parent().unwrap_or(Path::new("")))
            }
            (Err(StoreError::Missing { .. }), Location::Sqlite(_)) => Err(NO_FILE),
            (Err(StoreError::Missing { .. }), Location::Files(path)) => can_be_made(path),
            (Err(error), _) => Err(error),
        }
    }

    /// Opens an existing store. If a file is not writable, it is opened for reading only. In a database, the tables are
    /// created if they do not exist.
    ///
    /// # Errors
    /// The same as [`Location::open`]. Returns an error if the file or folder does not exist.
    pub fn open_existing(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Location::Sqlite(path) => sqlite(path, None),
            Location::Files(path) => Ok(Arc::new(FileStore::open_existing(path)?)),
            Location::Memory | Location::Postgres(_) | Location::Redis(_) => self.open(),
        }
    }
}

/// Returns an error if a folder, which may not exist yet, cannot be created, or accepts no file.
fn can_be_made(folder: &Path) -> Result<(), StoreError> {
    let there = folder.ancestors().find(|folder| folder.exists());
    let there = there.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    probe_folder(there)
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path, made: Option<Durability>) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match made {
        Some(durability) => Arc::new(lookback_sqlite::SqliteStore::open_with(path, durability)?),
        None => Arc::new(lookback_sqlite::SqliteStore::open_existing(path)?),
    })
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path, _: Option<Durability>) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Url { reason: "this build of Lookback has no SQLite; build it with the feature `sqlite`" })
}

#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(futures_lite::future::block_on(lookback_postgres::PostgresStore::connect(url))?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Url { reason: "this build of Lookback has no PostgreSQL; build it with the feature `postgres`" })
}

#[cfg(feature = "redis")]
fn redis(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(futures_lite::future::block_on(lookback_redis::RedisStore::connect(url))?))
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Url { reason: "this build of Lookback has no Redis; build it with the feature `redis`" })
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Sqlite(path) | Location::Files(path) => path.display().fmt(f),
            Location::Memory => f.write_str("memory:"),
            Location::Postgres(url) | Location::Redis(url) => f.write_str(&without_secrets(url)),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

/// Opens the store at a path or a URL, and creates it if it does not exist (see [`Location`]).
///
/// # Errors
/// Returns an error if the store cannot be opened or created, or if the place has something else.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("memory.db");
/// let store = lookback_location::open(&path)?;
/// # assert!(path.is_file());
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(place: impl AsRef<std::ffi::OsStr>) -> Result<Arc<dyn Store>, StoreError> {
    Location::parse(place)?.open()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_url_or_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = |path: &str| Location::Sqlite(path.into());
        let files = |path: &str| Location::Files(path.into());
        for (text, expected) in [
            ("memory.db", sqlite("memory.db")),
            ("sqlite:memory.db", sqlite("memory.db")),
            ("sqlite:/a/b:c.db", sqlite("/a/b:c.db")),
            ("files:notes", files("notes")),
            ("notes/", files("notes/")),
            ("./sqlite:x", sqlite("./sqlite:x")),
            ("C:\\memory.db", sqlite("C:\\memory.db")),
            ("memory:", Location::Memory),
            ("memory:x", sqlite("memory:x")),
            ("postgres", sqlite("postgres")),
        ] {
            assert_eq!(Location::parse(text).unwrap(), expected, "{text}");
        }
        assert_eq!(Location::parse(folder.path()).unwrap(), Location::Files(folder.path().to_owned()));
        assert!(Location::parse("mysql://me:secret@host/x").is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://me:secret@host:1/x?password=secret", "postgres://me@host:1/x"),
            ("postgres://me:se@cret@host/x", "postgres://me@host/x"),
            ("postgres://me:secret?secret@host/x", "postgres://"),
            ("postgresql:///x?host=/run&password=secret", "postgresql:///x"),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!(location.to_string(), shown);
            assert!(!format!("{location:?}").contains("secret"));
        }
    }
}
