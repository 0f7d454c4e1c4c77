//! The data that a store takes and returns: records, the end of a log, and the description of a log.

use lookback_content::Redacted;
use lookback_engine::transcript::Millis;
use serde::Serialize;

use super::LogName;

/// One record of a log. A store does not interpret its body.
///
/// ```
/// use lookback_store::Record;
///
/// let record = Record::new(r#"{"said":"apple pie"}"#).text("apple pie");
/// assert!(!record.checkpoint);
/// ```
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The entry, as JSON.
    #[debug("{:?}", Redacted(body))]
    pub body: String,
    /// The text by which searches find it. An empty text is never found.
    #[debug("{:?}", Redacted(text))]
    pub text: String,
    /// When the message was said. If `None`, a store takes the time of the append. Searches can be limited to a time.
    pub time: Option<Millis>,
    /// The speaker's role, such as `user`. Searches can be limited to a role.
    pub role: Option<String>,
    /// The speaker's name. Searches can be limited to a name, and the name's words also match.
    #[debug("{:?}", Redacted(name))]
    pub name: Option<String>,
    /// Whether a reader can start at this record.
    pub checkpoint: bool,
}

impl Record {
    /// Creates a record that no search finds, and that is not a checkpoint.
    pub fn new(body: impl Into<String>) -> Self {
        Record { body: body.into(), text: String::new(), time: None, role: None, name: None, checkpoint: false }
    }

    /// Sets the text by which searches find it.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets when the message was said.
    #[must_use]
    pub fn time(mut self, time: impl Into<Option<Millis>>) -> Self {
        self.time = time.into();
        self
    }

    /// Sets the speaker's role.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Sets the speaker's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets whether a reader can start at this record.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: bool) -> Self {
        self.checkpoint = checkpoint;
        self
    }
}

/// The replacement for a record whose contents are erased.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tombstone {
    /// The position of the record.
    pub position: u64,
    /// The checksum of the record (see [`checksum`](super::checksum())). A record with another checksum is not the one
    /// that was meant, and does not change.
    #[debug(skip)]
    pub checksum: u64,
    /// The body that replaces the record's.
    #[debug("{:?}", Redacted(body))]
    pub body: String,
}

impl Tombstone {
    /// Creates a tombstone for the record at this position with this checksum.
    pub fn new(position: u64, checksum: u64, body: impl Into<String>) -> Self {
        Tombstone { position, checksum, body: body.into() }
    }
}

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The number of its records.
    pub end: u64,
    /// The position of its newest checkpoint before the requested position.
    pub checkpoint: Option<u64>,
}

impl Head {
    /// Creates the answer of [`Store::head`](super::Store::head).
    pub fn new(end: u64, checkpoint: Option<u64>) -> Self {
        Head { end, checkpoint }
    }
}

/// The description of a log in a list.
///
/// ```
/// use lookback_store::LogInfo;
///
/// let info = LogInfo::new("chat-1".parse()?, 3, 1_200).created(Some(1_767_225_600_000));
/// assert_eq!((info.records, info.bytes, info.used), (3, 1_200, None));
/// # Ok::<(), lookback_store::BadName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogInfo {
    /// Its name.
    pub name: LogName,
    /// The number of its records.
    pub records: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// The time of its first record; `None` if it is unknown.
    pub created: Option<Millis>,
    /// The time of its last use; `None` if it is unknown.
    pub used: Option<Millis>,
}

impl LogInfo {
    /// Creates the description of a log with this many records, whose bodies have this many bytes. Its times are
    /// unknown.
    pub fn new(name: LogName, records: u64, bytes: u64) -> Self {
        LogInfo { name, records, bytes, created: None, used: None }
    }

    /// Sets the time of its first record.
    #[must_use]
    pub fn created(mut self, time: Option<Millis>) -> Self {
        self.created = time;
        self
    }

    /// Sets the time of its last use.
    #[must_use]
    pub fn used(mut self, time: Option<Millis>) -> Self {
        self.used = time;
        self
    }
}

/// A record that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hit {
    /// Its log.
    pub log: LogName,
    /// Its position in the log.
    pub position: u64,
}

impl Hit {
    /// Creates a hit.
    pub fn new(log: LogName, position: u64) -> Self {
        Hit { log, position }
    }
}
