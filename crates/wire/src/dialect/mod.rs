//! Dialects: reads, writes, checks and converts the JSON of providers' message formats, each in one file.

mod anthropic;
mod api;
mod bedrock;
mod blocks;
mod changes;
mod content;
mod convert;
mod detect;
mod format;
mod gemini;
mod mend;
mod named;
mod openai_chat;
mod openai_responses;
mod pages;
mod pairing;
mod preamble;
mod provider_error;
mod raw_request;
mod reasoning_prefix;
mod request;
mod response;
mod rules;
mod sampling;
mod stitch;
mod stream;
mod surrogates;
mod target;
mod tool_names;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde_json::value::RawValue;

#[doc(hidden)]
pub use api::ApiPath;
#[doc(hidden)]
pub use changes::BodyChanges;
pub use convert::ConversionError;
pub use detect::{Clue, Contradiction};
pub use mend::{Mend, Mended};
pub use named::UnknownDialect;
pub use preamble::Preamble;
pub use provider_error::{ProviderError, TooLong};
pub use raw_request::{RawRequest, RequestError};
pub use request::Request;
pub use response::Response;
use rules::ProblemKind;
pub use rules::{Finding, Problem, Rule, Severity};
#[doc(hidden)]
pub use stitch::Stitch;
pub use stream::ResponseStream;
pub use target::Target;

use crate::edit::Edit;
use crate::message::{Message, PartRef, Reasoning, ToolCall};
use crate::start::Start;
pub use crate::wire::Dialect;
use crate::wire::{Role, Wire};
use lookback_content::json;
#[doc(hidden)]
pub use lookback_content::json::SyntaxError;

/// A message with the edits that are applied to it.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The message.
    pub message: &'a Message,
    /// The edits of its parts.
    pub edits: &'a [Edit],
}

/// The place of a message in a request, with the values that the paths of its parts need. It is computed once for all
/// parts.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// The index of the message.
    index: usize,
    /// The index of its first element in the request's list.
    element: usize,
    message: &'a Message,
    first_call: Option<usize>,
    is_result: bool,
}

impl<'a> Place<'a> {
    /// Returns the places of a request's messages.
    fn all(messages: &'a [Message]) -> impl Iterator<Item = Place<'a>> {
        let mut element = 0;
        messages.iter().enumerate().map(move |(index, message)| {
            let first_call = message.tool_calls().next().map(|(part, _)| part);
            let is_result = message.tool_results().next().is_some();
            let elements = message.wire().and_then(|wire| json::array(&wire.raw)).map_or(1, |pieces| pieces.len());
            let first = element;
            element += elements;
            Place { index, element: first, message, first_call, is_result }
        })
    }
}

/// A provider's demands, in addition to the pairing of calls and results, which all providers demand.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Quirks {
    /// Neighbors of one role are one message, so the results of all their calls come after the last of them.
    pub merges_neighbors: bool,
    /// Returns whether an identifier is allowed, apart from its length.
    pub valid_id: fn(&str) -> bool,
    /// The most characters of an identifier.
    pub longest_id: usize,
    /// Text that is empty or only white space is refused.
    pub refuses_blank: bool,
    /// Blank text that is not empty is accepted if its message also has words or a tool use.
    pub takes_space_beside: bool,
    /// A message without content is refused.
    pub refuses_empty: bool,
    /// A tool result that is an error must have content.
    pub refuses_empty_error: bool,
    /// Returns whether a message has refused members that are not parts.
    pub has_refused_members: fn(&Message) -> bool,
    /// White space at the end of the request is refused if the last message is the assistant's.
    pub refuses_trailing_space: bool,
    /// Reasoning must be signed.
    pub signed_reasoning: bool,
    /// Where a window that was cut may begin.
    pub start: Start,
    /// Where any request may begin, as far as that is known.
    pub opens: Start,
    /// A tool result can say that the tool failed.
    pub marks_errors: bool,
    /// A system message may only follow a user message, so the two are kept or dropped together.
    pub system_follows_user: bool,
    /// A result may leave out the identifier of its call, and name only the tool.
    pub results_by_name: bool,
    /// A result may come after later messages than that of its call.
    pub results_anywhere: bool,
    /// Signed reasoning is valid only after its original prefix.
    pub binds_reasoning: bool,
    /// The kinds of parts that a message of a role may not have.
    pub wrong_roles: &'static [(Role, &'static str)],
    /// The kinds of parts in which the provider compacted all earlier messages.
    pub compactions: &'static [&'static str],
    /// The kinds of parts, and of items of results, that apply to all later messages, such as tools that were added
    /// during the conversation.
    pub standing: &'static [&'static str],
}

