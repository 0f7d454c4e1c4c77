//! Presets: ready-made policies, as typed values or by name with settings.
//!
//! In Rust, a function returns a preset, methods change its options, and `into` makes it a [`Policy`]. In text, such as
//! an argument of the command line, the same preset is `tokens:max_tokens=32000,target_tokens=16000` (see [`named`]).
//!
//! ```
//! use lookback::{Policy, presets};
//!
//! let policy: Policy = presets::tokens(32_000).target(16_000).into();
//! assert_eq!(policy, presets::named("tokens:max_tokens=32000,target_tokens=16000")?);
//! # Ok::<(), presets::PolicyError>(())
//! ```
//!
//! Any value of an option makes a policy. [`Policy::faults`] finds values that make no sense, such as a limit of 0; the
//! functions that read text return an error instead.

mod newest;
mod options;
mod systems;

use lookback_core::policy::{Measure, Policy, PolicyFault};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::newest::{Newest, messages, rounds, tokens, turns};
use self::options::{Options, SYSTEMS};
pub(crate) use self::systems::rolling_batch;
pub use self::systems::{
    ManagedWindow, MessageWindow, RollingSummary, TurnWindow, TwoTier, managed_window, message_window, rolling_summary,
    turn_window, two_tier,
};

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
    preset("default", "for production: caps large tool results as they arrive, then drops in large batches"),
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

/// The errors of reading a policy from text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No preset has this name.
    #[error("there is no policy `{name}`; use a preset ({}), or a file whose name ends in .toml or .json", names())]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// A setting has no value.
    #[error("`{setting}` is not a setting: write KEY=VALUE")]
    Setting {
        /// The setting that was given.
        setting: String,
    },
    /// No policy has this key, or the key cannot have this value.
    #[error("{key}={value}: {fault}")]
    Value {
        /// The key that was given.
        key: String,
        /// The value that was given.
        value: String,
        /// What is wrong.
        fault: ValueFault,
    },
    /// The preset does not have this option.
    #[error(
        "{preset} has no option `{option}`; it has {}, and takes any path of a policy, such as keep.first=2",
        known.join(", ")
    )]
    NoOption {
        /// The preset.
        preset: &'static str,
        /// The option that was given.
        option: String,
        /// The options that it has.
        known: &'static [&'static str],
    },
    /// The option cannot have this value.
    #[error("{option} must be {demand}, got {value}")]
    Refused {
        /// The option.
        option: &'static str,
        /// What its value must be.
        demand: &'static str,
        /// The value that was given.
        value: String,
    },
    /// The preset needs an option that was not given.
    #[error("{preset} needs {option}, as in `{preset}:{option}=20`")]
    Missing {
        /// The preset.
        preset: &'static str,
        /// The option.
        option: &'static str,
    },
    /// The text is not a policy in TOML.
    #[error("not a policy: {}", .0.to_string().trim_end())]
    Toml(#[source] Box<toml::de::Error>),
    /// The text is not a policy in JSON. Or it names a preset, in TOML or JSON, and its other keys cannot change it.
    #[error("not a policy: {0}")]
    Json(#[source] serde_json::Error),
    /// The policy makes no sense.
    #[error(transparent)]
    Fault(#[from] PolicyFault),
}

/// What is wrong with a key of a policy, or with its value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueFault {
    /// The key names an element that a list does not have.
    #[error("there is no element `{step}`: the list has {count}")]
    NoElement {
        /// The element that was given.
        step: String,
        /// The number of elements that the list has.
        count: usize,
    },
    /// The key names a member of a value that is neither an object nor a list.
    #[error("`{step}` has no parent: the value before it is not an object or a list")]
    NoParent {
        /// The member that was given.
        step: String,
    },
    /// No policy has this key, or the value has the wrong type or is out of range.
    #[error(transparent)]
    Unfit(serde_json::Error),
}

fn names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

/// Returns the policy that sends everything, even if it exceeds the model's context window.
///
/// ```
/// use lookback::presets;
///
/// assert_eq!(presets::none(), presets::named("none")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn none() -> Policy {
    Policy::never_compact()
}

