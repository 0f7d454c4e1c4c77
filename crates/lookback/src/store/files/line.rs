//! A record as a line of JSON, and the header that names the log.

use std::borrow::Cow;

use lookback_core::transcript::{Entry, Millis};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::session::log::said;
use crate::store::{Head, LineFault, LogInfo, LogName, Record};

/// The version of the layout.
pub(super) const VERSION: i64 = 1;

/// Names the log of a file: the first line of a log, and a member of a document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: i64,
    #[serde(default)]
    pub(super) log: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Millis>,
}

impl Header {
    pub(super) fn new(log: &LogName, created: Option<Millis>) -> Self {
        Header { version: VERSION, log: log.to_string(), created }
    }
}

/// The first line of a log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct First {
    pub(super) lookback: Header,
}

/// A record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line<'a> {
    /// Its position. If a line was removed by hand, the lines after it must not take its place.
    pub(super) at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) checkpoint: bool,
    /// Whether the next line belongs to the same append. If that line is missing, this one does not count either.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) more: bool,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) text: Cow<'a, str>,
    /// The role of who said it. Lines that earlier versions wrote have none.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Cow<'a, str>>,
    /// When it was said, if that is not when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<Millis>,
    /// The body, byte for byte.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    entry: Option<&'a RawValue>,
    /// The body as a string, if it cannot be part of a line as it is.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    quoted: Option<Cow<'a, str>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl<'a> Line<'a> {
    pub(super) fn of(log: &LogName, record: &'a Record, at: u64, time: Option<Millis>, more: bool) -> Self {
        let body = record.body.as_str();
        // A message keeps the line breaks with which it came. (`null` would read as no entry.)
        let fits = |entry: &&RawValue| entry.get() == body && body != "null" && !body.contains('\n');
        let entry = serde_json::from_str(body).ok().filter(fits);
        let quoted = entry.is_none().then_some(Cow::Borrowed(body));
        // Derived logs are not searched.
        let (text, role, name, said) = if log.is_derived() {
            ("", None, None, None)
        } else {
            (
                record.text.as_str(),
                record.role.as_deref(),
                record.name.as_deref(),
                record.time.filter(|said| Some(*said) != time),
            )
        };
        let (role, name) = (role.map(Cow::Borrowed), name.map(Cow::Borrowed));
        let (checkpoint, text) = (record.checkpoint, Cow::Borrowed(text));
        Line { at, time, checkpoint, more, text, role, name, said, entry, quoted }
    }

    /// `None` if this is not a record, or not the one of this position.
    pub(super) fn parse(line: &'a [u8], position: u64) -> Option<Self> {
        let line: Line<'a> = serde_json::from_slice(line).ok()?;
        (line.at == position && (line.entry.is_some() || line.quoted.is_some())).then_some(line)
    }

    /// Why a line is not the record of this position.
    pub(super) fn fault(line: &[u8], position: u64) -> LineFault {
        match serde_json::from_slice::<Line<'_>>(line) {
            Err(error) if error.is_data() => LineFault::NotARecord,
            Err(_) => LineFault::NotJson,
            Ok(line) if line.at != position => LineFault::Position { found: line.at, expected: position },
            Ok(_) => LineFault::NoEntry,
        }
    }

    /// What searches look at.
    pub(super) fn searched(self) -> Record {
        let mut record = Record::new("");
        if self.role.is_none()
            && !self.text.is_empty()
            && let Ok(Entry::Message(arrival)) = serde_json::from_str(self.body())
        {
            // An earlier version wrote it.
            record = said(record, &arrival, None);
        }
        let Line { role, name, text, said, time, .. } = self;
        record.role = role.map(Cow::into_owned).or(record.role);
        record.name = name.map(Cow::into_owned).or(record.name);
        record.text(text).time(said.or(time))
    }

    pub(super) fn body(&self) -> &str {
        let quoted = self.quoted.as_deref().unwrap_or_default();
        self.entry.map_or(quoted, RawValue::get)
    }
}

/// The records of an append, as JSON.
pub(super) fn lines(
    log: &LogName,
    records: &[Record],
    at: u64,
    time: Option<Millis>,
    whole: bool,
) -> serde_json::Result<Vec<String>> {
    let line = |(index, record): (usize, &Record)| {
        let more = !whole && index + 1 < records.len();
        serde_json::to_string(&Line::of(log, record, at + index as u64, time, more))
    };
    records.iter().enumerate().map(line).collect()
}

/// What is known about a log besides its records.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) created: Option<Millis>,
    pub(super) used: Option<Millis>,
    pub(super) records: u64,
    bytes: u64,
    checkpoints: Vec<u64>,
}

impl Tally {
    /// The tally of a log without records.
    pub(super) fn new(header: &Header) -> Self {
        Tally { created: header.created, ..Tally::default() }
    }

    pub(super) fn add(&mut self, note: Note) {
        if note.checkpoint {
            self.checkpoints.push(self.records);
        }
        self.records += 1;
        self.bytes += note.bytes;
        self.used = self.used.max(note.time);
    }

    pub(super) fn head(&self, before: Option<u64>) -> Head {
        let count = self.checkpoints.partition_point(|&at| before.is_none_or(|before| at < before));
        let newest = self.checkpoints.get(..count).and_then(<[u64]>::last);
        Head { end: self.records, checkpoint: newest.copied() }
    }

    pub(super) fn info(&self, name: &LogName) -> LogInfo {
        let Tally { created, used, records, bytes, .. } = *self;
        LogInfo { name: name.clone(), records, bytes, created, used }
    }
}

/// What a line adds to a [`Tally`].
#[derive(Debug)]
pub(super) struct Note {
    bytes: u64,
    checkpoint: bool,
    time: Option<Millis>,
}

impl From<&Line<'_>> for Note {
    fn from(line: &Line<'_>) -> Self {
        Note { bytes: line.body().len() as u64, checkpoint: line.checkpoint, time: line.time }
    }
}
