//! Tests of `lookback tune`.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::common::{Lab, Run, example_messages};

/// A policy that costs less than the default without a cache, and misses nothing in [`sessions`].
const SMALL: &str = "default:max_tokens=2000,target_tokens=1000";

/// Returns sessions of different lengths, one per line. Their answers repeat nothing, so nothing can be missed.
fn sessions(count: usize) -> String {
    let filler = "word ".repeat(300);
    let session = |number: usize| {
        let pair = |turn: usize| {
            format!(
                "{{\"role\":\"user\",\"content\":\"Note {number} and {turn}: {filler}\"}},{{\"role\":\"assistant\",\"content\":\"Yes.\"}}"
            )
        };
        let pairs: Vec<String> = (0..12 + number).map(pair).collect();
        format!("{{\"id\":\"s{number}\",\"messages\":[{}]}}\n", pairs.join(","))
    };
    (0..count).map(session).collect()
}

/// Runs `tune` with prices without a cache, and with one other policy.
fn tune(lab: &Lab, more: &[&str]) -> Run {
    lab.run(&[&["tune", "sessions.jsonl", "--prices", "uncached", "--policy", SMALL][..], more].concat())
}

fn state(lab: &Lab) -> String {
    fs::read_to_string(lab.path(".lookback/tune.jsonl")).unwrap()
}

#[test]
fn the_front_the_default_and_the_policy_are_told() {
    let lab = Lab::new().with_example();
    let policies = ["--policy", "none", "--policy", "messages:max_messages=40,target_messages=20"];
    let run = lab.run(&[&["tune", "session.jsonl"][..], &policies].concat());
    assert!(run.out().contains("Recommended: ") && run.stdout.contains("[limits]"), "{}", run.stdout);
    assert_snapshot!(lab.snapshot(&run));
}

#[test]
fn the_cheapest_policy_that_misses_no_more_is_recommended_and_written() {
    let lab = Lab::new().with("sessions.jsonl", sessions(12));
    let run = tune(&lab, &["--json", "--output", "policy.toml"]);
    run.out();
    assert_eq!(run.stderr, "");
    let lines = run.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["policy"], &lines[1]["policy"]), (&"default".into(), &SMALL.into()));
    assert_eq!((&lines[0]["on_front"], &lines[1]["on_front"]), (&false.into(), &true.into()));
    assert!(lines[..2].iter().all(|line| line["id"] == "total" && line["missed_calls"] == 0));
    let calls: u64 = (0..12).map(|number| 12 + number).sum();
    assert!(lines[..2].iter().all(|line| line["calls"] == calls));
    let number = |name: &str| lines[2][name].as_f64().unwrap();
    assert_eq!((&lines[2]["recommended"], &lines[2]["recordings"]), (&SMALL.into(), &12.into()));
    let cost = |line: &Value| line["cost"].as_f64().unwrap() + line["recall_cost"].as_f64().unwrap();
    assert!((number("times") - cost(&lines[1]) / cost(&lines[0])).abs() < 1e-9);
    assert!(
        number("low") < number("times") && number("times") < number("high") && number("high") < 1.0,
        "{}",
        lines[2]
    );
    assert_eq!(number("better"), 1.0);
    let written = fs::read_to_string(lab.path("policy.toml")).unwrap();
    let policy = lookback_presets::parse(&written).unwrap();
    assert_eq!(policy, lookback_presets::named(SMALL).unwrap());
    assert!(written.starts_with("# Written by `lookback tune`") && written.contains(SMALL), "{written}");
    // Other commands accept the policy.
    lab.run(&["replay", "sessions.jsonl", "--policy", "policy.toml", "--json"]).out();
}

#[test]
fn a_policy_on_standard_output_comes_last_and_few_recordings_are_said_to_be_few() {
    let lab = Lab::new().with("sessions.jsonl", sessions(3));
    let run = tune(&lab, &[]);
    assert!(run.out().contains("3 recordings cannot show how sure this is"), "{}", run.stdout);
    let (_, toml) = run.stdout.split_once("\n# Written by").unwrap();
    let policy = lookback_presets::parse(&format!("# Written by{toml}")).unwrap();
    assert_eq!(policy, lookback_presets::named(SMALL).unwrap());
    let lines = tune(&lab, &["--json"]).lines();
    assert_eq!(lines[2]["recommended"], SMALL);
    assert!(["low", "high", "better"].iter().all(|name| lines[2][name].is_null()));
}

