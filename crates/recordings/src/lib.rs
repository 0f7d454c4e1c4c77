//! Recorded conversations, read from common file formats.
//!
//! To read another format, add a variant to `Shape` with the signs by which `detect` recognizes it (`shape.rs`), and a
//! file like `claude_code.rs` that makes recordings from it. The compiler then demands the arms of `Recording::read` and
//! `Shape`. Add the format to the list for people, `advice` (`shape.rs`). Then the command line and the packages read it.

mod claude_code;
mod error;
mod shape;
mod unpack;
mod values;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use lookback_engine::transcript::Millis;
pub use lookback_session::RecordedMessage;
use lookback_wire::dialect::{self, Clue, Contradiction, Preamble};
use lookback_wire::{
    dialect::{DecodeError, Dialect},
    message::Role,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use error::RecordingError;
use error::RecordingFault;
pub use shape::Shape;
pub use unpack::{LARGEST, TextError, read_text};

/// A recorded conversation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recording {
    /// The name.
    pub id: String,
    /// The dialect of its messages.
    pub dialect: Dialect,
    /// The messages, in order.
    pub messages: Vec<RecordedMessage>,
    /// The system prompt and the tools, if they are outside the messages.
    pub preamble: Preamble,
    /// The provider's usage reports for the calls, in order. Empty if they were not recorded.
    pub usage: Vec<RecordedUsage>,
    /// The indices of summaries with which the recorded client began a new window.
    pub compactions: Vec<usize>,
    /// The model, if known. If there were several, the one that made the most calls.
    pub model: Option<String>,
}

/// The tokens that a provider reported for one call.
///
/// It is read from an object with these members, or from a list of the five numbers in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedUsage {
    /// The index of the assistant message that answers the call.
    pub message: usize,
    /// Input tokens that were neither read from the cache nor written to it.
    pub input: u64,
    /// Input tokens that were written to the cache.
    pub cache_write: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Output tokens.
    pub output: u64,
}

impl RecordedUsage {
    /// Creates a usage of zero tokens for the call that the assistant message with this index answers.
    #[doc(hidden)]
    pub fn new(message: usize) -> Self {
        RecordedUsage { message, input: 0, cache_write: 0, cache_read: 0, output: 0 }
    }

    /// Returns all input tokens, cached or not.
    ///
    /// ```
    /// use lookback_recordings::RecordedUsage;
    ///
    /// let mut usage = RecordedUsage::new(1);
    /// (usage.input, usage.cache_write, usage.cache_read) = (3, 100, 2_000);
    /// assert_eq!(usage.sent(), 2_103);
    /// ```
    pub fn sent(&self) -> u64 {
        self.input.saturating_add(self.cache_write).saturating_add(self.cache_read)
    }
}

impl RecordedUsage {
    /// Returns whether the numbers are plausible. More than 2^40 tokens mean that the file is damaged, and sums of such
    /// numbers would overflow.
    fn is_possible(&self) -> bool {
        [self.input, self.cache_write, self.cache_read, self.output].into_iter().all(|tokens| tokens < 1 << 40)
    }
}

impl Recording {
    /// Creates a recording of these messages, without preamble, usage, compactions and model.
    pub fn new(id: impl Into<String>, dialect: Dialect, messages: Vec<RecordedMessage>) -> Self {
        Recording {
            id: id.into(),
            dialect,
            messages,
            preamble: Preamble::default(),
            usage: Vec::new(),
            compactions: Vec::new(),
            model: None,
        }
    }

