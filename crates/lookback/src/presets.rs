//! Policies by name, with settings: `messages:max_messages=40,target_messages=20`.

use lookback_core::cut::Truncation;
use lookback_core::policy::{Keep, Limits, Policy, PolicyFault, Stage, Start, Tokens};
use serde_json::Value;

/// The presets, each with what it is for.
pub const PRESETS: [(&str, &str); 6] = [
    ("default", "what we would run in production: large outputs capped as they arrive, then cuts in large batches"),
    ("none", "everything is sent, whatever the model's window"),
    ("messages", "the newest messages (max_messages=40)"),
    ("turns", "the newest turns (max_turns=50)"),
    ("rounds", "the newest rounds (max_rounds=10)"),
    ("tokens", "the newest that fit a number of tokens (max_tokens=8000)"),
];

/// Why a policy could not be made of a text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// There is no preset of this name.
    #[error("there is no policy `{name}`; the presets are {}, and a file's name ends in .toml or .json", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// A setting without a value.
    #[error("`{setting}` is not a setting: write KEY=VALUE")]
    Setting {
        /// The setting.
        setting: String,
    },
    /// A key that policies do not have, or a value that it cannot take.
    #[error("{key}={value}: {reason}")]
    Value {
        /// The key, as it was given.
        key: String,
        /// The value.
        value: String,
        /// What is wrong.
        reason: String,
    },
    /// A file that is not a policy.
    #[error("not a policy: {0}")]
    Format(String),
    /// A policy that makes no sense.
    #[error(transparent)]
    Fault(#[from] PolicyFault),
}

fn names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

/// The default policy, which is the one to run in production. `docs/default-policy.md` has the reasons, with figures.
pub fn default_policy() -> Policy {
    Policy {
        limits: Limits {
            tokens: Some(Tokens::Count(64_000)),
            media: Some(80),
            bytes: Some(24_000_000),
            ..Limits::default()
        },
        target: Some(Limits {
            tokens: Some(Tokens::Count(32_000)),
            media: Some(40),
            bytes: Some(12_000_000),
            ..Limits::default()
        }),
        arrival: Some(Truncation { head: 24_000, tail: 8_000, ..Truncation::default() }),
        stages: vec![Stage::ClearMedia { keep: 4 }, Stage::Drop],
        start: Start::UserOrToolPair,
        keep: Keep::default(),
        ..Policy::default()
    }
}

/// A policy by a preset's name, with settings after a colon.
///
/// `max_messages` is short for `limits.messages`, and `target_messages` for `target.messages`; any path of the policy is a key.
///
/// ```
/// use lookback::presets::named;
///
/// let policy = named("tokens:max_tokens=32000,target_tokens=16000,keep.first=2")?;
/// assert_eq!(policy.keep.first, 2);
/// assert!(named("tokens:max_tokens=lots").is_err());
/// # Ok::<(), lookback::presets::PolicyError>(())
/// ```
///
/// # Errors
/// Where there is no such preset, or a setting that makes no sense.
pub fn named(text: &str) -> Result<Policy, PolicyError> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let limited = |limits| Policy { limits, ..Policy::default() };
    let policy = match name {
        "default" => default_policy(),
        // An empty hard limit, so that not even the model's window binds.
        "none" => Policy { hard: Some(Limits::default()), ..Policy::default() },
        "messages" => limited(Limits::messages(40)),
        "turns" => limited(Limits { turns: Some(50), ..Limits::default() }),
        "rounds" => limited(Limits { rounds: Some(10), ..Limits::default() }),
        "tokens" => limited(Limits::tokens(8_000)),
        _ => return Err(PolicyError::Unknown { name: name.to_owned() }),
    };
    with(policy, settings.split(',').filter(|setting| !setting.is_empty()))
}

/// A policy with settings added: each is `KEY=VALUE`, with a short key or a path of the policy.
///
/// # Errors
/// Where a setting makes no sense, or the policy that comes of them.
pub fn with<'a>(policy: Policy, settings: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    let mut policy = policy;
    for setting in settings {
        let (key, value) =
            setting.split_once('=').ok_or_else(|| PolicyError::Setting { setting: setting.to_owned() })?;
        policy = set(&policy, key.trim(), value.trim())?;
    }
    match policy.faults().into_iter().next() {
        Some(fault) => Err(fault.into()),
        None => Ok(policy),
    }
}

