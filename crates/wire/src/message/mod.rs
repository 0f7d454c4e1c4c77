//! Messages, and the parts that a message of each role may have.

mod digest;
mod parts;

use lookback_content::Redacted;
use serde_json::value::RawValue;

use self::parts::Parts;
use crate::cache_marker;
pub use crate::wire::{Role, Wire};

/// A message, built in Rust or decoded from a provider's JSON.
///
/// A decoded message keeps the bytes in which it arrived (see [`Message::wire`]). Lookback sends the same bytes again.
///
/// ```
/// use lookback_wire::message::{Message, ToolCall};
///
/// let question = Message::user("What is in notes.txt?");
/// let call = Message::assistant_with_calls("Let me look.", [ToolCall::new("c1", "read", r#"{"path":"notes.txt"}"#)]);
/// let result = Message::tool_result("c1", "buy milk");
/// assert_eq!(call.parts().count(), 2);
/// assert_eq!(result.role(), lookback_wire::message::Role::User);
/// # let _ = question;
/// ```
#[derive(Debug, Clone)]
pub struct Message {
    content: Content,
    wire: Option<Wire>,
}

/// The parts of a message. Each role has its own type of part, so a tool call in a user's message does not compile.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Content {
    /// Instructions.
    System(Vec<SystemPart>),
    /// A person's words, and tool results.
    User(Vec<UserPart>),
    /// The model's words, reasoning and tool calls.
    Assistant(Vec<AssistantPart>),
}

