//! The logs of agents on a machine: `replay --list`, the choice of conversations, and `uncompact`.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use crate::common::{Lab, Run};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/tests");

/// Returns a folder with a home folder, in which five agents keep logs.
pub(crate) fn home() -> Lab {
    let lab = Lab::new();
    for (from, to) in [
        ("claude_code/compacted.jsonl", ".claude/projects/-home-ada-shed/1.jsonl"),
        ("claude_code/session.jsonl", ".claude/projects/-home-ada-kettle/2.jsonl"),
        ("logs/codex.jsonl", ".codex/sessions/2026/03/01/rollout-1.jsonl"),
        ("logs/pi.jsonl", ".pi/agent/sessions/--home-ada-kettle--/1.jsonl"),
        ("logs/gemini_cli.jsonl", ".gemini/tmp/kettle/chats/session-1.jsonl"),
        ("logs/copilot_cli.jsonl", ".copilot/session-state/1/events.jsonl"),
    ] {
        let to = lab.path("home").join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(Path::new(FILES).join(from), to).unwrap();
    }
    lab
}

pub(crate) fn run(lab: &Lab, args: &[&str]) -> Run {
    lab.run_with(args, "", &[("HOME", lab.path("home").to_str().unwrap())])
}

fn agents(run: &Run) -> Vec<String> {
    run.lines().iter().map(|line| line["agent"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_conversations_on_a_machine_are_listed_the_newest_first() {
    let lab = home();
    let listed = run(&lab, &["replay", "--list"]);
    assert_snapshot!(lab.snapshot(&listed));
    // Without a file, there is nothing to replay yet.
    assert_eq!(run(&lab, &["replay"]).stdout, listed.stdout);
    let lines = run(&lab, &["replay", "--list", "--json"]);
    assert!(lines.lines().is_sorted_by(|one, other| one["newest"].as_str() >= other["newest"].as_str()));
}

#[test]
fn conversations_are_chosen_by_agent_project_and_time() {
    let lab = home();
    assert_eq!(
        agents(&run(&lab, &["replay", "--list", "--json", "--agent", "pi", "--agent", "codex"])),
        ["Codex", "pi"]
    );
    assert_eq!(agents(&run(&lab, &["replay", "--list", "--json", "--agent", "claude"])).len(), 2);
    let here = run(&lab, &["replay", "--list", "--json", "--project", "/home/ada/kettle"]);
    assert_eq!(agents(&here).len(), 6, "{}", here.stdout);
    run(&lab, &["replay", "--project", "/home/ad"]).fails(2, "no conversation was found");
    assert_eq!(agents(&run(&lab, &["replay", "--list", "--json", "--since", "2026-01-01"])).len(), 7);
    run(&lab, &["replay", "--since", "2100-01-01"]).fails(2, "no conversation was found");
    run(&lab, &["replay", "--since", "soon"]).fails(2, "use a time such as 7d, 12h or 2026-11-01");
    run(&lab, &["replay", "--list", "home/.codex", "--agent", "pi"]).fails(2, "no conversation was found");
    run(&lab, &["replay", "--list", "nowhere.jsonl"]).fails(2, "nowhere.jsonl: No such file");
    run(&lab, &["replay", "--agent", "nobody"]).fails(2, "the agents are Codex, pi,");
    let replayed = run(&lab, &["replay", "--agent", "pi", "--json", "--policy", "none"]);
    assert_eq!(replayed.lines().last().unwrap()["calls"], 3, "{}", replayed.stdout);
    assert_eq!(run(&lab, &["tune", "--agent", "pi", "--policy", "none", "--json"]).code, Some(0));
}

#[test]
fn a_damaged_line_is_named_in_a_warning() {
    let lab = home();
    let log = lab.path("home/.pi/agent/sessions/--home-ada-kettle--/1.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("\"type\":\"message\"", "\"type\":mess", 1)).unwrap();
    let listed = run(&lab, &["replay", "--list", "--agent", "pi"]);
    assert_eq!(listed.code, Some(0));
    assert!(listed.stderr.contains("1.jsonl: line 3 is damaged"), "{}", listed.stderr);
}

#[test]
fn uncompact_shows_what_the_last_compaction_dropped() {
    let lab = home();
    let shown = run(&lab, &["uncompact", "--agent", "codex"]);
    assert_snapshot!(lab.snapshot(&shown));
    let note = run(&lab, &["uncompact", "--agent", "pi", "--note", "--tokens", "30"]);
    assert!(note.out().starts_with("From the messages that your summary replaced."), "{}", note.stdout);
    let all = run(&lab, &["uncompact", "--all", "--json"]);
    assert_eq!(all.lines().len(), 5, "{}", all.stdout);
    assert_eq!(run(&lab, &["uncompact", "--project", "/nowhere"]).code, Some(1));
}
