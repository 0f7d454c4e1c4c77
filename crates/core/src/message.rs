//! What a conversation is made of: messages, and the parts that each role may hold.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use crate::cache_marker;
pub use crate::wire::Wire;

/// One message, built in Rust or decoded from a provider's JSON.
///
/// A decoded message keeps the bytes that it came in (see [`Message::wire`]), and they are what is sent again.
///
/// ```
/// use lookback_core::{Message, ToolCall};
///
/// let question = Message::user("What is in notes.txt?");
/// let call = Message::assistant_with_calls("Let me look.", [ToolCall::new("c1", "read", r#"{"path":"notes.txt"}"#)]);
/// let result = Message::tool_result("c1", "buy milk");
/// assert_eq!(call.parts().count(), 2);
/// assert_eq!(result.role(), lookback_core::Role::User);
/// # let _ = question;
/// ```
#[derive(Debug, Clone)]
pub struct Message {
    content: Content,
    wire: Option<Wire>,
}

/// Who speaks. The results of tools are the user's, as in the providers' block formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions of the application (`system`, and OpenAI's `developer`).
    System,
    /// A person, or the results of tools.
    User,
    /// The model.
    Assistant,
}

/// The parts of a message, by role: a tool call in a user's message does not type-check.
#[derive(Debug, Clone)]
pub enum Content {
    /// Instructions.
    System(Vec<SystemPart>),
    /// A person's words, and results of tools.
    User(Vec<UserPart>),
    /// The model's words, reasoning and tool calls.
    Assistant(Vec<AssistantPart>),
}

/// What a system message may hold.
#[derive(Clone)]
pub enum SystemPart {
    /// Plain text.
    Text(String),
    /// A part that Lookback does not know, passed through whole.
    Opaque(Opaque),
}

/// What a user message may hold.
#[derive(Clone)]
pub enum UserPart {
    /// Plain text.
    Text(String),
    /// A picture.
    Image(Media),
    /// A file.
    Document(Media),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// A part that Lookback does not know, passed through whole.
    Opaque(Opaque),
}

/// What an assistant message may hold.
#[derive(Clone)]
pub enum AssistantPart {
    /// Plain text.
    Text(String),
    /// The model's reasoning, as the provider returned it.
    Reasoning(Reasoning),
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// A part that Lookback does not know, passed through whole.
    Opaque(Opaque),
}

/// A picture or a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Media {
    /// Its media type, such as `image/png`, where the client gave one.
    pub mime: Option<String>,
    /// A file's name, where the client gave one.
    pub name: Option<String>,
    /// Where its bytes are.
    pub source: MediaSource,
}

/// Where the bytes of a picture or file are.
#[derive(Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// In the message, in base64.
    Base64(String),
    /// In the message, as plain text.
    Text(String),
    /// At an address that the provider fetches.
    Url(String),
    /// With the provider, by the identifier it gave.
    Id(String),
}

/// The model's reasoning.
#[derive(Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The text, empty where the provider hides it.
    pub text: String,
    /// The provider's signature, or its encrypted form. What is signed is valid only after the prefix it was made under.
    pub signature: Option<String>,
}

/// A request of the model to run a tool.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's identifier, which the result repeats.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, in principle.
    pub arguments: String,
}

/// What a tool answered.
#[derive(Clone)]
pub struct ToolResult {
    /// The identifier of the call that it answers.
    pub call_id: String,
    /// What it answered, item by item.
    pub content: Vec<ResultItem>,
    /// Whether the tool says that it failed.
    pub error: bool,
}

/// One item of a tool's answer.
#[derive(Clone)]
pub enum ResultItem {
    /// Plain text.
    Text(String),
    /// JSON, as text.
    Json(String),
    /// A picture.
    Image(Media),
    /// A file.
    Document(Media),
    /// An item that Lookback does not know, passed through whole.
    Opaque(Opaque),
}

/// Something that Lookback does not know, kept as the text that came.
#[derive(Clone)]
pub struct Opaque {
    /// What it calls itself (its `type`, or its only key); empty where it has neither.
    pub kind: String,
    /// The JSON.
    pub raw: Box<RawValue>,
}

