//! The five systems that Lookback stands in for, each as a preset with that system's own options, defaults and refusals.
//!
//! Options go by the names that the system's documents give them, in `snake_case` or in `camelCase`.

use std::str::FromStr;

use lookback_core::cut::Truncation;
use lookback_core::message::Role;
use lookback_core::policy::{Keep, Limits, Pace, Policy, Stage, Start, Summarize, SystemRule, Tokens};

use super::PolicyError;

/// One of the systems.
pub(super) struct System {
    pub(super) name: &'static str,
    /// The options that it has of its own.
    pub(super) options: &'static [&'static str],
    pub(super) policy: fn(&Options<'_>) -> Result<Policy, PolicyError>,
}

pub(super) const SYSTEMS: [System; 5] = [
    System { name: "turn-window", options: &["max_turns", "max_tokens"], policy: turn_window },
    System {
        name: "rolling-summary",
        options: &["window_size", "summary_budget", "summary_role", "batch"],
        policy: rolling_summary,
    },
    System {
        name: "two-tier",
        options: &["sliding_window_size", "max_output_length", "enable_compaction"],
        policy: two_tier,
    },
    System {
        name: "message-window",
        options: &["max_messages", "always_keep_system_message_first"],
        policy: message_window,
    },
    System {
        name: "managed-window",
        options: &["window_size", "should_truncate_results", "per_turn", "proactive_compression"],
        policy: managed_window,
    },
];

const POSITIVE: &str = "a positive integer";
const TRUTH: &str = "true or false";

/// `AgentLIB`'s turns within a number of tokens. It stores no system messages: here they stand before the window, and count in tokens alone.
fn turn_window(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let max_turns = options.get("max_turns", POSITIVE, positive)?.unwrap_or(50);
    let max_tokens = options.get("max_tokens", POSITIVE, positive)?.unwrap_or(4_000);
    let limits = Limits { turns: Some(max_turns), tokens: Some(Tokens::Count(max_tokens)), ..Limits::default() };
    Ok(Policy { limits, keep: Keep { task: false, ..Keep::default() }, ..Policy::default() })
}

/// How many messages a running summary takes in at a time where nothing else is said: `compat::crux` says why.
pub(crate) fn rolling_batch(window_size: u64) -> u64 {
    (window_size / 4).max(1)
}

/// Crux's newest messages behind a running summary. `batch` is ours: how many messages a summary takes in at a time, where Crux asks its
/// model at every message once the window is full.
fn rolling_summary(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let window_size = options.get("window_size", POSITIVE, positive)?.unwrap_or(20);
    let budget = options.get("summary_budget", POSITIVE, positive)?.unwrap_or(1_000);
    let role = options.get("summary_role", "system, user or assistant", role)?.unwrap_or(Role::System);
    let batch: u64 = options.get("batch", POSITIVE, positive)?.unwrap_or_else(|| rolling_batch(window_size));
    let summary = Summarize { budget, role, wording: "{summary}".to_owned() };
    Ok(Policy {
        limits: Limits::messages(window_size.saturating_add(batch - 1)),
        target: Some(Limits::messages(window_size)),
        keep: Keep { task: false, ..Keep::default() },
        system: SystemRule { counted: false, ..SystemRule::default() },
        stages: vec![Stage::Summarize(summary)],
        ..Policy::default()
    })
}