/// An error from reading a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct DecodeError(#[from] DecodeFault);

impl DecodeError {
    fn member(member: impl Into<String>, expected: &'static str) -> Self {
        DecodeFault::Member { member: member.into(), expected }.into()
    }

    fn role(role: &str, dialect: Dialect, known: &'static str) -> Self {
        DecodeFault::UnknownRole { role: role.chars().take(40).collect(), dialect, known }.into()
    }
}

/// The reason of a [`DecodeError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum DecodeFault {
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(SyntaxError),
    /// The JSON is not an object.
    #[error("a message must be an object")]
    NotAnObject,
    /// A required member is missing, or has the wrong type.
    #[error("`{member}` must be {expected}")]
    Member { member: String, expected: &'static str },
    /// The dialect has no such role.
    #[error("unknown role `{}`; {dialect} has {known}", .role.escape_debug())]
    UnknownRole {
        role: String,
        dialect: Dialect,
        /// The roles that the dialect has, as a list in words.
        known: &'static str,
    },
}

impl Dialect {
    /// Returns the provider that the dialect is named after, by its name in
    /// [OpenTelemetry's conventions](https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/).
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    ///
    /// assert_eq!(Dialect::Bedrock.provider(), "aws.bedrock");
    /// ```
    pub fn provider(self) -> &'static str {
        self.format().provider
    }

    /// Returns whether a stream may begin with an error, such as a request that is too long, although the HTTP status
    /// is a success.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    ///
    /// assert!(Dialect::OpenAiResponses.has_errors_in_streams());
    /// assert!(!Dialect::Anthropic.has_errors_in_streams());
    /// ```
    #[doc(hidden)]
    pub fn has_errors_in_streams(self) -> bool {
        self.format().errors_in_streams
    }

    /// Reads one message.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON or not a message, or if the dialect does not have its role. Parts of an
    /// unknown kind are not an error: they pass through unchanged.
    pub fn decode(self, text: &str) -> Result<Message, DecodeError> {
        let raw: &RawValue = serde_json::from_str(text).map_err(SyntaxError::from).map_err(DecodeFault::Syntax)?;
        self.decode_raw(raw)
    }

    /// Reads one message from JSON that is already parsed.
    ///
    /// # Errors
    /// The same as [`Dialect::decode`].
    #[doc(hidden)]
    pub fn decode_raw(self, raw: &RawValue) -> Result<Message, DecodeError> {
        let content = (self.format().decode)(raw)?;
        Ok(Message::decoded(content, Wire { dialect: self, raw: raw.to_owned() }))
    }

    /// Returns the elements of a request's list that form each message.
    ///
    /// In most dialects each element is a message. In OpenAI's Responses, an assistant message may be several items,
    /// and its JSON is the list of them.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    /// use serde_json::value::RawValue;
    ///
    /// let list = r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]"#;
    /// let elements: Vec<&RawValue> = serde_json::from_str(list)?;
    /// assert_eq!(Dialect::OpenAiChat.spans(&elements), [0..1, 1..2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(hidden)]
    pub fn spans(self, elements: &[&RawValue]) -> Vec<Range<usize>> {
        let is_piece = self.format().is_piece;
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(elements.len());
        let mut continues = false;
        for (index, element) in elements.iter().enumerate() {
            let is_piece = is_piece(element);
            match spans.last_mut() {
                Some(last) if continues && is_piece => last.end = index + 1,
                _ => spans.push(index..index + 1),
            }
            continues = is_piece;
        }
        spans
    }

    /// Reads the messages of a request's list: one for each of its [spans](Dialect::spans).
    ///
    /// # Errors
    /// Returns the index of the element that cannot be read, and the error.
    #[doc(hidden)]
    pub fn decode_list(self, elements: &[&RawValue]) -> Result<Vec<Message>, (usize, DecodeError)> {
        let read = |span: Range<usize>| {
            let pieces = elements.get(span.clone()).unwrap_or_default();
            self.decode_pieces(pieces).map_err(|(at, fault)| (span.start + at, fault))
        };
        self.spans(elements).into_iter().map(read).collect()
    }

    /// Reads a message that is formed by these elements.
    fn decode_pieces(self, pieces: &[&RawValue]) -> Result<Message, (usize, DecodeError)> {
        let single = |raw: &RawValue| match raw.get().starts_with('[') {
            true => Err(DecodeFault::NotAnObject.into()),
            false => self.decode_raw(raw),
        };
        if let [piece] = pieces {
            return single(piece).map_err(|fault| (0, fault));
        }
        self.decode_raw(&json::write_array(pieces.iter().copied())).map_err(|fault| {
            // Find the element with the fault.
            let first = pieces.iter().enumerate().find_map(|(at, raw)| Some((at, single(raw).err()?)));
            first.unwrap_or((0, fault))
        })
    }

    /// Writes the messages of a request.
    ///
    /// Messages keep the bytes in which they were received, apart from their edits. If the dialect demands it,
    /// neighbors of one role become one message (their parts keep their bytes), results and system messages move, and
    /// the oldest of too many cache markers are removed. [`Dialect::mends`] lists these changes.
    ///
    /// # Errors
    /// Returns an error if a message arrived in another dialect, and this dialect cannot express all of it.
    pub fn encode<'a>(
        self,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Result<Vec<Cow<'a, RawValue>>, ConversionError> {
        Target::from(self).encode_after(None, shown)
    }

    /// Lists the changes that [`Dialect::encode`] makes to these messages in addition to their edits.
    ///
    /// The list is in the order of the messages. It is empty if there are no changes, or if the messages cannot be
    /// encoded.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, Mend, Shown};
    ///
    /// let user = Dialect::Bedrock.decode(r#"{"role":"user","content":[{"text":"Hi"}]}"#)?;
    /// let shown = Shown { message: &user, edits: &[] };
    /// assert!(Dialect::Bedrock.mends([shown]).is_empty());
    /// let mended = Dialect::Bedrock.mends([shown, shown])[0];
    /// assert_eq!((mended.message, mended.mend), (1, Mend::MergedWithPrevious));
    /// # Ok::<(), lookback_wire::dialect::DecodeError>(())
    /// ```
    #[doc(hidden)]
    pub fn mends<'a>(self, shown: impl IntoIterator<Item = Shown<'a>>) -> Vec<Mended> {
        Target::from(self).mends_after(None, shown)
    }

    /// Converts a message to this dialect, as one or more messages.
    ///
    /// # Errors
    /// Returns an error that names the first thing that would be lost, if there is one.
    ///
    /// ```
    /// use lookback_wire::{dialect::Dialect, message::Message};
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
        // These messages were just written, so they can be read.
        Ok(raws.iter().filter_map(|raw| self.decode_raw(raw).ok()).collect())
    }

    /// Converts the messages of a conversation to this dialect. Messages that are already in it stay unchanged.
    ///
    /// If the dialect repeats the name of a tool in its results, it is taken from the call among the messages.
    ///
    /// # Errors
    /// The same as [`Dialect::convert`].
    ///
    /// ```
    /// use lookback_wire::{dialect::Dialect, message::{Message, ToolCall}};
    ///
    /// let call = Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]);
    /// let there = Dialect::Gemini.convert_all(&[call, Message::tool_result("c1", "buy milk")])?;
    /// assert_eq!(
    ///     there[1].wire().unwrap().raw.get(),
    ///     r#"{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read","response":{"output":"buy milk"}}}]}"#
    /// );
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn convert_all(self, messages: &[Message]) -> Result<Vec<Message>, ConversionError> {
        let mut calls: HashMap<&str, &ToolCall> = HashMap::new();
        let mut converted = Vec::with_capacity(messages.len());
        for message in messages {
            calls.extend(message.tool_calls().map(|(_, call)| (call.id.as_str(), call)));
            let named = message.with_tools(|result| calls.get(result.call_id.as_str()).copied());
            converted.extend(self.convert(&named)?);
        }
        Ok(converted)
    }

    /// Returns the member of a request body that has the messages, such as `messages`.
    #[doc(hidden)]
    pub fn list(self) -> &'static str {
        self.format().messages
    }

    /// Returns every rule of the dialect that a request breaks, in the order of the messages.
    pub fn check(self, request: &Request) -> Vec<Finding> {
        let mut findings = (self.format().check)(request);
        findings.extend(surrogates::check(self.format().halves, self.list(), request.messages()));
        findings.sort_by_key(|finding| finding.message);
        findings
    }

    /// Returns the rules that [`Dialect::check`] knows.
    pub fn rules(self) -> &'static [Rule] {
        self.format().rules
    }

    /// Writes a tool as an element of a request's list of tools. `parameters` is the JSON Schema of its arguments.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    ///
    /// let tool = Dialect::Anthropic.tool("now", "Returns the time.", &serde_json::json!({"type": "object"}));
    /// assert_eq!(tool["input_schema"]["type"], "object");
    /// ```
    pub fn tool(self, name: &str, description: &str, parameters: &serde_json::Value) -> serde_json::Value {
        (self.format().tool)(name, description, parameters)
    }

    /// Returns the path of a part in a request, such as `messages[7].tool_calls[1]`.
    fn path(self, place: &Place, part: usize) -> String {
        self.paths(place)(part)
    }

    /// Returns a function that writes the paths of all parts of a message. The message is read only once for this,
    /// because it may have any number of parts, each with a fault.
    fn paths<'a>(self, place: &Place<'a>) -> format::Paths<'a> {
        (self.format().paths)(place)
    }

    /// Returns whether a part refers to an item that the provider has stored, such as a call.
    #[doc(hidden)]
    pub fn is_reference(self, part: PartRef<'_>) -> bool {
        matches!(part, PartRef::Opaque(opaque) if self.format().reference == Some(&*opaque.kind))
    }

    /// Returns the reasoning that a message has outside its parts.
    #[doc(hidden)]
    pub fn reasoning_beside(self, message: &Message) -> Option<Reasoning> {
        (self.format().reasoning_beside)(message)
    }

    /// Returns the demands of every provider of this dialect, in addition to the pairing of calls and results.
    #[doc(hidden)]
    pub fn quirks(self) -> Quirks {
        Target::from(self).quirks()
    }

    /// Returns the bytes of a message after its edits, before it is merged with others.
    #[doc(hidden)]
    pub fn shown_bytes(self, message: &Message, edits: &[Edit], wire: &Wire) -> u64 {
        if edits.is_empty() {
            return wire.raw.get().len() as u64;
        }
        let encoded = self.encode([Shown { message, edits }]).unwrap_or_default();
        encoded.iter().map(|raw| raw.get().len() as u64).sum()
    }
}