/// Any part of any message, for those who look at all of them alike.
#[derive(Clone, Copy)]
pub enum PartRef<'a> {
    /// Plain text.
    Text(&'a str),
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
    /// Something unknown.
    Opaque(&'a Opaque),
}

impl Message {
    /// A message of these parts.
    pub fn new(content: Content) -> Self {
        Message { content, wire: None }
    }

    /// Instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Message::new(Content::System(vec![SystemPart::Text(text.into())]))
    }

    /// A person's words.
    pub fn user(text: impl Into<String>) -> Self {
        Message::new(Content::User(vec![UserPart::Text(text.into())]))
    }

    /// The model's words.
    pub fn assistant(text: impl Into<String>) -> Self {
        Message::new(Content::Assistant(vec![AssistantPart::Text(text.into())]))
    }

    /// The model's tool calls, after some words; empty `text` adds no part.
    pub fn assistant_with_calls(text: impl Into<String>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let text = Some(text.into()).filter(|text| !text.is_empty()).map(AssistantPart::Text);
        Message::new(Content::Assistant(
            text.into_iter().chain(calls.into_iter().map(AssistantPart::ToolCall)).collect(),
        ))
    }

    /// What a tool answered, in text.
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Message::new(Content::User(vec![UserPart::ToolResult(ToolResult::new(call_id, text))]))
    }

    /// The same message as it came over the wire.
    pub(crate) fn decoded(content: Content, wire: Wire) -> Self {
        Message { content, wire: Some(wire) }
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        match self.content {
            Content::System(_) => Role::System,
            Content::User(_) => Role::User,
            Content::Assistant(_) => Role::Assistant,
        }
    }

    /// The parts, by role.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The bytes in which it came; `None` for a message built in Rust.
    pub fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// The parts in their order, whatever the role.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = PartRef<'_>> {
        let (system, user, assistant) = match &self.content {
            Content::System(parts) => (parts.as_slice(), &[][..], &[][..]),
            Content::User(parts) => (&[][..], parts.as_slice(), &[][..]),
            Content::Assistant(parts) => (&[][..], &[][..], parts.as_slice()),
        };
        let system = system.iter().map(SystemPart::as_ref);
        let user = user.iter().map(UserPart::as_ref);
        system.chain(user).chain(assistant.iter().map(AssistantPart::as_ref))
    }

    /// The tool calls, with the index of the part that each is.
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

    /// The tool results, with the index of the part that each is.
    pub fn tool_results(&self) -> impl Iterator<Item = (usize, &ToolResult)> {
        self.parts().enumerate().filter_map(|(index, part)| match part {
            PartRef::ToolResult(result) => Some((index, result)),
            PartRef::Text(_)
            | PartRef::Image(_)
            | PartRef::Document(_)
            | PartRef::Reasoning(_)
            | PartRef::ToolCall(_)
            | PartRef::Opaque(_) => None,
        })
    }

    /// Whether a person speaks in it: a user message that holds more than tool results, cache markers aside.
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

    /// The last part of those that `shown` lets through, where it is the model's words and they end in white space.
    pub(crate) fn ends_in_space(&self, shown: impl Fn(usize) -> bool) -> Option<usize> {
        let says = |part: &PartRef<'_>| !part.is_cache_marker();
        let (index, last) = self.parts().enumerate().filter(|(index, part)| shown(*index) && says(part)).last()?;
        let ends = matches!(last, PartRef::Text(text) if text.ends_with(char::is_whitespace));
        (ends && self.role() == Role::Assistant).then_some(index)
    }

    /// All that can be read in it, one line or more a part: what a search looks at.
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
                PartRef::Image(media) | PartRef::Document(media) => {
                    if let MediaSource::Text(text) = &media.source {
                        add(text);
                    }
                }
                PartRef::Opaque(opaque) => add(opaque.raw.get()),
            }
        }
        out
    }

    /// A digest of what the message says, the same for every spelling of it.
    ///
    /// By it a history that a client sends again is recognized. It covers the role, texts, media, calls and results; it
    /// leaves out white space and key order of the JSON, cache markers, unknown members of the message, and reasoning,
    /// which clients may drop. It is XXH3 in 128 bits: not proof against someone who seeks a collision, who could
    /// thereby only confuse a session of their own.
    pub fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        let mut feed = |tag: u8, text: &str| {
            hash.update(&[tag]);
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        feed(
            b'r',
            match self.role() {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
            },
        );
        for part in self.parts() {
            match part {
                PartRef::Text("") | PartRef::Reasoning(_) => {}
                PartRef::Text(text) => feed(b't', text),
                PartRef::Image(media) | PartRef::Document(media) => feed_media(&mut feed, media),
                PartRef::ToolCall(call) => {
                    feed(b'c', &call.id);
                    feed(b'n', &call.name);
                    feed(b'a', &canonical(&call.arguments));
                }
                PartRef::ToolResult(result) => {
                    feed(if result.error { b'E' } else { b'R' }, &result.call_id);
                    for item in &result.content {
                        match item {
                            ResultItem::Text(text) => feed(b't', text),
                            ResultItem::Json(json) => feed(b'j', &canonical(json)),
                            ResultItem::Image(media) | ResultItem::Document(media) => feed_media(&mut feed, media),
                            ResultItem::Opaque(opaque) => feed(b'o', &unmarked(opaque.raw.get())),
                        }
                    }
                }
                PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
                PartRef::Opaque(opaque) => feed(b'o', &unmarked(opaque.raw.get())),
            }
        }
        hash.digest128()
    }
}

