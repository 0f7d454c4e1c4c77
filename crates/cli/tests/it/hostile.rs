//! Tests with hostile input, which tries to block the program or to control the terminal.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{LOOKBACK, Lab, Run};
use futures_lite::future::block_on;
use lookback_sqlite::SqliteStore;
use lookback_store::{Append, Record};
use lookback_store::{LogName, Store};

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_is_no_store() {
    let lab = Lab::new();
    pipe(&lab.path("memory.db"));
    fs::create_dir_all(lab.path("files/memory/chat")).unwrap();
    fs::write(lab.path("files/lookback.lock"), "").unwrap();
    pipe(&lab.path("files/memory/chat/turns.jsonl"));
    for args in [
        &["sessions", "list", "--store", "memory.db"][..],
        &["facts", "add", "--shared", "preference", "Tea", "--store", "memory.db"],
        &["sessions", "show", "chat", "--store", "files/"],
        &["recall", "chat", "tea", "--store", "files"],
    ] {
        lab.run(args).fails(2, "is not a regular file but a folder, a pipe, a device or a socket");
    }
}

#[test]
fn an_input_without_an_end_is_given_up() {
    let lab = Lab::new();
    lab.run(&["check", "/dev/zero"]).fails(2, "/dev/zero: more than 1 GiB without an end");
}

#[test]
fn a_pipe_that_nobody_writes_to_is_said_to_be_waited_for() {
    let lab = Lab::new();
    pipe(&lab.path("pipe"));
    let mut command = lab.command(LOOKBACK);
    command.args(["check", "pipe"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Opening a pipe for writing waits for its reader.
    fs::write(lab.path("pipe"), r#"[{"role":"user","content":"Hello"}]"#).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "waiting for input on the pipe pipe\n");
}

/// Runs with colors, as on a terminal, so that no escape sequence is removed from the output.
fn on_terminal(lab: &Lab, args: &[&str]) -> Run {
    lab.run_with(args, "", &[("CLICOLOR_FORCE", "1")])
}

/// Asserts that a value with an escape sequence and a line break was printed on one line, with both escaped.
#[track_caller]
fn is_harmless(run: &Run, says: &str) {
    let line = run.stderr.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n') && !line.contains("\u{1b}[35m"), "{line:?}");
    assert!(line.contains(says), "{line:?}");
}

#[test]
fn a_role_cannot_pose_as_a_line_of_ours() {
    let role = r#"[{"role":"x\u001b[35m\nerror: y","content":"a"}]"#;
    let lab = Lab::new().with("role.json", role);
    for command in ["check", "window"] {
        let run = on_terminal(&lab, &[command, "role.json", "--dialect", "openai-chat"]);
        assert_eq!(run.code, Some(2));
        is_harmless(&run, "unknown role `x\\u{1b}[35m\\nerror: y`");
    }
}

#[test]
fn an_identifier_cannot_pose_as_a_line_of_ours() {
    let call = r#"{"id":"x\u001b[35m\nwarning: y","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    let messages = format!(
        r#"[{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{call}]}},{{"role":"user","content":"b"}}]"#
    );
    let lab = Lab::new().with("id.json", messages);
    let run = on_terminal(&lab, &["window", "id.json", "--dialect", "openai-chat"]);
    assert_eq!(run.code, Some(0));
    is_harmless(&run, "x\\u001b[35m\\u000awarning: y");
}

#[test]
fn a_file_cannot_pose_as_a_line_of_ours() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("kb/memory/one")).unwrap();
    fs::write(lab.path("kb/memory/one/mem-\u{1b}[35m\nerror: y.json"), "{").unwrap();
    let run = on_terminal(&lab, &["facts", "import", "kb", "--dry-run"]);
    assert_eq!(run.code, Some(1));
    is_harmless(&run, "mem-\\u001b[35m\\u000aerror: y.json");
}

#[test]
fn the_errors_of_toml_keep_their_lines_and_nothing_else() {
    let lab = Lab::new().with("policy.toml", "[limits\n").with("odd.toml", "limit\u{1b}[35m = 3\n");
    let run = on_terminal(&lab, &["window", "none.json", "--policy", "policy.toml"]);
    assert!(run.stderr.lines().count() > 2, "{}", run.stderr);
    let run = on_terminal(&lab, &["window", "none.json", "--policy", "odd.toml"]);
    assert!(!run.stderr.contains("\u{1b}[35m"), "{:?}", run.stderr);
}

#[test]
fn a_name_that_turns_the_direction_of_text_is_escaped() {
    let lab = Lab::new();
    let log: LogName = "a\u{202e}b".parse().unwrap();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    let record = Record::new("{}").text("apple");
    block_on(store.append(&log, Append::new(0, [record]))).unwrap();
    let run = lab.run(&["sessions", "list", "--store", "s.db"]);
    assert!(run.out().contains("a\\u202eb") && !run.stdout.contains('\u{202e}'), "{}", run.stdout);
    let run = lab.run(&["sessions", "delete", log.as_str(), "--store", "s.db"]);
    assert_eq!(run.stderr, "deleted a\\u202eb\n");
}

#[test]
fn neither_a_policy_nor_prices_can_pose_as_a_line_of_ours() {
    let price = "[[price]]\nname = \"x\\u001b[35m\\nwarning: y\"\nprovider = \"\"\nmodels = []\ninput = 1.0\nwrite = 1.0\nread = 1.0\nminimum = 0\nstep = 1\nttl = 1\nentries = \"every\"\ndate = \"2026\"\nsource = \"\\u001b[35mz\"\n";
    let lab = Lab::new()
        .with("p.toml", price)
        .with("ev\u{1b}[35mil.toml", "")
        .with("a.json", r#"[{"role":"user","content":"a"}]"#);
    let run = on_terminal(&lab, &["replay", "a.json", "--prices", "p.toml", "--policy", "ev\u{1b}[35mil.toml"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.stdout.contains("\u{1b}[35m") && !run.stdout.contains("\nwarning: y"), "{:?}", run.stdout);
    assert!(!run.stderr.contains("\u{1b}[35m"), "{:?}", run.stderr);
}
