//! `lookback hook` and `lookback forget`: what an agent's hooks answer, keep and leave alone.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Lab, Run};

/// Runs a command as a person whose home is in the lab.
fn run(lab: &Lab, args: &[&str], stdin: &str) -> Run {
    let home = lab.path("home");
    lab.run_with(args, stdin, &[("HOME", home.to_str().unwrap())])
}

/// Returns a lab with a home and a project.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::create_dir_all(lab.path("kettle/.git")).unwrap();
    lab
}

/// Returns an event of Claude Code in the project.
fn event(lab: &Lab, name: &str, members: Value) -> String {
    let mut event = json!({
        "session_id": "0198", "cwd": lab.path("kettle"), "hook_event_name": name,
        "transcript_path": lab.path("log.jsonl"),
    });
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event.to_string()
}

fn result(lab: &Lab, output: &str) -> String {
    let call = json!({
        "tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "make"},
        "tool_response": {"stdout": output, "stderr": "", "interrupted": false},
    });
    event(lab, "PostToolUse", call)
}

fn long() -> String {
    (1..=3_000).map(|line| format!("{line}: the kettle whistles\n")).collect()
}

fn hook(lab: &Lab, event: &str) -> Run {
    let run = run(lab, &["hook", "claude-code"], event);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    run
}

/// Returns the context that a hook adds.
fn context(lab: &Lab, name: &str, members: Value) -> Option<String> {
    let answer = hook(lab, &event(lab, name, members));
    let answer: Value = serde_json::from_str(Some(&*answer.stdout).filter(|text| !text.is_empty())?).unwrap();
    assert_eq!(answer["hookSpecificOutput"]["hookEventName"], name);
    Some(answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned())
}

fn project(lab: &Lab) -> String {
    let kettle = lab.path("kettle");
    run(lab, &["forget", "--project", kettle.to_str().unwrap(), "--json"], "").json()["project"]
        .as_str()
        .unwrap()
        .to_owned()
}

const STORE: &str = "home/.local/share/lookback/lookback.db";