/// Returns the policy of a preset, given by name, with settings after a colon.
///
/// Any path of the policy is a key. `max_messages` is short for `limits.messages`, and `target_messages` for
/// `target.messages`. The presets that are named after other systems also have those systems' own options.
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
/// Returns an error if no preset has the name, or if a setting makes no sense.
pub fn named(text: &str) -> Result<Policy, PolicyError> {
    named_with(text, [])
}

/// Returns the policy of a preset like [`named`], with more settings, which take precedence.
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
/// Returns an error if no preset has the name, or if a setting makes no sense.
pub fn named_with<'a>(text: &'a str, more: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let settings = pairs(settings.split(',').filter(|setting| !setting.is_empty()).chain(more))?;
    if let Some(system) = SYSTEMS.iter().find(|system| system.name == name) {
        let (own, others) = Options::take(system, settings)?;
        return apply((system.policy)(&own)?, others);
    }
    let policy = match name {
        "default" => Policy::production(),
        "none" => none(),
        "messages" => messages(40).into(),
        "turns" => turns(50).into(),
        "rounds" => rounds(10).into(),
        "tokens" => tokens(8_000).into(),
        _ => return Err(PolicyError::Unknown { name: name.to_owned() }),
    };
    apply(policy, settings)
}

/// Changes settings of a policy. Each is `KEY=VALUE`, with a path of the policy as its key, or the short form of one.
///
/// # Errors
/// Returns an error if a setting, or the policy that results, makes no sense.
pub fn with<'a>(policy: Policy, settings: impl IntoIterator<Item = &'a str>) -> Result<Policy, PolicyError> {
    apply(policy, pairs(settings)?)
}

/// Reads a policy from the text of a file: JSON if it begins with a brace, TOML otherwise. If the file names a
/// `preset`, the other keys change that preset.
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
/// Returns an error if the text is neither JSON nor TOML, or is not a policy.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    let mut whole: Value = read(text)?;
    let preset = whole.as_object_mut().and_then(|members| members.remove("preset"));
    let policy = match preset.as_ref().and_then(Value::as_str) {
        Some(preset) => {
            let base = serde_json::to_value(named(preset)?).map_err(PolicyError::Json)?;
            serde_json::from_value(merged(base, whole)).map_err(PolicyError::Json)?
        }
        None => read(text)?,
    };
    with(policy, [])
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, PolicyError> {
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(PolicyError::Json)
    } else {
        toml::from_str(text).map_err(|error| PolicyError::Toml(Box::new(error)))
    }
}

/// Returns `base` with the members of `over` in place of its own.
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

/// Returns whether any policy has the key: a path, or the short form of one.
fn is_key(key: &str) -> bool {
    let measure = key.strip_prefix("max_").or(key.strip_prefix("target_"));
    match measure {
        // `Measure` displays media as `pictures and files`.
        Some("media") => true,
        Some(measure) => Measure::ALL.iter().any(|known| known.to_string() == measure),
        None => key.split('.').next().is_some_and(|member| MEMBERS.contains(&member)),
    }
}

fn set(policy: &Policy, key: &str, value: &str) -> Result<Policy, PolicyError> {
    let fault = |fault| PolicyError::Value { key: key.to_owned(), value: value.to_owned(), fault };
    let unfit = |error| fault(ValueFault::Unfit(error));
    let path = match (key.strip_prefix("max_"), key.strip_prefix("target_")) {
        (Some(measure), _) => format!("limits.{measure}"),
        (None, Some(measure)) => format!("target.{measure}"),
        (None, None) => key.to_owned(),
    };
    let mut whole = serde_json::to_value(policy).map_err(unfit)?;
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
                return Err(fault(ValueFault::NoParent { step: step.to_owned() }));
            }
        };
    }
    *place = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    serde_json::from_value(whole).map_err(unfit)
}

/// Compiles the example of the page on policies.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/policies.md")]
struct Page;

#[cfg(test)]
mod tests {
    use lookback_core::{Pace, Role};

    use lookback_core::policy::{Limits, Tokens};

    use super::*;

    #[test]
    fn every_preset_is_a_policy() {
        for Preset { name, .. } in PRESETS {
            let needed = if *name == "message-window" { ":max_messages=20" } else { "" };
            assert!(named(&format!("{name}{needed}")).unwrap().faults().is_empty(), "{name}");
        }
    }

