//! A log with one record for each line.
//!
//! A process that dies during an append leaves a torn end: an incomplete last line, or zeros instead of bytes that did
//! not reach the disk. Such an append was never acknowledged. Readers ignore it, and the next writer removes it. Any
//! other difference from the written bytes is damage, and is not repaired.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use lookback_engine::transcript::Millis;

use super::disk::{self, failed};
use super::index::{self, Index, Mark};
use super::line::{Check, First, Header, Line, Note, VERSION, lines};
use super::place::Place;
use crate::error::{FileFault, LineFault};
use crate::{Damage, Durability, Head, LogInfo, LogName, Record, StoreError, Tombstone, checksum};

/// The most bytes of a first line.
const LONGEST_HEADER: u64 = 1 << 16;

/// An opened log with its index.
pub(super) struct Lines<'a> {
    place: &'a Place,
    log: &'a LogName,
    file: File,
    pub(super) header: Header,
    /// The byte at which the first record begins.
    first: u64,
    /// The index, if it belongs to the log.
    index: Option<Index>,
    /// The least number of records that the log must have, according to its index.
    expected: u64,
    /// The marks of the records after the indexed ones.
    marks: Vec<Mark>,
    /// The mark after the last complete append.
    last: Mark,
    /// The length of the file in bytes.
    length: u64,
    /// The position at which reading stopped, and the reason.
    damage: Option<(u64, Damage)>,
}

/// Reads the header and the first line of a file; `None` if it does not exist or is empty.
pub(super) fn header(place: &Place) -> Result<Option<(File, Vec<u8>, Header)>, StoreError> {
    let path = place.path();
    let Some(mut file) = disk::open(path)? else { return Ok(None) };
    let mut first = Vec::new();
    BufReader::new((&mut file).take(LONGEST_HEADER)).read_until(b'\n', &mut first).map_err(failed(path))?;
    match serde_json::from_slice::<First>(&first) {
        Ok(First { lookback: Header { version, .. }, .. }) if version > VERSION => {
            Err(StoreError::Newer { place: path.display().to_string(), found: version, known: VERSION })
        }
        Ok(header) if first.ends_with(b"\n") && header.is_whole(&first) => Ok(Some((file, first, header.lookback))),
        _ => Err(StoreError::NotAStore { place: path.display().to_string() }),
    }
}

/// Returns whether a file with an unreadable header is a log of this name, according to its index or its first record.
pub(super) fn is_of(place: &Place, log: &LogName) -> Result<bool, StoreError> {
    let path = place.path();
    if Index::open(place.index())?.is_some_and(|index| index.name == log.as_str()) {
        return Ok(true);
    }
    let Some(file) = disk::open(path)? else { return Ok(false) };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(failed(path))?;
    line.clear();
    reader.read_until(b'\n', &mut line).map_err(failed(path))?;
    Ok(Line::parse(&line, log, 0, Check::Bytes).is_ok())
}

