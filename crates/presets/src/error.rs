//! The errors of reading a policy from text.

use lookback_engine::policy::PolicyFault;

use super::presets;

/// The errors of reading a policy from text.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PolicyError(#[from] Kind);

impl PolicyError {
    /// Creates the error of an option that cannot have this value.
    #[doc(hidden)]
    pub fn refused(option: &'static str, demand: &'static str, value: impl Into<String>) -> Self {
        Kind::Refused { option, demand, value: value.into() }.into()
    }
}

/// The reason of a [`PolicyError`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    /// No preset has this name.
    #[error("there is no policy `{name}`; use a preset ({}), or a file whose name ends in .toml or .json", names())]
    Unknown { name: String },
    /// A setting has no value.
    #[error("`{setting}` is not a setting: write KEY=VALUE")]
    Setting { setting: String },
    /// No policy has this key, or the key cannot have this value.
    #[error("{key}={value}: {fault}")]
    Value { key: String, value: String, fault: ValueFault },
    /// The preset does not have this option.
    #[error(
        "{preset} has no option `{option}`; it has {}, and takes any path of a policy, such as keep.first=2",
        known.join(", ")
    )]
    NoOption { preset: &'static str, option: String, known: Vec<&'static str> },
    /// The option cannot have this value.
    #[error("{option} must be {demand}, got {value}")]
    Refused { option: &'static str, demand: &'static str, value: String },
    /// The preset needs an option that was not given.
    #[error("{preset} needs {option}, as in `{preset}:{option}=20`")]
    Missing { preset: &'static str, option: &'static str },
    /// The text is not a policy in TOML.
    #[error("not a policy: {}", .0.to_string().trim_end())]
    Toml(Box<toml::de::Error>),
    /// The text is not a policy in JSON; or it names a preset, in TOML or JSON, and its other keys do not fit a policy.
    #[error("not a policy: {0}")]
    Json(serde_json::Error),
    /// The policy cannot be written as TOML.
    #[error("cannot write the policy as TOML: {0}")]
    Write(toml::ser::Error),
    /// A value of the policy is not allowed.
    #[error(transparent)]
    Fault(PolicyFault),
}

/// The fault of a policy's key or of its value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueFault {
    /// A step of the key's path is not the index of an element in a list.
    #[error("the list has {count} elements; there is no element `{step}`")]
    NoElement { step: String, count: usize },
    /// The key's path continues below a value without members.
    #[error("`{step}` has no parent: the value before it is not an object or a list")]
    NoParent {
        /// The first step below that value.
        step: String,
    },
    /// No policy has this key, or the value has the wrong type or is out of range.
    #[error(transparent)]
    Invalid(serde_json::Error),
}

fn names() -> String {
    presets().iter().map(|preset| preset.name.as_str()).collect::<Vec<_>>().join(", ")
}
