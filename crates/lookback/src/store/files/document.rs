//! A log in a JSON document, in which another program may keep its own members: `{..., "lookback": {...}, "entries":
//! [...]}`.

use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;

use lookback_core::transcript::Millis;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::disk::{self, failed};
use super::line::{Header, Line, Note, Tally, VERSION, lines};
use super::lines::refuse_others;
use crate::store::{Damage, Durability, LogName, Record, StoreError};

const HEADER: &str = "lookback";
const ENTRIES: &str = "entries";

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

/// The text of a document; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>, StoreError> {
    let Some(mut file) = disk::open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed(path))?;
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| StoreError::NotAStore { place: path.display().to_string() })
}

impl<'a> Document<'a> {
    fn parse(text: &'a str, path: &Path) -> Result<Self, StoreError> {
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
            (Some(header), _) if header.version > VERSION => {
                let place = path.display().to_string();
                Err(StoreError::Newer { place, found: header.version, known: VERSION })
            }
            (Some(_), Some(entries)) => Ok(Document { entries, ..document }),
            (None, None) => Ok(document),
            // One without the other belongs to another program, or is incomplete.
            _ => Err(foreign()),
        }
    }

    fn lines(&self, log: &LogName, path: &Path) -> Result<Vec<Line<'a>>, StoreError> {
        let line = |(position, entry): (u64, &&'a RawValue)| {
            let entry = entry.get().as_bytes();
            let damaged = || {
                let (place, fault) = (path.display().to_string(), Line::fault(entry, position));
                StoreError::damaged(log, position, Damage::Line { place, line: None, fault })
            };
            Line::parse(entry, position).ok_or_else(damaged)
        };
        (0..).zip(&self.entries).map(line).collect()
    }

    fn write(&self) -> serde_json::Result<String> {
        let header = self.header.as_ref().map(serde_json::value::to_raw_value).transpose()?;
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
    path: &Path,
    log: &LogName,
    work: impl FnOnce(&Header, Vec<Line<'_>>) -> T,
) -> Result<Option<T>, StoreError> {
    let Some(text) = text(path)? else { return Ok(None) };
    let document = Document::parse(&text, path)?;
    let Some(header) = &document.header else { return Ok(None) };
    refuse_others(header, path, log)?;
    let lines = document.lines(log, path)?;
    Ok((!lines.is_empty()).then(|| work(header, lines)))
}

pub(super) fn tally(path: &Path, log: &LogName) -> Result<Option<Tally>, StoreError> {
    with(path, log, |header, lines| {
        let mut tally = Tally::new(header);
        lines.iter().for_each(|line| tally.add(Note::from(line)));
        tally
    })
}

/// The bodies of each of these spans.
pub(super) fn bodies(path: &Path, log: &LogName, spans: &[Range<u64>]) -> Result<Vec<Vec<String>>, StoreError> {
    let bodies = with(path, log, |_, lines| {
        let within = |span: &Range<u64>| -> Vec<String> {
            lines.iter().filter(|line| span.contains(&line.at)).map(|line| line.body().to_owned()).collect()
        };
        spans.iter().map(within).collect::<Vec<_>>()
    });
    Ok(bodies?.unwrap_or_else(|| vec![Vec::new(); spans.len()]))
}

/// Appends to a document's log, which must end at `at`. Only one writer may call this at a time.
pub(super) fn append(
    path: &Path,
    log: &LogName,
    (at, records, time): (u64, &[Record], Option<Millis>),
    durability: Durability,
) -> Result<(), StoreError> {
    let text = text(path)?;
    let mut document = text.as_deref().map_or_else(|| Ok(Document::default()), |text| Document::parse(text, path))?;
    if let Some(header) = &document.header {
        refuse_others(header, path, log)?;
    }
    let end = document.lines(log, path)?.len() as u64;
    if end != at {
        return Err(StoreError::Conflict { at, end });
    }
    if records.is_empty() {
        return Ok(());
    }
    let json = |error: serde_json::Error| failed(path)(error.into());
    let new = lines(log, records, at, time, true).map_err(json)?;
    for line in &new {
        document.entries.push(serde_json::from_str(line).map_err(json)?);
    }
    if at == 0 {
        document.header = Some(Header::new(log, time));
    }
    let whole = document.write().map_err(json)?;
    disk::replace(path, durability, |file| file.write_all(whole.as_bytes())).map_err(failed(path))
}

/// Removes a log from its document, and deletes the document if nothing else is in it.
pub(super) fn erase(path: &Path, durability: Durability) -> Result<(), StoreError> {
    let Some(text) = text(path)? else { return Ok(()) };
    let mut document = Document::parse(&text, path)?;
    (document.header, document.entries) = (None, Vec::new());
    if document.others.is_empty() {
        return disk::remove(path).map(|_| ()).map_err(failed(path));
    }
    let rest = document.write().map_err(|error| failed(path)(error.into()))?;
    disk::replace(path, durability, |file| file.write_all(rest.as_bytes())).map_err(failed(path))
}

/// The header of a document's log; `None` if it has none.
pub(super) fn header(path: &Path) -> Result<Option<Header>, StoreError> {
    let Some(text) = text(path)? else { return Ok(None) };
    Ok(Document::parse(&text, path)?.header)
}