/// A part of a system message.
#[derive(derive_more::Debug, Clone)]
pub enum SystemPart {
    /// Plain text.
    Text(#[debug("{:?}", Redacted(_0))] String),
    /// A part that Lookback does not know. It passes through whole.
    Opaque(Opaque),
}

/// A part of a user message.
#[derive(derive_more::Debug, Clone)]
pub enum UserPart {
    /// Plain text.
    Text(#[debug("{:?}", Redacted(_0))] String),
    /// A picture.
    Image(Media),
    /// A file.
    Document(Media),
    /// A tool result.
    ToolResult(ToolResult),
    /// A part that Lookback does not know. It passes through whole.
    Opaque(Opaque),
}

/// A part of an assistant message.
#[derive(derive_more::Debug, Clone)]
pub enum AssistantPart {
    /// Plain text.
    Text(#[debug("{:?}", Redacted(_0))] String),
    /// Reasoning, as the provider returned it.
    Reasoning(Reasoning),
    /// A tool call.
    ToolCall(ToolCall),
    /// A part that Lookback does not know. It passes through whole.
    Opaque(Opaque),
}

/// A picture or a file.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Media {
    /// The media type, such as `image/png`, if the client gave one.
    #[debug("{:?}", Redacted(mime))]
    pub mime: Option<String>,
    /// The name of the file, if the client gave one.
    #[debug("{:?}", Redacted(name))]
    pub name: Option<String>,
    /// The place of the bytes.
    pub source: MediaSource,
}

/// The place of the bytes of a picture or file.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// In the message, in base64.
    Base64(#[debug("{:?}", Redacted(_0))] String),
    /// In the message, as plain text.
    Text(#[debug("{:?}", Redacted(_0))] String),
    /// At a URL that the provider fetches.
    Url(#[debug("{:?}", Redacted(_0))] String),
    /// At the provider, under an identifier that the provider gave.
    Id(#[debug("{:?}", Redacted(_0))] String),
}

/// Reasoning of the model.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reasoning {
    /// The text. Empty if the provider hides it.
    #[debug("{:?}", Redacted(text))]
    pub text: String,
    /// The provider's signature, or the encrypted reasoning. The provider accepts signed reasoning only after its
    /// original prefix.
    #[debug("{:?}", Redacted(signature))]
    pub signature: Option<String>,
}

/// The model's request to run a tool.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The identifier that the provider gave. The result repeats it.
    #[debug("{:?}", Redacted(id))]
    pub id: String,
    /// The name of the tool.
    #[debug("{:?}", Redacted(name))]
    pub name: String,
    /// The arguments as the model wrote them. They should be JSON, but a model can write anything.
    #[debug("{:?}", Redacted(arguments))]
    pub arguments: String,
    /// The provider's name for calls of this form, such as `custom_tool_call`; `None` for a function call.
    #[debug(skip)]
    #[doc(hidden)]
    pub form: Option<String>,
}

/// The result of a tool call.
#[derive(derive_more::Debug, Clone)]
#[non_exhaustive]
pub struct ToolResult {
    /// The identifier of the tool call.
    #[debug("{:?}", Redacted(call_id))]
    pub call_id: String,
    /// The items of the result.
    pub content: Vec<ResultItem>,
    /// Whether the tool reported that it failed.
    pub error: bool,
    /// The name of the tool, if the dialect repeats it in results.
    #[debug(skip)]
    pub tool: Option<String>,
    /// The form of the call (see [`ToolCall::form`]), if the dialect repeats it in results.
    #[debug(skip)]
    pub(crate) form: Option<String>,
}

/// One item of a tool result.
#[derive(derive_more::Debug, Clone)]
pub enum ResultItem {
    /// Plain text.
    Text(#[debug("{:?}", Redacted(_0))] String),
    /// JSON, as text.
    Json(#[debug("{:?}", Redacted(_0))] String),
    /// A picture.
    Image(Media),
    /// A file.
    Document(Media),
    /// An item that Lookback does not know. It passes through whole.
    Opaque(Opaque),
}

/// A part or item that Lookback does not know, kept as the JSON that arrived.
#[derive(derive_more::Debug, Clone)]
pub struct Opaque {
    /// Its `type`, or its only key. Empty if it has neither.
    #[debug("{:?}", Redacted(kind))]
    pub kind: String,
    /// The JSON.
    #[debug("{:?}", Redacted(raw))]
    pub raw: Box<RawValue>,
}

/// A borrowed part of any message, whatever its role.
#[derive(derive_more::Debug, Clone, Copy)]
pub enum PartRef<'a> {
    /// Plain text.
    Text(#[debug("{:?}", Redacted(_0))] &'a str),
    /// A picture.
    Image(&'a Media),
    /// A file.
    Document(&'a Media),
    /// Reasoning.
    Reasoning(&'a Reasoning),
    /// A tool call.
    ToolCall(&'a ToolCall),
    /// A tool result.
    ToolResult(&'a ToolResult),
    /// A part that Lookback does not know.
    Opaque(&'a Opaque),
}

impl Message {
    /// Creates a message from its parts.
    pub fn new(content: Content) -> Self {
        Message { content, wire: None }
    }

    /// Creates a system message.
    pub fn system(text: impl Into<String>) -> Self {
        Message::new(Content::System(vec![SystemPart::Text(text.into())]))
    }

    /// Creates a message from a person.
    pub fn user(text: impl Into<String>) -> Self {
        Message::new(Content::User(vec![UserPart::Text(text.into())]))
    }

    /// Creates a message from the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Message::new(Content::Assistant(vec![AssistantPart::Text(text.into())]))
    }

    /// Creates a message from the model with tool calls after some text. An empty `text` adds no part.
    pub fn assistant_with_calls(text: impl Into<String>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let text = Some(text.into()).filter(|text| !text.is_empty()).map(AssistantPart::Text);
        Message::new(Content::Assistant(
            text.into_iter().chain(calls.into_iter().map(AssistantPart::ToolCall)).collect(),
        ))
    }

    /// Creates a message that holds one tool result, as text.
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Message::new(Content::User(vec![UserPart::ToolResult(ToolResult::new(call_id, text))]))
    }

    /// Creates a message that was decoded from `wire`.
    pub(crate) fn decoded(content: Content, wire: Wire) -> Self {
        Message { content, wire: Some(wire) }
    }

    /// Returns this message with the tool and the form of each result, taken from the result's call, unless the result
    /// already names its tool.
    #[doc(hidden)]
    pub fn with_tools<'a>(&self, call: impl Fn(&ToolResult) -> Option<&'a ToolCall>) -> Message {
        let mut message = self.clone();
        if let Content::User(parts) = &mut message.content {
            for part in parts {
                if let UserPart::ToolResult(result) = part
                    && result.tool.is_none()
                    && let Some(call) = call(result)
                {
                    *result = result.clone().answering(call);
                }
            }
        }
        message
    }

    /// Returns the role of the message.
    pub fn role(&self) -> Role {
        match self.content {
            Content::System(_) => Role::System,
            Content::User(_) => Role::User,
            Content::Assistant(_) => Role::Assistant,
        }
    }

    /// Returns the parts, typed by role.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the bytes in which the message arrived, or `None` if it was built in Rust.
    pub fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// Returns the parts in order, whatever the role.
    #[inline]
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = PartRef<'_>> {
        match &self.content {
            Content::System(parts) => Parts::System(parts.iter()),
            Content::User(parts) => Parts::User(parts.iter()),
            Content::Assistant(parts) => Parts::Assistant(parts.iter()),
        }
    }

    /// Returns the part with an index, in constant time.
    pub fn part(&self, index: usize) -> Option<PartRef<'_>> {
        match &self.content {
            Content::System(parts) => parts.get(index).map(SystemPart::as_ref),
            Content::User(parts) => parts.get(index).map(UserPart::as_ref),
            Content::Assistant(parts) => parts.get(index).map(AssistantPart::as_ref),
        }
    }

    /// Returns the tool calls, each with the index of its part.
    pub fn tool_calls(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        self.parts().enumerate().filter_map(|(index, part)| match part {
            PartRef::ToolCall(call) => Some((index, call)),
            PartRef::Text(_)
            | PartRef::Image(_)
            | PartRef::Document(_)
            | PartRef::Reasoning(_)
            | PartRef::ToolResult(_)
            | PartRef::Opaque(_) => None,
        })
    }

    /// Returns the tool results, each with the index of its part.
    pub fn tool_results(&self) -> impl Iterator<Item = (usize, &ToolResult)> {
        let result = |part| if let PartRef::ToolResult(result) = part { Some(result) } else { None };
        self.parts().enumerate().filter_map(move |(index, part)| Some((index, result(part)?)))
    }

    /// Returns the unknown parts, and the unknown items of results, each with the index of its part.
    #[doc(hidden)]
    pub fn opaques(&self) -> impl Iterator<Item = (usize, &Opaque)> {
        self.parts().enumerate().flat_map(move |(index, part)| {
            let items = if let PartRef::ToolResult(result) = part { &result.content[..] } else { &[] };
            let own = if let PartRef::Opaque(opaque) = part { Some(opaque) } else { None };
            let of_items =
                items.iter().filter_map(|item| if let ResultItem::Opaque(opaque) = item { Some(opaque) } else { None });
            own.into_iter().chain(of_items).map(move |opaque| (index, opaque))
        })
    }

    /// Returns whether the message opens a turn: it is a user message that has other parts than tool results and cache
    /// markers, or no tool result.
    #[doc(hidden)]
    pub fn opens_turn(&self) -> bool {
        let says = |part: &UserPart| match part {
            UserPart::ToolResult(_) => false,
            UserPart::Opaque(opaque) => !opaque.is_cache_marker(),
            UserPart::Text(_) | UserPart::Image(_) | UserPart::Document(_) => true,
        };
        match &self.content {
            Content::User(parts) => parts.iter().any(says) || self.tool_results().next().is_none(),
            Content::System(_) | Content::Assistant(_) => false,
        }
    }

    /// Returns the index of the last part that is a text with words or a tool call.
    #[doc(hidden)]
    pub fn last_words(&self) -> Option<usize> {
        let says = |part: &PartRef<'_>| match part {
            PartRef::Text(text) => !text.trim().is_empty(),
            PartRef::ToolCall(_) => true,
            _ => false,
        };
        self.parts().enumerate().filter(|(_, part)| says(part)).last().map(|(last, _)| last)
    }

    /// Returns the index of the last shown part, if it is the model's text and ends with white space. `shown` returns
    /// whether a part is shown. Cache markers do not count.
    #[doc(hidden)]
    pub fn ends_in_space(&self, shown: impl Fn(usize) -> bool) -> Option<usize> {
        let says = |part: &PartRef<'_>| !part.is_cache_marker();
        let (index, last) = self.parts().enumerate().filter(|(index, part)| shown(*index) && says(part)).last()?;
        let ends = matches!(last, PartRef::Text(text) if text.ends_with(char::is_whitespace));
        (ends && self.role() == Role::Assistant).then_some(index)
    }

    /// Returns all searchable text of the message: one or more lines for each part.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut add = |text: &str| {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        };
        for part in self.parts() {
            match part {
                PartRef::Text(text) => add(text),
                PartRef::Reasoning(reasoning) => add(&reasoning.text),
                PartRef::ToolCall(call) => {
                    add(&call.name);
                    add(&call.arguments);
                }
                PartRef::ToolResult(result) => result.content.iter().filter_map(ResultItem::text).for_each(&mut add),
                PartRef::Image(media) | PartRef::Document(media) => media.source.text().into_iter().for_each(&mut add),
                PartRef::Opaque(opaque) => add(opaque.raw.get()),
            }
        }
        out
    }
}

impl Media {
    /// Creates a picture or a file without a media type and a name.
    pub fn new(source: MediaSource) -> Self {
        Media { mime: None, name: None, source }
    }

    /// Sets the media type, such as `image/png`.
    #[must_use]
    pub fn with_mime(self, mime: impl Into<String>) -> Self {
        Media { mime: Some(mime.into()), ..self }
    }

    /// Sets the name of the file.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Media { name: Some(name.into()), ..self }
    }
}

impl MediaSource {
    /// Returns the text, or `None` if the bytes are not in the message as plain text.
    pub fn text(&self) -> Option<&str> {
        match self {
            MediaSource::Text(text) => Some(text),
            MediaSource::Base64(_) | MediaSource::Url(_) | MediaSource::Id(_) => None,
        }
    }
}

impl Reasoning {
    /// Creates reasoning without a signature.
    pub fn new(text: impl Into<String>) -> Self {
        Reasoning { text: text.into(), signature: None }
    }

    /// Sets the provider's signature.
    #[must_use]
    pub fn with_signature(self, signature: impl Into<String>) -> Self {
        Reasoning { signature: Some(signature.into()), ..self }
    }
}

impl ToolCall {
    /// Creates a tool call. `arguments` is JSON text.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), form: None }
    }

    /// Sets the provider's name for calls of this form.
    #[must_use]
    pub(crate) fn with_form(self, form: impl Into<String>) -> Self {
        ToolCall { form: Some(form.into()), ..self }
    }

    /// Returns whether the arguments are a JSON object, which most providers require.
    pub fn has_object_arguments(&self) -> bool {
        self.arguments.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(&self.arguments).is_ok()
    }
}

impl ToolResult {
    /// Creates a tool result from text.
    pub fn new(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        ToolResult::from_items(call_id, vec![ResultItem::Text(text.into())])
    }

