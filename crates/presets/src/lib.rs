//! Presets: ready-made policies by name, with settings as text.
//!
//! Such texts are used as arguments of the command line, as settings of the gateway, and as the value of `preset` in a
//! policy's file. `presets.toml` defines the presets.
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
//! A policy that is built in Rust may have invalid values, such as a limit of 0, which [`Policy::faults`] finds. The
//! functions that read text return an error instead.

mod cost;
mod error;
mod options;
mod settings;
#[cfg(test)]
mod tests;
mod text;

use std::sync::LazyLock;

use lookback_engine::policy::{Caps, Cold, Index, Limits, Policy};
use serde::Deserialize;

pub use self::error::PolicyError;
pub use self::text::{named, named_with, parse, to_toml, with};

/// A preset, with its name and its purpose.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Preset {
    /// The name, for [`named`].
    pub name: String,
    /// A description of what it keeps, with its options and their defaults.
    pub purpose: String,
    /// Its policy with default options.
    #[serde(default)]
    policy: Option<Policy>,
}

/// Returns the presets, in the order in which they are shown.
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
        // A test checks that the file can be read.
        toml::from_str::<File>(include_str!("../presets.toml")).map(|file| file.preset).unwrap_or_default()
    });
    &PRESETS
}

/// Returns the default policy with smaller limits and caps.
fn frugal() -> Policy {
    let policy = Policy::production();
    let body = |limits: Limits, tokens| Limits { body: Some(tokens), ..limits };
    Policy {
        limits: body(policy.limits, 32_000),
        target: policy.target.map(|target| body(target, 10_000)),
        cold: policy.cold.map(|cold| Cold { limits: Limits::body(14_000), target: Limits::body(10_000), ..cold }),
        caps: policy.caps.map(|caps| Caps { file: 4_000, other: 800, ..caps }),
        index: Some(Index { budget: 3_500 }),
        ..policy
    }
}

impl Preset {
    fn policy(&self) -> Policy {
        match (&self.policy, self.name.as_str()) {
            (Some(policy), _) => policy.clone(),
            (None, "default") => Policy::production(),
            (None, "frugal") => frugal(),
            (None, _) => Policy::never_compact(),
        }
    }
}
