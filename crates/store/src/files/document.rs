//! A log in a JSON document, in which another program may keep its own members: `{..., "lookback": {...}, "entries":
//! [...]}`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lookback_engine::transcript::Millis;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::disk::{self, failed};
use super::index::{self, Index, Mark};
use super::line::{Check, Header, Line, Note, VERSION, entries};
use super::lines::{index_of, refuse_others};
use super::place::Place;
use crate::error::{FileFault, LineFault};
use crate::{Damage, Durability, Head, LogInfo, LogName, Record, StoreError, Tombstone, checksum};

const HEADER: &str = "lookback";
const ENTRIES: &str = "entries";
/// The end of a document that this store has written: the end of the list of entries.
const END: &str = "\n  ]\n}\n";

/// Documents that were checked. A document with unchanged text need not be checked again, which takes much longer than
/// reading it.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<PathBuf, Arc<Checked>>>);

/// A checked document and its log.
struct Checked {
    text: String,
    /// Whether this store wrote the text, and so knows its form.
    is_own: bool,
    header: Header,
    /// The mark after each record of the log. There is at least one.
    marks: Vec<Mark>,
}

impl Known {
    /// How many documents are remembered.
    const MOST: usize = 16;

    fn get(&self, path: &Path, text: &str) -> Option<Arc<Checked>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(path).filter(|checked| checked.text == text).cloned()
    }

    fn insert(&self, path: &Path, checked: Checked) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Known::MOST && !known.contains_key(path) {
            known.clear();
        }
        if !checked.marks.is_empty() {
            known.insert(path.to_owned(), Arc::new(checked));
        }
    }
}

impl Checked {
    fn end(&self) -> u64 {
        self.marks.len() as u64
    }

    /// Opens the index of the document. Fails if the document belongs to another log, or has lost records.
    fn index(&self, place: &Place, log: &LogName) -> Result<Option<Index>, StoreError> {
        refuse_others(&self.header, place, log)?;
        let index = index_of(place, log, Some(&self.header))?;
        if index.as_ref().is_some_and(|index| index.records > self.end()) {
            return Err(StoreError::damaged(log, self.end(), Damage::Gone));
        }
        Ok(index)
    }

    fn info(&self, log: &LogName) -> LogInfo {
        let Mark { bytes, used, .. } = self.marks.last().copied().unwrap_or(Mark::first(0));
        LogInfo { name: log.clone(), records: self.end(), bytes, created: self.header.created, used }
    }

    /// Returns the document with more entries; `None` if another program may have written it.
    fn with(&self, entries: &[String]) -> Option<String> {
        if !self.is_own {
            return None;
        }
        let before = self.text.strip_suffix(END)?;
        let more = entries.iter().map(|entry| entry.len() + 8).sum::<usize>();
        let mut text = String::with_capacity(self.text.len() + more);
        text.push_str(before);
        for entry in entries {
            text.push_str(",\n    ");
            text.push_str(entry);
        }
        text.push_str(END);
        Some(text)
    }
}

/// The members of a document, in order and byte for byte.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A parsed document.
#[derive(Default)]
struct Document<'a> {
    /// The members of other programs.
    others: Vec<(String, &'a RawValue)>,
    header: Option<Header>,
    entries: Vec<&'a RawValue>,
}

/// Reads the text of a document; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>, StoreError> {
    let Some(mut file) = disk::open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed(path))?;
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| StoreError::NotAStore { place: path.display().to_string() })
}

impl<'a> Document<'a> {
    fn parse(text: &'a str, path: &Path) -> Result<Self, StoreError> {
        let document = Document::parse_any_version(text, path)?;
        match &document.header {
            Some(header) if header.version > VERSION => {
                let place = path.display().to_string();
                Err(StoreError::Newer { place, found: header.version, known: VERSION })
            }
            _ => Ok(document),
        }
    }