    /// Creates a tool result from its items.
    pub(crate) fn from_items(call_id: impl Into<String>, content: Vec<ResultItem>) -> Self {
        ToolResult { call_id: call_id.into(), content, error: false, tool: None, form: None }
    }

    /// Sets the name of the tool and the form of the call, which some dialects repeat in results.
    #[must_use]
    pub fn answering(self, call: &ToolCall) -> Self {
        ToolResult { tool: Some(call.name.clone()), form: call.form.clone(), ..self }
    }

    /// Sets whether the tool reported that it failed.
    #[must_use]
    pub fn with_error(self, error: bool) -> Self {
        ToolResult { error, ..self }
    }

    /// Returns whether the result names its tool and not its call. Its `call_id` is then the name of the tool.
    pub fn names_only_tool(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| *tool == self.call_id)
    }

    /// Returns whether the tool reported that it failed, and returned only white space or nothing.
    pub fn is_empty_error(&self) -> bool {
        let blank = |item: &ResultItem| item.text().is_some_and(|text| text.trim().is_empty());
        self.error && self.content.iter().all(blank)
    }
}

impl ResultItem {
    /// Returns the text or JSON of the item, or `None` if it is neither.
    pub fn text(&self) -> Option<&str> {
        match self {
            ResultItem::Text(text) | ResultItem::Json(text) => Some(text),
            ResultItem::Image(_) | ResultItem::Document(_) | ResultItem::Opaque(_) => None,
        }
    }
}

impl Opaque {
    /// Returns whether this is a cache marker: one of Bedrock's cache points, which are separate parts and mean nothing
    /// to the model.
    pub fn is_cache_marker(&self) -> bool {
        cache_marker::is_marker(&self.kind)
    }
}

impl PartRef<'_> {
    /// Returns whether this part is a cache marker, which means nothing to the model.
    pub fn is_cache_marker(&self) -> bool {
        matches!(self, PartRef::Opaque(opaque) if opaque.is_cache_marker())
    }
}

impl SystemPart {
    #[inline]
    pub(crate) fn as_ref(&self) -> PartRef<'_> {
        match self {
            SystemPart::Text(text) => PartRef::Text(text),
            SystemPart::Opaque(opaque) => PartRef::Opaque(opaque),
        }
    }
}

impl UserPart {
    #[inline]
    pub(crate) fn as_ref(&self) -> PartRef<'_> {
        match self {
            UserPart::Text(text) => PartRef::Text(text),
            UserPart::Image(media) => PartRef::Image(media),
            UserPart::Document(media) => PartRef::Document(media),
            UserPart::ToolResult(result) => PartRef::ToolResult(result),
            UserPart::Opaque(opaque) => PartRef::Opaque(opaque),
        }
    }
}

impl AssistantPart {
    #[inline]
    pub(crate) fn as_ref(&self) -> PartRef<'_> {
        match self {
            AssistantPart::Text(text) => PartRef::Text(text),
            AssistantPart::Reasoning(reasoning) => PartRef::Reasoning(reasoning),
            AssistantPart::ToolCall(call) => PartRef::ToolCall(call),
            AssistantPart::Opaque(opaque) => PartRef::Opaque(opaque),
        }
    }
}
