//! Where logs are kept: one primitive, named append-only logs, and one backend a file.

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, SqliteStore};

/// What a store's methods return: a future that can be sent between threads.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Named append-only logs.
///
/// A writer says where it believes the log ends; where it is wrong, nothing is written. That is all the locking there is: of
/// two writers one wins, and the other reads what the first wrote and tries again.
pub trait Store: fmt::Debug + Send + Sync {
    /// Appends records, all or none. `at` is the number of records that the writer believes are there.
    ///
    /// Fails with [`StoreError::Conflict`] where there are more, or fewer.
    fn append<'a>(&'a self, log: &'a LogName, at: u64, records: Vec<Record>) -> Answer<'a, ()>;

    /// The bodies of the records at these positions; those that do not exist are left out.
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> Answer<'a, Vec<String>>;

    /// How long a log is, and where its newest checkpoint before position `before` stands. `None`: there is no such log.
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> Answer<'a, Option<Head>>;

    /// All logs, by name.
    fn list(&self) -> Answer<'_, Vec<LogInfo>>;

    /// Erases a log; `false` where there is none.
    fn delete<'a>(&'a self, log: &'a LogName) -> Answer<'a, bool>;

    /// Where the records stand whose text holds every word of `query`, the best first; in one log, or in all.
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> Answer<'a, Vec<Hit>>;
}

/// One record of a log. To a store it is text that it does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The entry, as JSON.
    pub body: String,
    /// What a search finds it by; empty, it is not found.
    pub text: String,
    /// Whether a reader can start here.
    pub checkpoint: bool,
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// How many records it has.
    pub end: u64,
    /// Its newest checkpoint before the position that was asked for.
    pub checkpoint: Option<u64>,
}

/// What a list of logs says of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogInfo {
    /// Its name.
    pub name: LogName,
    /// How many records it has.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// A record that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The log.
    pub log: LogName,
    /// Its position there.
    pub position: u64,
}

/// A log's name: 1 to 200 characters, none of them a control character, and no part between `/`s that is empty, `.` or `..`.
///
/// So no name can leave the folder of a store that keeps files, whichever store it is used with.
///
/// ```
/// use lookback::LogName;
///
/// assert!("team/agent-7".parse::<LogName>().is_ok());
/// assert!("../secrets".parse::<LogName>().is_err());
/// assert!("a\0b".parse::<LogName>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LogName(String);

impl LogName {
    /// The most characters that a name may have.
    pub const LONGEST: usize = 200;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let length = name.chars().count();
        if length == 0 || length > LogName::LONGEST {
            return Err(BadName::Length { length });
        }
        if let Some(at) = name.chars().position(|c| c.is_control() || c == '\\') {
            return Err(BadName::Character { at });
        }
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(BadName::Path);
        }
        Ok(LogName(name.to_owned()))
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that no log may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Too short or too long.
    #[error("a session's name has 1 to {} characters, not {length}", LogName::LONGEST)]
    Length {
        /// Its characters.
        length: usize,
    },
    /// A control character or a backslash.
    #[error("a session's name has no control characters and no backslash, but character {at} is one", at = .at + 1)]
    Character {
        /// Its index among the characters.
        at: usize,
    },
    /// A part that leaves the place it is in.
    #[error("no part of a session's name between slashes may be empty, `.` or `..`")]
    Path,
}

/// Why a store did not do as it was told. Nothing was written, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The log does not end where the writer believed.
    #[error("another writer was faster: the log has {end} entries, not {at}")]
    Conflict {
        /// Where the writer believed that it ends.
        at: u64,
        /// Where it ends.
        end: u64,
    },
    /// Other writers were faster each time.
    #[error("`{log}` could not be written: other writers were faster {tries} times; try again")]
    Overtaken {
        /// The log.
        log: String,
        /// How often it was tried.
        tries: usize,
    },
    /// Another process holds the store.
    #[error("the store {place} is locked by another process; try again when that is done")]
    Locked {
        /// The file.
        place: String,
    },
    /// The disk is full.
    #[error("no room is left for the store {place}; nothing was written")]
    Full {
        /// The file.
        place: String,
    },
    /// A newer version of Lookback wrote the store.
    #[error("the store {place} has version {found}, and this version of lookback reads up to {known}; update lookback")]
    Newer {
        /// The file.
        place: String,
        /// Its version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// The file is not a store.
    #[error("{place} is not a store of lookback")]
    NotAStore {
        /// The file.
        place: String,
    },
    /// There is no file to open.
    #[error("there is no store at {place}")]
    Missing {
        /// The file.
        place: String,
    },
    /// A record cannot be read.
    #[error("entry {position} of `{log}` cannot be read: {reason}")]
    Damaged {
        /// The log.
        log: String,
        /// The record.
        position: u64,
        /// What is wrong with it; none of its contents.
        reason: String,
    },
    /// Something else that the backend reports.
    #[error("the store {place} failed")]
    Backend {
        /// Which one.
        place: String,
        /// What it says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn append<'a>(&'a self, log: &'a LogName, at: u64, records: Vec<Record>) -> Answer<'a, ()> {
        (**self).append(log, at, records)
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> Answer<'a, Vec<String>> {
        (**self).read(log, span)
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> Answer<'a, Option<Head>> {
        (**self).head(log, before)
    }

    fn list(&self) -> Answer<'_, Vec<LogInfo>> {
        (**self).list()
    }

    fn delete<'a>(&'a self, log: &'a LogName) -> Answer<'a, bool> {
        (**self).delete(log)
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> Answer<'a, Vec<Hit>> {
        (**self).search(log, query, most)
    }
}

/// The words of a text, in small letters: what a search looks for, whichever the store.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether a character stands between words.
pub(crate) fn is_between(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}
