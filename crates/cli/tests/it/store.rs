//! Tests of `lookback store`: what it reports about a store, and how it copies one into another.

use std::fs;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_session::Batch;
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::{Append, Record};
use lookback_store::{LogName, Store};
use lookback_wire::message::Message;

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
    // It is not copied into another store, where it would look intact.
    lab.run(&["store", "migrate", "notes/", "copy.db"]).fails(2, "was altered after it was written");
}

#[test]
fn shared_facts_are_verified_counted_and_copied_or_the_command_fails() {
    let lab = Lab::new();
    let add = ["facts", "add", "--shared", "preference", "Use pnpm, not npm.", "--store", "notes/"];
    lab.run(&add).out();
    let verify = || lab.run(&["store", "verify", "--store", "notes/"]);
    let whole = verify();
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    assert!(whole.stderr.contains("read 1 entry of 1 log: 0 faults"), "{}", whole.stderr);
    lab.run(&["store", "migrate", "notes/", "copy.db"]).out();
    for store in ["notes/", "copy.db"] {
        let listed = lab.run(&["facts", "list", "--shared", "--store", store]).out().to_owned();
        assert!(listed.contains("Use pnpm, not npm."), "{store}: {listed}");
    }
    let path = lab.path("notes/memory/shared/memory.json");
    let text = fs::read(&path).unwrap();
    let at = |part: &[u8]| text.windows(part.len()).position(|at| at == part).unwrap();
    // The format name in the header, the name of the log, the time, and the beginning of the entries.
    let places = [at(b"lookback\""), at(b"memory:shared"), at(b"\"created\":") + 12, at(b"\"entries\"") + 3];
    for (number, place) in places.into_iter().enumerate() {
        let mut flipped = text.clone();
        flipped[place] ^= 1;
        fs::write(&path, &flipped).unwrap();
        let found = verify();
        assert_eq!(found.code, Some(1), "byte {place}: {}{}", found.stdout, found.stderr);
        assert!(found.stderr.contains("1 log: 1 fault"), "byte {place}: {}", found.stderr);
        let target = format!("other-{number}.db");
        lab.run(&["store", "migrate", "notes/", &target]).fails(2, "notes/memory/shared/memory.json");
        let counted = lab.run(&["store", "stats", "--store", "notes/"]);
        assert_eq!(counted.code, Some(1), "byte {place}: {}", counted.stderr);
        assert!(counted.stderr.contains("memory.json"), "byte {place}: {}", counted.stderr);
    }
    fs::write(&path, &text).unwrap();
    assert_eq!(verify().code, Some(0));
}

#[test]
fn a_recording_is_imported_whole_and_once() {
    let lab = Lab::new().with_example();
    lab.run(&["sessions", "import", "session.jsonl"]).out();
    let exported = lab.run(&["sessions", "export", "session"]).out().to_owned();
    fs::create_dir(lab.path("again")).unwrap();
    fs::write(lab.path("again/session.jsonl"), &exported).unwrap();
    let run = lab.run(&["sessions", "import", "again"]);
    assert!(run.stderr.contains("imported 0 messages of 1 session"), "{}", run.stderr);
    assert_eq!(lab.run(&["sessions", "export", "session"]).out(), exported);
    // The rest of a known session is appended.
    let longer = "{\"id\":\"short\",\"messages\":[{\"role\":\"user\",\"content\":\"one\"}";
    fs::write(lab.path("a.jsonl"), format!("{longer}]}}\n")).unwrap();
    let more = ",{\"role\":\"assistant\",\"content\":\"two\"}";
    fs::write(lab.path("b.jsonl"), format!("{longer}{more}]}}\n")).unwrap();
    let imported = |file: &str| lab.run(&["sessions", "import", file]).stderr;
    assert!(imported("a.jsonl").contains("imported 1 message of 1 session"));
    assert!(imported("b.jsonl").contains("imported 1 message of 1 session"));
    lab.run(&["sessions", "import", "a.jsonl"]).fails(1, "there is another session `short`");
    fs::write(lab.path("c.jsonl"), format!("{longer}]}}\n").replace("short", "../up")).unwrap();
    lab.run(&["sessions", "import", "c.jsonl"]).fails(2, "no part of a session's name");
}

