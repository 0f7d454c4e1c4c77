//! Request bodies and bare lists of messages. Everything besides the messages keeps its bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bound::{self, Bound};
use super::{DecodeError, Dialect, Provider, RawRequest, Target};
use crate::json::{self, Fields, SyntaxError};
use crate::message::Message;
use crate::size::Size;
use crate::tokens::{Frame, TokenCounter, scale};

/// The system prompt and the tools, if they are sent outside the messages, and what is asked of the answer.
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
    /// The JSON schema of the form that answers must have. Providers show it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Box<RawValue>>,
    /// Whether the request asks the model to reason. Some providers tell the model so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thinks: bool,
}

impl Preamble {
    /// Takes the preamble from a request body, whose members `member` returns by name.
    ///
    /// The dialect says which members they are. It has no system prompt if the dialect has that among the messages.
    pub fn of_body(dialect: Dialect, member: impl Fn(&str) -> Option<Box<RawValue>>) -> Self {
        let format = dialect.format();
        // Protocol buffers spell some members in another way.
        let spelled = |name: &str| member(name).or_else(|| member(&in_snake_case(name)));
        let form = format.answer_forms.iter().find_map(|(name, _)| schema(&spelled(name)?, DEEPEST));
        let thinks = format.thinking.iter().any(|name| member(name).is_some_and(|raw| thinks(&raw, DEEPEST)));
        Preamble { system: format.system.and_then(spelled), tools: spelled(format.tools), form, thinks }
    }

    /// Returns the members of a request body that have the preamble: the reverse of [`Preamble::of_body`].
    pub fn in_body(&self, dialect: Dialect) -> impl Iterator<Item = (&'static str, &RawValue)> {
        let format = dialect.format();
        let system = format.system.zip(self.system.as_deref());
        system.into_iter().chain(self.tools.as_deref().map(|tools| (format.tools, tools)))
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

    /// Measures the preamble, with what the provider adds to every request. A tool is counted as its JSON, by the factor of
    /// the counter's [`Frame`](crate::tokens::Frame). A tool without a name, which the provider runs by itself, is counted as
    /// nothing if the frame is known.
    pub fn measure(&self, counter: &dyn TokenCounter) -> Size {
        let frame = counter.frame();
        let system = self.system.as_deref().map_or(0, |system| match json::text(system) {
            Some(text) => counter.text(&text),
            None => texts(system, DEEPEST).iter().map(|text| counter.text(text)).fold(0, u64::saturating_add),
        });
        // OpenAI writes it as a message.
        let system = if system > 0 { system.saturating_add(frame.system) } else { 0 };
        let tools = self.tools.as_deref().map_or(0, |tools| match frame.call {
            None => counter.text(tools.get()),
            Some(_) => of_tools(tools, &frame, counter),
        });
        let form =
            self.form.as_deref().zip(frame.form).map_or(0, |(schema, around)| {
                around.saturating_add(scale(counter.text(&compact(schema)), frame.schema))
            });
        let bytes = [&self.system, &self.tools].into_iter().flatten().map(|raw| raw.get().len() as u64).sum();
        let thinks = if self.thinks { frame.thinks } else { 0 };
        let tokens = [frame.request, system, tools, form, thinks].into_iter().fold(0, u64::saturating_add);
        Size { tokens, bytes, ..Size::default() }
    }

    /// Returns whether two preambles have the same system prompt and the same tools, byte for byte.
    pub fn is_same(&self, other: &Preamble) -> bool {
        let same = |a: &Option<Box<RawValue>>, b: &Option<Box<RawValue>>| {
            a.as_ref().map(|raw| raw.get()) == b.as_ref().map(|raw| raw.get())
        };
        same(&self.system, &other.system) && same(&self.tools, &other.tools)
    }
}

/// Returns whether the member of a body that is about reasoning asks for some.
fn thinks(value: &RawValue, depth: usize) -> bool {
    let (Some(depth), Some(fields)) = (depth.checked_sub(1), Fields::read(value)) else { return false };
    let is = |name: &str, words: &[&str]| fields.text(name).is_some_and(|text| words.contains(&&*text));
    let inner = || ["thinking", "reasoning_config", "reasoningConfig"].into_iter().filter_map(|name| fields.get(name));
    is("type", &["enabled", "adaptive"])
        || is("effort", &["minimal", "low", "medium", "high", "xhigh", "max"])
        || fields.get("enabled").is_some_and(|enabled| enabled.get() == "true")
        || fields.get("max_tokens").is_some_and(|most| most.get() != "0" && most.get() != "null")
        || inner().any(|inner| self::thinks(inner, depth))
}

/// Returns the schema in the member of a body that demands a form of answers.
fn schema(value: &RawValue, depth: usize) -> Option<Box<RawValue>> {
    let depth = depth.checked_sub(1)?;
    let fields = Fields::read(value)?;
    let schema = fields.get("schema").and_then(|schema| match json::text(schema) {
        // Bedrock has it as a text.
        Some(text) => serde_json::from_str(&text).ok(),
        None => Some(schema.to_owned()),
    });
    let inner = ["json_schema", "format", "textFormat", "structure", "jsonSchema"];
    schema.or_else(|| inner.into_iter().find_map(|inner| self::schema(fields.get(inner)?, depth)))
}

/// Returns JSON without white space: clients that indent it do not pay for that.
fn compact(value: &RawValue) -> String {
    serde_json::from_str::<serde_json::Value>(value.get())
        .map_or_else(|_| value.get().to_owned(), |value| value.to_string())
}

/// Returns a name such as `systemInstruction` as `system_instruction`.
fn in_snake_case(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len() + 1), |mut out, char| {
        out.extend(char.is_ascii_uppercase().then_some('_'));
        out.push(char.to_ascii_lowercase());
        out
    })
}

