//! What the command line is given to stop it, or to write to the terminal of whoever runs it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{LOOKBACK, Lab};

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
        lab.run(args).fails(2, "is no regular file, but a folder, a pipe, a device or a socket");
    }
}

#[test]
fn an_input_without_an_end_is_given_up() {
    let lab = Lab::new();
    lab.run(&["check", "/dev/zero"]).fails(2, "/dev/zero: more than 1 GiB came, without an end");
}

#[test]
fn a_pipe_that_nobody_writes_to_is_said_to_be_waited_for() {
    let lab = Lab::new();
    pipe(&lab.path("pipe"));
    let mut command = lab.command(LOOKBACK);
    command.args(["check", "pipe"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Opening a pipe to write to it waits for its reader.
    fs::write(lab.path("pipe"), r#"[{"role":"user","content":"Hello"}]"#).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "waiting for somebody to write to pipe, which is a pipe\n");
}
