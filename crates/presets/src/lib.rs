//! Presets: ready-made policies, as typed values or by name with settings.
//!
//! In Rust, a function returns a preset, methods change its options, and `into` makes it a [`Policy`]. In text, such as
//! an argument of the command line, the same preset is `tokens:max_tokens=32000,target_tokens=16000` (see [`named`]).
//!
//! ```
//! use lookback_engine::Policy;
//! use lookback_presets as presets;
//!
//! let policy: Policy = presets::tokens(32_000).target(16_000).into();
//! assert_eq!(policy, presets::named("tokens:max_tokens=32000,target_tokens=16000")?);
//! # Ok::<(), presets::PolicyError>(())
//! ```
//!
//! Any value of an option makes a policy. [`Policy::faults`] finds values that make no sense, such as a limit of 0; the
//! functions that read text return an error instead.

mod cost;
mod error;
mod newest;
mod options;
mod settings;
mod systems;
#[cfg(test)]
mod tests;
mod text;

use lookback_engine::policy::Policy;

pub use self::error::{PolicyError, ValueFault};
pub use self::newest::{Newest, messages, rounds, tokens, turns};
pub use self::systems::rolling_batch;
pub use self::systems::{
    ManagedWindow, MessageWindow, RollingSummary, TurnWindow, TwoTier, managed_window, message_window, rolling_summary,
    turn_window, two_tier,
};
pub use self::text::{named, named_with, parse, to_toml, with};

/// A preset's name, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preset {
    /// The name that [`named`] knows it by.
    pub name: &'static str,
    /// What it keeps, and its options with their defaults.
    pub purpose: &'static str,
}

const fn preset(name: &'static str, purpose: &'static str) -> Preset {
    Preset { name, purpose }
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    preset("default", "for production: truncates large tool results as they arrive, then drops in large batches"),
    preset("none", "everything, whatever the model's context window"),
    preset("messages", "the newest messages (max_messages=40)"),
    preset("turns", "the newest turns (max_turns=50)"),
    preset("rounds", "the newest rounds (max_rounds=10)"),
    preset("tokens", "the newest messages that fit a number of tokens (max_tokens=8000)"),
    preset("turn-window", "AgentLIB's: the newest turns, within a number of tokens (max_turns=50, max_tokens=4000)"),
    preset(
        "rolling-summary",
        "Crux's: the newest messages behind a running summary (window_size=20, summary_budget=1000, \
         summary_role=system, batch=a quarter of window_size)",
    ),
    preset(
        "two-tier",
        "KB Labs': the newest rounds, with older tool results cleared (sliding_window_size=10, max_output_length=8000, \
         enable_compaction=false)",
    ),
    preset(
        "message-window",
        "LangChain4j's: the newest messages and at most one system message (max_messages, \
         always_keep_system_message_first=false)",
    ),
    preset(
        "managed-window",
        "Strands': the newest messages, beginning with a person's (window_size=40, should_truncate_results=true, \
         per_turn=false, proactive_compression=false)",
    ),
];

/// Returns the policy that sends everything, even if it exceeds the model's context window.
///
/// ```
/// use lookback_presets as presets;
///
/// assert_eq!(presets::none(), presets::named("none")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn none() -> Policy {
    Policy::never_compact()
}