/// Returns the tokens of the tools that the client declares.
fn of_tools(tools: &RawValue, frame: &Frame, counter: &dyn TokenCounter) -> u64 {
    let declared = declared(tools, DEEPEST);
    if declared.is_empty() {
        return 0;
    }
    let is_chat = declared.iter().any(|tool| Fields::read(tool).is_some_and(|fields| fields.get("function").is_some()));
    let each = |tool: &&RawValue| frame.tool.saturating_add(scale(counter.text(&compact(tool)), frame.schema));
    let all = declared.iter().map(each).fold(frame.tools, u64::saturating_add);
    if is_chat { all.saturating_add(frame.chat_tools) } else { all }
}

/// Returns the tools that have a name of the client's, wherever the dialect has them.
fn declared(value: &RawValue, depth: usize) -> Vec<&RawValue> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().flat_map(|element| declared(element, depth)).collect();
    }
    let Some(fields) = Fields::read(value) else { return Vec::new() };
    if fields.get("defer_loading").is_some_and(|later| later.get() == "true") {
        return Vec::new();
    }
    if let Some(inner) = fields.borrowed("tools") {
        return declared(inner, depth);
    }
    // A tool that only the provider knows by its type has no name, unless the client runs it.
    if fields.get("name").is_some() || fields.get("function").is_some() {
        return vec![value];
    }
    let inner = ["functionDeclarations", "function_declarations", "toolSpec"];
    inner.into_iter().filter_map(|name| fields.borrowed(name)).flat_map(|inner| declared(inner, depth)).collect()
}

/// How deep the texts of a system prompt may be: a list of blocks, or an object with a list of parts.
const DEEPEST: usize = 4;

