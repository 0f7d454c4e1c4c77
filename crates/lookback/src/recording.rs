//! Recorded conversations: JSON lines in OpenAI's chat format, a transcript or a message a line.

use lookback_core::dialect::{self, Frame};
use lookback_core::transcript::Millis;
use lookback_core::{DecodeError, Dialect, Message};
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

/// A recorded conversation.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Its name.
    pub id: String,
    /// The messages, with the times at which they came where these are known.
    pub messages: Vec<(Message, Option<Millis>)>,
    /// The system prompt and tools that stand beside them.
    pub frame: Frame,
}

/// Why recordings could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// A line is not JSON.
    #[error("line {line}: not valid JSON: {reason}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// A line is neither a transcript nor a message.
    #[error("line {line}: neither a transcript (`messages`) nor a message (`role`), one a line")]
    Neither {
        /// The line, from 1.
        line: usize,
    },
    /// Transcripts and messages in one file.
    #[error("line {line}: a file holds either transcripts or messages, not both")]
    Mixed {
        /// The first line of the other kind, from 1.
        line: usize,
    },
    /// A message that cannot be read.
    #[error("line {line}: messages[{index}]: {fault}")]
    Message {
        /// The line, from 1.
        line: usize,
        /// Index of the message in its transcript.
        index: usize,
        /// What is wrong with it.
        fault: DecodeError,
    },
    /// A time that is none.
    #[error("line {line}: messages[{index}].time must be an RFC 3339 time, or seconds since 1970")]
    Time {
        /// The line, from 1.
        line: usize,
        /// Index of the message in its transcript.
        index: usize,
    },
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    role: Option<&'a RawValue>,
}

impl Recording {
    /// Reads a file's text: one transcript a line (`{"id", "messages", "tools"}`, and `system` where the
    /// dialect keeps it apart), or one message a line, which together are one
    /// transcript of the name `name`. A message's `time` is taken out of it: it is the recording's, not the provider's.
    ///
    /// # Errors
    /// Where a line cannot be read: its number, and why.
    ///
    /// ```
    /// use lookback::{Dialect, Recording};
    ///
    /// let text = r#"{"role":"user","content":"Hi","time":"2026-01-01T00:00:00Z"}"#;
    /// let recordings = Recording::read(text, "notes", Dialect::OpenAiChat)?;
    /// assert_eq!(recordings[0].messages[0].1, Some(1_767_225_600_000));
    /// # Ok::<(), lookback::recording::RecordingError>(())
    /// ```
    pub fn read(text: &str, name: &str, dialect: Dialect) -> Result<Vec<Recording>, RecordingError> {
        let mut transcripts = Vec::new();
        let mut single: Option<Recording> = None;
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            let read: Line<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
                Category::Data => RecordingError::Neither { line },
                Category::Io | Category::Syntax | Category::Eof => syntax(line, &error),
            })?;
            match (read.messages, read.role) {
                (Some(messages), _) => {
                    if single.is_some() {
                        return Err(RecordingError::Mixed { line });
                    }
                    let decode = |(index, raw): (usize, &&RawValue)| message(raw, line, index, dialect);
                    let messages = messages.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
                    let given = |raw: Option<&RawValue>| raw.filter(|raw| raw.get() != "null").map(ToOwned::to_owned);
                    // OpenAI's system prompt is a message.
                    let system = given(read.system).filter(|_| dialect != Dialect::OpenAiChat);
                    let tools = given(read.tools);
                    let id = read.id.and_then(id).unwrap_or_else(|| format!("{name}-{line}"));
                    transcripts.push(Recording { id, messages, frame: Frame { system, tools } });
                }
                (None, Some(_)) => {
                    if !transcripts.is_empty() {
                        return Err(RecordingError::Mixed { line });
                    }
                    let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(line, &error))?;
                    let empty = || Recording { id: name.to_owned(), messages: Vec::new(), frame: Frame::default() };
                    let recording = single.get_or_insert_with(empty);
                    recording.messages.push(message(raw, line, recording.messages.len(), dialect)?);
                }
                (None, None) => return Err(RecordingError::Neither { line }),
            }
        }
        transcripts.extend(single);
        Ok(transcripts)
    }
}

/// A transcript's name: a text, or a number as it is written.
fn id(raw: &RawValue) -> Option<String> {
    let number = || raw.get().starts_with(|c: char| c.is_ascii_digit()).then(|| raw.get().to_owned());
    serde_json::from_str(raw.get()).ok().or_else(number)
}

fn syntax(line: usize, error: &serde_json::Error) -> RecordingError {
    let text = error.to_string();
    // The parser counts lines too, but it was given only one.
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned();
    RecordingError::Syntax { line, reason }
}

fn message(
    raw: &RawValue,
    line: usize,
    index: usize,
    dialect: Dialect,
) -> Result<(Message, Option<Millis>), RecordingError> {
    let (raw, time) = dialect::take(raw, "time");
    let time = match time.filter(|time| time.get() != "null") {
        Some(time) => Some(millis(&time).ok_or(RecordingError::Time { line, index })?),
        None => None,
    };
    let message = dialect.decode_raw(&raw).map_err(|fault| RecordingError::Message { line, index, fault })?;
    Ok((message, time))
}

fn millis(time: &RawValue) -> Option<Millis> {
    if let Ok(text) = serde_json::from_str::<&str>(time.get()) {
        return text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
    }
    let seconds: f64 = serde_json::from_str(time.get()).ok()?;
    jiff::Timestamp::from_duration(jiff::SignedDuration::try_from_secs_f64(seconds).ok()?)
        .ok()
        .map(jiff::Timestamp::as_millisecond)
}