/// Returns whether a file with an unreadable header has lines that only this store writes.
pub(super) fn is_ours(place: &Place) -> Result<bool, StoreError> {
    let path = place.path();
    let Some(file) = disk::open(path)? else { return Ok(false) };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while next(&mut reader, &mut line).map_err(failed(path))? {
        if serde_json::from_slice::<First>(&line).is_ok() || Line::is_one(&line) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the index of a log matches the log.
pub(super) fn has_its_index(place: &Place, log: &LogName) -> Result<bool, StoreError> {
    let Some((file, first, header)) = header(place)? else { return Ok(true) };
    refuse_others(&header, place, log)?;
    let Some(mut index) = index_of(place, log, Some(&header))? else { return Ok(true) };
    let first = first.len() as u64;
    let length = file.metadata().map_err(failed(place.path()))?.len();
    let (marks, last, damage) = (Vec::new(), Mark::first(first), None);
    let mut lines = Lines { place, log, file, header, first, index: None, expected: 0, marks, last, length, damage };
    lines.read_on()?;
    index.says(lines.marks.into_iter()).map_err(failed(place.index()))
}

/// Returns an error if the file belongs to another log: a file system may treat two names as one.
pub(super) fn refuse_others(header: &Header, place: &Place, log: &LogName) -> Result<(), StoreError> {
    if header.log == log.as_str() {
        return Ok(());
    }
    Err(StoreError::damaged(log, 0, FileFault::OtherLog { place: place.path().display().to_string() }.into()))
}

/// Opens the index, if it belongs to the log. Fails if the index has records, but the log does not exist or is another
/// one.
pub(super) fn index_of(place: &Place, log: &LogName, header: Option<&Header>) -> Result<Option<Index>, StoreError> {
    let Some(index) = Index::open(place.index())?.filter(|index| index.name == log.as_str()) else { return Ok(None) };
    match index.records.checked_sub(1) {
        Some(last) if header.is_none_or(|header| header.id() != Some(index.id)) => {
            Err(StoreError::damaged(log, last, Damage::Gone))
        }
        Some(_) => Ok(Some(index)),
        None => Ok(None),
    }
}

/// Opens a log; `None` if there is none.
pub(super) fn open<'a>(place: &'a Place, log: &'a LogName) -> Result<Option<Lines<'a>>, StoreError> {
    let path = place.path();
    let found = match header(place) {
        Err(StoreError::NotAStore { .. }) if is_of(place, log)? => {
            let (place, fault) = (path.display().to_string(), LineFault::Altered);
            return Err(StoreError::damaged(log, 0, FileFault::Line { place, line: Some(1), fault }.into()));
        }
        found => found?,
    };
    if let Some((_, _, header)) = &found {
        refuse_others(header, place, log)?;
    }
    // Opened before the length of the log is read, so that the index cannot be ahead of the log.
    let index = index_of(place, log, found.as_ref().map(|(_, _, header)| header))?;
    let Some((file, first, header)) = found else { return Ok(None) };
    let first = first.len() as u64;
    let length = file.metadata().map_err(failed(path))?.len();
    let expected = index.as_ref().map_or(0, |index| index.records);
    let (marks, last, damage) = (Vec::new(), Mark::first(first), None);
    let mut lines = Lines { place, log, file, header, first, index, expected, marks, last, length, damage };
    if !lines.trust_index()? {
        (lines.index, lines.last) = (None, Mark::first(first));
    }
    lines.read_on()?;
    let records = lines.records();
    if records < expected && lines.damage.is_none() {
        lines.damage = Some((records, Damage::Gone));
    }
    Ok((records > 0 || lines.damage.is_some()).then_some(lines))
}

impl Lines<'_> {
    fn indexed(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.records)
    }

    /// The number of records.
    pub(super) fn records(&self) -> u64 {
        self.indexed() + self.marks.len() as u64
    }

    fn failed(&self) -> impl Fn(io::Error) -> StoreError + '_ {
        failed(self.place.path())
    }

    fn in_line(&self, position: u64, fault: LineFault) -> Damage {
        // The header is line 1.
        let line = Some(position.saturating_add(2));
        FileFault::Line { place: self.place.path().display().to_string(), line, fault }.into()
    }

    /// Returns an error if a record after the complete appends is damaged. The records before it can be read.
    pub(super) fn refuse_damage(&self) -> Result<(), StoreError> {
        match &self.damage {
            Some((position, damage)) => Err(StoreError::damaged(self.log, *position, damage.clone())),
            None => Ok(()),
        }
    }

    /// Starts from the last mark of the index, and returns whether the record's line is where the mark says. If not,
    /// the log was damaged or edited, and must be read from its beginning.
    fn trust_index(&mut self) -> Result<bool, StoreError> {
        let Some(last) = self.indexed().checked_sub(1) else { return Ok(false) };
        let (start, end) = (self.start(last)?, self.mark(last)?.end);
        if start >= end || end > self.length {
            return Ok(false);
        }
        let mut line = Vec::new();
        self.file.seek(SeekFrom::Start(start)).map_err(self.failed())?;
        (&self.file).take(end - start).read_to_end(&mut line).map_err(self.failed())?;
        self.last = self.mark(last)?;
        Ok(Line::parse(&line, self.log, last, Check::Bytes).is_ok())
    }

    /// Returns the mark after a record, which the log has.
    fn mark(&mut self, position: u64) -> Result<Mark, StoreError> {
        let behind = position.checked_sub(self.indexed()).and_then(|at| usize::try_from(at).ok());
        if let Some(at) = behind {
            return Ok(self.marks.get(at).copied().unwrap_or(self.last));
        }
        let path = self.place.index();
        let mark = self.index.as_mut().map_or(Ok(None), |index| index.mark(position)).map_err(failed(path))?;
        let altered = || FileFault::Index { place: path.display().to_string() };
        mark.ok_or_else(|| StoreError::damaged(self.log, position, altered().into()))
    }

    /// Returns the byte at which a line begins.
    fn start(&mut self, position: u64) -> Result<u64, StoreError> {
        position.checked_sub(1).map_or(Ok(self.first), |before| Ok(self.mark(before)?.end))
    }

    pub(super) fn head(&mut self, before: Option<u64>) -> Result<Head, StoreError> {
        let end = self.records();
        let considered = before.map_or(end, |before| before.min(end)).checked_sub(1);
        let newest = considered.map(|last| self.mark(last)).transpose()?;
        Ok(Head { end, checkpoint: newest.and_then(|mark| mark.checkpoint) })
    }

    pub(super) fn info(&self) -> LogInfo {
        let Mark { bytes, used, .. } = self.last;
        LogInfo { name: self.log.clone(), records: self.records(), bytes, created: self.header.created, used }
    }

    /// Reads the records after the indexed ones. Ignores a torn end.
    fn read_on(&mut self) -> Result<(), StoreError> {
        let scan = self.scan().map_err(self.failed())?;
        self.last = scan.marks.last().copied().unwrap_or(self.last);
        let damage = scan.damage.map(|(position, fault)| (position, self.in_line(position, fault)));
        (self.marks, self.damage) = (scan.marks, damage);
        Ok(())
    }

    fn scan(&mut self) -> io::Result<Scan> {
        let (mut last, mut position) = (self.last, self.records());
        self.file.seek(SeekFrom::Start(last.end))?;
        let mut reader = BufReader::with_capacity(1 << 16, &mut self.file);
        let mut scan = Scan::default();
        let (mut whole, mut since, mut line) = (0, position, Vec::new());
        while next(&mut reader, &mut line)? {
            let parsed = match Line::parse(&line, self.log, position, Check::Bytes) {
                Ok(parsed) if line.ends_with(b"\n") => parsed,
                Ok(_) => break,
                Err(fault) => {
                    let is_torn = since >= self.expected && is_torn(&mut reader, &line, self.log, (since, position))?;
                    scan.damage = (!is_torn).then_some((position, fault));
                    break;
                }
            };
            last = last.and(&Note::from(&parsed), position, last.end + line.len() as u64);
            position += 1;
            scan.marks.push(last);
            if !parsed.continues() {
                (whole, since) = (scan.marks.len(), position);
            }
        }
        // An append in the index was acknowledged, and is not torn.
        if scan.damage.is_none() && since >= self.expected {
            scan.marks.truncate(whole);
        }
        Ok(scan)
    }

    /// Returns the bodies of a span.
    pub(super) fn bodies(&mut self, span: Range<u64>) -> Result<Vec<String>, StoreError> {
        let mut bodies = Vec::new();
        self.each(span, |_, line| bodies.push(line.body().to_owned()))?;
        Ok(bodies)
    }

    /// Reads the records of a span, and checks them.
    pub(super) fn each(&mut self, span: Range<u64>, mut work: impl FnMut(u64, Line<'_>)) -> Result<(), StoreError> {
        let end = self.records();
        if self.damage.as_ref().is_some_and(|(position, _)| span.end > *position) {
            self.refuse_damage()?;
        }
        let span = span.start.min(end)..span.end.min(end);
        let start = self.start(span.start)?;
        self.file.seek(SeekFrom::Start(start)).map_err(self.failed())?;
        let mut reader = BufReader::with_capacity(1 << 16, &self.file);
        let mut line = Vec::new();
        for position in span {
            if !next(&mut reader, &mut line).map_err(self.failed())? {
                return Err(StoreError::damaged(self.log, position, Damage::Gone));
            }
            let parsed = Line::parse(&line, self.log, position, Check::Bytes);
            let damaged = |fault| StoreError::damaged(self.log, position, self.in_line(position, fault));
            work(position, parsed.map_err(damaged)?);
        }
        Ok(())
    }
}

