//! The table of models from `data/models.toml`: their context windows, and how their tokens are counted.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::frame::Frame;
use crate::media::MediaFormula;
use crate::provider::Provider;

/// A family of models, as described in `models.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Model {
    /// Patterns of the models' names. `*` matches any text.
    pub(crate) names: Vec<String>,
    /// The provider, if the entry is only for one provider that counts differently.
    #[serde(default)]
    pub(crate) provider: Option<Provider>,
    /// The context window: the most tokens of a request and its answer together.
    pub window: u64,
    /// The most tokens that an answer may have, if that is known.
    #[serde(default)]
    pub max_output: Option<u64>,
    /// How its tokens are counted.
    pub tokenizer: Tokenizer,
    /// The factor by which the count of a text is multiplied. With any factor but 1, the count is an estimate.
    #[serde(default = "one")]
    pub factor: f64,
    /// The tokens that the provider adds around texts.
    #[serde(default)]
    pub frame: Frame,
    /// The formulas for pictures, files, sound and video.
    #[serde(default)]
    pub media: MediaFormula,
    /// A larger context window that a request can ask for, if there is one.
    #[doc(hidden)]
    #[serde(default)]
    pub wide: Option<WideWindow>,
}

/// A context window that a request has to ask for.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WideWindow {
    /// The beginning of the name that a request gives in its header of beta features.
    pub beta: String,
    /// The most tokens of a request and its answer together.
    pub window: u64,
}

fn one() -> f64 {
    1.0
}

/// How the tokens of a model are counted.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// OpenAI's vocabulary of gpt-4o and later.
    O200k,
    /// OpenAI's vocabulary of gpt-4 and gpt-3.5.
    Cl100k,
    /// An estimate from the characters.
    Estimate,
}

/// A table of models. If several entries match a name, the first one applies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    #[serde(rename = "model")]
    models: Vec<Model>,
}

/// An error from reading a table of models.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("cannot read the table of models: {0}")]
pub struct ModelsError(toml::de::Error);

impl Models {
    /// Returns the table that comes with Lookback.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Models> = LazyLock::new(|| {
            // A test makes sure that the table parses. If it did not, every model would be unknown, and every count an
            // estimate.
            Models::from_toml(include_str!("../data/models.toml")).unwrap_or(Models { models: Vec::new() })
        });
        &BUILTIN
    }

    /// Reads a table in the format of `data/models.toml`.
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, or not in this format.
    pub(crate) fn from_toml(text: &str) -> Result<Self, ModelsError> {
        toml::from_str(text).map_err(ModelsError)
    }

    /// Finds a model by its name, in upper or lower case. Returns `None` if the model is unknown.
    ///
    /// ```
    /// use lookback_models::Models;
    ///
    /// let models = Models::builtin();
    /// assert_eq!(models.find("gpt-4o-2024-08-06").unwrap().window, 128_000);
    /// assert!(models.find("my-own-model").is_none());
    /// ```
    pub fn find(&self, name: &str) -> Option<&Model> {
        self.find_at(name, None)
    }

    /// Finds a model by its name. Entries for other providers are skipped.
    ///
    /// ```
    /// use lookback_models::{Models, Provider};
    ///
    /// // Vertex AI does not show the model what it signed.
    /// let at = |provider| Models::builtin().find_at("gemini-3-flash", provider).unwrap().frame.reasoning;
    /// assert_ne!(at(Some(Provider::Vertex)), at(Some(Provider::Gemini)));
    /// ```
    pub fn find_at(&self, name: &str, provider: Option<Provider>) -> Option<&Model> {
        let name = name.to_ascii_lowercase();
        let fits = |model: &&Model| {
            model.provider.is_none_or(|own| provider == Some(own))
                && model.names.iter().any(|pattern| matches_glob(pattern, &name))
        };
        self.models.iter().find(fits)
    }
}

impl Model {
    /// Returns the context window for a request with this header of beta features, a list of names separated by commas.
    ///
    /// ```
    /// use lookback_models::Models;
    ///
    /// let model = Models::builtin().find("claude-sonnet-4-5").unwrap();
    /// assert_eq!(model.window_with("files-api-2025-04-14,context-1m-2025-08-07"), 1_000_000);
    /// assert_eq!(model.window_with(""), 200_000);
    /// ```
    pub fn window_with(&self, betas: &str) -> u64 {
        let asks = |wide: &&WideWindow| betas.split(',').any(|beta| beta.trim().starts_with(&wide.beta));
        self.wide.as_ref().filter(asks).map_or(self.window, |wide| wide.window)
    }
}

/// Returns whether a name matches a pattern, in which `*` matches any text.
///
/// ```
/// use lookback_models::matches_glob;
///
/// assert!(matches_glob("*claude-*-4-6*", "us.anthropic.claude-opus-4-6-v1:0"));
/// assert!(!matches_glob("gpt-4", "gpt-4o"));
/// ```
#[doc(hidden)]
pub fn matches_glob(pattern: &str, name: &str) -> bool {
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
        let models = Models::from_toml(include_str!("../data/models.toml")).unwrap();
        for name in ["gpt-5.1", "o3-mini", "gpt-4", "claude-opus-4-6", "anthropic.claude-sonnet-4-5-20250929-v1:0"] {
            assert!(models.find(name).is_some(), "{name}");
        }
        assert_eq!(models.find("gpt-4-0613").unwrap().tokenizer, Tokenizer::Cl100k);
        assert_eq!(models.find("GPT-4o").unwrap().tokenizer, Tokenizer::O200k);
        let sizes = |name| models.find(name).map(|model| (model.window, model.max_output)).unwrap();
        assert_eq!(sizes("us.anthropic.claude-opus-4-6-v1:0"), (1_000_000, Some(128_000)));
        assert_eq!(sizes("claude-sonnet-4-5-20250929"), (200_000, Some(64_000)));
    }
}
