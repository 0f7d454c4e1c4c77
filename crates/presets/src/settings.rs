//! Settings of the form `KEY=VALUE`: a key is a path in a policy, its short form, or a setting for costs.

use lookback_engine::policy::Policy;
use lookback_wire::size::Measure;
use serde_json::Value;

use super::error::{Kind, ValueFault};
use super::{PolicyError, cost};

/// Splits settings into keys and values.
pub(super) fn pairs<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Vec<(&'a str, &'a str)>, PolicyError> {
    let pair = |setting: &'a str| {
        let fault = || Kind::Setting { setting: setting.to_owned() }.into();
        setting.split_once('=').map(|(key, value)| (key.trim(), value.trim())).ok_or_else(fault)
    };
    settings.into_iter().map(pair).collect()
}

/// Changes settings of a policy. Returns an error if the resulting policy has a fault.
pub(super) fn apply(mut policy: Policy, settings: &[(&str, &str)]) -> Result<Policy, PolicyError> {
    for (key, value) in settings.iter().filter(|(key, _)| !cost::is_setting(key)) {
        policy = set(&policy, key, value)?;
    }
    let policy = cost::apply(policy, settings)?;
    match policy.faults().into_iter().next() {
        Some(fault) => Err(Kind::Fault(fault).into()),
        None => Ok(policy),
    }
}

/// Returns whether a key is valid for any policy: a path, its short form, or a setting for costs.
pub(super) fn is_key(key: &str) -> bool {
    if cost::is_setting(key) {
        return true;
    }
    let measure = key.strip_prefix("max_").or(key.strip_prefix("target_"));
    match measure {
        // `Measure` displays these two with other words.
        Some("media" | "body") => true,
        Some(measure) => Measure::ALL.iter().any(|known| known.to_string() == measure),
        None => key.split('.').next().is_some_and(is_member),
    }
}

/// Returns whether a policy has a member with this name.
fn is_member(name: &str) -> bool {
    let read = serde_json::from_value::<Policy>(serde_json::json!({ name: null }));
    read.map_or_else(|error| !error.to_string().starts_with("unknown field"), |_| true)
}

/// Returns the policy with this value at the key.
fn set(policy: &Policy, key: &str, value: &str) -> Result<Policy, PolicyError> {
    let fault = |fault| Kind::Value { key: key.to_owned(), value: value.to_owned(), fault };
    let invalid = |error| fault(ValueFault::Invalid(error));
    let path = match (key.strip_prefix("max_"), key.strip_prefix("target_")) {
        (Some(measure), _) => format!("limits.{measure}"),
        (None, Some(measure)) => format!("target.{measure}"),
        (None, None) => key.to_owned(),
    };
    let mut whole = serde_json::to_value(policy).map_err(invalid)?;
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
                    .ok_or_else(|| fault(ValueFault::NoElement { step: step.to_owned(), count }))?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(fault(ValueFault::NoParent { step: step.to_owned() }).into());
            }
        };
    }
    *place = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok(serde_json::from_value(whole).map_err(invalid)?)
}
