//! Providers' formats: one file each, with the same functions, and the numbered rules of each.

mod anthropic;
mod bedrock;
mod blocks;
pub(crate) mod cache;
mod convert;
mod detect;
mod format;
mod mend;
mod named;
mod openai_chat;
mod pairing;
mod provider_error;
mod request;
mod response;
mod rules;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use convert::ConversionError;
pub use detect::{Clue, Contradiction, Sign};
pub use mend::Mend;
pub use named::{Meant, UnknownDialect};
pub use provider_error::{ProviderError, TooLong};
pub use request::{Preamble, Request, RequestError};
pub use response::Response;
pub use rules::{Finding, Problem, Rule, Severity};

use crate::cut::Edit;
use crate::json;
use crate::message::{Message, Wire};
use crate::policy::Start;

/// A provider's format of messages and requests.
///
/// ```
/// use lookback_core::Dialect;
///
/// let message = Dialect::OpenAiChat.decode(r#"{"role":"user","content":"Hi","name":"ann"}"#)?;
/// assert_eq!(message.text(), "Hi");
/// assert_eq!(message.wire().unwrap().raw.get(), r#"{"role":"user","content":"Hi","name":"ann"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI's Chat Completions, and the many servers that follow it.
    #[default]
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Anthropic's Messages.
    Anthropic,
    /// Bedrock's Converse.
    Bedrock,
}

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
    /// A tool result can say that the tool failed.
    #[allow(dead_code, reason = "`engine::repair` is to read it for its stand-ins")]
    pub(crate) marks_errors: bool,
    /// A system message may only follow a user message, so the two are kept or dropped together.
    #[allow(dead_code, reason = "`View::arrive` is to read it")]
    pub(crate) system_follows_user: bool,
}

/// Why a message could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// All dialects.
    pub const ALL: [Dialect; 3] = [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Bedrock];

    /// Its name, as the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai-chat",
            Dialect::Anthropic => "anthropic",
            Dialect::Bedrock => "bedrock",
        }
    }

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
        let content = (self.format().decode)(&role, &fields)?;
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

    /// The messages of a request with this system prompt and these tools, whose cache markers count too.
    pub(crate) fn encode_behind<'a>(
        self,
        preamble: Option<&Preamble>,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Result<Vec<Cow<'a, RawValue>>, ConversionError> {
        let shown: Vec<_> = shown.into_iter().collect();
        (self.format().encode)(preamble, &shown)
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
        let shown: Vec<_> = shown.into_iter().collect();
        (self.format().mends)(preamble, &shown).unwrap_or_default()
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
        let mut findings = (self.format().check)(request);
        findings.sort_by_key(|finding| finding.message);
        findings
    }

    /// The rules that [`Dialect::check`] knows, by their numbers.
    pub fn rules(self) -> &'static [Rule] {
        self.format().rules
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
        (self.format().tool)(name, description, parameters)
    }

    /// Where a part stands in a message of this dialect, such as `messages[7].tool_calls[1]`.
    pub fn path(self, index: usize, message: &Message, part: usize) -> String {
        self.path_at(&Place::of(index, message), part)
    }

    fn path_at(self, place: &Place, part: usize) -> String {
        (self.format().path)(place, part)
    }

    /// Text that a message of this dialect sends beside its parts.
    pub(crate) fn beside_parts(self, message: &Message) -> Option<String> {
        (self.format().beside_parts)(message)
    }

    pub(crate) fn quirks(self) -> Quirks {
        self.format().quirks
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

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Takes a member out of a message, such as one that is not the provider's; every other member keeps its bytes.
pub fn take(message: &RawValue, key: &str) -> (Box<RawValue>, Option<Box<RawValue>>) {
    let Some(mut fields) = json::Fields::read(message) else { return (message.to_owned(), None) };
    let Some(value) = fields.get(key).map(ToOwned::to_owned) else { return (message.to_owned(), None) };
    fields.remove(key);
    (fields.write(), Some(value))
}
