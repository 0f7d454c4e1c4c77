//! Tests of the presets and their settings.

use lookback_engine::policy::Pace;
use lookback_engine::policy::{Limits, Payback, Tokens};
use lookback_tokens::cut::Truncation;
use lookback_wire::message::Role;

use super::options::options_of;
use super::settings::is_key;
use super::*;

#[test]
fn every_preset_is_a_policy() {
    assert_eq!(presets().len(), 12);
    for Preset { name, .. } in presets() {
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
        "there is no policy `windows`; use a preset (default, frugal, none, messages, turns, rounds, tokens, \
         turn-window, rolling-summary, two-tier, message-window, managed-window), or a file whose name ends in .toml or \
         .json"
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
fn what_a_call_may_cost_is_a_limit_in_tokens() {
    let of = |policy: &Policy| (policy.limits.tokens, policy.target.and_then(|target| target.tokens));
    let count = |tokens| Some(Tokens::Count(tokens));
    let (limit, target) =
        (Policy::production().limits.body.unwrap(), Policy::production().target.unwrap().body.unwrap());
    let cheap = named("default:max_cost_per_call=0.01").unwrap();
    assert_eq!(of(&cheap), (count(33_333), count(33_333 * target / limit)));
    let messages = named("messages:max_cost_per_call=0.01,target_messages=10").unwrap();
    assert_eq!(of(&messages), (count(33_333), count(16_666)));
    assert_eq!(cheap.limits.media, Policy::production().limits.media);
    let model = named("tokens:max_cost_per_call=0.01,prices=gpt-4o,target_tokens=1000").unwrap();
    assert_eq!(of(&model), (count(8_000), count(1_000)));
    let system = named("turn-window:max_cost_per_call=0.01,prices=openai").unwrap();
    assert_eq!(of(&system).0, count(80_000));
}

#[test]
fn prices_decide_when_a_compaction_is_repaid() {
    let target = Policy::production().target.unwrap().body.unwrap();
    let payback = named("default:prices=anthropic-5m").unwrap().payback.unwrap();
    assert_eq!((payback.write, payback.limits), (12.5, Limits::body(target * 3 / 2)));
    let lifetime = |text: &str| named(text).unwrap().cold.unwrap().after;
    assert_eq!(
        (lifetime("default:prices=anthropic-5m"), lifetime("default:prices=anthropic-1h")),
        (Some(300), Some(3_600))
    );
    let tokens = named("tokens:max_tokens=64000,target_tokens=20000,prices=gpt-4o").unwrap().payback.unwrap();
    assert_eq!((tokens.write, tokens.limits), (2.0, Limits::tokens(30_000)));
}

#[test]
fn a_cost_that_makes_no_sense_is_refused() {
    let message = |text: &str| named(text).unwrap_err().to_string();
    for cost in ["0", "-1", "nan", "inf", "much"] {
        let says = format!("max_cost_per_call must be an amount in US dollars above 0, got {cost}");
        assert_eq!(message(&format!("default:max_cost_per_call={cost}")), says);
    }
    assert_eq!(
        message("default:max_cost_per_call=1,prices=abacus"),
        "prices must be a built-in price, or a model that has one, got abacus"
    );
    assert_eq!(
        message("messages:prices=openai"),
        "prices must be given with max_cost_per_call, or for a policy with a target in tokens, got openai"
    );
    assert_eq!(
        message("default:max_cost_per_call=1,max_tokens=1000"),
        "max_cost_per_call must be given without max_tokens, got 1"
    );
    assert_eq!(message("default:max_cost_per_call=0.0000000001"), "limits: a limit of 0 tokens leaves nothing to send");
}

#[test]
fn every_member_of_a_policy_is_a_key() {
    let full = Policy {
        hard: Some(Limits::default()),
        payback: Some(Payback::default()),
        arrival: Some(Truncation::default()),
        ..Policy::production()
    };
    let full = serde_json::to_value(full).unwrap();
    let members: Vec<_> = full.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(members.into_iter().all(is_key));
    assert!(is_key("keep.first") && is_key("max_media") && is_key("target_rounds"));
    assert!(!is_key("max_turn") && !is_key("window") && !is_key(""));
}

#[test]
fn a_preset_of_a_system_has_the_options_of_its_documents() {
    for Preset { name, purpose, .. } in presets() {
        assert!(options_of(name).iter().all(|option| purpose.contains(option.name)), "{purpose}");
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
    assert_eq!([share("true"), share("1"), share("none")], [Some(Tokens::Share(0.7)), Some(Tokens::Share(1.0)), None]);
    assert_eq!(named("managed-window:window_size=0").unwrap().limits.turns, Some(1));
}

#[test]
fn a_wrong_option_is_named_with_what_it_must_be() {
    let message = |text| named(text).unwrap_err().to_string();
    assert_eq!(message("message-window"), "message-window needs max_messages, as in `message-window:max_messages=20`");
    assert_eq!(message("message-window:max_messages=0"), "max_messages must be a positive integer, got 0");
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
    let page = include_str!("../../../docs/reference/policies.md");
    let text = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut policy = parse(text).unwrap();
    policy.stages.remove(1);
    assert_eq!(policy, Policy::production());
    let page = include_str!("../../../docs/concepts/default-policy.md");
    let text = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(parse(text).unwrap(), Policy::production());
}

#[test]
fn every_preset_can_be_written_as_toml_and_read_again() {
    for Preset { name, .. } in presets() {
        let needed = if name == "message-window" { ":max_messages=20" } else { "" };
        let policy = named(&format!("{name}{needed}")).unwrap();
        let text = to_toml(&policy).unwrap();
        assert_eq!(parse(&text).unwrap(), policy, "{text}");
    }
    let policy = named("default:max_tokens=0.7").unwrap();
    let odd = [r#"pace={"calls":3}"#, r#"arrival={"head":9,"marker":"\n[... \"cut\" ...]\n"}"#, "stages=[]"];
    let policy = with(policy, odd).unwrap();
    assert_eq!(parse(&to_toml(&policy).unwrap()).unwrap(), policy);
}

#[test]
fn a_file_may_be_toml_or_json() {
    let toml =
        parse("[limits]\ntokens = 0.7\n[[stages]]\nkind = \"truncate_results\"\nhead = 200\ntail = 200\nkeep = 2\n")
            .unwrap();
    let json =
        parse(r#"{"limits":{"tokens":0.7},"stages":[{"kind":"truncate_results","head":200,"tail":200,"keep":2}]}"#)
            .unwrap();
    assert_eq!(toml, json);
    assert!(parse("limit = 3").is_err());
}