    /// Returns the messages that answer a call for which the provider's cache was cold, according to the reported usage:
    /// the call read less than a third of the tokens that the previous call left in the cache, although the client had
    /// not compacted in between. Returns none for recordings with times, which show pauses directly.
    #[doc(hidden)]
    pub fn cold_calls(&self) -> HashSet<usize> {
        if self.messages.iter().any(|recorded| recorded.time.is_some()) {
            return HashSet::new();
        }
        let calls = self.usage.iter().zip(self.usage.iter().skip(1));
        let compacted = |from: usize, to: usize| self.compactions.iter().any(|at| (from..=to).contains(at));
        let is_cold = |(before, call): &(&RecordedUsage, &RecordedUsage)| {
            let cached = before.cache_read + before.cache_write;
            call.cache_read < cached / 3 && !compacted(before.message, call.message)
        };
        calls.filter(is_cold).map(|(_, call)| call.message).collect()
    }

    /// Reads the text of a file. The file may contain
    ///
    /// - transcripts: objects with `messages`, and with `id`, `system`, `tools`, `model` and `usage` if these are
    ///   known;
    /// - messages, which together are one transcript named `name`;
    /// - a session of Claude Code (see below).
    ///
    /// Transcripts and messages are one per line, in one JSON list, or pretty-printed one after the other. A list of
    /// messages is a transcript, too, and so is a request body. The `time` of a message is removed from it, because it
    /// belongs to the recording and not to the provider's message.
    ///
    /// If no dialect is given, it is recognized for each transcript, from all its messages and the other members of its
    /// object. If they give no clue, as with plain texts, it is the default dialect, as in
    /// [`Request::decode`](lookback_wire::dialect::Request::decode).
    ///
    /// **Claude Code.** A session file is a tree of lines. Its main chain, from the first message to the newest, is one
    /// recording, without messages that were edited or retried. Each side chain is a separate recording, and so is each
    /// conversation that is not connected to another. The messages are in Anthropic's dialect, regardless of `dialect`.
    /// The file does not contain the system prompt, the tools, or the reminders that Claude Code adds to requests.
    ///
    /// # Errors
    /// Returns an error if the text has another format, if a line cannot be read, or if the messages of one transcript
    /// are in different dialects.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    /// use lookback_recordings::Recording;
    ///
    /// let text = r#"{"role":"user","content":[{"text":"Hi"}],"time":"2026-01-01T00:00:00Z"}"#;
    /// let recordings = Recording::read(text, "notes", None)?;
    /// assert_eq!(recordings[0].dialect, Dialect::Bedrock);
    /// assert_eq!(recordings[0].messages[0].time, Some(1_767_225_600_000));
    /// # Ok::<(), lookback_recordings::RecordingError>(())
    /// ```
    pub fn read(text: &str, name: &str, dialect: impl Into<Option<Dialect>>) -> Result<Vec<Recording>, RecordingError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let dialect = dialect.into();
        let shape = Shape::detect_text(text);
        match shape {
            Shape::ClaudeCode => {
                let mut recordings = claude_code::read(text, name)?;
                recordings.iter_mut().for_each(|recording| recording.usage.retain(RecordedUsage::is_possible));
                Ok(recordings)
            }
            Shape::VercelAi | Shape::LangChain | Shape::ShareGpt | Shape::Gzip | Shape::Utf16 => {
                Err(RecordingFault::Foreign(shape).into())
            }
            Shape::Messages | Shape::Request | Shape::Transcript | Shape::Recording | Shape::Empty | Shape::Unknown => {
                drafts(text, name)?.into_iter().map(|draft| draft.decode(dialect)).collect()
            }
        }
    }
}

/// One value of a file: a transcript, or a message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
    #[serde(borrow, alias = "instructions", alias = "systemInstruction", alias = "system_instruction")]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, rename = "toolConfig")]
    tool_config: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow, rename = "modelId")]
    model_id: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Returns the list of messages, if the value is a transcript.
    ///
    /// Some messages also have a member `input`, but they have a type, too.
    fn list(&self) -> Option<&'a RawValue> {
        if self.messages.is_some() || self.kind.is_some() {
            return self.messages;
        }
        [self.input, self.contents].into_iter().flatten().next()
    }

    fn is_message(&self) -> bool {
        self.role.is_some() || self.kind.is_some() || self.parts.is_some()
    }
}

