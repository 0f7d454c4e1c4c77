//! Presets: ready-made policies by name, with settings as text.
//!
//! Such a text is an argument of the command line, a setting of the gateway, or the value of `preset` in a policy's file.
//! The presets are described in `presets.toml`.
//!
//! ```
//! use lookback_engine::policy::{Limits, Policy};
//! use lookback_presets::named;
//!
//! let policy = named("tokens:max_tokens=32000,target_tokens=16000")?;
//! let (limits, target) = (Limits::tokens(32_000), Some(Limits::tokens(16_000)));
//! assert_eq!(policy, Policy { limits, target, ..Policy::unlimited() });
//! # Ok::<(), lookback_presets::PolicyError>(())
//! ```
//!
//! A policy that is made in Rust may make no sense: [`Policy::faults`] finds values such as a limit of 0. The functions
//! that read text return an error instead.

mod cost;
mod error;
mod options;
mod settings;
#[cfg(test)]
mod tests;
mod text;

use std::sync::LazyLock;

use lookback_engine::policy::Policy;
use serde::Deserialize;

pub use self::error::{PolicyError, ValueFault};
pub use self::text::{named, named_with, parse, to_toml, with};

/// A preset's name, and what it is for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Preset {
    /// The name that [`named`] knows it by.
    pub name: String,
    /// What it keeps, and its options with their defaults.
    pub purpose: String,
    /// Its policy, if the options are not set.
    #[serde(default)]
    policy: Option<Policy>,
}

/// The presets, in the order in which they are shown.
///
/// ```
/// let presets = lookback_presets::presets();
/// assert_eq!(presets[0].name, "default");
/// ```
pub fn presets() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        #[derive(Deserialize)]
        struct File {
            preset: Vec<Preset>,
        }
        // A test reads all of it.
        toml::from_str::<File>(include_str!("../presets.toml")).map(|file| file.preset).unwrap_or_default()
    });
    &PRESETS
}

impl Preset {
    fn policy(&self) -> Policy {
        match (&self.policy, self.name.as_str()) {
            (Some(policy), _) => policy.clone(),
            (None, "default") => Policy::production(),
            (None, _) => Policy::never_compact(),
        }
    }
}
