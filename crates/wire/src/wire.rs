//! Dialects, roles, and the bytes in which a message arrived.

use lookback_content::Redacted;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A provider's format for messages and requests.
///
/// ```
/// use lookback_wire::dialect::Dialect;
///
/// let message = Dialect::OpenAiChat.decode(r#"{"role":"user","content":"Hi","name":"ann"}"#)?;
/// assert_eq!(message.text(), "Hi");
/// assert_eq!(message.wire().unwrap().raw.get(), r#"{"role":"user","content":"Hi","name":"ann"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI Chat Completions, which many other servers also accept.
    #[default]
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Anthropic Messages.
    Anthropic,
    /// Bedrock Converse.
    Bedrock,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Gemini generateContent.
    Gemini,
}

/// The bytes in which a message arrived, and their format.
#[derive(derive_more::Debug, Clone, Serialize, Deserialize)]
pub struct Wire {
    /// The format.
    pub dialect: Dialect,
    /// The JSON of the message, byte for byte.
    #[debug("{:?}", Redacted(raw))]
    pub raw: Box<RawValue>,
}

impl Wire {
    /// Returns the elements of a request's list that form the message.
    ///
    /// This is one element. Only in OpenAI's Responses, an assistant message may have several items.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    ///
    /// let said = r#"[{"type":"reasoning","summary":[],"encrypted_content":"x"},
    ///     {"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}]"#;
    /// let message = Dialect::OpenAiResponses.decode(said)?;
    /// assert_eq!(message.wire().unwrap().elements().len(), 2);
    /// # Ok::<(), lookback_wire::dialect::DecodeError>(())
    /// ```
    pub fn elements(&self) -> Vec<&RawValue> {
        let several = self.raw.get().starts_with('[').then(|| serde_json::from_str(self.raw.get()).ok()).flatten();
        several.unwrap_or_else(|| vec![&*self.raw])
    }
}

/// The role of a message. Tool results belong to the user, as in the block formats of Anthropic and Bedrock.
///
/// All other roles of a dialect are mapped to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions from the application (`system`, and OpenAI's `developer`).
    System,
    /// A person's words, or tool results.
    User,
    /// The model.
    Assistant,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 5] =
        [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Bedrock, Dialect::OpenAiResponses, Dialect::Gemini];

    /// Returns the name of the dialect, as the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai-chat",
            Dialect::Anthropic => "anthropic",
            Dialect::Bedrock => "bedrock",
            Dialect::OpenAiResponses => "openai-responses",
            Dialect::Gemini => "gemini",
        }
    }
}

impl Dialect {
    /// Returns whether clients divide a text into several parts. Gemini's clients keep each piece of a stream as a
    /// part.
    pub(crate) fn divides_texts(self) -> bool {
        match self {
            Dialect::Gemini => true,
            Dialect::OpenAiChat | Dialect::Anthropic | Dialect::Bedrock | Dialect::OpenAiResponses => false,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