/// A policy from a file's text: JSON where it begins with a brace, else TOML.
///
/// # Errors
/// Where the text is neither, or not a policy.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    let policy: Policy = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| PolicyError::Format(error.to_string().trim_end().to_owned()))?
    } else {
        toml::from_str(text).map_err(|error| PolicyError::Format(error.to_string().trim_end().to_owned()))?
    };
    with(policy, [])
}

fn set(policy: &Policy, key: &str, value: &str) -> Result<Policy, PolicyError> {
    let fault = |reason: String| PolicyError::Value { key: key.to_owned(), value: value.to_owned(), reason };
    let path = match (key.strip_prefix("max_"), key.strip_prefix("target_")) {
        (Some(measure), _) => format!("limits.{measure}"),
        (None, Some(measure)) => format!("target.{measure}"),
        (None, None) => key.to_owned(),
    };
    let mut whole = serde_json::to_value(policy).map_err(|error| fault(error.to_string()))?;
    let mut place = &mut whole;
    for step in path.split('.') {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = match place {
            Value::Object(members) => members.entry(step).or_insert(Value::Null),
            Value::Array(elements) => {
                let count = elements.len();
                let index = step.parse::<usize>().ok();
                index
                    .and_then(|index| elements.get_mut(index))
                    .ok_or_else(|| fault(format!("`{step}` is none of {count} elements")))?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(fault(format!("there is nothing below `{step}`")));
            }
        };
    }
    *place = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    serde_json::from_value(whole).map_err(|error| fault(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_policy() {
        for (name, _) in PRESETS {
            assert!(named(name).unwrap().faults().is_empty(), "{name}");
        }
    }

    #[test]
    fn short_keys_and_paths_set_the_same() {
        let short = named("messages:max_messages=10,target_messages=5").unwrap();
        let long = named("messages:limits.messages=10,target.messages=5").unwrap();
        assert_eq!(short, long);
    }

    #[test]
    fn a_wrong_setting_says_what_is_wrong() {
        let message = |text| named(text).unwrap_err().to_string();
        assert_eq!(
            message("windows"),
            "there is no policy `windows`; the presets are default, none, messages, turns, rounds, tokens, and a file's name ends in .toml or .json"
        );
        assert_eq!(message("messages:max_messages"), "`max_messages` is not a setting: write KEY=VALUE");
        assert!(
            message("messages:max_message=3").starts_with("max_message=3: unknown field `message`"),
            "{}",
            message("messages:max_message=3")
        );
        assert!(
            message("messages:max_messages=-3").starts_with("max_messages=-3: invalid value"),
            "{}",
            message("messages:max_messages=-3")
        );
        assert_eq!(message("messages:target_messages=50"), "target: 50 messages is above the limit of 40");
        assert_eq!(message("tokens:max_tokens=0"), "limits: a limit of 0 tokens leaves nothing to send");
    }

    #[test]
    fn the_documented_policy_reads_and_is_the_default_with_one_stage_more() {
        let page = include_str!("../../../docs/policies.md");
        let text = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let mut policy = parse(text).unwrap();
        policy.stages.remove(1);
        assert_eq!(policy, Policy { start: policy.start, ..default_policy() });
        let page = include_str!("../../../docs/default-policy.md");
        let text = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(parse(text).unwrap(), default_policy());
    }

    #[test]
    fn a_file_may_be_toml_or_json() {
        let toml = parse(
            "[limits]\ntokens = 0.7\n[[stages]]\nkind = \"truncate_results\"\nhead = 200\ntail = 200\nkeep = 2\n",
        )
        .unwrap();
        let json =
            parse(r#"{"limits":{"tokens":0.7},"stages":[{"kind":"truncate_results","head":200,"tail":200,"keep":2}]}"#)
                .unwrap();
        assert_eq!(toml, json);
        assert!(parse("limit = 3").is_err());
    }
}
