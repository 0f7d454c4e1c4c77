//! Whose format a message is in, and the bytes that it came in.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

/// The bytes in which a message came, and whose format they are.
#[derive(Clone, Serialize, Deserialize)]
pub struct Wire {
    /// The format.
    pub dialect: Dialect,
    /// The JSON, byte for byte.
    pub raw: Box<RawValue>,
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
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
