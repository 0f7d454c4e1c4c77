//! Reading a file: which format it has, and its conversations.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use lookback_wire::dialect::Dialect;

#[cfg(feature = "sqlite")]
use crate::database::Database;
use crate::error::{RecordingError, RecordingFault};
use crate::formats::{self, Format, Reading, Source};
use crate::left_out::{LeftOut, Reason};
use crate::recording::Recording;
use crate::shape::{GZIP, Shape, UTF16};
use crate::unpack::{self, TextError};
use crate::{transcripts, values};

/// The first bytes of an SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The conversations of a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RecordedFile {
    /// The agent or library that wrote the file, if it is the log of one.
    pub agent: Option<&'static str>,
    /// The conversations.
    pub recordings: Vec<Recording>,
    /// The lines that are in none of them.
    pub left_out: LeftOut,
}

/// The errors of reading a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read it")]
    Io(#[from] io::Error),
    /// It is no text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// It has no conversation that can be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl RecordedFile {
    /// Reads a file. Its name is the name of a conversation that has none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if [`RecordedFile::read`] returns one.
    pub fn open(path: &Path, dialect: Option<Dialect>) -> Result<RecordedFile, FileError> {
        #[cfg(feature = "sqlite")]
        if RecordedFile::is_database(path) {
            return Ok(read_database(path)?);
        }
        let bytes = fs::read(path)?;
        // A log may have bytes that a crash has left, which cost only their line.
        if let Some((text, damaged)) = repaired(&bytes) {
            let mut file = read_log(&text, stem(path), Some(path))?;
            damaged.into_iter().for_each(|line| file.left_out.add(Reason::Damaged, line));
            return Ok(file);
        }
        let text = unpack::read_text(bytes, unpack::LARGEST)?;
        Ok(read(&text, stem(path), Some(path), dialect)?)
    }

    /// Returns whether a file is a database, which has no text.
    #[doc(hidden)]
    pub fn is_database(path: &Path) -> bool {
        let mut first = [0; MAGIC.len()];
        // A pipe has only one reader, and waits for its writer.
        path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *MAGIC
    }

    /// Reads the text of a file. See [`Recording::read`] for the formats.
    ///
    /// # Errors
    /// Returns an error if the file has another format, if the messages of one transcript are in different dialects, or
    /// if a line of a file that is no agent's log cannot be read.
    ///
    /// ```
    /// use lookback_recordings::{RecordedFile, Reason};
    ///
    /// let log = r#"{"type":"session","version":3,"id":"s1","cwd":"/work"}
    /// {"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"Hi"}}
    /// {"type":"message","id":"b","parentId":"a","message":{"role":"assist"#;
    /// let file = RecordedFile::read(log, "log", None)?;
    /// assert_eq!((file.agent, file.recordings[0].messages.len()), (Some("pi"), 1));
    /// # Ok::<(), lookback_recordings::RecordingError>(())
    /// ```
    pub fn read(text: &str, name: &str, dialect: Option<Dialect>) -> Result<RecordedFile, RecordingError> {
        read(text, name, None, dialect)
    }
}

/// Returns the text of a log with bytes that are no UTF-8, without these, and the lines that have them. Returns `None` for
/// any other file.
fn repaired(bytes: &[u8]) -> Option<(String, Vec<usize>)> {
    let fault = std::str::from_utf8(bytes).err()?;
    if fault.error_len().is_none() || bytes.starts_with(&GZIP) || UTF16.iter().any(|mark| bytes.starts_with(mark)) {
        return None;
    }
    let (mut text, mut damaged, mut line) = (String::with_capacity(bytes.len()), Vec::new(), 1);
    for chunk in bytes.utf8_chunks() {
        text += chunk.valid();
        line += chunk.valid().bytes().filter(|byte| *byte == b'\n').count();
        if !chunk.invalid().is_empty() && damaged.last() != Some(&line) {
            damaged.push(line);
        }
    }
    (Shape::detect_text(&text) == Shape::Log).then_some((text, damaged))
}

