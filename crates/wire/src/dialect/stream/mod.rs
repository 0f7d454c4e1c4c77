//! A response that comes in pieces, put together into the body that the provider would have sent at once.

pub(super) mod anthropic;
pub(super) mod bedrock;
mod events;
pub(super) mod gemini;
pub(super) mod openai_chat;
pub(super) mod openai_responses;

use std::fmt;

use serde_json::value::RawValue;

use self::events::Events;
use super::{Dialect, Response};
use lookback_content::json::{self, Fields};

/// The most bytes of a stream that are kept: 64 MiB. What comes after is not read.
const MOST: usize = 64 << 20;

/// Reads a response that comes as server-sent events, and puts it together.
///
/// Give it the bytes as they arrive, however they are divided. Nothing is lost if the stream breaks: the response is
/// then what had come until there.
///
/// ```
/// use lookback_wire::dialect::{Dialect, ResponseStream};
///
/// let mut stream = ResponseStream::new(Dialect::OpenAiChat);
/// stream.read(b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Par\"}}]}\n\ndata: {\"cho");
/// stream.read(b"ices\":[{\"delta\":{\"content\":\"is.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
/// assert!(stream.is_complete());
/// assert_eq!(stream.response().unwrap().said(), "Paris.");
/// ```
pub struct ResponseStream {
    dialect: Dialect,
    events: Events,
    pieces: Box<dyn Pieces>,
    bytes: usize,
    has_content: bool,
    is_complete: bool,
    error: Option<String>,
}

/// What one dialect's events are put together to.
pub(super) trait Pieces: Send + Sync {
    /// Reads an event.
    fn add(&mut self, event: &Fields<'_>) -> EventKind;

    /// Returns the body that the provider would have sent at once, as far as it has come.
    fn body(&self) -> Box<RawValue>;
}

/// What an event was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// Something that the client need not have seen to go on, such as an identifier or a ping.
    Nothing,
    /// A piece of what the model says.
    Content,
    /// The end of the response.
    End,
    /// An error, in the middle of the stream.
    Error,
}

impl ResponseStream {
    /// Creates a stream of which nothing has come yet.
    pub fn new(dialect: Dialect) -> Self {
        ResponseStream {
            dialect,
            events: Events::default(),
            pieces: (dialect.format().pieces)(),
            bytes: 0,
            has_content: false,
            is_complete: false,
            error: None,
        }
    }

    /// Reads the next bytes. After 64 MiB they are ignored.
    pub fn read(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MOST {
            return;
        }
        for data in self.events.read(bytes) {
            self.event(&data);
        }
    }

    /// Reads the data of one event, if something else has divided the stream into events.
    pub fn event(&mut self, data: &str) {
        if data.trim() == "[DONE]" {
            self.is_complete = true;
            return;
        }
        let Ok(raw) = serde_json::from_str::<&RawValue>(data.trim()) else { return };
        let Some(event) = Fields::read(raw) else { return };
        match self.pieces.add(&event) {
            EventKind::Nothing => {}
            EventKind::Content => self.has_content = true,
            // The last piece may come with the end.
            EventKind::End => (self.is_complete, self.has_content) = (true, true),
            EventKind::Error => self.error = self.error.take().or_else(|| Some(data.trim().to_owned())),
        }
    }

    /// Returns whether a piece of what the model says has come. Before that, the request can be made again without
    /// anybody noticing.
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Returns whether the response has come to its end. A stream that ends before that was cut off.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the first error that came in the stream, in the provider's words.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the response as far as it has come, or `None` if there is no message yet.
    pub fn response(&self) -> Option<Response> {
        Response::decode(self.pieces.body().get(), self.dialect).ok()
    }
}

impl fmt::Debug for ResponseStream {
    /// Prints lengths and no contents, because what is printed ends up in logs.
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

/// An object whose members come in pieces. Texts grow; what is not a text is replaced.
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

/// The most elements of a list that comes in pieces.
const MOST_ELEMENTS: usize = 10_000;

/// Returns the element with the index that an event names, and makes room for it. `None` if it names none.
pub(super) fn element<'a, T: Default>(list: &'a mut Vec<T>, event: &Fields<'_>, name: &str) -> Option<&'a mut T> {
    let index: usize = serde_json::from_str(event.get(name)?.get()).ok().filter(|index| *index < MOST_ELEMENTS)?;
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    list.get_mut(index)
}
