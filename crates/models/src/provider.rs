//! The providers that Lookback distinguishes, because their rules or token counts differ.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A provider, or another service that answers requests. Several providers use the same dialect with different rules.
///
/// ```
/// use lookback_models::Provider;
///
/// assert_eq!("vertex-ai".parse(), Ok(Provider::Vertex));
/// assert_eq!(Provider::Vertex.name(), "vertex");
/// ```
// A service without rules or token counts of its own is `Other`, and needs no code. To add one that has some, add a
// variant. The compiler asks for its arms, but not for these:
//
// - here, `ALL` and the text of `UnknownProvider`;
// - in `crates/wire/src/dialect/target.rs`, the models and paths by which it is known (`maker`, `with_path`);
// - its models in `crates/models/data/models.toml`, and its prices in `crates/replay/data/prices.toml`;
// - the help in `crates/cli/src/args.rs`, and the type in `bindings/node/ts/functions.ts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// Google's Vertex AI.
    Vertex,
    /// Amazon Bedrock.
    Bedrock,
    /// DeepSeek.
    DeepSeek,
    /// Any other service.
    Other,
}

/// An error about an unknown provider name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider; known are openai, anthropic, gemini, vertex, bedrock, deepseek and other")]
#[non_exhaustive]
pub struct UnknownProvider;

impl Provider {
    /// Every provider, including [`Provider::Other`].
    pub const ALL: [Provider; 7] = [
        Provider::OpenAi,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Vertex,
        Provider::Bedrock,
        Provider::DeepSeek,
        Provider::Other,
    ];

    /// Returns the name of the provider, as the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Gemini => "gemini",
            Provider::Vertex => "vertex",
            Provider::Bedrock => "bedrock",
            Provider::DeepSeek => "deepseek",
            Provider::Other => "other",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    /// Reads a name in upper or lower case. Also accepts `vertex-ai` and `aws-bedrock`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let name = name.to_ascii_lowercase();
        let plain = name.strip_prefix("aws-").or(name.strip_suffix("-ai")).unwrap_or(&name);
        Provider::ALL.into_iter().find(|provider| [&name, plain].contains(&provider.name())).ok_or(UnknownProvider)
    }
}
