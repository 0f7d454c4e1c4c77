//! Policies from text: a preset by name with settings, or the text of a file.

use lookback_engine::policy::Policy;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::Kind;
use super::options::set_options;
use super::settings::{apply, pairs};
use super::{PolicyError, presets};

/// Returns the policy of a preset, given by name, with settings after a colon.
///
/// Any path of the policy is a key. `max_messages` is short for `limits.messages`, and `target_messages` for
/// `target.messages`. `max_cost_per_call` sets a limit in tokens from a limit in US dollars (see
/// [`Price::tokens_for`](lookback_replay::prices::Price::tokens_for)), at the built-in price that `prices` names, by
/// default the first one. Presets that are modeled on other systems also have the options of those systems.
///
/// ```
/// use lookback_presets::named;
///
/// let policy = named("tokens:max_tokens=32000,target_tokens=16000,keep.first=2")?;
/// assert_eq!(policy.keep.first, 2);
/// assert!(named("tokens:max_tokens=lots").is_err());
/// # Ok::<(), lookback_presets::PolicyError>(())
/// ```
///
/// # Errors
/// Returns an error if no preset has the name, or if a setting is invalid.
pub fn named(text: &str) -> Result<Policy, PolicyError> {
    named_with(text, [])
}

/// Returns the policy of a preset like [`named`], with more settings, which take precedence.
///
/// ```
/// use lookback_presets::named_with;
///
/// let policy = named_with("managed-window:window_size=20", ["per_turn=3", "keep.first=2"])?;
/// assert_eq!(policy.limits.messages, Some(20));
/// let error = named_with("managed-window", ["per_turn=0"]).unwrap_err().to_string();
/// assert_eq!(error, "per_turn must be a positive integer, true or false, got 0");
/// # Ok::<(), lookback_presets::PolicyError>(())
/// ```
///
/// # Errors
/// Returns an error if no preset has the name, or if a setting is invalid.
pub fn named_with<'a>(text: &'a str, more: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let settings = pairs(settings.split(',').filter(|setting| !setting.is_empty()).chain(more))?;
    let known = presets().iter().find(|preset| preset.name == name);
    let preset = known.ok_or_else(|| Kind::Unknown { name: name.to_owned() })?;
    let mut policy = preset.policy();
    let others = set_options(&preset.name, &mut policy, settings)?;
    apply(policy, &others)
}

/// Changes settings of a policy. Each is `KEY=VALUE`, with the same keys as in [`named`], except for options of
/// presets.
///
/// # Errors
/// Returns an error if a setting or the resulting policy is invalid.
pub fn with<'a>(policy: Policy, settings: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    apply(policy, &pairs(settings)?)
}

/// Reads a policy from the text of a file: JSON if it begins with a brace, TOML otherwise. If the file names a
/// `preset`, the other keys change that preset.
///
/// ```
/// use lookback_presets::{named, parse};
///
/// let policy = parse("preset = 'two-tier:sliding_window_size=20'\n[keep]\nfirst = 3\n")?;
/// assert_eq!(policy, named("two-tier:sliding_window_size=20,keep.first=3")?);
/// # Ok::<(), lookback_presets::PolicyError>(())
/// ```
///
/// # Errors
/// Returns an error if the text is neither JSON nor TOML, or is not a policy.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    let mut whole: Value = read(text)?;
    let preset = whole.as_object_mut().and_then(|members| members.remove("preset"));
    let policy = match preset.as_ref().and_then(Value::as_str) {
        Some(preset) => {
            let base = serde_json::to_value(named(preset)?).map_err(Kind::Json)?;
            serde_json::from_value(merged(base, whole)).map_err(Kind::Json)?
        }
        None => read(text)?,
    };
    with(policy, [])
}

/// Returns a policy as TOML, which [`parse`] reads. It writes all values, so the text stays valid if presets change in
/// a later version.
///
/// ```
/// use lookback_presets::{named, parse, to_toml};
///
/// let policy = named("default:max_tokens=48000,target_tokens=24000")?;
/// assert_eq!(parse(&to_toml(&policy)?)?, policy);
/// # Ok::<(), lookback_presets::PolicyError>(())
/// ```
///
/// # Errors
/// Returns an error if TOML cannot express a value of the policy. A policy that was read from text has no such value.
pub fn to_toml(policy: &Policy) -> Result<String, PolicyError> {
    Ok(toml::to_string(policy).map_err(Kind::Write)?)
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, PolicyError> {
    if text.trim_start().starts_with('{') {
        Ok(serde_json::from_str(text).map_err(Kind::Json)?)
    } else {
        Ok(toml::from_str(text).map_err(|error| Kind::Toml(Box::new(error)))?)
    }
}

/// Returns `base` with the members of `over` replacing its own.
fn merged(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) => {
            for (key, value) in over {
                let below = base.remove(&key).unwrap_or_default();
                base.insert(key, merged(below, value));
            }
            Value::Object(base)
        }
        (_, over) => over,
    }
}