    #[test]
    fn a_typed_preset_is_the_policy_of_its_text() {
        let same = |typed: Policy, text: &str| assert_eq!(typed, named(text).unwrap(), "{text}");
        same(Policy::production(), "default");
        same(none(), "none");
        same(messages(40).into(), "messages");
        same(turns(50).into(), "turns");
        same(rounds(10).into(), "rounds");
        same(tokens(8_000).into(), "tokens");
        same(messages(30).target(20).into(), "messages:max_messages=30,target_messages=20");
        same(turns(30).target(20).into(), "turns:max_turns=30,target_turns=20");
        same(rounds(30).target(20).into(), "rounds:max_rounds=30,target_rounds=20");
        same(tokens(32_000).target(16_000).into(), "tokens:max_tokens=32000,target_tokens=16000");
        same(turn_window().into(), "turn-window");
        same(turn_window().max_turns(3).max_tokens(500).into(), "turn-window:max_turns=3,max_tokens=500");
        same(rolling_summary().into(), "rolling-summary");
        let preset = rolling_summary().window_size(6).summary_budget(50).summary_role(Role::User).batch(4);
        same(preset.into(), "rolling-summary:window_size=6,summary_budget=50,summary_role=user,batch=4");
        same(two_tier().into(), "two-tier");
        let preset = two_tier().sliding_window_size(5).max_output_length(100).enable_compaction(true);
        same(preset.into(), "two-tier:sliding_window_size=5,max_output_length=100,enable_compaction=true");
        same(message_window(20).into(), "message-window:max_messages=20");
        let preset = message_window(20).always_keep_system_message_first(true);
        same(preset.into(), "message-window:max_messages=20,always_keep_system_message_first=true");
        same(managed_window().into(), "managed-window");
        same(managed_window().window_size(0).per_turn(Pace::Call).into(), "managed-window:window_size=0,per_turn=true");
        let preset = managed_window().window_size(9).should_truncate_results(false).per_turn(Pace::Calls(3));
        let text = "managed-window:window_size=9,should_truncate_results=false,per_turn=3,proactive_compression=true";
        same(preset.proactive_compression(0.7).into(), text);
    }

    #[test]
    fn a_typed_preset_that_makes_no_sense_is_a_policy_with_a_fault() {
        let faulty = |policy: Policy| !policy.faults().is_empty();
        assert!(faulty(tokens(0).into()) && faulty(tokens(10).target(11).into()));
        assert!(faulty(rolling_summary().window_size(0).into()) && faulty(rolling_summary().summary_budget(0).into()));
        assert!(faulty(managed_window().per_turn(Pace::Calls(0)).into()));
        assert!(faulty(managed_window().proactive_compression(1.5).into()));
        assert!(!faulty(rolling_summary().batch(0).into()), "one message at a time");
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
            "there is no policy `windows`; use a preset (default, none, messages, turns, rounds, tokens, turn-window, \
             rolling-summary, two-tier, message-window, managed-window), or a file whose name ends in .toml or .json"
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
        let full = Policy { hard: Some(Limits::default()), target: Some(Limits::default()), ..Policy::production() };
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
            let Preset { purpose, .. } = PRESETS.iter().find(|preset| preset.name == system.name).unwrap();
            assert!(system.options.iter().all(|option| purpose.contains(option)), "{purpose}");
        }
        let policy = named("messageWindow:maxMessages=3");
        assert!(policy.is_err(), "presets go by one name");
        let policy = named("message-window:maxMessages=3,alwaysKeepSystemMessageFirst=true,target_messages=2").unwrap();
        assert_eq!((policy.limits, policy.target), (Limits::messages(3), Some(Limits::messages(2))));
        assert!(policy.system.first && policy.system.one && !policy.keep.task);
        let policy = named("rolling-summary:window_size=6,batch=4,summary_role=user").unwrap();
        assert_eq!((policy.limits, policy.target), (Limits::messages(9), Some(Limits::messages(6))));
        assert_eq!(policy.summary().unwrap().role, Role::User);
        let pace = |text: &str| named(&format!("managed-window:{text}")).unwrap().pace;
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
        assert_eq!(policy, Policy { start: policy.start, ..Policy::production() });
        let page = include_str!("../../../../docs/default-policy.md");
        let text = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(parse(text).unwrap(), Policy::production());
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
