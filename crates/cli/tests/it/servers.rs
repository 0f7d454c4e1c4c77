//! Runs the same commands with stores in SQLite, PostgreSQL and Redis, and compares their output.

#[path = "../../../lookback/tests/servers/postgres/server.rs"]
#[allow(dead_code)]
mod postgres;
#[path = "../../../lookback/tests/servers/redis/server.rs"]
#[allow(dead_code)]
mod redis;

use std::io::Write;
use std::process::{Command, Output, Stdio};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.jsonl");

fn lookback(store: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lookback"))
        .args(arguments)
        .env("LOOKBACK_STORE", store)
        .env("COLUMNS", "100")
        .output()
        .unwrap()
}

/// Returns the output of a command without the parts that depend on the store or the time.
fn printed(store: &str, arguments: &[&str]) -> String {
    let done = lookback(store, arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// Returns the MCP server's answer to a tool call.
fn asked(store: &str, call: &str) -> String {
    let mut server = Command::new(env!("CARGO_BIN_EXE_lookback"))
        .args(["mcp", "--session", "replay/session"])
        .env("LOOKBACK_STORE", store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let client = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}"#;
    let said = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{client}}}\n\
         {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n\
         {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{call}}}\n"
    );
    server.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    let done = server.wait_with_output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn commands_print_the_same_with_every_store() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("s.db").display());
    let files = format!("files:{}", folder.path().join("files").display());
    let (postgres, redis) = (postgres::Server::shared().database(), redis::Server::shared().url());
    for arguments in [
        &["replay", RECORDING, "--json"][..],
        &["sessions", "show", "replay/session"],
        &["sessions", "window", "replay/session"],
        &["sessions", "calls", "replay/session", "--json"],
        &["sessions", "export", "replay/session"],
        &["sessions", "search", "worse than the bug"],
        &["sessions", "search", "late stand", "--session", "replay/session"],
        &["recall", "replay/session", "--entry", "70"],
        &["recall", "replay/session", "late stand"],
        &["store", "stats", "--json"],
        &["store", "verify", "--json"],
        &["sessions", "import", RECORDING],
        &["sessions", "erase", "--older-than", "1h", "--json"],
        &["sessions", "erase", "--older-than", "1h", "--yes", "--json"],
        &["recall", "replay/session", "--from", "0", "--to", "9"],
        &["store", "vacuum"],
    ] {
        let expected = printed(&sqlite, arguments);
        for store in [&files, &postgres, &redis] {
            assert_eq!(printed(store, arguments), expected, "{store} {arguments:?}");
        }
    }
    for store in [&sqlite, &files, &postgres, &redis] {
        let copy =
            format!("files:{}", folder.path().join(store.split(':').next().unwrap().to_owned() + "-copy").display());
        assert!(lookback("", &["store", "migrate", store, &copy]).status.success());
        assert_eq!(
            printed(&copy, &["sessions", "export", "session"]),
            printed(&sqlite, &["sessions", "export", "session"])
        );
        let answer = asked(store, r#"{"name":"recall","arguments":{"entry":70}}"#);
        assert!(answer.contains("#70"), "{answer}");
        printed(store, &["facts", "add", "--shared", "preference", "Use pnpm, not npm."]);
        assert!(printed(store, &["facts", "list"]).contains("Use pnpm, not npm."));
        assert!(printed(store, &["sessions", "list"]).contains("replay/session"));
        assert!(printed(store, &["sessions", "delete", "replay/session"]).is_empty());
        assert!(!printed(store, &["sessions", "list"]).contains("replay/session"));
    }
}

#[test]
fn a_password_is_printed_by_no_command() {
    let url = format!("postgres://me:secret@127.0.0.1:{}/x?application_name=secret", crate::process::free_port());
    for store in [
        url.as_str(),
        "mysql://me:secret@host/x",
        "postgres://me:secret@host/x?sslmode=secret",
        "redis://me:secret@127.0.0.1:1?prefix=secret",
        "redis://me:secret@host?wait=secret",
    ] {
        let done = lookback(store, &["sessions", "list"]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(!said.contains("secret") && !said.is_empty(), "{said}");
        let done = lookback("", &["sessions", "list", "--store", store]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!said.contains("secret") && !said.is_empty(), "{said}");
    }
}

#[test]
fn a_server_that_may_lose_something_is_warned_of() {
    let server = redis::Server::with(&["--appendonly", "no"]);
    let done = lookback(&server.url(), &["sessions", "list"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.starts_with("warning: ") && said.contains("appendonly yes"), "{said}");
    let done = lookback(&redis::Server::shared().url(), &["sessions", "list"]);
    assert!(!String::from_utf8_lossy(&done.stderr).contains("warning"));
}