#[test]
fn sessions_are_pruned_by_age_and_number_after_they_were_listed() {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    let day = 86_400_000_i64;
    let now = jiff::Timestamp::now().as_millisecond();
    let names: Vec<LogName> = ["a", "b", "c"].iter().map(|name| name.parse().unwrap()).collect();
    block_on(async {
        for (name, days) in names.iter().zip([100, 50, 1]) {
            let record = || vec![Record::new("{}").text("apple")];
            store.append(name, Append::new(0, record()).time(Some(now - days * day))).await.unwrap();
            tenant.append(name, Append::new(0, record()).time(Some(now - days * day))).await.unwrap();
        }
        // Facts count as used, too.
        store
            .append(&names[0].facts_of(), Append::new(0, [Record::new("{}")]).time(Some(now - 60 * day)))
            .await
            .unwrap();
        store
            .append(&names[0].shared_of(), Append::new(0, [Record::new("{}")]).time(Some(now - 900 * day)))
            .await
            .unwrap();
    });
    let prune = |arguments: &[&str]| {
        let run = lab.run(&[&["sessions", "prune", "--store", "s.db", "--json"][..], arguments].concat());
        run.out();
        let of = |line: &serde_json::Value| format!("{}{}", line["tenants"].as_array().unwrap().len(), line["session"]);
        run.lines().iter().map(of).collect::<Vec<_>>().join(" ").replace('"', "")
    };
    assert_eq!(prune(&["--unused-for", "90d"]), "1a");
    assert_eq!(prune(&["--unused-for", "40d"]), "0a 0b 1a 1b");
    assert_eq!(prune(&["--unused-for", "90d", "--keep", "2"]), "0a 1a");
    assert_eq!(prune(&["--keep", "2"]), "0a 1a");
    assert_eq!(prune(&["--keep", "2"]), "0a 1a", "nothing was deleted");
    assert_eq!(prune(&["--keep", "2", "--yes"]), "0a 1a");
    assert_eq!(prune(&["--keep", "2", "--yes"]), "");
    let left = block_on(store.list("")).unwrap();
    assert_eq!(left.iter().map(|log| log.name.as_str()).collect::<Vec<_>>(), ["b", "c", "memory:a:shared"]);
    lab.run(&["sessions", "prune", "--store", "s.db"]).fails(2, "--unused-for");
    lab.run(&["sessions", "prune", "--store", "s.db", "--unused-for", "soon"]).fails(2, "--unused-for");
}

#[test]
fn what_was_said_long_ago_is_erased_after_it_was_listed() {
    let lab = Lab::new();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(lab.path("s.db")).unwrap());
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    let settings = Settings::default().policy(Policy { limits: Limits::messages(2), ..Policy::unlimited() });
    for (store, name) in [(&store, "a"), (&store, "b"), (&tenant, "a")] {
        let mut session = block_on(Session::open(store.clone(), name, settings.clone())).unwrap();
        for days in [100, 90, 50, 40, 2, 1] {
            let (message, time) = (Message::user(format!("It was {days} days ago.")), now - days * 86_400_000);
            block_on(session.append(Batch::from(message).at(Some(time)))).unwrap();
        }
        block_on(session.window()).unwrap();
    }
    let erase = |arguments: &[&str]| {
        let run = lab.run(&[&["sessions", "erase", "--store", "s.db", "--json"][..], arguments].concat());
        run.out();
        let of = |line: &serde_json::Value| {
            format!("{}{}:{}", line["tenants"].as_array().unwrap().len(), line["session"], line["messages"])
        };
        run.lines().iter().map(of).collect::<Vec<_>>().join(" ").replace('"', "")
    };
    assert_eq!(erase(&["--older-than", "60d"]), "0a:2 0b:2 1a:2");
    assert_eq!(erase(&["--older-than", "1h", "b"]), "0b:4", "not what the window shows");
    assert_eq!(erase(&["--summarized"]), "");
    assert_eq!(erase(&["--older-than", "60d", "a", "--yes"]), "0a:2");
    assert_eq!(erase(&["--older-than", "60d"]), "0b:2 1a:2");
    assert_eq!(erase(&["--older-than", "60d", "--yes"]), "0b:2 1a:2");
    assert_eq!(erase(&["--older-than", "60d", "--yes"]), "");
    insta::assert_snapshot!("erased_show", lab.run(&["sessions", "show", "a", "--store", "s.db"]).out());
    let recalled = lab.run(&["recall", "a", "--from", "0", "--to", "2", "--store", "s.db"]);
    insta::assert_snapshot!("erased_recall", recalled.out());
    let exported = lab.run(&["sessions", "export", "a", "--store", "s.db"]);
    assert!(exported.stderr.contains("2 messages were erased"), "{}", exported.stderr);
    assert_eq!(exported.out().lines().count(), 4);
    lab.run(&["sessions", "erase", "--store", "s.db"]).fails(2, "--older-than");
    lab.run(&["sessions", "erase", "--older-than", "60d", "c", "--store", "s.db"]).fails(1, "no session");
}

