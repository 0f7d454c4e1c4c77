//! Providers' formats: one file each, with the same functions, and the numbered rules of each.

mod anthropic;
mod bedrock;
mod blocks;
mod convert;
mod detect;
mod mend;
mod named;
mod openai_chat;
mod pairing;
mod provider_error;
mod request;
mod response;
mod rules;

use std::borrow::Cow;

use serde_json::value::RawValue;

pub use convert::ConversionError;
pub use detect::{Clue, Contradiction, Sign};
pub use mend::Mend;
pub use named::{Meant, UnknownDialect};
pub use provider_error::{ProviderError, TooLong};
pub use request::{Preamble, Request, RequestError};
pub use response::Response;
pub use rules::{Finding, Problem, Rule, Severity};

use crate::edit::Edit;
use crate::json;
use crate::message::{Content, Message};
use crate::start::Start;
pub use crate::wire::Dialect;
use crate::wire::Wire;

/// A message and the edits under which it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The message.
    pub message: &'a Message,
    /// What is done to its parts.
    pub edits: &'a [Edit],
}

/// Where a message stands, and what must be known of it to say where its parts do: found once, however many of them are named.
#[derive(Debug, Clone, Copy)]
struct Place {
    message: usize,
    first_call: Option<usize>,
    is_result: bool,
}

impl Place {
    fn of(message: usize, value: &Message) -> Place {
        let first_call = value.tool_calls().next().map(|(part, _)| part);
        Place { message, first_call, is_result: value.tool_results().next().is_some() }
    }
}

/// What a provider demands beyond the pairing of calls and results, which all of them do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quirks {
    /// Identifiers of calls must be unique in the whole request, not only in one message.
    pub(crate) unique_ids: bool,
    /// Which identifiers are allowed.
    pub(crate) valid_id: fn(&str) -> bool,
    /// Text that is empty or all white space is refused.
    pub(crate) refuses_blank: bool,
    /// A tool result that is an error must say something.
    pub(crate) refuses_empty_error: bool,
    /// Whether a message has members that must go, though they hold no part.
    pub(crate) has_refused_members: fn(&Message) -> bool,
    /// White space at the end of a last assistant message is refused.
    pub(crate) refuses_trailing_space: bool,
    /// Reasoning must be signed.
    pub(crate) signed_reasoning: bool,
    /// Where a request may begin.
    pub(crate) start: Start,
}

/// Why a message could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message is not JSON at all.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// The message is JSON, but not an object.
    #[error("a message must be an object")]
    NotAnObject,
    /// A member that every message of its kind has is missing, or is something else than it must be.
    #[error("`{member}` must be {expected}")]
    Member {
        /// The member, as a path inside the message.
        member: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A role that the dialect does not have.
    #[error("unknown role `{}`; {dialect} has {known}", .role.escape_debug())]
    UnknownRole {
        /// The role, cut to 40 characters.
        role: String,
        /// The dialect.
        dialect: Dialect,
        /// The roles it has.
        known: &'static str,
    },
}

impl DecodeError {
    fn member(member: impl Into<String>, expected: &'static str) -> Self {
        DecodeError::Member { member: member.into(), expected }
    }

    fn role(role: &str, dialect: Dialect, known: &'static str) -> Self {
        DecodeError::UnknownRole { role: role.chars().take(40).collect(), dialect, known }
    }
}

