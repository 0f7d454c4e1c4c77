//! The table of the differences between dialects. Each dialect has one entry.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::api::Api;
use super::detect::Signs;
use super::provider_error::Saying;
use super::stitch::Seam;
use super::stream::Pieces;
use super::{
    ConversionError, DecodeError, Dialect, Finding, Mended, Place, Preamble, Quirks, RawRequest, Request, Response,
    Rule, Shown, Target, anthropic, bedrock, gemini, openai_chat, openai_responses,
};
use crate::message::{Content, Message, Reasoning};
use lookback_content::json::Fields;

/// The messages of a request as they are sent.
pub(super) type Encoded<'a> = Result<Vec<Cow<'a, RawValue>>, ConversionError>;

/// The changes that encoding makes, by message.
pub(super) type Mends = Result<Vec<Mended>, ConversionError>;

/// One message, written in another dialect as one or more.
pub(super) type Rendered = Result<Vec<Box<RawValue>>, ConversionError>;

/// Writes the path of a part of a message, by its index.
pub(super) type Paths<'a> = Box<dyn Fn(usize) -> String + 'a>;

/// The context in which messages are encoded.
pub(super) struct Sending<'a> {
    /// The target of the request.
    pub(super) target: &'a Target,
    /// The system prompt and the tools, whose cache markers count, too.
    pub(super) preamble: Option<&'a Preamble>,
}

/// One dialect.
///
/// To add a dialect, write a folder with one of these, its rules, its reading and its writing; a file in `detect/`, one
/// in `stream/`, one in `stitch/` and one in `provider_error/`; and add a variant to [`Dialect`]. The compiler asks for its arms. It does
/// not ask for these:
///
/// - in this crate, `Dialect::ALL`, and the order in `detect/mod.rs`;
/// - in `models`, the families of models in `data/models.toml`;
/// - a request in `server/src/gateway/warm_up.rs`, and the help in `cli/src/args.rs`;
/// - in `replay`, the members of a body in `recording/mod.rs`, the formats in `recording/shape.rs`, and prices in
///   `data/prices.toml`;
/// - in `bindings`, the seams of `wrap`, the models in `shared/src/options.rs`, and the types of each package;
/// - rules in `cli/rules.md`, a stand-in, vectors in `corpus/rules` and `corpus/errors`, and the bodies of `fuzz`.
pub(super) struct Format {
    /// Other names for the dialect, in lower case and with hyphens.
    pub(super) aliases: &'static [&'static str],
    /// The provider, by its name in OpenTelemetry's conventions for generative AI.
    pub(super) provider: &'static str,
    /// The features by which the dialect is detected.
    pub(super) signs: &'static Signs,
    /// The provider's HTTP API.
    pub(super) api: Api,
    /// The provider's rules.
    pub(super) rules: &'static [Rule],
    /// The rule that no text has half of a surrogate pair.
    pub(super) halves: Rule,
    /// The provider's demands that a session needs to know before a request is made.
    pub(super) quirks: fn(&Target) -> Quirks,
    /// The provider's error messages.
    pub(super) sayings: &'static [Saying],
    /// The member of a request body that holds the messages.
    pub(super) messages: &'static str,
    /// The member of a request body that holds the system prompt, or `None` if the system prompt is a message.
    pub(super) system: Option<&'static str>,
    /// The member of a request body that holds the tools.
    pub(super) tools: &'static str,
    /// The key of a tool's list of functions, in each of its spellings, for a dialect in which one tool declares all
    /// functions. Empty if each function is a tool.
    pub(super) functions: &'static [&'static str],
    /// The member of a request body, with its value, that asks the provider to cache the whole conversation. The same
    /// member of a part marks the part. `None` if the provider caches automatically, or only marked parts.
    pub(super) cache_marker: Option<(&'static str, &'static str)>,
    /// The members of a request body that name content which the provider has stored, so the body is not complete.
    pub(super) stored: &'static [&'static str],
    /// The members of a request body any one of which may replace all messages.
    pub(super) instead: &'static [&'static str],
    /// The type of a part that refers to an item that the provider has stored.
    pub(super) reference: Option<&'static str>,
    /// The members of a request body that may ask the model to reason.
    pub(super) thinking: &'static [&'static str],
    /// The members of a request body that demand an answer in a given format, each with the words in its value that
    /// express this.
    pub(super) answer_forms: &'static [(&'static str, &'static [&'static str])],
    /// The members of a request body that ask the provider to shorten the conversation itself, each with the words in
    /// its value that express this.
    pub(super) shorteners: &'static [(&'static str, &'static [&'static str])],
    /// The members of a request body that forbid all tool calls, each with the words in its value that express this.
    pub(super) call_bans: &'static [(&'static str, &'static [&'static str])],
    /// Whether a stream may begin with an error that other providers report by the HTTP status.
    pub(super) errors_in_streams: bool,
    /// The members of a message that other dialects can express, each as `parent.member`.
    pub(super) known: &'static [&'static str],
    /// Those of the known members that are copied or left out as a whole, so their contents are not checked.
    pub(super) whole: &'static [&'static str],
    /// Returns whether an element of a request's list is a piece of an assistant message. Neighboring pieces are one
    /// message.
    pub(super) is_piece: fn(&RawValue) -> bool,
    /// Reads the content of a message.
    pub(super) decode: fn(&RawValue) -> Result<Content, DecodeError>,
    /// Writes a message that arrived in another dialect or was built in Rust.
    pub(super) render: fn(&Message) -> Rendered,
    /// Writes the messages of a request.
    pub(super) encode: for<'a> fn(&Sending<'_>, &[Shown<'a>]) -> Encoded<'a>,
    /// Lists the changes that `encode` makes to messages in addition to their edits.
    pub(super) mends: fn(&Sending<'_>, &[Shown<'_>]) -> Mends,
    /// Reads the body of a response.
    pub(super) response: fn(&Fields<'_>) -> Result<Response, DecodeError>,
    /// Creates the assembler of a streamed response.
    pub(super) pieces: fn() -> Box<dyn Pieces>,
    /// Joins streamed answers. `None` if the dialect does not stream server-sent events.
    pub(super) seam: Option<fn() -> Box<dyn Seam>>,
    /// Removes from the answer to a request everything that a later request cannot send.
    pub(super) resendable: fn(&RawRequest<'_>, Message) -> Message,
    /// Writes a tool as an element of a request's list of tools.
    pub(super) tool: fn(name: &str, description: &str, parameters: &Value) -> Value,
    /// Finds the rules that a request breaks.
    pub(super) check: fn(&Request) -> Vec<Finding>,
    /// Returns a function that writes the paths of a message's parts.
    pub(super) paths: for<'a> fn(&Place<'a>) -> Paths<'a>,
    /// Returns the reasoning that a message has outside its parts.
    pub(super) reasoning_beside: fn(&Message) -> Option<Reasoning>,
}

impl Dialect {
    /// Returns the entry of this dialect.
    pub(super) fn format(self) -> &'static Format {
        match self {
            Dialect::OpenAiChat => &openai_chat::FORMAT,
            Dialect::Anthropic => &anthropic::FORMAT,
            Dialect::Bedrock => &bedrock::FORMAT,
            Dialect::OpenAiResponses => &openai_responses::FORMAT,
            Dialect::Gemini => &gemini::FORMAT,
        }
    }
}