fn feed_media(feed: &mut impl FnMut(u8, &str), media: &Media) {
    match &media.source {
        MediaSource::Base64(data) => feed(b'b', data),
        MediaSource::Text(text) => feed(b't', text),
        MediaSource::Url(url) => feed(b'u', url),
        MediaSource::Id(id) => feed(b'i', id),
    }
}

/// JSON with its keys sorted and its white space gone; text that is not JSON, or too deep to read, as it is.
fn canonical(json: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value.to_string(),
        Err(_) => json.to_owned(),
    }
}

/// A block as [`canonical`] writes it, without its cache marker, which clients move from block to block.
fn unmarked(block: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(block) {
        Ok(mut value) => {
            cache_marker::remove_marker(&mut value);
            value.to_string()
        }
        Err(_) => block.to_owned(),
    }
}

impl ToolCall {
    /// A call; `arguments` is JSON text.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    /// Whether the arguments are a JSON object, as most providers demand.
    pub fn has_object_arguments(&self) -> bool {
        self.arguments.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(&self.arguments).is_ok()
    }
}

impl ToolResult {
    /// An answer in text.
    pub fn new(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        ToolResult { call_id: call_id.into(), content: vec![ResultItem::Text(text.into())], error: false }
    }

    /// Whether it says that it failed, and not a word more.
    pub fn is_empty_error(&self) -> bool {
        let blank = |item: &ResultItem| item.text().is_some_and(|text| text.trim().is_empty());
        self.error && self.content.iter().all(blank)
    }
}

impl ResultItem {
    /// The item's text, where it has one.
    pub fn text(&self) -> Option<&str> {
        match self {
            ResultItem::Text(text) | ResultItem::Json(text) => Some(text),
            ResultItem::Image(_) | ResultItem::Document(_) | ResultItem::Opaque(_) => None,
        }
    }
}

impl Opaque {
    /// Bedrock's cache points are parts of their own; they say nothing to the model.
    pub fn is_cache_marker(&self) -> bool {
        cache_marker::is_marker(&self.kind)
    }
}

impl PartRef<'_> {
    /// Whether it says nothing to the model, and only marks how far the provider should cache.
    pub fn is_cache_marker(&self) -> bool {
        matches!(self, PartRef::Opaque(opaque) if opaque.is_cache_marker())
    }
}

impl SystemPart {
    pub(crate) fn as_ref(&self) -> PartRef<'_> {
        match self {
            SystemPart::Text(text) => PartRef::Text(text),
            SystemPart::Opaque(opaque) => PartRef::Opaque(opaque),
        }
    }
}

impl UserPart {
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
    pub(crate) fn as_ref(&self) -> PartRef<'_> {
        match self {
            AssistantPart::Text(text) => PartRef::Text(text),
            AssistantPart::Reasoning(reasoning) => PartRef::Reasoning(reasoning),
            AssistantPart::ToolCall(call) => PartRef::ToolCall(call),
            AssistantPart::Opaque(opaque) => PartRef::Opaque(opaque),
        }
    }
}
