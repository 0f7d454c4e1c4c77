//! `lookback handoff`: a conversation of one agent, continued by another one.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::common::{Lab, Run};
use crate::logs::{home, run};

/// Returns a snapshot without the identifiers of new conversations and the folders of the test.
fn snapshot(lab: &Lab, run: &Run) -> String {
    let text = lab.snapshot(run);
    let is_id = |word: &str| word.len() >= 32 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let word = |word: &str| {
        let core = word.trim_start_matches("ses_");
        if is_id(core) { word.replace(core, "ID") } else { word.to_owned() }
    };
    text.split_inclusive([' ', '\n', '.'])
        .map(|piece| {
            let end = piece.len() - piece.trim_end_matches([' ', '\n', '.']).len();
            let (body, end) = piece.split_at(piece.len() - end);
            let at = body.char_indices().rev().nth(35).map_or(0, |(at, _)| at);
            let body = if body.get(at..).is_some_and(is_id) { format!("{}ID", &body[..at]) } else { word(body) };
            format!("{body}{end}")
        })
        .collect()
}

fn json(run: &Run) -> Value {
    serde_json::from_str(run.out()).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

#[test]
fn a_conversation_goes_where_the_other_agent_looks_for_it() {
    let lab = home();
    let done = run(&lab, &["handoff", "codex", "--project", "/home/ada/kettle", "--agent", "pi"]);
    assert_snapshot!(snapshot(&lab, &done));
    let again = json(&run(&lab, &["handoff", "codex", "--project", "/home/ada/kettle", "--agent", "pi", "--json"]));
    let file = again["file"].as_str().unwrap();
    assert!(file.starts_with(lab.path("home/.codex/sessions").to_str().unwrap()), "{file}");
    // The list has it, as a conversation of the other agent in the same folder.
    let listed = run(&lab, &["replay", "--list", "--json", file]);
    let line = &listed.lines()[0];
    assert_eq!((line["agent"].as_str(), line["project"].as_str()), (Some("Codex"), Some("/home/ada/kettle")));
    assert_eq!(line["messages"], again["messages"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn each_agent_gets_the_conversations_of_each_other_one() {
    let lab = home();
    for file in [
        ".claude/projects/-home-ada-kettle/2.jsonl",
        ".codex/sessions/2026/03/01/rollout-1.jsonl",
        ".pi/agent/sessions/--home-ada-kettle--/1.jsonl",
        ".gemini/tmp/kettle/chats/session-1.jsonl",
        ".copilot/session-state/1/events.jsonl",
    ] {
        let (file, out) = (lab.path("home").join(file), lab.path("out"));
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        for target in ["claude", "codex", "gemini", "opencode", "pi", "qwen"] {
            let args = ["handoff", target, file, "--out", out, "--json", "--policy", "none"];
            let id = run(&lab, &["replay", "--list", "--json", file]).lines()[0]["id"].clone();
            let _ = fs::remove_file(out);
            let done = run(&lab, &[&args[..], &["--id", id.as_str().unwrap()]].concat());
            assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{file} for {target}");
            let listed = run(&lab, &["replay", "--list", "--json", out]);
            assert_eq!(listed.stderr, "", "{file} for {target}");
            assert!(listed.lines()[0]["messages"].as_u64() >= Some(1), "{file} for {target}: {}", listed.stdout);
        }
    }
}

#[test]
fn the_conversation_is_taken_again_and_not_its_copy() {
    let lab = home();
    let of = |target: &str| json(&run(&lab, &["handoff", target, "--project", "/home/ada/kettle", "--json"]));
    let (first, second) = (of("opencode"), of("qwen"));
    assert_eq!(first["from"], second["from"]);
    fs::remove_file(first["file"].as_str().unwrap()).unwrap();
    let third = of("pi");
    assert_ne!(third["from"]["agent"], "pi");
}

/// A file in a message is no part of most agents' logs, so a line says that there was one.
#[test]
fn a_file_becomes_a_line() {
    let lab = Lab::new();
    let pdf = r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}"#;
    let body = format!(
        r#"[{{"role":"user","content":[{pdf},{{"type":"text","text":"And this?"}}]}},{{"role":"assistant","content":"No."}}]"#
    );
    fs::create_dir(lab.path("home")).unwrap();
    fs::write(lab.path("log.json"), body).unwrap();
    for target in ["codex", "pi", "opencode"] {
        let done = run(&lab, &["handoff", target, "log.json", "--out", target, "--json"]);
        assert_eq!(json(&done)["parts_left_out"], 1, "{target}");
        let text = fs::read_to_string(lab.path(target)).unwrap();
        assert!(text.contains("[file: pdf, 5 bytes]") && text.contains("And this?"), "{target}: {text}");
    }
}

#[test]
fn no_file_is_overwritten() {
    let lab = home();
    let log = lab.path("home/.pi/agent/sessions/--home-ada-kettle--/1.jsonl");
    let (log, before) = (log.to_str().unwrap(), fs::read_to_string(&log).unwrap());
    run(&lab, &["handoff", "codex", log, "--out", log]).fails(2, "exists, and is not overwritten");
    run(&lab, &["handoff", "cursor", log, "--out", log]).fails(2, "exists, and is not overwritten");
    run(&lab, &["week", "--since", "2020-01-01", "--html", log]).fails(2, "exists, and is not overwritten");
    assert_eq!(fs::read_to_string(log).unwrap(), before);
}

#[test]
fn an_agent_that_resumes_nothing_gets_a_note() {
    let lab = home();
    let done =
        run(&lab, &["handoff", "cursor", "--agent", "codex", "--project", "/home/ada/kettle", "--tokens", "200"]);
    assert_snapshot!(lab.snapshot(&done));
    let note = run(&lab, &["handoff", "pi", "--agent", "codex", "--project", "/home/ada/kettle", "--note"]);
    assert_eq!((note.code, note.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_conversation_that_is_not_there_is_said_to_be_missing() {
    let lab = home();
    run(&lab, &["handoff", "codex"]).fails(2, "no conversation was found");
    run(&lab, &["handoff", "codex", "--id", "gone"]).fails(2, "no conversation is named `gone`");
    run(&lab, &["handoff", "nobody"]).fails(2, "the agents are Codex, pi,");
    let folder = lab.path("folder");
    fs::create_dir(&folder).unwrap();
    run(&lab, &["handoff", "codex", "--agent", "pi", "--project", "/", "--out", "folder"]).fails(2, "is a directory");
}
