//! A record as a line of JSON, and the header that names the log.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use lookback_engine::transcript::Millis;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::LineFault;
use crate::{LogName, Record};

/// The version of the layout.
pub(super) const VERSION: i64 = 1;
/// The text before the checksum of a line. The checksum is always the last member.
const SUM: &[u8] = b",\"sum\":\"";
/// The number of hexadecimal digits of a checksum.
const DIGITS: usize = 16;
/// The position with which the first line's checksum is computed. No record has it.
const OF_HEADER: u64 = u64::MAX;

/// Names the log of a file: the first line of a log, and a member of a document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: i64,
    #[serde(default)]
    pub(super) log: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Millis>,
    /// Distinguishes the log from an erased one of the same name.
    #[serde(default)]
    id: String,
    /// The checksum of the other members, in a document only: the first line of a log has its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    sum: String,
}

impl Header {
    pub(super) fn new(log: &LogName, created: Option<Millis>) -> Self {
        // The keys of the hasher are random.
        let id = RandomState::new().hash_one(created);
        Header { version: VERSION, log: log.to_string(), created, id: format!("{id:016x}"), sum: String::new() }
    }

    /// Returns the identifier of the log; `None` if it was altered.
    pub(super) fn id(&self) -> Option<u64> {
        u64::from_str_radix(&self.id, 16).ok()
    }

    /// Returns the header of a document, with its checksum. The checksum is computed from the members, because another
    /// program may format them differently.
    pub(super) fn sealed(self) -> Self {
        Header { sum: format!("{:016x}", self.sum_of_members()), ..self }
    }

    /// Returns whether the header of a document is unaltered.
    pub(super) fn is_whole(&self) -> bool {
        self.sum.is_empty() || self.sum == format!("{:016x}", self.sum_of_members())
    }

    fn sum_of_members(&self) -> u64 {
        let Header { version, log, created, id, .. } = self;
        sum(format!("{:?}", (version, created, id)).as_bytes(), log, OF_HEADER)
    }
}

/// The first line of a log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct First {
    pub(super) lookback: Header,
    #[serde(default, skip_serializing)]
    sum: Option<String>,
}

impl First {
    pub(super) fn new(log: &LogName, created: Option<Millis>) -> Self {
        First { lookback: Header::new(log, created), sum: None }
    }

    pub(super) fn write(&self) -> serde_json::Result<String> {
        Ok(sealed(serde_json::to_string(self)?, &self.lookback.log, OF_HEADER))
    }

    /// Returns whether the line is unaltered.
    pub(super) fn is_whole(&self, line: &[u8]) -> bool {
        self.sum.as_deref().is_some_and(|sum| is_sealed(line, sum, &self.lookback.log, OF_HEADER))
    }
}

/// How a record is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// By the bytes of its line.
    Bytes,
    /// By its members, because another program may have formatted them differently.
    Members,
}

/// Adds a checksum to the end of a line: over the name of the log, the position, and the preceding bytes.
fn sealed(mut line: String, log: &str, position: u64) -> String {
    line.pop();
    let sum = sum(line.as_bytes(), log, position);
    line.extend(SUM.iter().map(|&byte| char::from(byte)));
    line.push_str(&format!("{sum:016x}\"}}"));
    line
}

/// Returns whether a line ends in its checksum, or has an empty one. A line break may follow.
fn is_sealed(line: &[u8], found: &str, log: &str, position: u64) -> bool {
    // A person who edits a line empties its checksum. No disk fault does that.
    if found.is_empty() {
        return true;
    }
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let Some((said, end)) = line.len().checked_sub(SUM.len() + DIGITS + 2).and_then(|at| line.split_at_checked(at))
    else {
        return false;
    };
    end.starts_with(SUM) && found == format!("{:016x}", sum(said, log, position))
}

/// Returns the checksum of bytes at a position in a log.
pub(super) fn sum(said: &[u8], log: &str, position: u64) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&(log.len() as u64).to_le_bytes());
    hash.update(log.as_bytes());
    hash.update(&position.to_le_bytes());
    hash.update(said);
    hash.digest()
}