    fn parse_any_version(text: &'a str, path: &Path) -> Result<Self, StoreError> {
        let foreign = || StoreError::NotAStore { place: path.display().to_string() };
        let fault = |error: serde_json::Error| {
            let place = path.display().to_string();
            if error.is_data() { foreign() } else { StoreError::NoJson { place, line: error.line() } }
        };
        let Members(members) = serde_json::from_str(text).map_err(fault)?;
        let mut document = Document::default();
        let mut entries = None;
        for (name, value) in members {
            match name.as_str() {
                HEADER if document.header.is_none() => {
                    document.header = Some(serde_json::from_str(value.get()).map_err(|_| foreign())?);
                }
                ENTRIES if entries.is_none() => {
                    entries = Some(serde_json::from_str(value.get()).map_err(|_| foreign())?);
                }
                HEADER | ENTRIES => return Err(foreign()),
                _ => document.others.push((name, value)),
            }
        }
        match (&document.header, entries) {
            (Some(_), Some(entries)) => Ok(Document { entries, ..document }),
            (None, None) => Ok(document),
            // A header without entries, or entries without a header, belongs to another program or is incomplete.
            _ => Err(foreign()),
        }
    }

    fn lines(&self, log: &LogName, path: &Path) -> Result<Vec<Line<'a>>, StoreError> {
        let line = |(position, entry): (u64, &&'a RawValue)| {
            Line::parse(entry.get().as_bytes(), log, position, Check::Members).map_err(|fault| {
                let place = path.display().to_string();
                StoreError::damaged(log, position, FileFault::Line { place, line: None, fault }.into())
            })
        };
        (0..).zip(&self.entries).map(line).collect()
    }

    fn write(&self) -> serde_json::Result<String> {
        let header = self.header.clone().map(Header::sealed);
        let header = header.as_ref().map(serde_json::value::to_raw_value).transpose()?;
        let mut members = Vec::new();
        for (name, value) in &self.others {
            members.push(format!("  {}: {}", serde_json::to_string(name)?, value.get()));
        }
        if let Some(header) = header {
            let entries: Vec<_> = self.entries.iter().map(|entry| format!("    {}", entry.get())).collect();
            members.push(format!("  \"{HEADER}\": {header}"));
            members.push(format!("  \"{ENTRIES}\": [\n{}\n  ]", entries.join(",\n")));
        }
        Ok(format!("{{\n{}\n}}\n", members.join(",\n")))
    }
}

/// Reads a document's log; `None` if it has none.
fn with<T>(
    place: &Place,
    log: &LogName,
    work: impl FnOnce(&Header, Vec<Line<'_>>) -> T,
) -> Result<Option<T>, StoreError> {
    let Some(text) = text(place.path())? else {
        index_of(place, log, None)?;
        return Ok(None);
    };
    let document = Document::parse(&text, place.path())?;
    let lines = read(&document, place, log)?;
    Ok(match &document.header {
        Some(header) if !lines.is_empty() => Some(work(header, lines)),
        _ => None,
    })
}

/// Checks a document and returns all lines of its log.
fn read<'a>(document: &Document<'a>, place: &Place, log: &LogName) -> Result<Vec<Line<'a>>, StoreError> {
    if let Some(header) = &document.header {
        if !header.is_whole() {
            let place = place.path().display().to_string();
            let damage = FileFault::Line { place, line: None, fault: LineFault::Altered };
            return Err(StoreError::damaged(log, 0, damage.into()));
        }
        refuse_others(header, place, log)?;
    }
    let index = index_of(place, log, document.header.as_ref())?;
    let lines = document.lines(log, place.path())?;
    let end = lines.len() as u64;
    if index.is_some_and(|index| index.records > end) {
        return Err(StoreError::damaged(log, end, Damage::Gone));
    }
    Ok(lines)
}