impl Dialect {
    /// Reads one message.
    ///
    /// # Errors
    /// Where the text is not JSON, not a message, or of a role that the dialect does not have. Parts of a kind that
    /// Lookback does not know are no error: they pass through whole.
    pub fn decode(self, text: &str) -> Result<Message, DecodeError> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| DecodeError::Syntax(e.to_string()))?;
        self.decode_raw(raw)
    }

    /// Reads one message from JSON that was parsed already.
    ///
    /// # Errors
    /// As [`Dialect::decode`].
    pub fn decode_raw(self, raw: &RawValue) -> Result<Message, DecodeError> {
        let fields = json::Fields::read(raw).ok_or(DecodeError::NotAnObject)?;
        let role = fields.text("role").ok_or_else(|| DecodeError::member("role", "a string"))?;
        let content: Content = match self {
            Dialect::OpenAiChat => openai_chat::decode(&role, &fields)?,
            Dialect::Anthropic => anthropic::decode(&role, &fields)?,
            Dialect::Bedrock => bedrock::decode(&role, &fields)?,
        };
        Ok(Message::decoded(content, Wire { dialect: self, raw: raw.to_owned() }))
    }

    /// The messages of a request: the bytes that came, but for what the edits change, for neighbors of one role that the
    /// dialect needs merged (their parts are the bytes that came), and for the oldest cache markers where there are too many.
    /// [`Dialect::mends`] says what was done to which message.
    ///
    /// # Errors
    /// Where a message came in another dialect and something of it cannot be said in this one.
    pub fn encode<'a>(
        self,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Result<Vec<Cow<'a, RawValue>>, ConversionError> {
        self.encode_behind(None, shown)
    }

    /// Writes messages as the JSON list of a request's `messages`.
    ///
    /// # Errors
    /// Returns an error if something in a message cannot be said in this dialect.
    ///
    /// ```
    /// use lookback_core::{Dialect, Message};
    ///
    /// let json = Dialect::OpenAiChat.to_json(&[Message::system("Be brief."), Message::user("Hi")])?;
    /// assert_eq!(json, r#"[{"content":"Be brief.","role":"system"},{"content":"Hi","role":"user"}]"#);
    /// # Ok::<(), lookback_core::ConversionError>(())
    /// ```
    pub fn to_json(self, messages: &[Message]) -> Result<String, ConversionError> {
        let encoded = self.encode(messages.iter().map(|message| Shown { message, edits: &[] }))?;
        Ok(list(encoded.iter().map(AsRef::as_ref)))
    }

    /// The messages of a request with this system prompt and these tools, whose cache markers count too.
    pub(crate) fn encode_behind<'a>(
        self,
        preamble: Option<&Preamble>,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Result<Vec<Cow<'a, RawValue>>, ConversionError> {
        match self {
            Dialect::OpenAiChat => openai_chat::encode(shown),
            Dialect::Anthropic => blocks::encode(&anthropic::FORMAT, preamble, shown),
            Dialect::Bedrock => blocks::encode(&bedrock::FORMAT, preamble, shown),
        }
    }

    /// What [`Dialect::encode`] does to these messages beyond their edits, each with the index of its message: in the order of the
    /// messages, and several of one message next to each other. It is empty exactly where every message is sent as it is, or as its
    /// edits leave it; and where they cannot be encoded at all.
    ///
    /// ```
    /// use lookback_core::{Dialect, dialect::{Mend, Shown}};
    ///
    /// let user = Dialect::Bedrock.decode(r#"{"role":"user","content":[{"text":"Hi"}]}"#)?;
    /// let shown = Shown { message: &user, edits: &[] };
    /// assert!(Dialect::Bedrock.mends([shown]).is_empty());
    /// assert_eq!(Dialect::Bedrock.mends([shown, shown]), [(1, Mend::MergedWithPrevious)]);
    /// # Ok::<(), lookback_core::DecodeError>(())
    /// ```
    pub fn mends<'a>(self, shown: impl IntoIterator<Item = Shown<'a>>) -> Vec<(usize, Mend)> {
        self.mends_behind(None, shown)
    }

    /// What encoding does to messages with this system prompt and these tools.
    pub(crate) fn mends_behind<'a>(
        self,
        preamble: Option<&Preamble>,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Vec<(usize, Mend)> {
        let mends = match self {
            Dialect::OpenAiChat => Ok(Vec::new()),
            Dialect::Anthropic => blocks::mends(&anthropic::FORMAT, preamble, shown),
            Dialect::Bedrock => blocks::mends(&bedrock::FORMAT, preamble, shown),
        };
        mends.unwrap_or_default()
    }

    /// The same message in this dialect, as one or more messages of it with their bytes.
    ///
    /// # Errors
    /// Where something would be lost: the error names the first such thing.
    ///
    /// ```
    /// use lookback_core::{Dialect, Message};
    ///
    /// let result = Dialect::OpenAiChat.decode(r#"{"role":"tool","tool_call_id":"c1","content":"42"}"#)?;
    /// let there = Dialect::Anthropic.convert(&result)?;
    /// assert_eq!(
    ///     there[0].wire().unwrap().raw.get(),
    ///     r#"{"role":"user","content":[{"content":"42","tool_use_id":"c1","type":"tool_result"}]}"#
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn convert(self, message: &Message) -> Result<Vec<Message>, ConversionError> {
        if message.wire().is_some_and(|wire| wire.dialect == self) {
            return Ok(vec![message.clone()]);
        }
        let raws = convert::render(self, message)?;
        // What we have just written can be read.
        Ok(raws.iter().filter_map(|raw| self.decode_raw(raw).ok()).collect())
    }

    /// Every rule of the dialect that this request breaks.
    pub fn check(self, request: &Request) -> Vec<Finding> {
        let mut findings = match self {
            Dialect::OpenAiChat => openai_chat::check(request),
            Dialect::Anthropic => anthropic::check(request),
            Dialect::Bedrock => bedrock::check(request),
        };
        findings.sort_by_key(|finding| finding.message);
        findings
    }

    /// The rules that [`Dialect::check`] knows, by their numbers.
    pub fn rules(self) -> &'static [Rule] {
        match self {
            Dialect::OpenAiChat => openai_chat::RULES,
            Dialect::Anthropic => anthropic::RULES,
            Dialect::Bedrock => bedrock::RULES,
        }
    }

    /// A tool that a model may call, as it stands in the list of tools of a request; `parameters` is the JSON Schema of its arguments.
    ///
    /// ```
    /// use lookback_core::Dialect;
    ///
    /// let tool = Dialect::Anthropic.tool("now", "Tells the time.", &serde_json::json!({"type": "object"}));
    /// assert_eq!(tool["input_schema"]["type"], "object");
    /// ```
    pub fn tool(self, name: &str, description: &str, parameters: &serde_json::Value) -> serde_json::Value {
        match self {
            Dialect::OpenAiChat => openai_chat::tool(name, description, parameters),
            Dialect::Anthropic => anthropic::tool(name, description, parameters),
            Dialect::Bedrock => bedrock::tool(name, description, parameters),
        }
    }

    /// Where a part stands in a message of this dialect, such as `messages[7].tool_calls[1]`.
    pub fn path(self, index: usize, message: &Message, part: usize) -> String {
        self.path_at(&Place::of(index, message), part)
    }

    fn path_at(self, place: &Place, part: usize) -> String {
        match self {
            Dialect::OpenAiChat => openai_chat::path(place, part),
            Dialect::Anthropic | Dialect::Bedrock => format!("messages[{}].content[{part}]", place.message),
        }
    }

    /// Text that a message of this dialect sends beside its parts.
    pub(crate) fn beside_parts(self, message: &Message) -> Option<String> {
        match self {
            Dialect::OpenAiChat => openai_chat::reasoning(message),
            Dialect::Anthropic | Dialect::Bedrock => None,
        }
    }

    pub(crate) fn quirks(self) -> Quirks {
        match self {
            Dialect::OpenAiChat => openai_chat::QUIRKS,
            Dialect::Anthropic => anthropic::QUIRKS,
            Dialect::Bedrock => bedrock::QUIRKS,
        }
    }

    /// Bytes of a message as it is shown, before any merging.
    pub(crate) fn shown_bytes(self, message: &Message, edits: &[Edit], wire: &Wire) -> u64 {
        if edits.is_empty() {
            return wire.raw.get().len() as u64;
        }
        let encoded = self.encode([Shown { message, edits }]).unwrap_or_default();
        encoded.iter().map(|raw| raw.get().len() as u64).sum()
    }
}

/// Takes a member out of a message, such as one that is not the provider's; every other member keeps its bytes.
pub fn take(message: &RawValue, key: &str) -> (Box<RawValue>, Option<Box<RawValue>>) {
    let Some(mut fields) = json::Fields::read(message) else { return (message.to_owned(), None) };
    let Some(value) = fields.get(key).map(ToOwned::to_owned) else { return (message.to_owned(), None) };
    fields.remove(key);
    (fields.write(), Some(value))
}

/// Writes messages as one JSON list, each byte for byte.
///
/// ```
/// use lookback_core::{Engine, Message, Settings, dialect};
///
/// let mut engine = Engine::new(Settings::default());
/// engine.push(Message::user("Hi"))?;
/// let messages = engine.view().encode(engine.settings().dialect)?;
/// assert_eq!(dialect::list(messages.iter().map(AsRef::as_ref)), r#"[{"content":"Hi","role":"user"}]"#);
/// # Ok::<(), lookback_core::ConversionError>(())
/// ```
pub fn list<'a>(messages: impl IntoIterator<Item = &'a RawValue>) -> String {
    let mut out = String::new();
    json::push_array(&mut out, messages);
    out
}
