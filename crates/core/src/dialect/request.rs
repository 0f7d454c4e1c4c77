//! Request bodies and bare lists of messages. Everything besides the messages keeps its bytes.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{DecodeError, Dialect, detect};
use crate::json::{self, Fields, SyntaxError};
use crate::message::Message;
use crate::size::Size;
use crate::tokens::TokenCounter;

/// The system prompt and the tools, if they are sent outside the messages.
///
/// The model reads them first. They cost tokens, and are never dropped.
#[derive(Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Preamble {
    /// The system prompt, if the dialect has it outside the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Box<RawValue>>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Box<RawValue>>,
}

impl Preamble {
    /// Takes the preamble from a request body, whose members `member` returns by name.
    ///
    /// The dialect says which members they are. It has no system prompt if the dialect has that among the messages.
    pub fn of_body(dialect: Dialect, member: impl Fn(&str) -> Option<Box<RawValue>>) -> Self {
        let format = dialect.format();
        Preamble { system: format.system.and_then(&member), tools: member(format.tools) }
    }

    /// Sets the system prompt, which is JSON as the dialect writes it.
    #[must_use]
    pub fn with_system(self, system: Box<RawValue>) -> Self {
        Preamble { system: Some(system), ..self }
    }

    /// Sets the tools, which are JSON as the dialect writes it.
    #[must_use]
    pub fn with_tools(self, tools: Box<RawValue>) -> Self {
        Preamble { tools: Some(tools), ..self }
    }

    /// Measures the preamble. Tools are counted as their JSON, which is somewhat more than providers count.
    pub fn measure(&self, counter: &dyn TokenCounter) -> Size {
        let system = self.system.as_deref().map_or(0, |system| match json::text(system) {
            Some(text) => counter.text(&text),
            None => json::array(system)
                .unwrap_or_default()
                .into_iter()
                .filter_map(Fields::read)
                .filter_map(|fields| fields.text("text").map(|text| counter.text(&text)))
                .fold(0, u64::saturating_add),
        });
        let tools = self.tools.as_deref().map_or(0, |tools| counter.text(tools.get()));
        let bytes = [&self.system, &self.tools].into_iter().flatten().map(|raw| raw.get().len() as u64).sum();
        Size { tokens: system.saturating_add(tools), bytes, ..Size::default() }
    }

    /// Returns whether two preambles are the same, byte for byte.
    pub fn is_same(&self, other: &Preamble) -> bool {
        let same = |a: &Option<Box<RawValue>>, b: &Option<Box<RawValue>>| {
            a.as_ref().map(|raw| raw.get()) == b.as_ref().map(|raw| raw.get())
        };
        same(&self.system, &other.system) && same(&self.tools, &other.tools)
    }
}

/// A decoded request body, or a decoded list of messages.
///
/// ```
/// use lookback_core::Request;
///
/// let body = r#"{"model": "gpt-4o", "messages": [{"role":"user","content":"Hi"}], "temperature": 0.70}"#;
/// let request = Request::decode(body.as_bytes(), None)?;
/// assert_eq!(request.messages().len(), 1);
/// let none: [Box<serde_json::value::RawValue>; 0] = [];
/// assert_eq!(request.with_messages(&none), r#"{"model": "gpt-4o", "messages": [], "temperature": 0.70}"#);
/// # Ok::<(), lookback_core::RequestError>(())
/// ```
#[derive(Clone)]
pub struct Request {
    text: String,
    dialect: Dialect,
    messages: Vec<Message>,
    /// The range of the list of messages in `text`.
    list: Range<usize>,
    body: bool,
    preamble: Preamble,
    model: Option<String>,
}

