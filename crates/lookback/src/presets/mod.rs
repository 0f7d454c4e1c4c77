//! Policies by name, with settings: `messages:max_messages=40,target_messages=20`.

mod systems;

use lookback_core::cut::Truncation;
use lookback_core::policy::{Keep, Limits, Measure, Policy, PolicyFault, Stage, Start, Tokens};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::systems::rolling_batch;
use self::systems::{Options, SYSTEMS};

/// The presets, each with what it is for.
pub const PRESETS: [(&str, &str); 11] = [
    ("default", "what we would run in production: large outputs capped as they arrive, then cuts in large batches"),
    ("none", "everything is sent, whatever the model's window"),
    ("messages", "the newest messages (max_messages=40)"),
    ("turns", "the newest turns (max_turns=50)"),
    ("rounds", "the newest rounds (max_rounds=10)"),
    ("tokens", "the newest that fit a number of tokens (max_tokens=8000)"),
    ("turn-window", "AgentLIB's: the newest turns, within a number of tokens (max_turns=50, max_tokens=4000)"),
    (
        "rolling-summary",
        "Crux's: the newest messages behind a running summary (window_size=20, summary_budget=1000, summary_role=system, batch=a quarter of it)",
    ),
    (
        "two-tier",
        "KB Labs': the newest rounds, old tool output cleared (sliding_window_size=10, max_output_length=8000, \
         enable_compaction=false)",
    ),
    (
        "message-window",
        "LangChain4j's: the newest messages and the one system message (max_messages, always_keep_system_message_first=false)",
    ),
    (
        "managed-window",
        "Strands': the newest messages, from a person's on (window_size=40, should_truncate_results=true, per_turn=false, \
         proactive_compression=false)",
    ),
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
    /// An option that a preset does not have.
    #[error(
        "{preset} has no option `{option}`; it has {}, and takes any path of a policy, such as keep.first=2",
        known.join(", ")
    )]
    NoOption {
        /// The preset.
        preset: &'static str,
        /// The option.
        option: String,
        /// Those that it has.
        known: &'static [&'static str],
    },
    /// A value that an option of a preset cannot take.
    #[error("{option} must be {demand}, got {value}")]
    Refused {
        /// The option.
        option: &'static str,
        /// What its value must be.
        demand: &'static str,
        /// The value.
        value: String,
    },
    /// An option without which a preset says nothing.
    #[error("{preset} needs {option}, as in `{preset}:{option}=20`")]
    Missing {
        /// The preset.
        preset: &'static str,
        /// The option.
        option: &'static str,
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
    named_with(text, [])
}

/// A policy by a preset's name, with settings after a colon, and more settings.
///
/// The presets that are named after other systems have those systems' own options too.
///
/// ```
/// use lookback::presets::named_with;
///
/// let policy = named_with("managed-window:window_size=20", ["per_turn=3", "keep.first=2"])?;
/// assert_eq!(policy.limits.messages, Some(20));
/// let error = named_with("managed-window", ["per_turn=0"]).unwrap_err().to_string();
/// assert_eq!(error, "per_turn must be a positive integer, true or false, got 0");
/// # Ok::<(), lookback::presets::PolicyError>(())
/// ```
///
/// # Errors
/// Where there is no such preset, or a setting that makes no sense.
pub fn named_with<'a>(text: &'a str, more: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let settings = pairs(settings.split(',').filter(|setting| !setting.is_empty()).chain(more))?;
    if let Some(system) = SYSTEMS.iter().find(|system| system.name == name) {
        let (own, others) = Options::take(system, settings)?;
        return apply((system.policy)(&own)?, others);
    }
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
    apply(policy, settings)
}

/// A policy with settings added: each is `KEY=VALUE`, with a short key or a path of the policy.
///
/// # Errors
/// Where a setting makes no sense, or the policy that comes of them.
pub fn with<'a>(policy: Policy, settings: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    apply(policy, pairs(settings)?)
}

/// A policy from a file's text: JSON where it begins with a brace, else TOML. With `preset`, it is that preset but for what else the file
/// says.
///
/// ```
/// use lookback::presets::{named, parse};
///
/// let policy = parse("preset = 'two-tier:sliding_window_size=20'\n[keep]\nfirst = 3\n")?;
/// assert_eq!(policy, named("two-tier:sliding_window_size=20,keep.first=3")?);
/// # Ok::<(), lookback::presets::PolicyError>(())
/// ```
///
/// # Errors
/// Where the text is neither, or not a policy.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    let fault = |error: serde_json::Error| PolicyError::Format(error.to_string());
    let mut whole: Value = read(text)?;
    let preset = whole.as_object_mut().and_then(|members| members.remove("preset"));
    let policy = match preset.as_ref().and_then(Value::as_str) {
        Some(preset) => {
            let base = serde_json::to_value(named(preset)?).map_err(fault)?;
            serde_json::from_value(merged(base, whole)).map_err(fault)?
        }
        None => read(text)?,
    };
    with(policy, [])
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, PolicyError> {
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| PolicyError::Format(error.to_string().trim_end().to_owned()))
    } else {
        toml::from_str(text).map_err(|error| PolicyError::Format(error.to_string().trim_end().to_owned()))
    }
}

/// `base`, but for what `over` says.
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

fn pairs<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Vec<(&'a str, &'a str)>, PolicyError> {
    let pair = |setting: &'a str| {
        let fault = || PolicyError::Setting { setting: setting.to_owned() };
        setting.split_once('=').map(|(key, value)| (key.trim(), value.trim())).ok_or_else(fault)
    };
    settings.into_iter().map(pair).collect()
}

