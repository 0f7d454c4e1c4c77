//! The errors of stores, and the kinds of damage to a record.

use super::LogName;

/// An error of a store. Nothing was written, unless the error says otherwise: a server that cannot be reached may have
/// carried out the request.
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
    /// The store is not writable. It cannot be read either if part of it is still in the file `-wal` next to it.
    #[error("the store {place} is read-only; make its file and its folder writable")]
    ReadOnly {
        /// The file.
        place: String,
    },
    /// The URL of a store is invalid.
    #[error("the URL of the store is invalid: {reason}")]
    Url {
        /// The reason. It quotes nothing, since a URL may contain a password.
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
    /// The server of the store did not answer in time. If an append fails with this or with
    /// [`StoreError::Unreachable`], its records may have been written. Repeating the append with the
    /// same key recognizes them.
    #[error(
        "the store {place} did not answer within {} seconds; it may have carried out the request", .limit.as_secs()
    )]
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
        /// The server's answer.
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
    /// The path does not lead to a regular file. It was not opened: opening a pipe waits, and reading a device may
    /// never end.
    #[error(
        "{place} is not a regular file but a folder, a pipe, a device or a socket; move it, or choose another path"
    )]
    NotAFile {
        /// The path.
        place: String,
    },
    /// A document is damaged, or never was valid JSON.
    #[error("{place} is damaged: line {line} is not valid JSON; repair the file, or move it away")]
    NoJson {
        /// The file.
        place: String,
        /// The line, from 1.
        line: usize,
    },
    /// A search took too long and was stopped.
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
        /// The position of the record.
        position: u64,
        /// The kind of damage.
        damage: Box<Damage>,
    },
    /// An entry cannot be written as JSON. This does not happen with the entries of a session or a memory.
    #[error("entry {position} of `{log}` cannot be written as JSON")]
    Unwritable {
        /// The log.
        log: String,
        /// The position that the record would have had.
        position: u64,
        /// The error of the serializer.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Any other error of the backend.
    #[error("the store {place} failed")]
    Backend {
        /// The place of the store.
        place: String,
        /// The backend's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Returns whether the store may have carried out the request despite the error: its server did not answer.
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

    /// Returns whether the error concerns one unreadable log, while others may be readable: the log was damaged, or a
    /// newer version wrote it.
    pub fn is_log_specific(&self) -> bool {
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

/// The kind of damage to a record. It contains nothing of the record's contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Its body is not JSON.
    #[error("its body is not valid JSON")]
    NotJson,
    /// Its body is JSON, but not an entry of this kind of log.
    #[error("its body is not an entry that this version of Lookback knows")]
    NotAnEntry,
    /// The record is missing, although the log has it according to its length.
    #[error("it is missing")]
    Gone,
    /// The record exists, although the log ends before it.
    #[error("it is there, but the log ends before it")]
    Behind,
    /// Its checksum is wrong.
    #[error("it was altered after it was written")]
    Altered,
    /// It is not encrypted, although the store was opened with keys.
    #[error("it is not encrypted")]
    NotSealed,
    /// It was encrypted with a key that was not given.
    #[error("it was encrypted with the key `{key}`, which was not given")]
    NoKey {
        /// The name of the key.
        key: String,
    },
    /// It refers to entries that the log does not have.
    #[error("it refers to entries that do not exist")]
    Dangling,
    /// A file of its log is damaged.
    #[error(transparent)]
    File(FileDamage),
}

impl Damage {
    /// Classifies a body that could not be parsed.
    pub fn from_json_error(error: &serde_json::Error) -> Self {
        if error.is_data() { Damage::NotAnEntry } else { Damage::NotJson }
    }
}

impl From<FileFault> for Damage {
    fn from(fault: FileFault) -> Self {
        Damage::File(FileDamage(fault))
    }
}

/// The damage to a file of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct FileDamage(FileFault);

/// The reason of a [`FileDamage`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileFault {
    /// The index of the log was altered.
    #[error("the index {place} was altered; delete it, and it will be rebuilt")]
    Index { place: String },
    /// The line or element at the record's place is not the record. A file that is one JSON document has no line.
    #[error("{}", in_file(.place, .line, .fault))]
    Line { place: String, line: Option<u64>, fault: LineFault },
    /// The file belongs to another log. A file system may treat two names as one.
    #[error("{place} belongs to another log")]
    OtherLog { place: String },
}

fn in_file(place: &str, line: &Option<u64>, fault: &LineFault) -> String {
    match line {
        Some(line) => format!("line {line} of {place} {fault}"),
        None => format!("in {place}, it {fault}"),
    }
}

/// The fault of a line in a log file, or of an element in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineFault {
    /// It is not JSON.
    #[error("is not valid JSON")]
    NotJson,
    /// It is JSON, but not a record.
    #[error("is not a record")]
    NotARecord,
    /// It is the record of another position.
    #[error("has `at` {found} instead of {expected}")]
    Position { found: u64, expected: u64 },
    /// It has no body.
    #[error("has no `entry`")]
    NoEntry,
    /// Its checksum is wrong. A person who edits a line empties the checksum: `"sum":""`.
    #[error("was altered after it was written")]
    Altered,
}