/// Returns the mark after each record.
fn marks(lines: &[Line<'_>]) -> impl Iterator<Item = Mark> {
    (0..).zip(lines).scan(Mark::first(0), |mark, (position, line)| {
        *mark = mark.and(&Note::from(line), position, 0);
        Some(*mark)
    })
}

pub(super) fn head(place: &Place, log: &LogName, before: Option<u64>) -> Result<Option<Head>, StoreError> {
    with(place, log, |_, lines| {
        let considered = lines.iter().take_while(|line| before.is_none_or(|before| line.at < before));
        let newest = considered.filter(|line| line.checkpoint).last();
        Head { end: lines.len() as u64, checkpoint: newest.map(|line| line.at) }
    })
}

pub(super) fn info(place: &Place, log: &LogName, known: &Known) -> Result<Option<LogInfo>, StoreError> {
    let path = place.path();
    let Some(text) = text(path)? else {
        index_of(place, log, None)?;
        return Ok(None);
    };
    if let Some(checked) = known.get(path, &text) {
        checked.index(place, log)?;
        return Ok(Some(checked.info(log)));
    }
    let (header, marks) = {
        let mut document = Document::parse(&text, path)?;
        let marks: Vec<Mark> = marks(&read(&document, place, log)?).collect();
        (document.header.take(), marks)
    };
    let Some(header) = header else { return Ok(None) };
    if marks.is_empty() {
        return Ok(None);
    }
    let checked = Checked { text, is_own: false, header, marks };
    let info = checked.info(log);
    known.insert(path, checked);
    Ok(Some(info))
}

/// Returns the bodies of each of these spans.
pub(super) fn bodies(place: &Place, log: &LogName, spans: &[Range<u64>]) -> Result<Vec<Vec<String>>, StoreError> {
    let bodies = with(place, log, |_, lines| {
        let within = |span: &Range<u64>| -> Vec<String> {
            lines.iter().filter(|line| span.contains(&line.at)).map(|line| line.body().to_owned()).collect()
        };
        spans.iter().map(within).collect::<Vec<_>>()
    });
    Ok(bodies?.unwrap_or_else(|| vec![Vec::new(); spans.len()]))
}

/// Appends to a document's log, which must end at `at`. Only one writer may call this at a time.
pub(super) fn append(
    place: &Place,
    log: &LogName,
    (at, records, time): (u64, &[Record], Option<Millis>),
    durability: Durability,
    known: &Known,
) -> Result<(), StoreError> {
    let path = place.path();
    let json = |error: serde_json::Error| failed(path)(error.into());
    let keep = |text: String, header: Header, marks: Vec<Mark>, indexed: u64| {
        if let Some(id) = header.id() {
            let new = marks.get(usize::try_from(indexed).unwrap_or(usize::MAX)..).unwrap_or_default();
            // The append does not depend on the index.
            let _ = index::write(place.index(), (log, id), indexed, new.iter().copied());
        }
        known.insert(path, Checked { text, is_own: true, header, marks });
    };
    let text = text(path)?;
    if let Some(checked) = text.as_deref().and_then(|text| known.get(path, text)) {
        let (index, end) = (checked.index(place, log)?, checked.end());
        if end != at {
            return Err(StoreError::Conflict { at, end });
        }
        if records.is_empty() {
            return Ok(());
        }
        if let Some(whole) = checked.with(&entries(log, records, at, time).map_err(json)?) {
            disk::replace(path, durability, |file| file.write_all(whole.as_bytes())).map_err(failed(path))?;
            let indexed = index.map_or(0, |index| if index.records == end { end } else { 0 });
            keep(whole, checked.header.clone(), with_more(checked.marks.clone(), records, time), indexed);
            return Ok(());
        }
    }
    let mut document = text.as_deref().map_or_else(|| Ok(Document::default()), |text| Document::parse(text, path))?;
    let lines = read(&document, place, log)?;
    let end = lines.len() as u64;
    if end != at {
        return Err(StoreError::Conflict { at, end });
    }
    if records.is_empty() {
        return Ok(());
    }
    let new = entries(log, records, at, time).map_err(json)?;
    for line in &new {
        document.entries.push(serde_json::from_str(line).map_err(json)?);
    }
    if at == 0 {
        document.header = Some(Header::new(log, document.header.as_ref().map_or(time, |header| header.created)));
    }
    let whole = document.write().map_err(json)?;
    disk::replace(path, durability, |file| file.write_all(whole.as_bytes())).map_err(failed(path))?;
    if let Some(header) = document.header.take() {
        keep(whole, header, with_more(marks(&lines).collect(), records, time), 0);
    }
    Ok(())
}

/// Returns the marks of a log after an append of these records.
fn with_more(mut marks: Vec<Mark>, records: &[Record], time: Option<Millis>) -> Vec<Mark> {
    for record in records {
        let last = marks.last().copied().unwrap_or(Mark::first(0));
        let note = Note { bytes: record.body.len() as u64, checkpoint: record.checkpoint, time };
        marks.push(last.and(&note, marks.len() as u64, 0));
    }
    marks
}

/// Replaces records with tombstones. Only one writer may call this at a time.
pub(super) fn replace(
    place: &Place,
    log: &LogName,
    tombstones: &BTreeMap<u64, Tombstone>,
    durability: Durability,
) -> Result<(), StoreError> {
    let path = place.path();
    let Some(text) = text(path)? else { return Ok(()) };
    let mut document = Document::parse(&text, path)?;
    let json = |error: serde_json::Error| failed(path)(error.into());
    let mut written = Vec::new();
    for line in read(&document, place, log)? {
        let meant = |tombstone: &&Tombstone| tombstone.checksum == checksum(log, line.at, line.body());
        let line = match tombstones.get(&line.at).filter(meant) {
            Some(tombstone) => line.erased(&tombstone.body).as_entry(log),
            None => line.as_entry(log),
        };
        written.push(line.map_err(json)?);
    }
    document.entries = written.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>().map_err(json)?;
    let whole = document.write().map_err(json)?;
    // The marks of the old entries are no longer valid.
    disk::remove(place.index()).map_err(failed(place.index()))?;
    disk::replace(path, durability, |file| file.write_all(whole.as_bytes())).map_err(failed(path))?;
    // The erasure does not depend on the index.
    if let Some(id) = document.header.as_ref().and_then(Header::id) {
        let _ = index::write(place.index(), (log, id), 0, marks(&document.lines(log, path)?));
    }
    Ok(())
}

/// Removes a log from its document, and deletes the document if nothing else is in it.
pub(super) fn erase(path: &Path, durability: Durability) -> Result<(), StoreError> {
    let Some(text) = text(path)? else { return Ok(()) };
    let mut document = Document::parse_any_version(&text, path)?;
    (document.header, document.entries) = (None, Vec::new());
    if document.others.is_empty() {
        return disk::remove(path).map(|_| ()).map_err(failed(path));
    }
    let rest = document.write().map_err(|error| failed(path)(error.into()))?;
    disk::replace(path, durability, |file| file.write_all(rest.as_bytes())).map_err(failed(path))
}

/// Returns the header of a document's log; `None` if it has none. Fails if the header was altered.
pub(super) fn header(path: &Path) -> Result<Option<Header>, StoreError> {
    let Some(text) = text(path)? else { return Ok(None) };
    match Document::parse(&text, path)?.header {
        Some(header) if !header.is_whole() => Err(StoreError::NotAStore { place: path.display().to_string() }),
        header => Ok(header),
    }
}

/// Returns an error if a log cannot be removed from its document, because the other members are not known.
pub(super) fn refuse_unreadable(path: &Path) -> Result<(), StoreError> {
    let Some(text) = text(path)? else { return Ok(()) };
    Document::parse_any_version(&text, path).map(|_| ())
}

/// Whether a document has a log whose header was altered.
pub(super) fn is_altered(path: &Path) -> Result<bool, StoreError> {
    let Some(text) = text(path)? else { return Ok(false) };
    let document = Document::parse_any_version(&text, path);
    Ok(document.is_ok_and(|document| document.header.is_some_and(|header| !header.is_whole())))
}

/// Returns whether a document that cannot be read has content that only this store writes: a header, or entries with
/// checksums.
pub(super) fn is_ours(path: &Path) -> Result<bool, StoreError> {
    let Some(mut file) = disk::open(path)? else { return Ok(false) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed(path))?;
    let (header, entries, sum) = (format!("\"{HEADER}\""), format!("\"{ENTRIES}\""), b"\"sum\":\"");
    let has = |part: &[u8]| bytes.windows(part.len()).any(|at| at == part);
    let is_object = |at: usize| {
        let value = bytes.get(at + header.len()..).unwrap_or_default().trim_ascii_start();
        value.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"{"))
    };
    let mut headers = (0..).zip(bytes.windows(header.len())).filter(|(_, at)| *at == header.as_bytes());
    Ok(headers.any(|(at, _)| is_object(at)) || has(entries.as_bytes()) && has(sum.as_slice()))
}

/// Returns whether the index of a document's log matches the log.
pub(super) fn has_its_index(place: &Place, log: &LogName) -> Result<bool, StoreError> {
    let Some(text) = text(place.path())? else { return Ok(true) };
    let document = Document::parse(&text, place.path())?;
    let lines = document.lines(log, place.path())?;
    let Some(mut index) = index_of(place, log, document.header.as_ref())? else { return Ok(true) };
    index.says(marks(&lines)).map_err(failed(place.index()))
}