fn journal(lab: &Lab) -> Vec<Value> {
    let text = fs::read_to_string(lab.path("home/.local/share/lookback/hooks.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for work in the background.
fn soon(mut is_done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing happened");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_long_result_is_shortened_in_its_form_and_others_pass() {
    let lab = lab();
    let answer: Value = serde_json::from_str(hook(&lab, &result(&lab, &long())).out()).unwrap();
    let output = &answer["hookSpecificOutput"]["updatedToolOutput"];
    assert_eq!((&output["interrupted"], &output["stderr"]), (&json!(false), &json!("")));
    let project = project(&lab);
    let shown = output["stdout"].as_str().unwrap();
    assert!(shown.contains(&format!("entry 1 of hooks/{project}/results-")), "{shown}");
    assert!(shown.starts_with("1: the kettle") && shown.ends_with("3000: the kettle whistles\n"), "{shown}");
    let store = lab.path(STORE);
    let log = shown.split_once("entry 1 of ").unwrap().1.split(' ').next().unwrap();
    let whole = run(&lab, &["recall", log, "--entry", "1", "--store", store.to_str().unwrap()], "");
    assert!(whole.out().contains("| 150: the kettle whistles"), "{}", whole.stdout);
    for passes in [
        result(&lab, "short"),
        result(&lab, ""),
        event(&lab, "Notification", json!({})),
        event(&lab, "PostToolUse", json!({})),
    ] {
        assert_eq!(hook(&lab, &passes).stdout, "");
    }
    // What was recalled, and what the model wrote itself, must not be cut.
    for tool in ["mcp__lookback__recall", "Edit"] {
        let mut event: Value = serde_json::from_str(&result(&lab, &long())).unwrap();
        event["tool_name"] = json!(tool);
        assert_eq!(hook(&lab, &event.to_string()).stdout, "");
    }
}

#[test]
fn whatever_fails_the_agent_goes_on_and_the_journal_says_why() {
    let lab = lab();
    for event in ["", "{", "null", "[]", r#"{"hook_event_name":7}"#, "\u{0}"] {
        assert_eq!(hook(&lab, event).stdout, "");
    }
    assert!(journal(&lab).is_empty());
    // With exit code 2, a hook would stop its agent.
    for args in [&["hook"][..], &["hook", "nobody"], &["hook", "claude-code", "--days", "x"], &["hook", "--nonsense"]] {
        let wrong = run(&lab, args, "{}");
        assert_eq!((wrong.code, &*wrong.stdout), (Some(0), ""), "{}", wrong.stderr);
        assert!(wrong.stderr.starts_with("error: "), "{}", wrong.stderr);
    }
    let broken = lab.path("broken.db");
    fs::write(&broken, "this is no database, but a text of some length".repeat(100)).unwrap();
    let no_folder = broken.join("below");
    for store in [broken.to_str().unwrap(), no_folder.to_str().unwrap(), "redis://127.0.0.1:1"] {
        let before = journal(&lab).len();
        let run = run(&lab, &["hook", "claude-code", "--store", store], &result(&lab, &long()));
        assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "", ""), "{store}");
        let lines = journal(&lab);
        let last = lines.last().unwrap();
        assert!(lines.len() == before + 1 && last["event"] == "failed" && last["why"].is_string(), "{store}: {last}");
    }
}

#[test]
fn a_project_with_an_ignore_file_is_left_alone() {
    let lab = lab();
    fs::write(lab.path("kettle/.lookback-ignore"), "").unwrap();
    assert_eq!(hook(&lab, &result(&lab, &long())).stdout, "");
    hook(&lab, &event(&lab, "Stop", json!({})));
    assert!(!lab.path("home/.local").exists());
    // Also if it is below the project, and only the agent or the tool is there.
    fs::rename(lab.path("kettle/.lookback-ignore"), lab.path("kettle/.git/keep")).unwrap();
    fs::create_dir_all(lab.path("kettle/secret/deep")).unwrap();
    fs::write(lab.path("kettle/secret/.lookback-ignore"), "").unwrap();
    let mut inside: Value = serde_json::from_str(&result(&lab, &long())).unwrap();
    inside["cwd"] = json!(lab.path("kettle/secret/deep"));
    let mut read: Value = serde_json::from_str(&result(&lab, &long())).unwrap();
    read["tool_input"] = json!({"file_path": lab.path("kettle/secret/keys.txt")});
    for event in [inside, read] {
        assert_eq!(hook(&lab, &event.to_string()).stdout, "");
    }
    assert!(!lab.path("home/.local").exists());
    assert_ne!(hook(&lab, &result(&lab, &long())).stdout, "");
}

#[test]
fn facts_are_told_once_then_their_changes_and_again_when_they_were_forgotten() {
    let lab = lab();
    assert_eq!(context(&lab, "SessionStart", json!({"source": "startup"})), None);
    let kettle = lab.path("kettle");
    let add = |kind: &str, text: &str| {
        let place = ["--shared", "--project", kettle.to_str().unwrap()];
        run(&lab, &[&["facts", "add", kind, text][..], &place].concat(), "").out();
    };
    let asks = || context(&lab, "UserPromptSubmit", json!({"prompt": "Go on."}));
    assert_eq!(asks(), None);
    add("constraint", "Never push to main.");
    let told = asks().unwrap();
    assert!(told.contains("What has changed") && told.contains("Never push to main."), "{told}");
    assert_eq!(asks(), None);
    assert_eq!(context(&lab, "SessionStart", json!({"source": "resume"})), None);
    for source in ["compact", "clear", "startup"] {
        let told = context(&lab, "SessionStart", json!({"source": source})).unwrap();
        assert!(told.contains("What is known from before") && told.contains("Never push to main."), "{told}");
        assert_eq!(asks(), None);
    }
    // Another conversation has not been told anything.
    let told = context(&lab, "SessionStart", json!({"source": "resume", "session_id": "0199"})).unwrap();
    assert!(told.contains("Never push to main."), "{told}");
}

#[test]
fn a_conversation_is_recorded_whole_and_without_secrets_and_forgotten_on_request() {
    let lab = lab();
    let answer: Value = serde_json::from_str(hook(&lab, &result(&lab, &long())).out()).unwrap();
    let shown = &answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"];
    let key = ["ghp_", "Zx81kQ0pLm27Rt5vWs93Yb64Nc1Df8Ge2Hj7"].concat();
    let (said, call) = (
        format!("My token is {key}"),
        json!({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}),
    );
    let line = |uuid: &str, parent: Option<&str>, role: &str, content: Value| {
        json!({
            "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "0198", "cwd": lab.path("kettle"),
            "timestamp": "2026-11-01T10:00:00Z", "message": {"role": role, "content": content},
        })
        .to_string()
    };
    let mut log = vec![
        line("a", None, "user", json!(said)),
        line("b", Some("a"), "assistant", json!([call])),
        line("c", Some("b"), "user", json!([{"type": "tool_result", "tool_use_id": "c1", "content": shown}])),
    ];
    let stops = |log: &[String]| {
        fs::write(lab.path("log.jsonl"), log.join("\n")).unwrap();
        let before = journal(&lab).len();
        assert_eq!(hook(&lab, &event(&lab, "Stop", json!({}))).stdout, "");
        soon(|| journal(&lab).len() > before);
        journal(&lab).pop().unwrap()
    };
    let recorded = stops(&log);
    assert_eq!(
        (&recorded["event"], &recorded["messages"], &recorded["secrets"]),
        (&json!("recorded"), &json!(3), &json!(1))
    );
    log.push(line("d", Some("c"), "assistant", json!("It whistles.")));
    assert_eq!(stops(&log)["messages"], 1);
    let (project, store) = (project(&lab), lab.path(STORE));
    let place = ["--store", store.to_str().unwrap()];
    let session = format!("hooks/{project}/claude-code/0198");
    let export = run(&lab, &[&["sessions", "export", &session][..], &place].concat(), "");
    assert!(export.out().contains("150: the kettle whistles") && !export.stdout.contains(&key), "{}", export.stdout);
    assert!(export.stdout.contains("[secret: ") && export.stdout.contains("It whistles."), "{}", export.stdout);
    let kettle = lab.path("kettle");
    let forget = ["forget", "--project", kettle.to_str().unwrap()];
    let told = run(&lab, &forget, "");
    assert!(told.out().contains("delete with --yes"), "{}", told.stdout);
    assert!(run(&lab, &[&forget[..], &["--yes"]].concat(), "").out().contains("nothing is left"));
    assert_eq!(run(&lab, &[&["sessions", "list", "--json"][..], &place].concat(), "").stdout, "");
    let bytes = fs::read(&store).unwrap();
    let is_in = |words: &str| bytes.windows(words.len()).any(|part| part == words.as_bytes());
    assert!(!is_in("the kettle whistles") && !is_in(&project), "the file still has contents");
    assert!(journal(&lab).iter().all(|line| line["project"] != project));
}

#[test]
fn what_is_kept_is_bounded() {
    let lab = lab();
    hook(&lab, &result(&lab, &long()));
    fs::write(lab.path("log.jsonl"), "").unwrap();
    let (log, kettle) = (lab.path("log.jsonl"), lab.path("kettle"));
    let record = [
        "hook",
        "claude-code",
        "--record",
        log.to_str().unwrap(),
        "--session",
        "1",
        "--project",
        kettle.to_str().unwrap(),
    ];
    let logs = || run(&lab, &["forget", "--project", kettle.to_str().unwrap(), "--json"], "").json()["logs"].as_u64();
    fs::write(
        &log,
        json!({"type": "user", "uuid": "a", "sessionId": "1", "message": {"role": "user", "content": "Hi"}})
            .to_string(),
    )
    .unwrap();
    assert_eq!(run(&lab, &record, "").code, Some(0));
    assert_eq!(logs(), Some(2));
    // The older of the two goes first.
    run(&lab, &[&record[..], &["--megabytes", "0"]].concat(), "").out();
    assert_eq!(logs(), Some(0));
}

#[test]
fn a_person_sees_what_was_cut_and_turns_hooks_off_for_a_conversation() {
    let lab = lab();
    let ask = |option: &str| run(&lab, &["hook", "claude-code", option, "--session", "0198"], "").out().to_owned();
    assert_eq!(ask("--hidden"), "Lookback has shortened no result in this conversation.\n");
    hook(&lab, &result(&lab, &long()));
    let hidden = ask("--hidden");
    assert!(hidden.starts_with("entry 1: Bash, ") && hidden.contains(", just now\n"), "{hidden}");
    let command = hidden.lines().last().unwrap().strip_prefix("Read one: lookback ").unwrap().to_owned();
    let args: Vec<&str> = command.split(' ').collect();
    assert!(run(&lab, &args, "").out().contains("| 150: the kettle whistles"));
    let line = |members: Value| {
        let run = run(&lab, &["hook", "claude-code", "--status-line"], &members.to_string());
        run.out().trim_end().to_owned()
    };
    let said = line(json!({"session_id": "0198", "context_window": {"used_percentage": 41.7}}));
    assert!(said.starts_with("Lookback: 42 % full, ") && said.ends_with(" tokens saved, last cut just now"), "{said}");
    assert_eq!(line(json!({"session_id": "another"})), "Lookback");
    assert_eq!(line(json!(null)), "Lookback");
    assert_eq!(ask("--off"), "Lookback is off for this conversation.\n");
    assert_eq!(hook(&lab, &result(&lab, &long())).stdout, "");
    assert_eq!(line(json!({"session_id": "0198"})), "Lookback is off for this conversation");
    let mut other: Value = serde_json::from_str(&result(&lab, &long())).unwrap();
    other["session_id"] = json!("0199");
    assert_ne!(hook(&lab, &other.to_string()).stdout, "");
    assert_eq!(ask("--on"), "Lookback is on for this conversation.\n");
    assert_ne!(hook(&lab, &result(&lab, &long())).stdout, "");
    assert_eq!(run(&lab, &["hook", "claude-code", "--off"], "").code, Some(2));
}