/// Reads a message that is an object.
fn fields(raw: &RawValue) -> Result<json::Fields<'_>, DecodeError> {
    json::Fields::read(raw).ok_or(DecodeFault::NotAnObject.into())
}

/// Returns the role of a message, as the dialect spells it.
fn role<'a>(fields: &'a json::Fields<'_>) -> Result<Cow<'a, str>, DecodeError> {
    fields.text("role").ok_or_else(|| DecodeError::member("role", "a string"))
}

/// Removes a member from a message and returns its value, or `None` if the message has no such member. Every other
/// member keeps its bytes.
///
/// Use it for members that a client has added and the provider does not know.
#[doc(hidden)]
pub fn take_member(message: &mut Box<RawValue>, key: &str) -> Option<Box<RawValue>> {
    let mut fields = json::Fields::read(message)?;
    let value = fields.get(key)?.to_owned();
    fields.remove(key);
    *message = fields.write();
    Some(value)
}

/// Writes messages as one JSON list, each byte for byte.
///
/// ```
/// use lookback_wire::dialect::{Shown, json_list};
/// use lookback_wire::{dialect::Dialect, message::Message};
///
/// let message = Message::user("Hi");
/// let messages = Dialect::OpenAiChat.encode([Shown { message: &message, edits: &[] }])?;
/// assert_eq!(json_list(&messages), r#"[{"role":"user","content":"Hi"}]"#);
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
#[doc(hidden)]
pub fn json_list(messages: &[Cow<'_, RawValue>]) -> String {
    let length: usize = messages.iter().map(|message| message.get().len() + 1).sum();
    let mut out = String::with_capacity(length + 1);
    json::push_array(&mut out, messages.iter().map(AsRef::as_ref));
    out
}