#[test]
fn messages_without_a_date_are_told_of_and_erased_by_their_entries() {
    let lab = Lab::new();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(lab.path("s.db")).unwrap());
    let settings = Settings::default().policy(Policy { limits: Limits::messages(2), ..Policy::unlimited() });
    let mut session = block_on(Session::open(store, "a", settings)).unwrap();
    for number in 0..6 {
        let message = Message::user(format!("The pin is {number}4711."));
        block_on(session.append(Batch::from(message).at(None))).unwrap();
    }
    block_on(session.window()).unwrap();
    let erase = |arguments: &[&str]| lab.run(&[&["sessions", "erase", "--store", "s.db"][..], arguments].concat());
    let told = erase(&["a", "--older-than", "1h"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let says = "a: 4 messages have no date, and may be old; erase with --entry 0-3";
    assert!(told.stderr.contains(says), "{}", told.stderr);
    let erased = erase(&["a", "--entry", "0-3", "--yes"]);
    assert!(erased.stderr.contains("erased 4 messages"), "{}", erased.stderr);
    let told = erase(&["a", "--older-than", "1h"]);
    assert!(!told.stderr.contains("no date"), "{}", told.stderr);

    // Entries of the window are erased too, except for those that the next call needs.
    let kept = erase(&["a", "--entry", "4,5", "--yes"]);
    assert_eq!(kept.code, Some(1), "{}", kept.stderr);
    assert!(kept.stderr.contains("a: 1 entry is kept: the next call needs the newest message"), "{}", kept.stderr);
    assert!(kept.stderr.contains("erased 1 message"), "{}", kept.stderr);
    let window = lab.run(&["sessions", "window", "a", "--store", "s.db"]).out().to_owned();
    assert!(window.contains("54711") && !window.contains("44711"), "{window}");
    erase(&["a", "--entry", "3-1"]).fails(2, "the first entry comes after the last");
    erase(&["--entry", "1"]).fails(2, "required");
    erase(&["a", "b", "--entry", "1"]).fails(2, "name one of them");
}

#[test]
fn a_store_is_encrypted_and_decrypted_with_the_key_in_the_environment() {
    let lab = replayed();
    let key = "2026:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let run = |key: &str, arguments: &[&str]| lab.run_with(arguments, "", &[("LOOKBACK_KEY", key)]);
    let plain = lab.run(&["sessions", "export", "replay/session"]).out().to_owned();
    let migrate = ["store", "migrate", ".lookback/lookback.db", "sealed.db", "--encrypt"];
    lab.run(&migrate).fails(2, "LOOKBACK_KEY is not set");
    run("secret", &migrate).fails(2, "LOOKBACK_KEY: a key is written as NAME:BASE64");
    run(key, &migrate).out();
    let export = ["sessions", "export", "replay/session", "--store", "sealed.db"];
    assert_eq!(run(key, &export).out(), plain);
    run(&key.replace("2026", "2027"), &export).fails(2, "with the key `2026`, which was not given");
    run(&format!("new:{}, {key}", &key[5..]), &export).out();
    assert_eq!(run(key, &["store", "verify", "--store", "sealed.db"]).code, Some(0));
    assert_eq!(lab.run(&["store", "verify", "--store", "sealed.db"]).code, Some(1));
    let found = ["sessions", "search", "worse than the bug", "--store", "sealed.db", "--json"];
    assert!(!run(key, &found).lines().is_empty());
    run(key, &["store", "migrate", "sealed.db", "open.db", "--decrypt"]).out();
    assert_eq!(lab.run(&["sessions", "export", "replay/session", "--store", "open.db"]).out(), plain);
}