/// An error from reading a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The bytes are not UTF-8.
    #[error("not valid UTF-8 at byte {at}")]
    Utf8 {
        /// The index of the first invalid byte.
        at: usize,
    },
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(SyntaxError),
    /// The JSON is neither a list, nor an object with a list of messages.
    #[error("neither a list of messages nor a request body with `messages`")]
    NoMessages,
    /// A message could not be read.
    #[error("{list}[{index}]: {fault}")]
    Message {
        /// The member of a body that has the messages, such as `messages`.
        list: &'static str,
        /// The index of the element in that list.
        index: usize,
        /// The error.
        fault: DecodeError,
    },
}

impl Request {
    /// Reads a request body, or a bare list of messages.
    ///
    /// If `dialect` is `None`, it is detected from the keys of the body, then from the shapes of the parts. If neither
    /// tells, it is `openai-chat`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a request, or if any message in it cannot be read. Nothing is skipped.
    pub fn decode(bytes: impl Into<Vec<u8>>, dialect: Option<Dialect>) -> Result<Self, RequestError> {
        let text =
            String::from_utf8(bytes.into()).map_err(|e| RequestError::Utf8 { at: e.utf8_error().valid_up_to() })?;
        let raw: &RawValue = serde_json::from_str(&text).map_err(SyntaxError::from).map_err(RequestError::Syntax)?;
        let fields = Fields::read(raw);
        let list = match &fields {
            Some(fields) => fields.get("messages").ok_or(RequestError::NoMessages)?,
            None => raw,
        };
        let elements = json::array(list).ok_or(RequestError::NoMessages)?;
        let found = || detect::first(detect::clues(fields.as_ref(), elements.iter().copied()));
        let dialect = dialect.or_else(|| found().map(|clue| clue.dialect)).unwrap_or_default();
        let list_name = dialect.format().messages;
        let messages = dialect.decode_list(&elements).map_err(|(index, fault)| RequestError::Message {
            list: list_name,
            index,
            fault,
        })?;
        // Raw values are slices of the text, so the range follows from their addresses.
        let start = list.get().as_ptr() as usize - text.as_ptr() as usize;
        let list = start..start + list.get().len();
        let preamble =
            Preamble::of_body(dialect, |key| fields.as_ref().and_then(|fields| fields.get(key).map(ToOwned::to_owned)));
        let name = |key| fields.as_ref().and_then(|fields| fields.text(key)).map(|name| name.into_owned());
        let model = name("model").or_else(|| name("modelId"));
        let body = fields.is_some();
        Ok(Request { dialect, messages, list, body, preamble, model, text })
    }

    /// Creates a request that is a bare list of messages.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read in this dialect.
    pub fn from_raw(dialect: Dialect, messages: &[impl AsRef<RawValue>]) -> Result<Self, RequestError> {
        let list = json::write_array(messages.iter().map(AsRef::as_ref));
        Request::decode(list.get(), Some(dialect))
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Consumes the request and returns its messages.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Returns the messages in the bytes that were received.
    pub(crate) fn raw_messages(&self) -> impl Iterator<Item = &RawValue> {
        self.messages.iter().filter_map(|message| message.wire().map(|wire| &*wire.raw))
    }

    /// Returns the system prompt and the tools, if they are outside the messages.
    pub fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// Returns the model, if the body names one.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns whether this is a body, and not a bare list.
    pub fn is_body(&self) -> bool {
        self.body
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the text of this request with other messages. Every byte outside the list is kept.
    pub fn with_messages(&self, messages: &[impl AsRef<RawValue>]) -> String {
        let length: usize = messages.iter().map(|raw| raw.as_ref().get().len() + 1).sum();
        let mut out = String::with_capacity(self.text.len() - self.list.len() + length + 2);
        out.push_str(self.text.get(..self.list.start).unwrap_or_default());
        json::push_array(&mut out, messages.iter().map(AsRef::as_ref));
        out.push_str(self.text.get(self.list.end..).unwrap_or_default());
        out
    }
}

impl fmt::Debug for Request {
    /// Prints lengths and no contents, because what is printed ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("dialect", &self.dialect)
            .field("messages", &self.messages.len())
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}
