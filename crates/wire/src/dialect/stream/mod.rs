//! Assembles a streamed response into the body that the provider would have sent without streaming.

pub(super) mod anthropic;
pub(super) mod bedrock;
pub(super) mod events;
pub(super) mod gemini;
pub(super) mod openai_chat;
pub(super) mod openai_responses;

use std::fmt;

use serde_json::value::RawValue;

use self::events::Events;
use super::{Dialect, Response};
use lookback_content::json::{self, Fields};

/// The most bytes of a stream that are read: 64 MiB.
const MOST: usize = 64 << 20;

/// Assembles a response from server-sent events.
///
/// Pass the bytes as they arrive, in chunks of any size. If the stream breaks off, the response has everything that
/// arrived before.
///
/// ```
/// use lookback_wire::dialect::{Dialect, ResponseStream};
///
/// let mut stream = ResponseStream::new(Dialect::OpenAiChat);
/// stream.read(b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Par\"}}]}\n\ndata: {\"cho");
/// stream.read(b"ices\":[{\"delta\":{\"content\":\"is.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
/// assert!(stream.is_complete());
/// assert_eq!(stream.response().unwrap().text(), "Paris.");
/// ```
pub struct ResponseStream {
    dialect: Dialect,
    events: Events,
    pieces: Box<dyn Pieces>,
    bytes: usize,
    has_content: bool,
    is_complete: bool,
    is_over: bool,
    error: Option<String>,
}

/// The assembler of one dialect's events.
pub(super) trait Pieces: Send + Sync {
    /// Reads an event.
    fn add(&mut self, event: &Fields<'_>) -> EventKind;

    /// Returns the body that the provider would have sent without streaming, as far as it has arrived.
    fn body(&self) -> Box<RawValue>;
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// An event without content, such as an identifier or a ping.
    Nothing,
    /// A piece of the model's message.
    Content,
    /// The end of the response, behind which a usage report may follow.
    Stop,
    /// The end of the response, and of the stream.
    End,
    /// An error, in the middle of the stream.
    Error,
}

impl ResponseStream {
    /// Creates a stream before its first byte.
    pub fn new(dialect: Dialect) -> Self {
        ResponseStream {
            dialect,
            events: Events::default(),
            pieces: (dialect.format().pieces)(),
            bytes: 0,
            has_content: false,
            is_complete: false,
            is_over: false,
            error: None,
        }
    }

    /// Reads the next bytes. After 64 MiB they are ignored.
    pub fn read(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MOST {
            return;
        }
        for data in self.events.read(bytes).into_iter().filter_map(|event| event.data) {
            self.event(&data);
        }
    }

    /// Reads the data of one event, for callers that split the stream into events themselves.
    pub fn event(&mut self, data: &str) {
        if data.trim() == "[DONE]" {
            (self.is_complete, self.is_over) = (true, true);
            return;
        }
        let Ok(raw) = serde_json::from_str::<&RawValue>(data.trim()) else { return };
        let Some(event) = Fields::read(raw) else { return };
        match self.pieces.add(&event) {
            EventKind::Nothing => {}
            EventKind::Content => self.has_content = true,
            // The last piece may come with the end.
            kind @ (EventKind::Stop | EventKind::End) => {
                (self.is_complete, self.has_content) = (true, true);
                self.is_over |= kind == EventKind::End;
            }
            EventKind::Error => self.error = self.error.take().or_else(|| Some(data.trim().to_owned())),
        }
    }

    /// Returns whether a piece of the model's message has arrived. Before that, the request can be repeated without the
    /// client noticing.
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Returns whether the response has ended. If the stream closes earlier, it was cut off.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether the stream has ended. Some streams have a usage report after the response is
    /// [complete](ResponseStream::is_complete), and some close without an end.
    #[doc(hidden)]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the first error in the stream, as the provider sent it.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the response as far as it has arrived, or `None` if there is no message yet.
    pub fn response(&self) -> Option<Response> {
        Response::decode(self.pieces.body().get(), self.dialect).ok()
    }
}

impl fmt::Debug for ResponseStream {
    /// Prints lengths without contents, because debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("dialect", &self.dialect)
            .field("bytes", &self.bytes)
            .field("has_content", &self.has_content)
            .field("is_complete", &self.is_complete)
            .field("error", &self.error.as_ref().map(String::len))
            .finish_non_exhaustive()
    }
}

/// An object whose members arrive in pieces. Texts grow; other values are replaced.
#[derive(Debug, Clone, Default)]
pub(super) struct Growing(Vec<(String, Value)>);

#[derive(Debug, Clone)]
enum Value {
    Text(String),
    Other(Box<RawValue>),
}

impl Growing {
    /// Creates an object with the members of another. Members that are null are left out.
    pub(super) fn from_fields(fields: &Fields<'_>) -> Growing {
        let mut object = Growing::default();
        object.replace(fields);
        object
    }

    /// Appends a text to a member.
    pub(super) fn append(&mut self, name: &str, text: &str) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, Value::Text(all))) => all.push_str(text),
            Some((_, value)) => *value = Value::Text(text.to_owned()),
            None => self.0.push((name.to_owned(), Value::Text(text.to_owned()))),
        }
    }

    /// Sets a member.
    pub(super) fn set(&mut self, name: &str, value: &RawValue) {
        let value = match json::text(value) {
            Some(text) => Value::Text(text.into_owned()),
            None => Value::Other(value.to_owned()),
        };
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets all members that another object has and that are not null.
    pub(super) fn replace(&mut self, fields: &Fields<'_>) {
        for (name, value) in fields.iter().filter(|(_, value)| value.get() != "null") {
            self.set(name, value);
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|(known, value)| match value {
            Value::Text(text) if known == name => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn write(&self) -> Box<RawValue> {
        let mut out = String::from("{");
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(json::string(name).get());
            out.push(':');
            match value {
                Value::Text(text) => out.push_str(json::string(text).get()),
                Value::Other(raw) => out.push_str(raw.get()),
            }
        }
        out.push('}');
        RawValue::from_string(out).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// The most elements of a list that arrives in pieces.
const MOST_ELEMENTS: usize = 10_000;

/// Returns the element with the index that an event names, and grows the list if necessary. Returns `None` if the event
/// has no valid index.
pub(super) fn element<'a, T: Default>(list: &'a mut Vec<T>, event: &Fields<'_>, name: &str) -> Option<&'a mut T> {
    let index: usize = serde_json::from_str(event.get(name)?.get()).ok().filter(|index| *index < MOST_ELEMENTS)?;
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    list.get_mut(index)
}
