//! A log with one record for each line, and the index that finds records in it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use lookback_core::transcript::Millis;
use xxhash_rust::xxh3::Xxh3Default;

use super::disk::{self, failed};
use super::line::{First, Header, Line, Note, Tally, VERSION, lines};
use crate::store::{Damage, Durability, LineFault, LogName, Record, StoreError};

/// The most bytes of a first line.
const LONGEST_HEADER: u64 = 1 << 16;
/// How many bytes of the last indexed line are compared, to recognize the file that was indexed.
const COMPARED: usize = 256;

/// Where the records of a file are, up to the last complete append.
pub(super) struct Index {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Where each line ends.
    ends: Vec<u64>,
    pub(super) tally: Tally,
}

/// The header of a file; `None` if there is no file.
pub(super) fn header(path: &Path) -> Result<Option<(File, Vec<u8>, Header)>, StoreError> {
    let place = || path.display().to_string();
    let Some(mut file) = disk::open(path)? else { return Ok(None) };
    let mut first = Vec::new();
    BufReader::new((&mut file).take(LONGEST_HEADER)).read_until(b'\n', &mut first).map_err(failed(path))?;
    match serde_json::from_slice(&first) {
        Ok(First { lookback: Header { version, .. } }) if version > VERSION => {
            Err(StoreError::Newer { place: place(), found: version, known: VERSION })
        }
        Ok(First { lookback }) if first.ends_with(b"\n") => Ok(Some((file, first, lookback))),
        _ => Err(StoreError::NotAStore { place: place() }),
    }
}

/// Returns an error if the file belongs to another log: a file system may treat two names as one.
pub(super) fn refuse_others(header: &Header, path: &Path, log: &LogName) -> Result<(), StoreError> {
    if header.log == log.as_str() {
        return Ok(());
    }
    Err(StoreError::damaged(log, 0, Damage::OtherLog { place: path.display().to_string() }))
}

/// Opens a log, and brings its index up to date; `None` if there is no log.
pub(super) fn open(path: &Path, log: &LogName, known: &mut Option<Index>) -> Result<Option<File>, StoreError> {
    let Some((mut file, first, header)) = header(path)? else {
        *known = None;
        return Ok(None);
    };
    refuse_others(&header, path, log)?;
    let same = |index: &Index| index.first == first && index.is_of(&mut file).unwrap_or(false);
    let mut index = known.take().filter(same).unwrap_or_else(|| Index::new(first, &header));
    let extended = index.extend(&mut file, path, log);
    // Lines before a damaged one need not be read again.
    let records = known.insert(index).tally.records;
    extended?;
    Ok((records > 0).then_some(file))
}

impl Index {
    fn new(first: Vec<u8>, header: &Header) -> Self {
        Index { first, last: Vec::new(), ends: Vec::new(), tally: Tally::new(header) }
    }

    /// Where the last complete append ends.
    fn end(&self) -> u64 {
        self.start(self.ends.len())
    }

    /// Where a line starts.
    fn start(&self, line: usize) -> u64 {
        let before = line.checked_sub(1).and_then(|before| self.ends.get(before));
        before.copied().unwrap_or(self.first.len() as u64)
    }

    /// Whether the last indexed line is still in its place. Another process may have erased the log and begun it again.
    fn is_of(&self, file: &mut File) -> io::Result<bool> {
        let mut last = vec![0; self.last.len()];
        file.seek(SeekFrom::Start(self.end() - self.last.len() as u64))?;
        file.read_exact(&mut last)?;
        Ok(last == self.last)
    }

    /// Reads what was appended since. An incomplete append at the end is left out.
    fn extend(&mut self, file: &mut File, path: &Path, log: &LogName) -> Result<(), StoreError> {
        loop {
            let scan = self.scan(file).map_err(failed(path))?;
            // If another process cut off a torn end and wrote over it meanwhile, parts of both may have been read.
            if digest(file, self.end(), scan.length).map_err(failed(path))? != scan.digest {
                continue;
            }
            for (end, note) in scan.found {
                self.ends.push(end);
                self.tally.add(note);
                self.last.clone_from(&scan.last);
            }
            return scan.damaged.map_or(Ok(()), |(position, fault)| Err(damaged(path, log, position, fault)));
        }
    }