/// The metadata of a transcript.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    compactions: Option<&'a RawValue>,
    // The number of calls of each model.
    #[serde(borrow)]
    models: Option<&'a RawValue>,
}

/// A recording before its dialect is known.
#[derive(Default)]
struct Draft<'a> {
    id: String,
    line: usize,
    // The object that contains the messages.
    beside: Option<&'a RawValue>,
    messages: Vec<Undecoded>,
    system: Option<&'a RawValue>,
    tools: Option<&'a RawValue>,
    tool_config: Option<&'a RawValue>,
    usage: Vec<RecordedUsage>,
    compactions: Vec<usize>,
    model: Option<String>,
}

struct Undecoded {
    line: usize,
    message: Box<RawValue>,
    time: Option<Millis>,
}

fn drafts<'a>(text: &'a str, name: &str) -> Result<Vec<Draft<'a>>, RecordingError> {
    let mut transcripts = Vec::new();
    let mut single: Option<Draft<'a>> = None;
    for (number, (line, value)) in (1_usize..).zip(values::read(text)?) {
        let read: Line<'a> = if value.get().starts_with('[') {
            Line { messages: Some(value), ..Line::default() }
        } else {
            parse(value).ok_or(RecordingFault::Neither { line })?
        };
        match (read.list(), read.is_message()) {
            (Some(list), _) => {
                if single.is_some() {
                    return Err(RecordingFault::Mixed { line }.into());
                }
                transcripts.push(Draft::transcript(read, (value, list), line, || format!("{name}-{number}"))?);
            }
            (None, true) => {
                if !transcripts.is_empty() {
                    return Err(RecordingFault::Mixed { line }.into());
                }
                let empty = || Draft { id: name.to_owned(), line, ..Draft::default() };
                let draft = single.get_or_insert_with(empty);
                draft.messages.push(undecoded(value, line, draft.messages.len())?);
            }
            (None, false) => return Err(RecordingFault::Neither { line }.into()),
        }
    }
    transcripts.extend(single);
    Ok(transcripts)
}

impl<'a> Draft<'a> {
    fn transcript(
        read: Line<'a>,
        (value, list): (&'a RawValue, &'a RawValue),
        line: usize,
        unnamed: impl FnOnce() -> String,
    ) -> Result<Self, RecordingError> {
        let messages = elements(list).ok_or(RecordingFault::Neither { line })?;
        let messages = messages.iter().enumerate();
        let messages = messages.map(|(index, raw)| undecoded(raw, line, index)).collect::<Result<_, _>>()?;
        let meta: Meta<'_> = read.meta.and_then(parse).unwrap_or_default();
        let named = [read.model, read.model_id].into_iter().flatten().find_map(parse);
        Ok(Draft {
            id: read.id.and_then(id).unwrap_or_else(unnamed),
            line,
            beside: Some(value),
            messages,
            system: read.system,
            tools: read.tools,
            tool_config: read.tool_config,
            usage: [read.usage, meta.usage].into_iter().flatten().find_map(parse).unwrap_or_default(),
            compactions: meta.compactions.and_then(parse).unwrap_or_default(),
            model: named.or_else(|| meta.models.and_then(parse).and_then(most)),
        })
    }

