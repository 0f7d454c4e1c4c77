//! The errors of stores, and what can be wrong with a record.

use super::LogName;

/// An error of a store. Nothing was written, unless the error says otherwise: a server that cannot be reached may have
/// done what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log does not end where the writer believed.
    #[error("another writer was faster: the log has {end} entries, not {at}")]
    Conflict {
        /// The end that the writer believed.
        at: u64,
        /// The actual end.
        end: u64,
    },
    /// Other writers were faster at every try.
    #[error("`{log}` could not be written: other writers were faster {tries} times; try again")]
    Overtaken {
        /// The log.
        log: String,
        /// The number of tries.
        tries: usize,
    },
    /// Another process holds the store.
    #[error("the store {place} is locked by another process; try again when it has finished")]
    Locked {
        /// The file.
        place: String,
    },
    /// The store may not be written to. It cannot even be read then, if part of it is still in the file `-wal` beside
    /// it.
    #[error("the store {place} is read-only; make its file and its folder writable")]
    ReadOnly {
        /// The file.
        place: String,
    },
    /// The URL of a store is invalid.
    #[error("the URL of the store is invalid: {reason}")]
    Url {
        /// What is wrong with it. It quotes nothing, since a URL may have a password.
        reason: &'static str,
    },
    /// The server of the store cannot be reached.
    #[error("the store {place} cannot be reached; check that its server runs, and its address")]
    Unreachable {
        /// Where the server should be.
        place: String,
        /// The error of the driver.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server of the store did not answer in time. If this or [`StoreError::Unreachable`] is the error of an append,
    /// the records may have been written. The same append by the same store recognizes them.
    #[error("the store {place} did not answer within {} seconds; it may have done what it was asked", .limit.as_secs())]
    Late {
        /// Where the server is.
        place: String,
        /// The time limit.
        limit: std::time::Duration,
    },
    /// The server of the store refuses the user.
    #[error("the store {place} refuses access; check the user, the password and their rights")]
    Denied {
        /// Where the server is.
        place: String,
        /// What the server said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk is full.
    #[error("no space is left for the store {place}; nothing was written")]
    Full {
        /// The file.
        place: String,
    },
    /// The file was deleted or replaced while the store was open.
    #[error("the store {place} was deleted or replaced while it was open; nothing was written; open it again")]
    Replaced {
        /// The file.
        place: String,
    },
    /// The store cannot keep tenants apart.
    #[error("this store cannot keep tenants apart")]
    NoTenants,
    /// A newer version of Lookback wrote the store.
    #[error("the store {place} has version {found}, and this version of Lookback reads up to {known}; update Lookback")]
    Newer {
        /// The file.
        place: String,
        /// Its version.
        found: i64,
        /// The newest version that this version of Lookback knows.
        known: i64,
    },
    /// An older version of Lookback wrote the store, which is read-only and so cannot be migrated.
    #[error(
        "the store {place} has version {found} and must become version {known}, but it is read-only; make it writable"
    )]
    Older {
        /// The file.
        place: String,
        /// Its version.
        found: i64,
        /// The version to which it must be migrated.
        known: i64,
    },
    /// The file is not a store.
    #[error("{place} is not a store of Lookback")]
    NotAStore {
        /// The file.
        place: String,
    },
    /// The path of a file leads to something else. It was not opened: opening a pipe waits, and a device may have no
    /// end.
    #[error(
        "{place} is not a regular file but a folder, a pipe, a device or a socket; move it, or choose another path"
    )]
    NotAFile {
        /// The path.
        place: String,
    },
    /// A document is damaged, or was never one.
    #[error("{place} is damaged: line {line} is not valid JSON; repair the file, or move it away")]
    NoJson {
        /// The file.
        place: String,
        /// The line, from 1.
        line: usize,
    },
    /// A search took too long, and was stopped.
    #[error("the search in {place} took longer than {} seconds; ask for fewer or rarer words", .limit.as_secs())]
    Slow {
        /// The file.
        place: String,
        /// The time limit.
        limit: std::time::Duration,
    },
    /// There is no file to open.
    #[error("there is no store at {place}")]
    Missing {
        /// The path.
        place: String,
    },
    /// A record cannot be read.
    #[error("entry {position} of `{log}` cannot be read: {damage}")]
    Damaged {
        /// The log.
        log: String,
        /// The record.
        position: u64,
        /// What is wrong with it.
        damage: Box<Damage>,
    },
    /// An entry cannot be written as JSON. This does not happen with the entries of a session or a memory.
    #[error("entry {position} of `{log}` cannot be written as JSON")]
    Unwritable {
        /// The log.
        log: String,
        /// Where the record would have been.
        position: u64,
        /// The error of the writer.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Any other error of the backend.
    #[error("the store {place} failed")]
    Backend {
        /// Which store.
        place: String,
        /// The backend's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Returns whether the store may have done what it was asked all the same: a server did not answer.
    ///
    /// ```
    /// use lookback_store::StoreError;
    ///
    /// let late = StoreError::Late { place: "redis://host".to_owned(), limit: std::time::Duration::from_secs(5) };
    /// assert!(late.is_unclear() && !StoreError::Conflict { at: 0, end: 1 }.is_unclear());
    /// ```
    pub fn is_unclear(&self) -> bool {
        matches!(self, StoreError::Late { .. } | StoreError::Unreachable { .. })
    }

    /// Returns whether it is the fault of one log that cannot be read, while others may be read: it was damaged, or a newer
    /// version wrote it.
    pub fn is_of_log(&self) -> bool {
        matches!(
            self,
            StoreError::Damaged { .. }
                | StoreError::Newer { .. }
                | StoreError::NoJson { .. }
                | StoreError::NotAStore { .. }
                | StoreError::NotAFile { .. }
        )
    }

    /// Creates the error for a record that cannot be read.
    pub fn damaged(log: &LogName, position: u64, damage: Damage) -> Self {
        StoreError::Damaged { log: log.to_string(), position, damage: Box::new(damage) }
    }

    /// Creates the error for an entry that cannot be written as JSON.
    pub fn unwritable(log: &LogName, position: u64, error: serde_json::Error) -> Self {
        StoreError::Unwritable { log: log.to_string(), position, source: Box::new(error) }
    }
}

/// What is wrong with a record. It contains nothing of the record's contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Its body is not JSON.
    #[error("its body is not valid JSON")]
    NotJson,
    /// Its body is JSON, but not an entry of such a log.
    #[error("its body is not an entry that this version of Lookback knows")]
    NotAnEntry,
    /// The log says that it has the record, and it is not there.
    #[error("it is missing")]
    Gone,
    /// It is there, but the log says that it ends before it.
    #[error("it is there, but the log ends before it")]
    Behind,
    /// It is not what was written: its checksum is another.
    #[error("it was altered after it was written")]
    Altered,
    /// It is not encrypted, and the store was opened as an encrypted one.
    #[error("it is not encrypted")]
    NotSealed,
    /// It was encrypted with a key that was not given.
    #[error("it was encrypted with the key `{key}`, which was not given")]
    NoKey {
        /// The name of the key.
        key: String,
    },
    /// The index of its log was altered.
    #[error("the index {place} was altered; delete it, and it is made again")]
    Index {
        /// The file.
        place: String,
    },
    /// It refers to entries that the log does not have.
    #[error("it refers to entries that do not exist")]
    Dangling,
    /// Its place in a file has something else.
    #[error("{}", in_file(.place, .line, .fault))]
    Line {
        /// The file.
        place: String,
        /// The line, from 1; `None` if the file is one JSON document.
        line: Option<u64>,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// The file in which it is looked for belongs to another log. A file system may treat two names as one.
    #[error("{place} belongs to another log")]
    OtherLog {
        /// The file.
        place: String,
    },
}

impl Damage {
    /// What is wrong with a body that could not be parsed.
    pub fn from_json_error(error: &serde_json::Error) -> Self {
        if error.is_data() { Damage::NotAnEntry } else { Damage::NotJson }
    }
}

fn in_file(place: &str, line: &Option<u64>, fault: &LineFault) -> String {
    match line {
        Some(line) => format!("line {line} of {place} {fault}"),
        None => format!("in {place}, it {fault}"),
    }
}

/// What is wrong with a line of a log file, or with an element of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// It is not JSON.
    #[error("is not valid JSON")]
    NotJson,
    /// It is JSON, but not a record.
    #[error("is not a record")]
    NotARecord,
    /// It is the record of another position.
    #[error("has `at` {found} instead of {expected}")]
    Position {
        /// The position that it has.
        found: u64,
        /// The position at which it is.
        expected: u64,
    },
    /// It has no body.
    #[error("has no `entry`")]
    NoEntry,
    /// Its checksum is another. A person who edits a line leaves it empty: `"sum":""`.
    #[error("was altered after it was written")]
    Altered,
}
