//! `lookback store`: what it says of a store, and copying one into another.

use std::fs;

use crate::common::Lab;

fn replayed() -> Lab {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    lab
}

#[test]
fn a_store_is_counted_checked_and_copied() {
    let lab = replayed();
    let run = lab.all(&[
        &["store", "stats"],
        &["store", "verify"],
        &["store", "migrate", ".lookback/lookback.db", "notes/"],
        &["store", "migrate", ".lookback/lookback.db", "notes/"],
        &["store", "verify", "--store", "notes/", "--json"],
        &["store", "vacuum", "--store", "notes/"],
        &["store", "stats", "--store", "files:notes", "--json"],
        &["store", "migrate", "none.db", "other.db"],
        &["store", "migrate", ".lookback/lookback.db", "mysql://me:secret@host/x"],
    ]);
    insta::assert_snapshot!(run);
    let shown = |store: &str| lab.run(&["sessions", "show", "replay/session", "--store", store]).out().to_owned();
    assert_eq!(shown("notes/"), shown(".lookback/lookback.db"));
}

#[test]
fn a_damaged_store_is_said_to_be_so() {
    let lab = replayed();
    lab.run(&["store", "migrate", ".lookback/lookback.db", "notes/"]).out();
    let path = lab.path("notes/memory/replay%2Fsession/turns.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"user\"", "\"uzer\"", 1)).unwrap();
    let run = lab.run(&["store", "verify", "--store", "notes/"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.contains("of `replay/session` cannot be read: line "), "{}", run.stdout);
    assert!(run.stderr.contains("1 fault"), "{}", run.stderr);
    // It is not copied into another store, where it would seem whole.
    lab.run(&["store", "migrate", "notes/", "copy.db"]).fails(2, "was altered after it was written");
}
