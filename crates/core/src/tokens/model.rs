//! What is known of each model: its window, its tokenizer, its formula for pictures. Data, in `data/models.toml`.

use std::sync::Arc;

use serde::Deserialize;

use super::{Estimate, ImageFormula, TokenCounter};
#[cfg(any(feature = "o200k", feature = "cl100k"))]
use super::{OpenAi, Vocabulary};

/// A family of models, as `models.toml` describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Model {
    /// Names that it covers; `*` stands for any text.
    pub names: Vec<String>,
    /// Tokens that a request and its answer may hold together.
    pub window: u64,
    /// How its tokens are counted.
    pub tokenizer: Tokenizer,
    /// By what that count is multiplied; anything but 1 makes it an estimate.
    #[serde(default = "one")]
    pub factor: f64,
    /// How pictures are priced.
    #[serde(default)]
    pub image: ImageFormula,
}

fn one() -> f64 {
    1.0
}

/// How the tokens of a model are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tokenizer {
    /// OpenAI's vocabulary since gpt-4o.
    O200k,
    /// OpenAI's vocabulary of gpt-4 and gpt-3.5.
    Cl100k,
    /// From the characters alone.
    Estimate,
}

#[cfg(any(feature = "o200k", feature = "cl100k"))]
impl Tokenizer {
    /// Returns the vocabulary, or `None` if there is none or its feature is off.
    pub fn vocabulary(self) -> Option<Vocabulary> {
        match self {
            #[cfg(feature = "o200k")]
            Tokenizer::O200k => Some(Vocabulary::O200k),
            #[cfg(feature = "cl100k")]
            Tokenizer::Cl100k => Some(Vocabulary::Cl100k),
            #[cfg(not(feature = "o200k"))]
            Tokenizer::O200k => None,
            #[cfg(not(feature = "cl100k"))]
            Tokenizer::Cl100k => None,
            Tokenizer::Estimate => None,
        }
    }
}

/// The models that are known, the first that matches a name first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    #[serde(rename = "model")]
    models: Vec<Model>,
}

/// A table of models that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the table of models cannot be read: {0}")]
pub struct ModelsError(#[from] toml::de::Error);

impl Models {
    /// The table that comes with Lookback.
    pub fn builtin() -> Self {
        // A test reads it, so it parses; were it not to, no model would be known and every count an estimate.
        Models::from_toml(include_str!("../../data/models.toml")).unwrap_or(Models { models: Vec::new() })
    }

    /// A table of one's own, in the format of `data/models.toml`.
    ///
    /// # Errors
    /// Where the text is not TOML, or not of this format.
    pub fn from_toml(text: &str) -> Result<Self, ModelsError> {
        Ok(toml::from_str(text)?)
    }

    /// What is known of a model; `None` where nothing is.
    ///
    /// ```
    /// use lookback_core::tokens::Models;
    ///
    /// let models = Models::builtin();
    /// assert_eq!(models.find("gpt-4o-2024-08-06").unwrap().window, 128_000);
    /// assert!(models.find("my-own-model").is_none());
    /// ```
    pub fn find(&self, name: &str) -> Option<&Model> {
        let name = name.to_ascii_lowercase();
        self.models.iter().find(|model| model.names.iter().any(|pattern| glob(pattern, &name)))
    }
}

impl Model {
    /// Returns a counter of its tokens.
    ///
    /// It is an [`Estimate`] if the model's vocabulary is not compiled in (features `o200k` and `cl100k`).
    pub fn counter(&self) -> Arc<dyn TokenCounter> {
        #[cfg(any(feature = "o200k", feature = "cl100k"))]
        if let Some(vocabulary) = self.tokenizer.vocabulary() {
            return Arc::new(OpenAi::new(vocabulary).times(self.factor).with_image(self.image));
        }
        Arc::new(Estimate { factor: self.factor, image: self.image })
    }
}

/// Whether a name fits a pattern in which `*` stands for any text.
///
/// ```
/// use lookback_core::tokens::glob;
///
/// assert!(glob("*claude-*-4-6*", "us.anthropic.claude-opus-4-6-v1:0"));
/// assert!(!glob("gpt-4", "gpt-4o"));
/// ```
pub fn glob(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = rest.get(at + piece.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_table_reads_and_knows_the_usual_names() {
        let models = Models::from_toml(include_str!("../../data/models.toml")).unwrap();
        for name in ["gpt-5.1", "o3-mini", "gpt-4", "claude-opus-4-6", "anthropic.claude-sonnet-4-5-20250929-v1:0"] {
            assert!(models.find(name).is_some(), "{name}");
        }
        assert_eq!(models.find("gpt-4-0613").unwrap().tokenizer, Tokenizer::Cl100k);
        assert_eq!(models.find("GPT-4o").unwrap().tokenizer, Tokenizer::O200k);
    }
}