    fn scan(&self, file: &mut File) -> io::Result<Scan> {
        let start = self.end();
        file.seek(SeekFrom::Start(start))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut hasher = Xxh3Default::new();
        let mut scan = Scan::default();
        let mut whole = 0;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            reader.read_until(b'\n', &mut bytes)?;
            if bytes.last() != Some(&b'\n') {
                break;
            }
            hasher.update(&bytes);
            scan.length += bytes.len() as u64;
            let position = self.tally.records + scan.found.len() as u64;
            let Some(line) = Line::parse(&bytes, position) else {
                // A loss of power may leave zeros in place of a block.
                let unwritten = bytes.contains(&0) && reader.fill_buf()?.is_empty();
                scan.damaged = (!unwritten).then(|| (position, Line::fault(&bytes, position)));
                break;
            };
            let more = line.more;
            scan.found.push((start + scan.length, Note::from(&line)));
            if !more {
                whole = scan.found.len();
                scan.last = bytes.split_off(bytes.len().saturating_sub(COMPARED));
            }
        }
        scan.found.truncate(whole);
        scan.digest = hasher.digest();
        Ok(scan)
    }

    pub(super) fn bodies(
        &self,
        file: &mut File,
        path: &Path,
        log: &LogName,
        span: Range<u64>,
    ) -> Result<Vec<String>, StoreError> {
        let line = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(self.ends.len());
        let span = line(span.start)..line(span.end);
        file.seek(SeekFrom::Start(self.start(span.start))).map_err(failed(path))?;
        let mut reader = BufReader::new(file);
        let mut bytes = Vec::new();
        let mut bodies = Vec::with_capacity(span.len());
        for position in span {
            bytes.clear();
            reader.read_until(b'\n', &mut bytes).map_err(failed(path))?;
            let position = position as u64;
            let line = Line::parse(&bytes, position)
                .ok_or_else(|| damaged(path, log, position, Line::fault(&bytes, position)))?;
            bodies.push(line.body().to_owned());
        }
        Ok(bodies)
    }

    /// Reads the records, and adds to an index what searches look at.
    pub(super) fn index(
        &self,
        file: &mut File,
        path: &Path,
        log: &LogName,
        mut add: impl FnMut(u64, Record),
    ) -> Result<(), StoreError> {
        file.seek(SeekFrom::Start(self.start(0))).map_err(failed(path))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut bytes = Vec::new();
        for position in 0..self.tally.records {
            bytes.clear();
            reader.read_until(b'\n', &mut bytes).map_err(failed(path))?;
            let line = Line::parse(&bytes, position)
                .ok_or_else(|| damaged(path, log, position, Line::fault(&bytes, position)))?;
            add(position, line.searched());
        }
        Ok(())
    }
}

/// What was read of a file after the lines that are known.
#[derive(Default)]
struct Scan {
    /// Where the lines of complete appends end.
    found: Vec<(u64, Note)>,
    /// The end of the last of those lines.
    last: Vec<u8>,
    /// Bytes that were read, except a last line without an end.
    length: u64,
    digest: u64,
    /// The record at which reading stopped, and why.
    damaged: Option<(u64, LineFault)>,
}

fn digest(file: &mut File, start: u64, length: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(1 << 16, file.take(length));
    let mut hasher = Xxh3Default::new();
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hasher.digest());
        }
        hasher.update(bytes);
        let length = bytes.len();
        reader.consume(length);
    }
}

fn damaged(path: &Path, log: &LogName, position: u64, fault: LineFault) -> StoreError {
    // The header is line 1.
    let line = Some(position.saturating_add(2));
    StoreError::damaged(log, position, Damage::Line { place: path.display().to_string(), line, fault })
}

/// Appends to a log, which must end at `at`. Only one writer may call this at a time.
pub(super) fn append(
    path: &Path,
    log: &LogName,
    known: &mut Option<Index>,
    (at, records, time): (u64, &[Record], Option<Millis>),
    durability: Durability,
) -> Result<(), StoreError> {
    let file = open(path, log, known)?;
    let end = known.as_ref().map_or(0, |index| index.tally.records);
    if end != at {
        return Err(StoreError::Conflict { at, end });
    }
    if records.is_empty() {
        return Ok(());
    }
    let json = |error: serde_json::Error| failed(path)(error.into());
    let mut new = lines(log, records, at, time, false).map_err(json)?.join("\n");
    new.push('\n');
    let written = match (file, known) {
        (Some(_), Some(index)) => {
            let whole = index.end();
            let write = |mut file: File| {
                // A writer that died while writing left a torn end.
                if file.metadata()?.len() > whole {
                    file.set_len(whole)?;
                }
                let written = file.write_all(new.as_bytes()).and_then(|()| disk::keep(&file, durability));
                if written.is_err() {
                    // Frees the space on a full disk. If that fails, the end is torn.
                    let _ = file.set_len(whole);
                }
                written
            };
            disk::private().append(true).open(path).and_then(write)
        }
        // The first append comes with the header, entirely or not at all.
        _ => {
            let first = serde_json::to_string(&First { lookback: Header::new(log, time) }).map_err(json)?;
            disk::replace(path, durability, |file| file.write_all(format!("{first}\n{new}").as_bytes()))
        }
    };
    written.map_err(failed(path))
}
