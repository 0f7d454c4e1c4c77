//! The index of a log: where each record ends in its file, in a file of its own.
//!
//! With it, a log of a million records opens as quickly as one of ten. It also records how many records were appended:
//! if the log has fewer, the disk has lost some. A deleted index is rebuilt by the next append.
//!
//! ```text
//! 0     "lookback-index-1"
//! 16    the `id` of the log's header, 8 bytes
//! 24    the checksum of the header, 8 bytes
//! 32    the length of the log's name, 2 bytes, and the name
//! 1024  40 bytes for each record: see [`Mark`], and its checksum
//! ```

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use lookback_engine::transcript::Millis;
use xxhash_rust::xxh3::xxh3_64;

use super::disk::{self, failed};
use super::line::Note;
use crate::{LogName, StoreError};

const MAGIC: &[u8; 16] = b"lookback-index-1";
const HEADER: usize = 1024;
/// Where the name begins.
const NAME: usize = 34;
const MARK: usize = 40;

/// The state of a log after one of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// The byte at which the record's line ends in the log file; 0 in a document.
    pub(super) end: u64,
    /// The bytes of all bodies so far.
    pub(super) bytes: u64,
    /// The newest checkpoint so far.
    pub(super) checkpoint: Option<u64>,
    /// The time of the last write so far.
    pub(super) used: Option<Millis>,
}

impl Mark {
    /// The state of a log without records, whose first line ends at this byte.
    pub(super) fn first(end: u64) -> Self {
        Mark { end, bytes: 0, checkpoint: None, used: None }
    }

    /// Returns the state after one more record, at this position.
    #[must_use]
    pub(super) fn and(self, note: &Note, position: u64, end: u64) -> Mark {
        Mark {
            end,
            bytes: self.bytes.saturating_add(note.bytes),
            checkpoint: if note.checkpoint { Some(position) } else { self.checkpoint },
            used: self.used.max(note.time),
        }
    }

    fn to_bytes(self, position: u64) -> [u8; MARK] {
        let checkpoint = self.checkpoint.map_or(0, |position| position.saturating_add(1));
        // `Millis::MIN` means `None`.
        let used = self.used.unwrap_or(Millis::MIN);
        let fields = [self.end, self.bytes, checkpoint, used.cast_unsigned()];
        let mut bytes = [0; MARK];
        for (field, value) in bytes.chunks_exact_mut(8).zip(fields) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        let (fields, check) = bytes.split_at_mut(MARK - 8);
        check.copy_from_slice(&checked(fields, position).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; MARK], position: u64) -> Option<Mark> {
        let mut fields = bytes.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || fields.next().unwrap_or(0);
        let (end, all, checkpoint, used, check) = (next(), next(), next(), next().cast_signed(), next());
        let used = Some(used).filter(|used| *used != Millis::MIN);
        let fields = bytes.get(..MARK - 8).unwrap_or_default();
        (check == checked(fields, position)).then_some(Mark {
            end,
            bytes: all,
            checkpoint: checkpoint.checked_sub(1),
            used,
        })
    }
}

fn checked(fields: &[u8], position: u64) -> u64 {
    xxh3_64(&[fields, &position.to_le_bytes()].concat())
}

/// The index of a log, as a file.
#[derive(Debug)]
pub(super) struct Index {
    file: File,
    /// The identifier of its log.
    pub(super) id: u64,
    /// The name of its log.
    pub(super) name: String,
    /// The number of its marks.
    pub(super) records: u64,
}

impl Index {
    /// Opens an index; `None` if it does not exist or cannot be read. It is then rebuilt.
    pub(super) fn open(path: &Path) -> Result<Option<Index>, StoreError> {
        let Some(mut file) = disk::open(path)? else { return Ok(None) };
        let mut header = [0; HEADER];
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(failed(path))?,
        }
        let Some((id, name)) = read_header(&header) else { return Ok(None) };
        let length = file.metadata().map_err(failed(path))?.len();
        // An incomplete mark at the end is ignored.
        let records = length.saturating_sub(HEADER as u64) / MARK as u64;
        let mut index = Index { file, id, name, records };
        let last = records.checked_sub(1).map(|last| index.mark(last)).transpose().map_err(failed(path))?;
        let is_whole = !matches!(last, Some(None));
        Ok(is_whole.then_some(index))
    }

    /// Returns the mark of a record; `None` if it was altered, or if there is none.
    pub(super) fn mark(&mut self, position: u64) -> io::Result<Option<Mark>> {
        if position >= self.records {
            return Ok(None);
        }
        let mut bytes = [0; MARK];
        self.file.seek(SeekFrom::Start(HEADER as u64 + position * MARK as u64))?;
        self.file.read_exact(&mut bytes)?;
        Ok(Mark::from_bytes(&bytes, position))
    }

    /// Returns whether the marks of the index equal the first `marks` of the log.
    pub(super) fn says(&mut self, marks: impl Iterator<Item = Mark>) -> io::Result<bool> {
        for (position, mark) in (0..self.records).zip(marks) {
            if self.mark(position)? != Some(mark) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn read_header(header: &[u8; HEADER]) -> Option<(u64, String)> {
    let number = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let length = usize::from(u16::from_le_bytes(header.get(32..NAME)?.try_into().ok()?));
    let name = header.get(NAME..NAME.checked_add(length)?)?;
    let is_whole = header.starts_with(MAGIC) && number(24)? == header_checksum(number(16)?, name);
    if !is_whole {
        return None;
    }
    Some((number(16)?, String::from_utf8(name.to_vec()).ok()?))
}

fn header_checksum(id: u64, name: &[u8]) -> u64 {
    xxh3_64(&[&id.to_le_bytes(), name].concat())
}

/// Adds the marks of an append to the index of a log. The index already has `known` marks; if `known` is 0, the index
/// is rewritten.
///
/// It need not reach the disk. Marks that are missing after a loss of power are computed from the log.
pub(super) fn write(
    path: &Path,
    (log, id): (&LogName, u64),
    known: u64,
    marks: impl Iterator<Item = Mark>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (position, mark) in (known..).zip(marks) {
        bytes.extend(mark.to_bytes(position));
    }
    if known > 0 {
        let mut file = disk::private().write(true).open(path)?;
        file.seek(SeekFrom::Start(HEADER as u64 + known * MARK as u64))?;
        return file.write_all(&bytes);
    }
    let name = log.as_str().as_bytes();
    let length = u16::try_from(name.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let mut header = MAGIC.to_vec();
    header.extend(id.to_le_bytes());
    header.extend(header_checksum(id, name).to_le_bytes());
    header.extend(length.to_le_bytes());
    header.extend(name);
    header.resize(HEADER, 0);
    header.extend(bytes);
    disk::replace(path, crate::Durability::System, |file| file.write_all(&header))
}
