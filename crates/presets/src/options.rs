//! Options of the presets that are named after other systems, read from text.
//!
//! An option has the name that the system's documents give it, in `snake_case` or in `camelCase`.

use std::str::FromStr;

use lookback_engine::policy::{Pace, Policy};
use lookback_wire::message::Role;

use super::settings::is_key;
use super::{PolicyError, managed_window, message_window, rolling_summary, turn_window, two_tier};

/// One of the systems.
pub(super) struct System {
    pub(super) name: &'static str,
    /// The system's own options.
    pub(super) options: &'static [&'static str],
    pub(super) policy: fn(&Options<'_>) -> Result<Policy, PolicyError>,
}

pub(super) const SYSTEMS: [System; 5] = [
    System { name: "turn-window", options: &["max_turns", "max_tokens"], policy: read_turn_window },
    System {
        name: "rolling-summary",
        options: &["window_size", "summary_budget", "summary_role", "batch"],
        policy: read_rolling_summary,
    },
    System {
        name: "two-tier",
        options: &["sliding_window_size", "max_output_length", "enable_compaction"],
        policy: read_two_tier,
    },
    System {
        name: "message-window",
        options: &["max_messages", "always_keep_system_message_first"],
        policy: read_message_window,
    },
    System {
        name: "managed-window",
        options: &["window_size", "should_truncate_results", "per_turn", "proactive_compression"],
        policy: read_managed_window,
    },
];

const POSITIVE: &str = "a positive integer";
const NATURAL: &str = "a non-negative integer";
const TRUTH: &str = "true or false";

fn read_turn_window(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let mut preset = turn_window();
    if let Some(turns) = options.get("max_turns", POSITIVE, positive)? {
        preset = preset.max_turns(turns);
    }
    if let Some(tokens) = options.get("max_tokens", POSITIVE, positive)? {
        preset = preset.max_tokens(tokens);
    }
    Ok(preset.into())
}

fn read_rolling_summary(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let mut preset = rolling_summary();
    if let Some(messages) = options.get("window_size", POSITIVE, positive)? {
        preset = preset.window_size(messages);
    }
    if let Some(tokens) = options.get("summary_budget", POSITIVE, positive)? {
        preset = preset.summary_budget(tokens);
    }
    if let Some(role) = options.get("summary_role", "system, user or assistant", role)? {
        preset = preset.summary_role(role);
    }
    if let Some(messages) = options.get("batch", POSITIVE, positive)? {
        preset = preset.batch(messages);
    }
    Ok(preset.into())
}

fn read_two_tier(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let mut preset = two_tier();
    if let Some(rounds) = options.get("sliding_window_size", POSITIVE, positive)? {
        preset = preset.sliding_window_size(rounds);
    }
    if let Some(characters) = options.get("max_output_length", NATURAL, number)? {
        preset = preset.max_output_length(characters);
    }
    if let Some(on) = options.get("enable_compaction", TRUTH, truth)? {
        preset = preset.enable_compaction(on);
    }
    Ok(preset.into())
}

fn read_message_window(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let max_messages = options.get("max_messages", "a positive integer", positive)?;
    let max_messages = max_messages.ok_or(PolicyError::Missing { preset: "message-window", option: "max_messages" })?;
    let mut preset = message_window(max_messages);
    if let Some(first) = options.get("always_keep_system_message_first", TRUTH, truth)? {
        preset = preset.always_keep_system_message_first(first);
    }
    Ok(preset.into())
}

fn read_managed_window(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let mut preset = managed_window();
    if let Some(messages) = options.get("window_size", NATURAL, number)? {
        preset = preset.window_size(messages);
    }
    if let Some(truncates) = options.get("should_truncate_results", TRUTH, truth)? {
        preset = preset.should_truncate_results(truncates);
    }
    if let Some(pace) = options.get("per_turn", "a positive integer, true or false", pace)? {
        preset = preset.per_turn(pace);
    }
    let share = "true, false, or between 0 (exclusive) and 1 (inclusive)";
    if let Some(share) = options.get("proactive_compression", share, threshold)?.flatten() {
        preset = preset.proactive_compression(share);
    }
    Ok(preset.into())
}

/// The options that a preset was given, apart from settings that any policy has.
pub(super) struct Options<'a> {
    given: Vec<(&'static str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Separates a system's own options from settings that any policy has.
    pub(super) fn take(
        system: &System,
        settings: Vec<(&'a str, &'a str)>,
    ) -> Result<(Self, Settings<'a>), PolicyError> {
        let mut given = Vec::new();
        let mut others = Vec::new();
        for (key, value) in settings {
            let own = snake(key);
            match system.options.iter().find(|option| **option == own) {
                Some(option) => given.push((*option, value)),
                None if is_key(key) => others.push((key, value)),
                None => {
                    let known = system.options;
                    return Err(PolicyError::NoOption { preset: system.name, option: key.to_owned(), known });
                }
            }
        }
        Ok((Options { given }, others))
    }

    /// Returns the last value of an option, or `None` if it was not given. `demand` says what the value must be.
    fn get<T>(
        &self,
        option: &'static str,
        demand: &'static str,
        read: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, PolicyError> {
        let Some((_, value)) = self.given.iter().rev().find(|(given, _)| *given == option) else { return Ok(None) };
        let refused = || PolicyError::Refused { option, demand, value: (*value).to_owned() };
        read(value).map(Some).ok_or_else(refused)
    }
}

/// Settings, as keys and values.
type Settings<'a> = Vec<(&'a str, &'a str)>;

/// Turns `maxTurns` into `max_turns`.
fn snake(key: &str) -> String {
    let mut snake = String::with_capacity(key.len());
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn number<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn positive(value: &str) -> Option<u64> {
    number(value).filter(|number| *number > 0)
}

fn truth(value: &str) -> Option<bool> {
    number(&value.to_ascii_lowercase())
}

fn role(value: &str) -> Option<Role> {
    match value {
        "system" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    }
}

fn pace(value: &str) -> Option<Pace> {
    match truth(value) {
        Some(true) => Some(Pace::Call),
        Some(false) => Some(Pace::Turn),
        None => positive(value).map(Pace::Calls),
    }
}

/// Reads a share of the model's context window. `Some(None)` means that no share was set.
fn threshold(value: &str) -> Option<Option<f64>> {
    match (value.to_ascii_lowercase().as_str(), truth(value)) {
        (_, Some(on)) => Some(on.then_some(0.7)),
        ("none" | "null", None) => Some(None),
        (_, None) => number::<f64>(value).filter(|share| *share > 0.0 && *share <= 1.0).map(Some),
    }
}
