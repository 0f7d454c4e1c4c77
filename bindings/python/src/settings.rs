//! What is asked for: the model, the format of its messages, and the policy, as Python says them.

use std::path::Path;

use lookback::tokens::Models;
use lookback::{Dialect, Policy, Settings, presets};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::{errors, input};

/// Returns the format with this name. Without one, it is that of the model's own provider, or OpenAI's.
pub(crate) fn dialect(py: Python<'_>, name: Option<&str>, model: Option<&str>) -> PyResult<Dialect> {
    let Some(name) = name else {
        let is = |family: &str| model.is_some_and(|model| model.starts_with(family));
        return Ok(if is("claude") {
            Dialect::Anthropic
        } else if is("gemini") {
            Dialect::Gemini
        } else {
            Dialect::OpenAiChat
        });
    };
    name.parse().map_err(|_| {
        let names: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
        errors::decode(py, &"dialect", &format!("there is no format `{name}`; there are {}", names.join(", ")))
    })
}

/// Returns a policy: a preset with settings such as `turns:max_turns=8`, a file, or a dictionary with the members of one.
pub(crate) fn policy(value: Option<&Bound<'_, PyAny>>) -> PyResult<Policy> {
    let Some(value) = value else { return Ok(Policy::production()) };
    let py = value.py();
    let Ok(name) = value.cast::<PyString>() else {
        return presets::parse(&input::object(value, "policy")?).map_err(|error| errors::policy(py, &error));
    };
    let name = name.to_str()?;
    let is_file = Path::new(name).extension().is_some_and(|extension| extension == "toml" || extension == "json");
    let read = if is_file { presets::parse(&std::fs::read_to_string(name)?) } else { presets::named(name) };
    read.map_err(|error| errors::policy(py, &error))
}

/// Returns the settings for a model.
pub(crate) fn settings(dialect: Dialect, model: Option<&str>, policy: Policy) -> Settings {
    let settings = match model {
        Some(model) => Settings::for_model(dialect, model),
        // The tokens of most models of OpenAI, and about those of others.
        None => {
            let mut settings = Settings::default().dialect(dialect);
            if let Some(model) = Models::builtin().find("gpt-4o") {
                settings.counter = model.counter();
            }
            settings
        }
    };
    settings.policy(policy)
}
