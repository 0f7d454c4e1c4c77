//! Options of calls: the model, its dialect, the policy, and how a session is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookback_engine::{Settings, policy::Policy};
use lookback_presets as library;
use lookback_tokens::TokenCounter;
use lookback_wire::dialect::Dialect;
use serde_json::json;

use crate::{Callbacks, Failure};

/// The options for opening a session.
#[derive(Debug, Default)]
pub struct Opening {
    /// The store: a path or a URL. `None` keeps sessions in the memory of the process.
    pub store: Option<PathBuf>,
    /// The model and its dialect.
    pub model: Model,
    /// The policy, or `None` for the default.
    pub policy: Option<Policy>,
    /// The functions that the session calls.
    pub callbacks: Callbacks,
}

/// A model and its dialect.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Its name.
    pub name: Option<String>,
    /// The name of the dialect. `None` means that of the model's provider, or OpenAI's Chat Completions.
    pub dialect: Option<String>,
    /// The name of the provider, whose rules apply.
    pub provider: Option<String>,
    /// The path of the URL that a request is sent to.
    pub path: Option<String>,
}

impl Model {
    /// Returns the dialect.
    ///
    /// # Errors
    /// Returns an error if there is no dialect of this name.
    pub fn dialect(&self) -> Result<Dialect, Failure> {
        if let Some(name) = &self.dialect {
            return dialect(name);
        }
        let is = |family: &str| self.name.as_ref().is_some_and(|model| model.starts_with(family));
        Ok(if is("claude") {
            Dialect::Anthropic
        } else if is("gemini") {
            Dialect::Gemini
        } else {
            Dialect::OpenAiChat
        })
    }
}

/// Returns the dialect with this name.
///
/// # Errors
/// Returns an error if there is none.
pub fn dialect(name: &str) -> Result<Dialect, Failure> {
    name.parse().map_err(|_| {
        let names: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
        Failure::decode("dialect", format_args!("there is no format `{name}`; there are {}", names.join(", ")))
    })
}

/// Reads a policy: a preset with settings such as `turns:max_turns=8`, the path of a file, or the text of a file.
///
/// # Errors
/// Returns an error if the file cannot be read, or if the policy is invalid.
pub fn policy(text: &str) -> Result<Policy, Failure> {
    let is_file = Path::new(text).extension().is_some_and(|extension| extension == "toml" || extension == "json");
    if text.trim_start().starts_with('{') || text.contains('\n') {
        return Ok(library::parse(text)?);
    }
    if is_file {
        let unread = |error| Failure::decode("policy", format_args!("cannot read {text}: {error}"));
        return Ok(library::parse(&std::fs::read_to_string(text).map_err(unread)?)?);
    }
    Ok(library::named(text)?)
}

/// Returns a policy as JSON, including all defaults.
pub fn policy_document(policy: &Policy) -> String {
    json!(policy).to_string()
}

/// Returns a policy as TOML.
///
/// # Errors
/// Returns an error if TOML cannot express a value.
pub fn policy_toml(policy: &Policy) -> Result<String, Failure> {
    Ok(library::to_toml(policy)?)
}

/// Returns the name and purpose of each preset as JSON.
pub fn presets() -> String {
    let preset = |preset: &library::Preset| json!({ "name": preset.name, "purpose": preset.purpose });
    json!(library::presets().iter().map(preset).collect::<Vec<_>>()).to_string()
}

/// The model whose tokens are counted if no model is named. Its vocabulary is that of most OpenAI models, and
/// approximates others.
const USUAL: &str = "gpt-4o";

/// Returns the settings for a model.
pub(crate) fn settings(dialect: Dialect, model: Option<&str>, policy: Policy) -> Settings {
    let settings = match model {
        Some(model) => Settings::for_model(dialect, model),
        None => Settings::default().dialect(dialect).counter(counter(None)),
    };
    settings.policy(policy)
}

/// Returns the token counter of a model.
pub(crate) fn counter(model: Option<&str>) -> Arc<dyn TokenCounter> {
    Settings::for_model(Dialect::default(), model.unwrap_or(USUAL)).counter
}