    /// Decodes the messages in the given dialect, or in the recognized one.
    fn decode(self, dialect: Option<Dialect>) -> Result<Recording, RecordingError> {
        let clue = if dialect.is_none() { self.detect()? } else { None };
        let dialect = dialect.or(clue.map(|clue| clue.dialect)).unwrap_or_default();
        let elements: Vec<&RawValue> = self.messages.iter().map(|raw| &*raw.message).collect();
        let spans = dialect.spans(&elements);
        let fault = |(index, fault): (usize, DecodeError)| {
            let line = self.messages.get(index).map_or(self.line, |raw| raw.line);
            RecordingFault::Message { line, index, fault, clue: clue.map(Box::new) }
        };
        let decoded = dialect.decode_list(&elements).map_err(fault)?;
        // Several elements may be one message, which has the time of its first element.
        let times = spans.iter().map(|span| self.messages.get(span.start).and_then(|raw| raw.time));
        let messages: Vec<_> =
            decoded.into_iter().zip(times).map(|(message, time)| RecordedMessage::new(message, time)).collect();
        let member = |name: &str| match name {
            // In every dialect, a recording may use the names `system` and `tools`.
            "toolConfig" | "tool_config" => self.tool_config.or(self.tools),
            "tools" => self.tools,
            _ => self.system,
        };
        // Indices in the file count its elements. Convert them to indices of messages.
        let message_of = |element: usize| spans.iter().position(|span| span.contains(&element));
        let preamble =
            Preamble::from_body(dialect, |name| member(name).filter(|raw| raw.get() != "null").map(ToOwned::to_owned));
        let is_answer =
            |index: usize| messages.get(index).is_some_and(|recorded| recorded.message.role() == Role::Assistant);
        let usage = self.usage.into_iter().filter_map(|usage| {
            let message = message_of(usage.message)?;
            Some(RecordedUsage { message, ..usage }).filter(|usage| is_answer(usage.message) && usage.is_possible())
        });
        let usage = usage.collect();
        let compactions = self.compactions.into_iter().filter_map(message_of).collect();
        Ok(Recording { id: self.id, dialect, preamble, usage, compactions, model: self.model, messages })
    }

    fn detect(&self) -> Result<Option<Clue>, RecordingError> {
        let line = |clue: Clue| {
            let message = clue.message.and_then(|index| self.messages.get(index));
            message.map_or(self.line, |raw| raw.line)
        };
        let contradicted = |contradiction: Contradiction| {
            let (first, other) = (line(contradiction.first), line(contradiction.other));
            RecordingFault::Contradiction { line: first, other, contradiction: Box::new(contradiction) }
        };
        Ok(Dialect::detect(self.beside, self.messages.iter().map(|raw| &*raw.message)).map_err(contradicted)?)
    }
}

/// Returns the elements of a list of messages. A single text is a user message.
fn elements(list: &RawValue) -> Option<Vec<Cow<'_, RawValue>>> {
    if list.get().starts_with('"') {
        let message = format!("{{\"role\":\"user\",\"content\":{}}}", list.get());
        return Some(vec![Cow::Owned(RawValue::from_string(message).ok()?)]);
    }
    let elements: Vec<&RawValue> = parse(list)?;
    Some(elements.into_iter().map(Cow::Borrowed).collect())
}

/// Removes the time from a message, and returns both.
fn undecoded(raw: &RawValue, line: usize, index: usize) -> Result<Undecoded, RecordingError> {
    let mut message = raw.to_owned();
    let time = dialect::take_member(&mut message, "time");
    let time = match time.filter(|time| time.get() != "null") {
        Some(time) => Some(millis(&time).ok_or(RecordingFault::Time { line, index })?),
        None => None,
    };
    Ok(Undecoded { line, message, time })
}

/// Reads an optional value. A value that cannot be read counts as absent.
fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Reads a transcript's name: a text, or a number with its digits unchanged.
fn id(raw: &RawValue) -> Option<String> {
    let number = || raw.get().starts_with(|c: char| c.is_ascii_digit()).then(|| raw.get().to_owned());
    parse(raw).or_else(number)
}

/// Returns the model that made the most calls.
fn most(models: BTreeMap<String, u64>) -> Option<String> {
    models.into_iter().max_by_key(|(_, calls)| *calls).map(|(model, _)| model)
}

/// Reads a time: RFC 3339, or seconds since 1970.
fn millis(time: &RawValue) -> Option<Millis> {
    if let Some(text) = parse::<&str>(time) {
        return text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
    }
    let seconds: f64 = parse(time)?;
    jiff::Timestamp::from_duration(jiff::SignedDuration::try_from_secs_f64(seconds).ok()?)
        .ok()
        .map(jiff::Timestamp::as_millisecond)
}