/// Writes a value in such a way that equal values have equal bytes.
fn spell(value: &serde_json::Value, out: &mut Vec<u8>) {
    use serde_json::Value;
    match value {
        Value::Number(number) => out.extend(number.as_f64().unwrap_or_default().to_le_bytes()),
        Value::Array(values) => {
            out.extend(format!("[{}", values.len()).bytes());
            values.iter().for_each(|value| spell(value, out));
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.extend(format!("{{{}", members.len()).bytes());
            for (name, value) in members {
                out.extend(format!("{name:?}:").bytes());
                spell(value, out);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => out.extend(value.to_string().bytes()),
    }
}

/// A record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line<'a> {
    /// The position. If a line was removed by hand, the lines after it must not take its place.
    pub(super) at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) checkpoint: bool,
    /// The number of this record in its append, from 1, and the number of records in the append; `None` for a single
    /// record. If a part is missing, the other parts are ignored, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<(u64, u64)>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) text: Cow<'a, str>,
    /// The role of the speaker.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Cow<'a, str>>,
    /// When the message was said, if the record was written at another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<Millis>,
    /// The body, byte for byte.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    entry: Option<&'a RawValue>,
    /// The body as a string, if it cannot be embedded in the line unchanged.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    quoted: Option<Cow<'a, str>>,
    /// The checksum.
    #[serde(borrow, default, skip_serializing)]
    sum: Option<Cow<'a, str>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl<'a> Line<'a> {
    /// Returns a body as JSON that can be embedded in a line, or else as a string.
    fn fitted(body: &'a str) -> (Option<&'a RawValue>, Option<Cow<'a, str>>) {
        // A message may contain its original line breaks. (`null` would read as a missing entry.)
        let fits = |entry: &&RawValue| entry.get() == body && body != "null" && !body.contains('\n');
        let entry = serde_json::from_str(body).ok().filter(fits);
        let quoted = entry.is_none().then_some(Cow::Borrowed(body));
        (entry, quoted)
    }

    fn new(log: &LogName, record: &'a Record, at: u64, time: Option<Millis>, part: Option<(u64, u64)>) -> Self {
        let (entry, quoted) = Line::fitted(&record.body);
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
        Line { at, time, checkpoint, part, text, role, name, said, entry, quoted, sum: None }
    }

    /// Returns the line with its contents replaced by this body.
    pub(super) fn erased<'b>(&self, body: &'b str) -> Line<'b> {
        let Line { at, time, checkpoint, part, .. } = *self;
        let (entry, quoted) = Line::fitted(body);
        let text = Cow::Borrowed("");
        Line { at, time, checkpoint, part, text, role: None, name: None, said: None, entry, quoted, sum: None }
    }

    /// Parses the line of this position, and checks it.
    pub(super) fn parse(line: &'a [u8], log: &LogName, position: u64, check: Check) -> Result<Self, LineFault> {
        let fault = |error: serde_json::Error| if error.is_data() { LineFault::NotARecord } else { LineFault::NotJson };
        let parsed: Line<'a> = serde_json::from_slice(line).map_err(fault)?;
        if parsed.at != position {
            return Err(LineFault::Position { found: parsed.at, expected: position });
        }
        if parsed.entry.is_none() && parsed.quoted.is_none() {
            return Err(LineFault::NoEntry);
        }
        let is_whole = match (check, parsed.sum.as_deref()) {
            (_, None) => false,
            (Check::Bytes, Some(sum)) => is_sealed(line, sum, log.as_str(), position),
            (Check::Members, Some(sum)) => sum.is_empty() || sum == format!("{:016x}", parsed.sum_of_members(log)),
        };
        if is_whole { Ok(parsed) } else { Err(LineFault::Altered) }
    }

    /// Returns whether a line looks like a record of any log.
    pub(super) fn is_one(line: &[u8]) -> bool {
        let parsed = serde_json::from_slice::<Line<'_>>(line);
        parsed.is_ok_and(|line| line.sum.is_some() && (line.entry.is_some() || line.quoted.is_some()))
    }

    /// Returns the position at which its append begins.
    pub(super) fn since(&self) -> u64 {
        self.part.map_or(self.at, |(part, _)| self.at.saturating_sub(part.saturating_sub(1)))
    }

    /// Returns whether its append continues with the next line.
    pub(super) fn continues(&self) -> bool {
        self.part.is_some_and(|(part, of)| part < of)
    }

    /// Returns the line as an entry of a document.
    pub(super) fn as_entry(&self, log: &LogName) -> serde_json::Result<String> {
        let mut entry = serde_json::to_string(self)?;
        let sum = self.sum_of_members(log);
        entry.pop();
        Ok(format!("{entry},\"sum\":\"{sum:016x}\"}}"))
    }

    /// Returns the checksum of the members, independent of their format: another program may write the document's
    /// numbers and texts differently.
    fn sum_of_members(&self, log: &LogName) -> u64 {
        let Line { time, checkpoint, text, role, name, said, .. } = self;
        let mut spelled = format!("{:?}", (time, checkpoint, text, role, name, said)).into_bytes();
        match serde_json::from_str(self.body()) {
            Ok(body) => spell(&body, &mut spelled),
            Err(_) => spelled.extend(self.body().bytes()),
        }
        sum(&spelled, log.as_str(), self.at)
    }

    /// Returns the line as it is written to a file.
    pub(super) fn write(&self, log: &LogName) -> serde_json::Result<String> {
        Ok(sealed(serde_json::to_string(self)?, log.as_str(), self.at))
    }

    /// Returns the record as searches see it, without its body.
    pub(super) fn searched(self) -> Record {
        let Line { role, name, text, said, time, .. } = self;
        let (role, name) = (role.map(Cow::into_owned), name.map(Cow::into_owned));
        Record { role, name, ..Record::new("").text(text).time(said.or(time)) }
    }

    pub(super) fn body(&self) -> &str {
        let quoted = self.quoted.as_deref().unwrap_or_default();
        self.entry.map_or(quoted, RawValue::get)
    }
}

/// Returns the lines of an append.
pub(super) fn lines<'a>(
    log: &LogName,
    records: &'a [Record],
    at: u64,
    time: Option<Millis>,
) -> impl Iterator<Item = Line<'a>> {
    let count = records.len() as u64;
    (0..).zip(records).map(move |(index, record)| {
        let part = (count > 1).then_some((index + 1, count));
        Line::new(log, record, at + index, time, part)
    })
}

/// Returns the entries of an append in a document, which is written as a whole.
pub(super) fn entries(
    log: &LogName,
    records: &[Record],
    at: u64,
    time: Option<Millis>,
) -> serde_json::Result<Vec<String>> {
    (at..).zip(records).map(|(at, record)| Line::new(log, record, at, time, None).as_entry(log)).collect()
}

/// The data of a line that a [`Mark`](super::index::Mark) accumulates.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) bytes: u64,
    pub(super) checkpoint: bool,
    pub(super) time: Option<Millis>,
}

impl From<&Line<'_>> for Note {
    fn from(line: &Line<'_>) -> Self {
        Note { bytes: line.body().len() as u64, checkpoint: line.checkpoint, time: line.time }
    }
}
