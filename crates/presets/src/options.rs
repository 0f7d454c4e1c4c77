//! The options of presets that are modeled on other systems.
//!
//! An option has its name from the system's documentation, in `snake_case` or in `camelCase`.

use std::str::FromStr;

use lookback_engine::policy::Limits;
use lookback_engine::policy::{Pace, Policy, Stage, Summarize, Tokens};
use lookback_wire::message::Role;

use super::PolicyError;
use super::error::Kind;
use super::settings::is_key;

/// An option of one of the systems.
pub(super) struct SystemOption {
    pub(super) name: &'static str,
    /// The demand on its value.
    demand: &'static str,
    /// Changes the policy. Returns `None` if the value is refused.
    set: fn(&mut Policy, &str) -> Option<()>,
}

const POSITIVE: &str = "a positive integer";
const NATURAL: &str = "a non-negative integer";
const TRUTH: &str = "true or false";

const fn option(name: &'static str, demand: &'static str, set: fn(&mut Policy, &str) -> Option<()>) -> SystemOption {
    SystemOption { name, demand, set }
}

/// Returns the options of a preset, in the order in which they change its policy.
pub(super) fn options_of(preset: &str) -> &'static [SystemOption] {
    match preset {
        "turn-window" => &TURN_WINDOW,
        "rolling-summary" => &ROLLING_SUMMARY,
        "two-tier" => &TWO_TIER,
        "message-window" => &MESSAGE_WINDOW,
        "managed-window" => &MANAGED_WINDOW,
        _ => &[],
    }
}

const TURN_WINDOW: [SystemOption; 2] = [
    option("max_turns", POSITIVE, |policy, value| {
        policy.limits.turns = Some(positive(value)?);
        Some(())
    }),
    option("max_tokens", POSITIVE, |policy, value| {
        policy.limits.tokens = Some(Tokens::Count(positive(value)?));
        Some(())
    }),
];

const ROLLING_SUMMARY: [SystemOption; 4] = [
    option("window_size", POSITIVE, |policy, value| {
        let size = positive(value)?;
        take_in(policy, size, (size / 4).max(1));
        Some(())
    }),
    option("summary_budget", POSITIVE, |policy, value| {
        summary(policy)?.budget = positive(value)?;
        Some(())
    }),
    option("summary_role", "system, user or assistant", |policy, value| {
        summary(policy)?.role = match value {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => return None,
        };
        Some(())
    }),
    option("batch", POSITIVE, |policy, value| {
        let size = policy.target.and_then(|target| target.messages)?;
        take_in(policy, size, positive(value)?);
        Some(())
    }),
];

/// Sets the number of messages to keep, and the number of messages that each summary takes in.
fn take_in(policy: &mut Policy, size: u64, batch: u64) {
    policy.limits = Limits::messages(size.saturating_add(batch - 1));
    policy.target = Some(Limits::messages(size));
}

fn summary(policy: &mut Policy) -> Option<&mut Summarize> {
    policy.stages.iter_mut().find_map(|stage| if let Stage::Summarize(summary) = stage { Some(summary) } else { None })
}

const TWO_TIER: [SystemOption; 3] = [
    option("sliding_window_size", POSITIVE, |policy, value| {
        policy.limits.rounds = Some(positive(value)?);
        Some(())
    }),
    option("max_output_length", NATURAL, |policy, value| {
        let (length, arrival) = (number::<u64>(value)?, policy.arrival.as_mut()?);
        let marker = arrival.marker.take()?;
        arrival.marker = Some(marker.replace(&arrival.head.to_string(), &length.to_string()));
        arrival.head = length;
        Some(())
    }),
    option("enable_compaction", TRUTH, |policy, value| {
        if truth(value)? {
            let wording = "[Compacted summary of earlier iterations]\n\n{summary}".to_owned();
            *policy.stages.last_mut()? = Stage::Summarize(Summarize { budget: 800, role: Role::System, wording });
        }
        Some(())
    }),
];

const MESSAGE_WINDOW: [SystemOption; 2] = [
    option("max_messages", POSITIVE, |policy, value| {
        policy.limits.messages = Some(positive(value)?);
        Some(())
    }),
    option("always_keep_system_message_first", TRUTH, |policy, value| {
        policy.system.first = truth(value)?;
        Some(())
    }),
];

const MANAGED_WINDOW: [SystemOption; 4] = [
    option("window_size", NATURAL, |policy, value| {
        policy.limits = match number(value)? {
            // Strands empties such a window after each turn, so a call sees only its own turn.
            0 => Limits { turns: Some(1), ..Limits::default() },
            size => Limits::messages(size),
        };
        Some(())
    }),
    option("should_truncate_results", TRUTH, |policy, value| {
        if !truth(value)? {
            policy.overflow.retain(|stage| *stage == Stage::Drop);
        }
        Some(())
    }),
    option("per_turn", "a positive integer, true or false", |policy, value| {
        policy.pace = match truth(value) {
            Some(true) => Pace::Call,
            Some(false) => Pace::Turn,
            None => Pace::Calls(positive(value)?),
        };
        Some(())
    }),
    option("proactive_compression", "true, false, or between 0 (exclusive) and 1 (inclusive)", |policy, value| {
        let share = match (value.to_ascii_lowercase().as_str(), truth(value)) {
            (_, Some(on)) => on.then_some(0.7),
            ("none" | "null", None) => None,
            (_, None) => Some(number::<f64>(value).filter(|share| *share > 0.0 && *share <= 1.0)?),
        };
        policy.limits.tokens = share.map(Tokens::Share);
        Some(())
    }),
];

/// Sets a preset's own options, and returns the other settings, which apply to any policy.
pub(super) fn set_options<'a>(
    preset: &'static str,
    policy: &mut Policy,
    settings: Vec<(&'a str, &'a str)>,
) -> Result<Vec<(&'a str, &'a str)>, PolicyError> {
    let options = options_of(preset);
    if options.is_empty() {
        return Ok(settings);
    }
    let (own, others): (Vec<_>, Vec<_>) = settings.into_iter().partition(|(key, _)| {
        let key = snake(key);
        options.iter().any(|option| option.name == key)
    });
    if let Some((key, _)) = others.iter().find(|(key, _)| !is_key(key)) {
        let known = options.iter().map(|option| option.name).collect();
        return Err(Kind::NoOption { preset, option: (*key).to_owned(), known }.into());
    }
    for option in options {
        let Some((_, value)) = own.iter().rev().find(|(key, _)| snake(key) == option.name) else { continue };
        let refused = || PolicyError::refused(option.name, option.demand, *value);
        (option.set)(policy, value).ok_or_else(refused)?;
    }
    if preset == "message-window" && policy.limits.messages.is_none() {
        return Err(Kind::Missing { preset, option: "max_messages" }.into());
    }
    Ok(others)
}

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