/// The result of reading the records after the indexed ones.
#[derive(Default)]
struct Scan {
    /// The records of complete appends.
    marks: Vec<Mark>,
    damage: Option<(u64, LineFault)>,
}

/// Reads the next line with its line break. The last one may have none.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(reader.read_until(b'\n', line)? > 0)
}

/// Returns whether an invalid line is part of an append that did not reach the disk. `since` is the position at which
/// the append begins, and `position` the one that the line should have.
fn is_torn(reader: &mut impl BufRead, line: &[u8], log: &LogName, (since, position): (u64, u64)) -> io::Result<bool> {
    if !line.ends_with(b"\n") {
        // It is not torn if only its line break was replaced by another character.
        let but_one = line.split_last().map(|(_, before)| before).unwrap_or_default();
        return Ok(Line::parse(but_one, log, position, Check::Bytes).is_err());
    }
    // The blocks of a file may reach the disk in any order. A flipped bit can make one zero byte, but not two.
    if line.iter().filter(|byte| **byte == 0).count() < 2 {
        return Ok(false);
    }
    // All following lines must belong to the same append.
    let mut line = Vec::new();
    while next(reader, &mut line)? {
        let behind = serde_json::from_slice::<Line<'_>>(&line).ok();
        if behind.is_some_and(|behind| behind.at >= since && behind.since() != since) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends to a log, which must end at `at`. Only one writer may call this at a time.
pub(super) fn append(
    place: &Place,
    log: &LogName,
    (at, records, time): (u64, &[Record], Option<Millis>),
    durability: Durability,
) -> Result<(), StoreError> {
    let found = open(place, log)?;
    if let Some(found) = &found {
        found.refuse_damage()?;
    }
    let end = found.as_ref().map_or(0, Lines::records);
    if end != at {
        return Err(StoreError::Conflict { at, end });
    }
    if records.is_empty() {
        return Ok(());
    }
    let path = place.path();
    let json = |error: serde_json::Error| failed(path)(error.into());
    let (mut text, mut new) = (String::new(), Vec::new());
    for line in lines(log, records, at, time) {
        text.push_str(&line.write(log).map_err(json)?);
        text.push('\n');
        new.push((Note::from(&line), text.len() as u64));
    }
    let id = match &found {
        Some(found) => {
            let whole = found.last.end;
            let write = |mut file: File| {
                // A writer that died while writing left a torn end.
                if file.metadata()?.len() > whole {
                    file.set_len(whole)?;
                }
                let written = file.write_all(text.as_bytes()).and_then(|()| disk::sync(&file, durability));
                if written.is_err() {
                    // Frees the space on a full disk. If this fails, the torn end remains.
                    let _ = file.set_len(whole);
                }
                written
            };
            disk::private().append(true).open(path).and_then(write).map_err(failed(path))?;
            found.header.id()
        }
        // The first append is written together with the header, or not at all.
        None => {
            let first = First::new(log, time);
            let header = first.write().map_err(json)?;
            text = format!("{header}\n{text}");
            new.iter_mut().for_each(|(_, end)| *end += header.len() as u64 + 1);
            disk::replace(path, durability, |file| file.write_all(text.as_bytes())).map_err(failed(path))?;
            first.lookback.id()
        }
    };
    let (known, earlier, mut last) = match &found {
        Some(found) => (found.indexed(), found.marks.as_slice(), found.last),
        None => (0, [].as_slice(), Mark::first(0)),
    };
    let start = last.end;
    let new = (at..).zip(new).map(|(position, (note, end))| {
        last = last.and(&note, position, start + end);
        last
    });
    // The append does not depend on the index.
    if let Some(id) = id {
        let _ = index::write(place.index(), (log, id), known, earlier.iter().copied().chain(new));
    }
    Ok(())
}

/// Replaces records with tombstones. Only one writer may call this at a time.
pub(super) fn replace(
    place: &Place,
    log: &LogName,
    tombstones: &BTreeMap<u64, Tombstone>,
    durability: Durability,
) -> Result<(), StoreError> {
    let Some(mut found) = open(place, log)? else { return Ok(()) };
    found.refuse_damage()?;
    let text = found.rewritten(tombstones)?;
    let path = place.path();
    // The marks of the old lines are no longer valid, and the new header has another identifier.
    disk::remove(place.index()).map_err(failed(place.index()))?;
    disk::replace(path, durability, |file| file.write_all(text.as_bytes())).map_err(failed(path))?;
    // The erasure does not depend on the index.
    if let Some(found) = open(place, log)?
        && let Some(id) = found.header.id()
    {
        let _ = index::write(place.index(), (log, id), 0, found.marks.into_iter());
    }
    Ok(())
}

impl Lines<'_> {
    /// Returns the text of the log with tombstones instead of the erased records.
    fn rewritten(&mut self, tombstones: &BTreeMap<u64, Tombstone>) -> Result<String, StoreError> {
        let json = |path| move |error: serde_json::Error| failed(path)(error.into());
        let header = First::new(self.log, self.header.created).write();
        let mut text = header.map_err(json(self.place.path()))?;
        text.push('\n');
        let (log, mut written) = (self.log, Ok(()));
        self.each(0..u64::MAX, |position, line| {
            let meant = |tombstone: &&Tombstone| tombstone.checksum == checksum(log, position, line.body());
            let line = match tombstones.get(&position).filter(meant) {
                Some(tombstone) => line.erased(&tombstone.body).write(log),
                None => line.write(log),
            };
            match line {
                Ok(line) => {
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(error) => written = Err(error),
            }
        })?;
        written.map_err(json(self.place.path()))?;
        Ok(text)
    }
}
