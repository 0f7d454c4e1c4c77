//! A provider's response: the model's message, byte for byte, and the reported tokens.

use serde_json::value::RawValue;

use super::{DecodeError, DecodeFault, Dialect};
use crate::message::{Message, PartRef};
use crate::wire::Role;
use lookback_content::json::{self, Fields, SyntaxError};

/// A response, decoded from its whole body. (For streams, see [`ResponseStream`](super::ResponseStream).)
///
/// ```
/// use lookback_wire::dialect::{Dialect, Response};
///
/// let body = r#"{"model": "gpt-4o-2024-11-20", "choices": [{"message": {"role": "assistant", "content": "Paris."}}],
///     "usage": {"prompt_tokens": 2400, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 2304}}}"#;
/// let response = Response::decode(body, Dialect::OpenAiChat)?;
/// assert_eq!((response.text().as_str(), response.input, response.output), ("Paris.", Some(2400), Some(2)));
/// assert_eq!((response.cached, response.written), (Some(2304), None));
/// # Ok::<(), lookback_wire::dialect::DecodeError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Response {
    /// The model's message, in the form that the next request needs.
    pub message: Message,
    /// The model that answered, if the provider names it.
    pub model: Option<String>,
    /// Input tokens, including cached ones, if the provider reports them.
    pub input: Option<u64>,
    /// The input tokens that were read from the provider's cache, if it reports them.
    pub cached: Option<u64>,
    /// The input tokens that were written to the provider's cache, if it reports them.
    pub written: Option<u64>,
    /// Output tokens, if the provider reports them.
    pub output: Option<u64>,
    /// Whether the provider reports that the model stopped because the context window was full.
    pub fills_window: bool,
    /// How many parts of the request's reasoning the provider reports as dropped, for example because their prefix has
    /// changed.
    pub lost_reasoning: usize,
}

impl Response {
    /// Reads the body of a response. If it has several choices, this reads the first one.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or has no message of the model, as in the body of an error.
    pub fn decode(body: &str, dialect: Dialect) -> Result<Self, DecodeError> {
        let raw: &RawValue = serde_json::from_str(body).map_err(SyntaxError::from).map_err(DecodeFault::Syntax)?;
        let fields = Fields::read(raw).ok_or(DecodeFault::NotAnObject)?;
        let response = (dialect.format().response)(&fields)?;
        match response.message.role() {
            Role::Assistant => Ok(response),
            Role::System | Role::User => Err(DecodeError::member("role", "`assistant`")),
        }
    }

    /// Returns the model's text, without reasoning and calls.
    pub fn text(&self) -> String {
        let words = self.message.parts().filter_map(|part| match part {
            PartRef::Text(text) => Some(text),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

/// Counts the entries of this type in the provider's report about changes to the request's input.
pub(super) fn left_out(fields: &Fields<'_>, kind: &str) -> usize {
    let all = fields.get("input_transformations").and_then(json::array).unwrap_or_default();
    let is_kind = |entry: &&&RawValue| {
        Fields::read(entry).is_some_and(|entry| entry.text("type").is_some_and(|found| found == kind))
    };
    all.iter().filter(is_kind).count()
}

/// Returns a number from a nested object of a usage report.
pub(super) fn detail(usage: &Fields<'_>, object: &str, member: &str) -> Option<u64> {
    tokens(&Fields::read(usage.get(object)?)?, &[member])
}

/// Adds up members of a usage report. Returns `None` if the first one is absent.
pub(super) fn tokens(usage: &Fields<'_>, members: &[&str]) -> Option<u64> {
    let number = |name: &&str| usage.get(name).and_then(|value| serde_json::from_str::<u64>(value.get()).ok());
    let (first, others) = members.split_first()?;
    Some(others.iter().filter_map(number).fold(number(first)?, u64::saturating_add))
}