#[test]
fn a_second_run_replays_only_what_is_not_known() {
    let lab = Lab::new().with("sessions.jsonl", sessions(10));
    let first = tune(&lab, &["--json"]).out().to_owned();
    let kept = state(&lab);
    assert_eq!(kept.lines().count(), 20);
    assert!(!kept.contains("word") && !kept.contains("\"s0\""), "figures only");
    assert_eq!(tune(&lab, &["--json"]).out(), first);
    assert_eq!(state(&lab), kept, "nothing is replayed again");
    // A killed run leaves a torn line.
    let torn = kept[..kept.len() / 2].rfind('\n').unwrap() + 9;
    fs::write(lab.path(".lookback/tune.jsonl"), &kept[..torn]).unwrap();
    assert_eq!(tune(&lab, &["--json"]).out(), first);
    let whole = state(&lab);
    let readable = |text: &str| text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert_eq!((readable(&whole), whole.lines().count()), (20, 21));
    // Other prices or another policy need a new replay, but the same recording with another name does not.
    lab.run(&["tune", "sessions.jsonl", "--prices", "openai", "--policy", SMALL]).out();
    assert_eq!(readable(&state(&lab)), 40);
    tune(&lab, &["--json", "--policy", "none"]).out();
    assert_eq!(readable(&state(&lab)), 50);
    fs::write(lab.path("sessions.jsonl"), sessions(10).replace("\"id\":\"s", "\"id\":\"t")).unwrap();
    assert_eq!(tune(&lab, &["--json"]).out(), first);
    assert_eq!(readable(&state(&lab)), 50);
}

#[test]
fn a_recording_that_is_given_twice_counts_once() {
    let lab = Lab::new().with("sessions.jsonl", sessions(2).repeat(3));
    let run = tune(&lab, &["--json"]);
    run.out();
    assert_eq!(run.lines()[2]["recordings"], 2);
    assert_eq!(state(&lab).lines().count(), 4);
}

#[test]
fn bounds_that_no_policy_keeps_to_are_answered_with_no() {
    let lab = Lab::new().with_example();
    let args = ["tune", "session.jsonl", "--policy", "messages", "--spans", "0", "--output", "policy.toml"];
    let run = lab.run(&args);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("No policy is within these bounds"), "{}", run.stdout);
    let run = lab.run(&[&args[..], &["--json"]].concat());
    assert_eq!((run.code, &run.lines()[2]["recommended"]), (Some(1), &Value::Null));
    assert!(!lab.path("policy.toml").exists());
    // If the bounds allow what they miss, the cheapest policy is recommended.
    let wide = ["--missed", "100", "--spans", "100", "--calls", "100", "--policy", "messages:max_messages=9"];
    let run = lab.run(&[&["tune", "session.jsonl", "--json", "--prices", "uncached"][..], &wide].concat());
    run.out();
    assert_eq!(run.lines()[2]["recommended"], "messages:max_messages=9");
}

#[test]
fn wrong_bounds_and_files_are_wrong_questions() {
    let lab =
        Lab::new().with("sessions.jsonl", sessions(1)).with("silent.jsonl", "{\"role\":\"user\",\"content\":\"a\"}");
    for percent in ["101", "-1", "NaN", "some"] {
        let missed = format!("--missed={percent}");
        let run = tune(&lab, &[&missed]);
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains("a percentage is a number from 0 to 100"), "{}", run.stderr);
    }
    lab.run(&["tune", "silent.jsonl", "--policy", "none"]).fails(2, "there is nothing to compare");
    lab.run(&["tune", "missing.jsonl"]).fails(2, "missing.jsonl");
    lab.run(&["tune", "sessions.jsonl", "--policy", "recent"]).fails(2, "recent");
    tune(&lab, &["--state", "."]).fails(2, ".");
    tune(&lab, &["--output", "missing/policy.toml"]).fails(2, "missing/policy.toml could not be written");
}

#[test]
fn a_recording_that_a_policy_cannot_replay_is_left_out() {
    let lab = Lab::new().with("sessions.jsonl", sessions(2));
    let run = tune(&lab, &["--policy", "default:hard.tokens=5"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stderr.matches("warning: left out: ").count(), 2, "{}", run.stderr);
    assert!(run.stderr.contains("hard limit") && run.stderr.contains("error: there is nothing to compare"));
}

#[cfg(unix)]
#[test]
fn a_run_that_is_ended_goes_on_where_it_was() {
    use std::process::Stdio;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    let lab = Lab::new();
    let messages = example_messages()[1..120].join(",");
    let line = |number: usize| {
        let own = format!("{{\"role\":\"system\",\"content\":\"You are copy {number}.\"}}");
        format!("{{\"id\":\"s{number}\",\"messages\":[{own},{messages}]}}\n")
    };
    fs::write(lab.path("many.jsonl"), (0..24).map(line).collect::<String>()).unwrap();
    let args = ["tune", "many.jsonl", "--policy", "none", "--json", "--output", "policy.toml"];
    let mut command = lab.command(crate::common::LOOKBACK);
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let kept = || fs::read_to_string(lab.path(".lookback/tune.jsonl")).unwrap_or_default();
    let begun = Instant::now();
    while kept().lines().count() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(300), "no replay is kept");
        sleep(Duration::from_millis(2));
    }
    let pressed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(pressed.success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("of 24 recordings"), "{ended:?}");
    for line in String::from_utf8(ended.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["cut_short"], true, "what is complete is told as a part");
    }
    assert!(!lab.path("policy.toml").exists());
    let before = kept();
    assert!(before.ends_with('\n') && before.lines().count() < 48, "{}", before.lines().count());
    let run = lab.run(&args);
    run.out();
    assert_eq!(run.lines()[2]["recordings"], 24);
    let after = kept();
    assert!(after.starts_with(&before), "what was known is not replayed again");
    assert_eq!(after.lines().count(), 48);
}