fn apply(policy: Policy, settings: Vec<(&str, &str)>) -> Result<Policy, PolicyError> {
    let mut policy = policy;
    for (key, value) in settings {
        policy = set(&policy, key, value)?;
    }
    match policy.faults().into_iter().next() {
        Some(fault) => Err(fault.into()),
        None => Ok(policy),
    }
}

/// The members of a policy.
const MEMBERS: [&str; 12] = [
    "limits",
    "target",
    "hard",
    "keep",
    "system",
    "start",
    "arrival",
    "stages",
    "overflow",
    "pace",
    "mode",
    "drop_block",
];

/// Whether a key is one of any policy's: a path, or short for one.
fn is_key(key: &str) -> bool {
    let measure = key.strip_prefix("max_").or(key.strip_prefix("target_"));
    match measure {
        // Pictures and files go by a name of their own.
        Some("media") => true,
        Some(measure) => Measure::ALL.iter().any(|known| known.to_string() == measure),
        None => key.split('.').next().is_some_and(|member| MEMBERS.contains(&member)),
    }
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
            let needed = if name == "message-window" { ":max_messages=20" } else { "" };
            assert!(named(&format!("{name}{needed}")).unwrap().faults().is_empty(), "{name}");
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
            "there is no policy `windows`; the presets are default, none, messages, turns, rounds, tokens, turn-window, rolling-summary, two-tier, message-window, managed-window, and a file's name ends in .toml or .json"
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
    fn every_member_of_a_policy_is_a_key() {
        let full = Policy { hard: Some(Limits::default()), target: Some(Limits::default()), ..default_policy() };
        let full = serde_json::to_value(full).unwrap();
        let members: Vec<_> = full.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(MEMBERS.len(), members.len());
        assert!(members.into_iter().all(is_key));
        assert!(is_key("keep.first") && is_key("max_media") && is_key("target_rounds"));
        assert!(!is_key("max_turn") && !is_key("window") && !is_key(""));
    }

    #[test]
    fn a_preset_of_a_system_has_the_options_of_its_documents() {
        for system in &SYSTEMS {
            let (_, purpose) = PRESETS.into_iter().find(|(name, _)| *name == system.name).unwrap();
            assert!(system.options.iter().all(|option| purpose.contains(option)), "{purpose}");
        }
        let policy = named("messageWindow:maxMessages=3");
        assert!(policy.is_err(), "presets go by one name");
        let policy = named("message-window:maxMessages=3,alwaysKeepSystemMessageFirst=true,target_messages=2").unwrap();
        assert_eq!((policy.limits, policy.target), (Limits::messages(3), Some(Limits::messages(2))));
        assert!(policy.system.first && policy.system.one && !policy.keep.task);
        let policy = named("rolling-summary:window_size=6,batch=4,summary_role=user").unwrap();
        assert_eq!((policy.limits, policy.target), (Limits::messages(9), Some(Limits::messages(6))));
        assert_eq!(policy.summary().unwrap().role, lookback_core::Role::User);
        let pace = |text: &str| named(&format!("managed-window:{text}")).unwrap().pace;
        use lookback_core::Pace;
        assert_eq!(
            [pace("per_turn=False"), pace("per_turn=true"), pace("per_turn=3")],
            [Pace::Turn, Pace::Call, Pace::Calls(3)]
        );
        assert_eq!(pace("proactive_compression=0.5"), Pace::Turn);
        let share = |text: &str| named(&format!("managed-window:proactive_compression={text}")).unwrap().limits.tokens;
        assert_eq!(
            [share("true"), share("1"), share("none")],
            [Some(Tokens::Share(0.7)), Some(Tokens::Share(1.0)), None]
        );
        assert_eq!(named("managed-window:window_size=0").unwrap().limits.turns, Some(1));
    }

    #[test]
    fn a_wrong_option_is_named_with_what_it_must_be() {
        let message = |text| named(text).unwrap_err().to_string();
        assert_eq!(
            message("message-window"),
            "message-window needs max_messages, as in `message-window:max_messages=20`"
        );
        assert_eq!(message("message-window:max_messages=0"), "max_messages must be greater than zero, got 0");
        assert_eq!(
            message("managed-window:window=3"),
            "managed-window has no option `window`; it has window_size, should_truncate_results, per_turn, \
             proactive_compression, and takes any path of a policy, such as keep.first=2"
        );
        assert_eq!(message("managed-window:window_size=-1"), "window_size must be a non-negative integer, got -1");
        assert_eq!(
            message("managed-window:proactive_compression=1.5"),
            "proactive_compression must be true, false, or between 0 (exclusive) and 1 (inclusive), got 1.5"
        );
        assert_eq!(message("two-tier:sliding_window_size=0"), "sliding_window_size must be a positive integer, got 0");
        assert_eq!(
            message("rolling-summary:summary_role=tool"),
            "summary_role must be system, user or assistant, got tool"
        );
    }

    #[test]
    fn the_documented_policy_reads_and_is_the_default_with_one_stage_more() {
        let page = include_str!("../../../../docs/policies.md");
        let text = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let mut policy = parse(text).unwrap();
        policy.stages.remove(1);
        assert_eq!(policy, Policy { start: policy.start, ..default_policy() });
        let page = include_str!("../../../../docs/default-policy.md");
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
