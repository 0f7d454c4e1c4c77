//! What a provider answers to a request: the model's message, byte for byte, and the tokens that are reported with it.

use serde_json::value::RawValue;

use super::{DecodeError, Dialect};
use crate::json::Fields;
use crate::message::{Message, PartRef, Role};

/// An answer, decoded from a whole response body (not from a stream).
///
/// ```
/// use lookback_core::{Dialect, Response};
///
/// let body = r#"{"model": "gpt-4o-2024-11-20", "choices": [{"message": {"role": "assistant", "content": "Paris."}}],
///     "usage": {"prompt_tokens": 24, "completion_tokens": 2}}"#;
/// let response = Response::decode(body, Dialect::OpenAiChat)?;
/// assert_eq!((response.said().as_str(), response.input, response.output), ("Paris.", Some(24), Some(2)));
/// # Ok::<(), lookback_core::DecodeError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Response {
    /// What the model said, as the next request can hold it.
    pub message: Message,
    /// The model that answered, where the provider says it.
    pub model: Option<String>,
    /// Input tokens, cached ones included, where the provider reports them.
    pub input: Option<u64>,
    /// Output tokens, where the provider reports them.
    pub output: Option<u64>,
}

impl Response {
    /// Reads a body; of several choices, the first.
    ///
    /// # Errors
    /// Where it is not JSON, or holds no message of a model, as the body of an error does not.
    pub fn decode(body: &str, dialect: Dialect) -> Result<Self, DecodeError> {
        let raw: &RawValue = serde_json::from_str(body).map_err(|error| DecodeError::Syntax(error.to_string()))?;
        let fields = Fields::read(raw).ok_or(DecodeError::NotAnObject)?;
        let response = (dialect.format().response)(&fields)?;
        match response.message.role() {
            Role::Assistant => Ok(response),
            Role::System | Role::User => Err(DecodeError::member("role", "`assistant`")),
        }
    }

    /// The model's words, without reasoning and calls.
    pub fn said(&self) -> String {
        let words = self.message.parts().filter_map(|part| match part {
            PartRef::Text(text) => Some(text),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

/// The sum of these members of a usage report; `None` where the first is not there.
pub(super) fn tokens(usage: &Fields<'_>, members: &[&str]) -> Option<u64> {
    let number = |name: &&str| usage.get(name).and_then(|value| serde_json::from_str::<u64>(value.get()).ok());
    let (first, others) = members.split_first()?;
    Some(others.iter().filter_map(number).fold(number(first)?, u64::saturating_add))
}