/// Returns the texts of a system prompt that is not a string.
fn texts(value: &RawValue, depth: usize) -> Vec<String> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().flat_map(|element| texts(element, depth)).collect();
    }
    let Some(fields) = Fields::read(value) else { return Vec::new() };
    match fields.text("text") {
        Some(text) => vec![text.into_owned()],
        None => fields.iter().flat_map(|(_, value)| texts(value, depth)).collect(),
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
    /// The ranges of all members in `text`, by name. A bare list has none.
    members: Vec<(String, Range<usize>)>,
    body: bool,
    preamble: Preamble,
    target: Target,
    stored: Option<&'static str>,
    version: Option<String>,
    /// The signed reasoning of the request before.
    previous: Vec<Bound>,
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
    #[error("neither a list of messages nor a request body with `messages`, `input` or `contents`")]
    NoMessages,
    /// There is no message with this index.
    #[error("there is no {list}[{index}]")]
    NoMessage {
        /// The member of a body that has the messages, such as `messages`.
        list: &'static str,
        /// The index of the message.
        index: usize,
    },
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
        let raw = RawRequest::read(&text, dialect)?;
        let (dialect, list, body) = (raw.dialect(), raw.list_range(), raw.is_body());
        let members = raw.members().map(|(name, range)| (name.to_owned(), range)).collect();
        let (preamble, stored, target) = (raw.preamble(), raw.stored(), raw.target());
        let version = raw.member("anthropic_version").and_then(json::text).map(Cow::into_owned);
        let messages = raw.into_messages()?;
        Ok(Request {
            dialect,
            messages,
            list,
            members,
            body,
            preamble,
            target,
            stored,
            version,
            text,
            previous: Vec::new(),
        })
    }

    /// Sets the version of the API that the request is sent to, which is in a header. Some rules depend on it.
    ///
    /// ```
    /// use lookback_core::{Dialect, Request};
    ///
    /// let body = r#"{"temperature": 0.5, "max_tokens": 9, "messages": [{"role":"user","content":"Hi"}]}"#;
    /// let request = Request::decode(body, Some(Dialect::Anthropic))?;
    /// assert!(Dialect::Anthropic.check(&request).is_empty());
    /// let findings = Dialect::Anthropic.check(&request.with_version("2026-10-21"));
    /// assert_eq!((findings[0].rule, findings[0].path.as_str()), ("AM12", "temperature"));
    /// # Ok::<(), lookback_core::RequestError>(())
    /// ```
    #[must_use]
    pub fn with_version(self, version: impl Into<String>) -> Self {
        Request { version: Some(version.into()), ..self }
    }

    /// Sets what the path of the request's URL tells of where it goes. Gemini's and Bedrock's have the model in it.
    ///
    /// ```
    /// use lookback_core::{Dialect, Request};
    ///
    /// let body = r#"{"contents": [{"role":"user","parts":[{"text":" "}]}]}"#;
    /// let request = Request::decode(body, None)?;
    /// // Only Vertex AI refuses a blank text.
    /// let path = "/v1/projects/p/locations/global/publishers/google/models/gemini-3-flash:generateContent";
    /// assert_eq!(Dialect::Gemini.check(&request.with_path(path))[0].rule, "GM6");
    /// # Ok::<(), lookback_core::RequestError>(())
    /// ```
    #[must_use]
    pub fn with_path(self, path: &str) -> Self {
        Request { target: self.target.with_path(path), ..self }
    }

    /// Sets the provider that the request goes to. Some rules are only its own.
    #[must_use]
    pub fn with_provider(self, provider: Provider) -> Self {
        Request { target: self.target.with_provider(provider), ..self }
    }

    /// Sets the model, if it is not in the body.
    #[must_use]
    pub fn with_model(self, model: impl Into<String>) -> Self {
        Request { target: self.target.with_model(model), ..self }
    }

    /// Sets where the request goes, as far as its body does not tell.
    #[must_use]
    pub fn with_target(self, target: &Target) -> Self {
        let own = self.target;
        let model = own.model.or_else(|| target.model.clone());
        let target = Target { model, provider: own.provider.or(target.provider), ..own };
        Request { target, ..self }
    }

    /// Returns where the request goes, as far as that is known.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sets the request of the same conversation before this one. Some rules say what may not change between the two.
    ///
    /// ```
    /// use lookback_core::{Dialect, Request};
    ///
    /// let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"Yes."}]}"#;
    /// let one = format!(r#"{{"messages": [{{"role":"user","content":"Is it?"}}, {thought}, {{"role":"user","content":"Why?"}}]}}"#);
    /// let previous = Request::decode(one.clone(), Some(Dialect::Anthropic))?;
    /// let same = Request::decode(one.clone(), Some(Dialect::Anthropic))?.after(&previous);
    /// assert!(Dialect::Anthropic.check(&same).is_empty());
    /// let changed = Request::decode(one.replace("Is it?", "Was it?"), Some(Dialect::Anthropic))?.after(&previous);
    /// assert_eq!(Dialect::Anthropic.check(&changed)[0].rule, "AM6");
    /// # Ok::<(), lookback_core::RequestError>(())
    /// ```
    #[must_use]
    pub fn after(self, previous: &Request) -> Self {
        Request { previous: bound::of(previous), ..self }
    }

    /// Returns the signed reasoning of the request before, if it was set.
    pub(super) fn previous(&self) -> &[Bound] {
        &self.previous
    }

    /// Returns the version of the API, if the body names it or it was set.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Creates a request that is a bare list of messages.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read in this dialect.
    pub fn from_raw(dialect: Dialect, messages: &[impl AsRef<RawValue>]) -> Result<Self, RequestError> {
        let list = json::write_array(json::elements(messages));
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

    /// Returns the model, if the body or the path names one.
    pub fn model(&self) -> Option<&str> {
        self.target.model.as_deref()
    }

    /// Returns a member of the body, or `None` if it is absent or null.
    pub fn member(&self, name: &str) -> Option<&RawValue> {
        let (_, range) = self.members.iter().rev().find(|(known, _)| known == name)?;
        let value: &RawValue = serde_json::from_str(self.text.get(range.clone())?).ok()?;
        (value.get() != "null").then_some(value)
    }

    /// Returns the member that names something which the provider has stored, such as `previous_response_id`.
    ///
    /// The messages are not all that the model sees then. Only the provider knows the rest, so such a request cannot be
    /// measured, and no window can be made of it.
    ///
    /// ```
    /// use lookback_core::Request;
    ///
    /// let body = r#"{"previous_response_id": "resp_1", "input": "And then?"}"#;
    /// assert_eq!(Request::decode(body, None)?.stored(), Some("previous_response_id"));
    /// # Ok::<(), lookback_core::RequestError>(())
    /// ```
    pub fn stored(&self) -> Option<&'static str> {
        self.stored
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
        json::spliced(&self.text, &self.list, messages)
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