fn read(text: &str, name: &str, path: Option<&Path>, dialect: Option<Dialect>) -> Result<RecordedFile, RecordingError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let shape = Shape::detect_text(text);
    if shape == Shape::Log {
        return read_log(text, name, path);
    }
    if let Some((what, how)) = shape.foreign() {
        return Err(RecordingFault::Foreign { what, how }.into());
    }
    let drafts = transcripts::read(text, name)?.into_iter();
    let recordings = drafts.map(|draft| draft.decode(dialect)).collect::<Result<_, _>>()?;
    Ok(RecordedFile { recordings, ..RecordedFile::default() })
}

fn read_log(text: &str, name: &str, path: Option<&Path>) -> Result<RecordedFile, RecordingError> {
    let Some(format) = formats::of(text) else { return Ok(RecordedFile::default()) };
    let mut left_out = LeftOut::default();
    let mut values = values::salvage(text, &mut left_out);
    // No format has a line that is only a number or a text.
    values.retain(|(line, value)| {
        let is_known = value.get().starts_with(['{', '[']);
        if !is_known {
            left_out.add(Reason::Unknown, *line);
        }
        is_known
    });
    read_source(format, &Source::Values(&values), Reading::new(name, path, left_out))
}

fn read_source(
    format: &dyn Format,
    source: &Source<'_>,
    mut reading: Reading<'_>,
) -> Result<RecordedFile, RecordingError> {
    format.read(source, &mut reading)?;
    let Reading { recordings, left_out, .. } = reading;
    Ok(RecordedFile { agent: Some(format.name()), recordings, left_out })
}

impl Recording {
    /// Reads the text of a file. The file may contain
    ///
    /// - transcripts: objects with `messages`, and with `id`, `system`, `tools`, `model` and `usage` if these are
    ///   known;
    /// - messages, which together are one transcript named `name`;
    /// - the log of a coding agent, or messages as a library writes them (see below).
    ///
    /// Transcripts and messages are one per line, in one JSON list, or pretty-printed one after the other. A list of
    /// messages is a transcript, too, and so is a request body. The `time` of a message is removed from it, because it
    /// belongs to the recording and not to the provider's message.
    ///
    /// If no dialect is given, it is recognized for each transcript, from all its messages and the other members of its
    /// object. If they give no clue, as with plain texts, it is the default dialect, as in
    /// [`Request::decode`](lookback_wire::dialect::Request::decode).
    ///
    /// **Logs.** The conversation is the one that the model saw last, without messages that were edited, undone or tried
    /// again. If the agent compacted it, the messages before the summary are still there, and
    /// [`compactions`](Recording::compactions) has the summary's index. Each side chain is a separate recording. Messages
    /// that the log has as they were sent are in their own dialect, and all others in Anthropic's. A damaged line costs
    /// only that line: [`RecordedFile::read`] says which. Most logs do not contain the system prompt and the tools.
    ///
    /// # Errors
    /// Returns an error if the file has another format, if the messages of one transcript are in different dialects, or
    /// if a line of a file that is no log cannot be read.
    ///
    /// ```
    /// use lookback_recordings::Recording;
    /// use lookback_wire::dialect::Dialect;
    ///
    /// let text = r#"{"role":"user","content":[{"text":"Hi"}],"time":"2026-01-01T00:00:00Z"}"#;
    /// let recordings = Recording::read(text, "notes", None)?;
    /// assert_eq!(recordings[0].dialect, Dialect::Bedrock);
    /// assert_eq!(recordings[0].messages[0].time, Some(1_767_225_600_000));
    /// # Ok::<(), lookback_recordings::RecordingError>(())
    /// ```
    pub fn read(text: &str, name: &str, dialect: impl Into<Option<Dialect>>) -> Result<Vec<Recording>, RecordingError> {
        RecordedFile::read(text, name, dialect.into()).map(|file| file.recordings)
    }
}

#[cfg(feature = "sqlite")]
fn read_database(path: &Path) -> Result<RecordedFile, RecordingError> {
    let database = Database::open(path).map_err(RecordingFault::Database)?;
    let source = Source::Database(&database);
    let format = formats::of_source(&source).ok_or(RecordingFault::NoStore)?;
    read_source(format, &source, Reading::new(stem(path), Some(path), LeftOut::default()))
}

/// Returns the name of a file without its endings.
fn stem(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("recording");
    // The stem of `session.jsonl.gz` is `session`.
    stem.strip_suffix(".jsonl").or(stem.strip_suffix(".json")).unwrap_or(stem)
}
