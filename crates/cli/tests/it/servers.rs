//! The same commands with stores in SQLite, PostgreSQL and Redis: they print the same.

#[path = "../../../lookback/tests/servers/postgres/server.rs"]
#[allow(dead_code)]
mod postgres;
#[path = "../../../lookback/tests/servers/redis/server.rs"]
#[allow(dead_code)]
mod redis;

use std::process::{Command, Output};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.jsonl");

fn lookback(store: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lookback"))
        .args(arguments)
        .env("LOOKBACK_STORE", store)
        .env("COLUMNS", "100")
        .output()
        .unwrap()
}

/// What a command prints, without what differs between stores and moments.
fn printed(store: &str, arguments: &[&str]) -> String {
    let done = lookback(store, arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

#[test]
fn commands_print_the_same_with_every_store() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("s.db").display());
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
    ] {
        let expected = printed(&sqlite, arguments);
        assert_eq!(printed(&postgres, arguments), expected, "{arguments:?}");
        assert_eq!(printed(&redis, arguments), expected, "{arguments:?}");
    }
    for store in [&sqlite, &postgres, &redis] {
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