/// The working memory of KB Labs' agents: the newest rounds, of which the older show no tool output, and no output at its full length.
fn two_tier(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let rounds = options.get("sliding_window_size", POSITIVE, positive)?.unwrap_or(10);
    let length = options.get("max_output_length", "a non-negative integer", number)?.unwrap_or(8_000);
    let last = if options.get("enable_compaction", TRUTH, truth)?.unwrap_or(false) {
        let wording = "[Compacted summary of earlier iterations]\n\n{summary}".to_owned();
        Stage::Summarize(Summarize { budget: 800, role: Role::System, wording })
    } else {
        Stage::Drop
    };
    let marker = format!(
        "\n\n[TRUNCATED: {{cut}} more characters are not shown, since tool output is cut at {length} characters. If what you \
         need may be among them, ask more narrowly, or for a smaller range.]"
    );
    Ok(Policy {
        limits: Limits { rounds: Some(rounds), ..Limits::default() },
        // The message before the first round stays, which in an agent's run is its task; the current task does in any case.
        // So do system messages, wherever they stand.
        keep: Keep { first: 1, system: true, ..Keep::default() },
        arrival: Some(Truncation { head: length, marker: Some(marker), ..Truncation::default() }),
        stages: vec![Stage::ClearResults { keep: 3, marker: None }, last],
        ..Policy::default()
    })
}

/// `LangChain4j`'s newest messages, among them the one system message that there may be.
fn message_window(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let max_messages = options.get("max_messages", "greater than zero", positive)?;
    let max_messages = max_messages.ok_or(PolicyError::Missing { preset: "message-window", option: "max_messages" })?;
    let first = options.get("always_keep_system_message_first", TRUTH, truth)?.unwrap_or(false);
    Ok(Policy {
        limits: Limits::messages(max_messages),
        keep: Keep { task: false, ..Keep::default() },
        system: SystemRule { one: true, first, counted: true },
        ..Policy::default()
    })
}

/// Strands' newest messages, beginning with a person's: looked at between turns, or before every call, or before every so many.
///
/// A window of 0 is emptied when a turn is done, so what a call sees is the turn that it is in. `proactive_compression` is looked at before
/// every call, whatever `per_turn` says.
fn managed_window(options: &Options<'_>) -> Result<Policy, PolicyError> {
    let window_size = options.get("window_size", "a non-negative integer", number)?.unwrap_or(40);
    let truncates = options.get("should_truncate_results", TRUTH, truth)?.unwrap_or(true);
    let pace = options.get("per_turn", "a positive integer, true or false", pace)?.unwrap_or(Pace::Turn);
    let share = "true, false, or between 0 (exclusive) and 1 (inclusive)";
    let share = options.get("proactive_compression", share, threshold)?.flatten();
    let limits = match window_size {
        0 => Limits { turns: Some(1), ..Limits::default() },
        size => Limits::messages(size),
    };
    let marker = "...\n\n... [truncated: {cut} chars removed] ...\n\n...".to_owned();
    let to = Truncation { head: 200, tail: 200, marker: Some(marker), ..Truncation::default() };
    let shorten = [Stage::TruncateResults { to, keep: 0 }, Stage::ClearMedia { keep: 0 }];
    Ok(Policy {
        limits: Limits { tokens: share.map(Tokens::Share), ..limits },
        system: SystemRule { counted: false, ..SystemRule::default() },
        start: Start::User,
        overflow: shorten.into_iter().filter(|_| truncates).chain([Stage::Drop]).collect(),
        pace,
        ..Policy::default()
    })
}

/// The options of its own that a preset was given.
pub(super) struct Options<'a> {
    given: Vec<(&'static str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Takes a system's own options out of settings, and leaves those that any policy has.
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
                None if super::is_key(key) => others.push((key, value)),
                None => {
                    let known = system.options;
                    return Err(PolicyError::NoOption { preset: system.name, option: key.to_owned(), known });
                }
            }
        }
        Ok((Options { given }, others))
    }

    /// What an option was set to last; `demand` is what its value must be.
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

/// `maxTurns` as `max_turns`.
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

/// The share of the model's window from which on it compresses: `Some(None)` is none.
fn threshold(value: &str) -> Option<Option<f64>> {
    match (value.to_ascii_lowercase().as_str(), truth(value)) {
        (_, Some(on)) => Some(on.then_some(0.7)),
        ("none" | "null", None) => Some(None),
        (_, None) => number::<f64>(value).filter(|share| *share > 0.0 && *share <= 1.0).map(Some),
    }
}
