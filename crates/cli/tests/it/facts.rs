//! Tests of `lookback facts` and `lookback recall`: what they print, write, and refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Lab, Run};
use futures_lite::future::block_on;
use insta::assert_snapshot;
use lookback_engine::Settings;
use lookback_facts::{FactKind, Memory, Scope, Source, Speaker, Statement};
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::Store;
use lookback_wire::message::Message;

const STORE: &str = ".lookback/lookback.db";

/// Returns a lab whose store contains facts of a session and of the workspace, with fixed times.
fn lab() -> Lab {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json", "--policy", "messages:max_messages=10"]).out();
    let memory = block_on(Memory::open(SqliteStore::open(lab.path(STORE)).unwrap(), "replay/session")).unwrap();
    let mut time = 1_763_719_200_000;
    let mut state = |scope, kind, text: &str, by| {
        time += 60_000;
        let statement = Statement::new(kind, text, Source::new(by)).time(time);
        block_on(memory.state(scope, statement)).unwrap();
    };
    state(Scope::Session, FactKind::Finding, "It listens on port 5050.", Speaker::Model);
    state(Scope::Session, FactKind::Finding, "It listens on port 6060.", Speaker::Model);
    state(Scope::Session, FactKind::Finding, "it listens on port 6060", Speaker::Tool("shell".into()));
    state(Scope::Session, FactKind::Blocker, "API_KEY is \u{1b}[31mmissing.\nSet it.", Speaker::Model);
    state(Scope::Shared, FactKind::Preference, "Use pnpm, not npm.", Speaker::Person);
    lab
}

fn entries(lab: &Lab) -> Vec<(String, u64)> {
    let store = SqliteStore::open(lab.path(STORE)).unwrap();
    let logs = block_on(store.list("")).unwrap();
    logs.into_iter().filter(|log| log.name.is_derived()).map(|log| (log.name.to_string(), log.records)).collect()
}

fn ids(run: &Run) -> Vec<String> {
    run.out();
    run.lines().iter().map(|fact| fact["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn facts_are_listed_shown_and_told_of() {
    let lab = lab();
    let session = ["--session", "replay/session"];
    let with = |args: &[&'static str]| [args, &session].concat();
    assert_snapshot!(lab.all(&[
        &["facts", "list"],
        &with(&["facts", "list"]),
        &with(&["facts", "list", "--shared", "--json"]),
        &with(&["facts", "history", "f0"]),
        &with(&["facts", "history", "f1", "--json"]),
        &with(&["facts", "sheet"]),
        &with(&["facts", "sheet", "--budget", "60", "--json"]),
        &["facts", "sheet"],
        &["facts", "export", "--shared"],
    ]));
}

#[test]
fn a_list_is_narrowed_by_scope_kind_and_words() {
    let lab = lab();
    let list = |args: &[&str]| ids(&lab.run(&[&["facts", "list", "--json"], args].concat()));
    let session = ["--session", "replay/session"];
    assert_eq!(list(&[]), ["s0"]);
    assert_eq!(list(&["--shared"]), ["s0"]);
    assert_eq!(list(&session), ["f1", "f3"]);
    assert_eq!(list(&[&session[..], &["--shared"]].concat()), ["f1", "f3", "s0"]);
    assert_eq!(list(&[&session[..], &["--kind", "blocker"]].concat()), ["f3"]);
    assert_eq!(list(&[&session[..], &["--query", "PORT 6060"]].concat()), ["f1"]);
    assert_eq!(list(&[&session[..], &["--query", "port", "--since", "2020-01-01"]].concat()), ["f1"]);
    assert_eq!(list(&[&session[..], &["--query", "port", "--speaker", "assistant"]].concat()), ["f1"]);
    assert_eq!(list(&["--workspace", "other"]), Vec::<String>::new());
    for other in [&["zzyzzx"][..], &["port", "--until", "2020-01-01"], &["port", "--speaker", "tool"]] {
        let nothing = lab.run(&[&["facts", "list", "--session", "replay/session", "--query"], other].concat());
        assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(1), ""), "{other:?}");
        assert!(nothing.stderr.starts_with("nothing found\n"), "{}", nothing.stderr);
    }
    assert_eq!(lab.run(&["facts", "list", "--shared", "--workspace", "other"]).stderr, "no facts\n");
}

#[test]
fn a_person_adds_corrects_resolves_and_forgets() {
    let lab = Lab::new();
    let add = |args: &[&str]| {
        let run = lab.run(&[&["facts", "add"], args].concat());
        format!("{}{}", run.out(), run.stderr)
    };
    // The first fact creates the store.
    assert_eq!(add(&["--shared", "preference", "Use pnpm."]), "s0\n");
    assert_eq!(add(&["--shared", "preference", "use pnpm"]), "s0\n  s0 says the same, and is confirmed\n");
    let port = ["--session", "chat", "finding", "It listens on 5050.", "--about", "port", "--confidence", "0.4"];
    assert_eq!(add(&[&port[..], &["--tag", "net", "--tag", "tcp"]].concat()), "f0\n");
    assert_eq!(add(&["--session", "chat", "finding", "On 6060.", "--about", "Port"]), "f1\n  supersedes f0\n");
    assert_eq!(
        add(&["--session", "chat", "decision", "Drop it.", "--supersedes", "f1", "--supersedes", "s0"]),
        "f2\n  supersedes f1\n  supersedes s0\n"
    );
    let json = lab.run(&["facts", "add", "--shared", "blocker", "No key.", "--json"]).json();
    assert_eq!(json.to_string(), r#"{"id":"s2","judgment":{"new":{"disputes":null,"supersedes":[]}}}"#);
    let resolved = lab.run(&["facts", "resolve", "s2", "--with", "It is set."]);
    assert_eq!(
        (resolved.out(), resolved.stderr.as_str()),
        ("", "resolved s2 for all sessions of the workspace shared\n")
    );
    let forgot = lab.run(&["facts", "forget", "f2", "s0", "--session", "chat"]);
    assert_eq!(
        (forgot.out(), forgot.stderr.as_str()),
        ("", "forgot f2\nforgot s0 for all sessions of the workspace shared\n")
    );
    assert_eq!(ids(&lab.run(&["facts", "list", "--session", "chat", "--shared", "--json"])), Vec::<String>::new());
    for (scope, id) in [(&["--shared"][..], "s5"), (&["--session", "chat"], "f4")] {
        assert_eq!(add(&[scope, &["blocker", "No disk."]].concat()), format!("{id}\n"));
        let run = lab.run(&["facts", "resolve", id, "--with", "There is.", "--session", "chat", "--json"]);
        let workspace = if id == "s5" { "\"shared\"" } else { "null" };
        assert_eq!(run.out(), format!("{{\"done\":\"resolved\",\"id\":\"{id}\",\"workspace\":{workspace}}}\n"));
    }
    assert_eq!(add(&["--shared", "finding", "Gone soon."]), "s7\n");
    let run = lab.run(&["facts", "forget", "s7", "--json"]);
    assert_eq!(run.out(), "{\"done\":\"forgot\",\"id\":\"s7\",\"workspace\":\"shared\"}\n");
    let history = lab.run(&["facts", "history", "f0", "--session", "chat", "--json"]).lines();
    assert_eq!(history.len(), 4);
    assert_eq!(history[0]["stated"]["tags"].to_string(), r#"["net","tcp"]"#);
    assert_eq!(history[0]["stated"]["source"]["by"], "person");
}

#[test]
fn an_export_is_imported_into_another_store_and_again() {
    let lab = lab();
    let export = lab.run(&["facts", "export", "--session", "replay/session"]);
    assert_eq!(export.out().lines().count(), 4);
    fs::write(lab.path("facts.jsonl"), &export.stdout).unwrap();
    let import = ["facts", "import", "facts.jsonl", "--session", "restored", "--store", "new/s.db"];
    let dry = lab.run(&[&import[..], &["--dry-run"]].concat());
    assert_eq!(dry.out(), "dry run, nothing is written: 2 facts: 2 new, with their identifiers and history\n");
    assert!(!lab.path("new").exists());
    assert_eq!(lab.run(&import).out(), "2 facts: 2 new, with their identifiers and history\n");
    assert_eq!(lab.run(&import).out(), "2 facts: 0 new, 2 already known\n");
    let again = lab.run(&["facts", "export", "--session", "restored", "--store", "new/s.db"]);
    assert_eq!(again.out(), export.stdout);
    let piped = lab.pipe(&["facts", "import", "-", "--shared", "--store", "new/s.db", "--json"], &export.stdout);
    piped.out();
    assert_eq!(
        piped.json().to_string(),
        r#"{"confirmed":0,"disputed":0,"known":0,"new":2,"outdated":0,"refused":[],"restored":false,"superseded":0}"#
    );
}

#[test]
fn a_folder_of_kb_labs_is_imported_and_what_is_damaged_is_told() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path(".kb/memory/shared")).unwrap();
    fs::create_dir_all(lab.path(".kb/memory/s-1")).unwrap();
    fs::write(lab.path(".kb/memory/shared/memory.json"), r#"{"preferences":["Use pnpm."],"constraints":[]}"#).unwrap();
    fs::write(lab.path(".kb/memory/s-1/mem-1.json"), r#"{"content":"Port 5050.","type":"finding"}"#).unwrap();
    let turns = r#"[{"type":"user","sequence":1,"steps":[{"type":"text","content":"Hello kb"}]}]"#;
    fs::write(lab.path(".kb/memory/s-1/turns.json"), turns).unwrap();
    let dry = lab.run(&["facts", "import", ".kb", "--dry-run"]);
    let says = "2 facts: 2 new\n1 conversation with 1 message\n";
    assert_eq!(dry.out(), format!("dry run, nothing is written: {says}"));
    assert!(!lab.path(".lookback").exists());
    assert_eq!(lab.run(&["facts", "import", "."]).out(), says);
    let again = lab.run(&["facts", "import", ".kb/memory"]);
    let says = "2 facts: 0 new, 2 already known\n0 conversations with 0 messages; skipped 1 whose session already has messages\n";
    assert_eq!(again.out(), says);
    assert_eq!(lab.run(&["recall", "s-1", "hello"]).out(), "#0 user:\n| Hello kb\n");
    fs::write(lab.path(".kb/memory/s-1/mem-2.json"), "{").unwrap();
    let damaged = lab.run(&["facts", "import", ".kb"]);
    assert_eq!(damaged.code, Some(1));
    assert!(damaged.stderr.starts_with("warning: memory/s-1/mem-2.json: not valid JSON: "), "{}", damaged.stderr);
    let json = lab.run(&["facts", "import", ".kb", "--json"]);
    assert_eq!((json.code, json.stderr.as_str()), (Some(1), ""));
    assert_eq!(json.json()["damaged"][0]["path"], "memory/s-1/mem-2.json");
}

#[test]
fn a_store_of_ours_is_not_imported_as_a_folder_of_kb_labs() {
    let lab = Lab::new();
    lab.run(&["facts", "add", "--session", "chat", "finding", "It is so.", "--store", "own/"]).out();
    let refused = |folder: &str| {
        let run = lab.run(&["facts", "import", folder]);
        run.fails(2, &format!("{folder} is a store of Lookback; run `lookback facts export` with --store own/"));
    };
    refused("own");
    lab.run(&["facts", "add", "--shared", "preference", "Use pnpm.", "--store", "own/"]).out();
    refused("own/");
    assert!(!lab.path(".lookback").exists());
    // Facts of KB Labs in the same folder are imported.
    fs::write(lab.path("own/memory/chat/mem-1.json"), r#"{"content":"Port 5050.","type":"finding"}"#).unwrap();
    for says in ["1 fact: 1 new\n", "1 fact: 0 new, 1 already known\n"] {
        assert!(lab.run(&["facts", "import", "own", "--store", "own/"]).out().starts_with(says));
    }
}

#[test]
fn what_is_asked_wrongly_is_said_and_writes_nothing() {
    let lab = lab()
        .with(
            "bad.jsonl",
            "{\"scope\":\"shared\",\"position\":0,\"entry\":{\"extracted\":{\"from\":[]}}}\n{\"scope\":7}\n",
        )
        .with("empty.jsonl", "\n");
    fs::create_dir(lab.path("nothing")).unwrap();
    let before = entries(&lab);
    let long = "x".repeat(3_000);
    let told = lab.all(&[
        &["facts", "add", "--shared", "rumour", "It is so."],
        &["facts", "add", "--shared", "finding", ""],
        &["facts", "add", "--shared", "finding", "It is so.", "--confidence", "7"],
        &["facts", "add", "--shared", "finding", "It is so.", "--supersedes", "12"],
        &["facts", "add", "--shared", "finding", "It is so.", "--supersedes", "s99"],
        &["facts", "add", "--shared", "finding", "It is so.", "--supersedes", "f1"],
        &["facts", "add", "finding", "It is so."],
        &["facts", "add", "--session", "../x", "finding", "It is so."],
        &["facts", "add", "--shared", "finding", "It is so.", "--workspace", "a//b"],
        &["facts", "list", "--session", "nobody"],
        &["facts", "list", "--kind", "rumour"],
        &["facts", "resolve", "f1", "--with", "x"],
        &["facts", "resolve", "f1", "--with", "x", "--session", "replay/session"],
        &["facts", "resolve", "s0", "--with", "x"],
        &["facts", "forget", "s0", "s99"],
        &["facts", "forget", "x"],
        &["facts", "history", "s99"],
        &["facts", "export"],
        &["facts", "export", "--session", "nobody"],
        &["facts", "import", "bad.jsonl", "--shared"],
        &["facts", "import", "bad.jsonl"],
        &["facts", "import", "empty.jsonl", "--shared"],
        &["facts", "import", "missing.jsonl", "--shared"],
        &["facts", "import", "missing"],
        &["facts", "import", "nothing"],
        &["facts", "import", "nothing", "--shared"],
        &["recall", "nobody", "x"],
        &["recall", "replay/session"],
        &["recall", "replay/session", "zzyzzx"],
        &["recall", "replay/session", "--entry", "99999"],
        &["recall", "replay/session", "x", "--limit", "0"],
    ]);
    assert_snapshot!(told);
    lab.run(&["facts", "add", "--shared", "finding", &long])
        .fails(2, "the text has 3000 characters; at most 2000 are allowed");
    lab.run(&["facts", "resolve", "f3", "--with", &long, "--session", "replay/session"])
        .fails(2, "at most 2000 are allowed");
    assert_eq!(entries(&lab), before);
}

#[test]
fn what_people_do_not_see_is_escaped() {
    let lab = Lab::new();
    lab.run(&["facts", "add", "--shared", "finding", "a\u{202e}b\u{200b}c\u{e0041}d <e>"]).out();
    let list = lab.run(&["facts", "list"]);
    assert!(list.out().ends_with("a\\u202eb\\u200bc\\udb40\\udc41d <e>\n"), "{}", list.stdout);
}

#[test]
fn what_recall_says_next_can_be_pasted() {
    let lab = Lab::new();
    let open =
        |name| block_on(Session::open(SqliteStore::open(lab.path("s 1.db")).unwrap(), name, Settings::default()));
    let mut session = open("a chat").unwrap();
    for text in ["apple's pie", "apple", "pear"] {
        block_on(session.push(Message::user(format!("{text} {}", "x".repeat(1500))))).unwrap();
    }
    let mut line = "lookback recall 'a chat' apple --limit 1 --store 's 1.db'".to_owned();
    let mut seen = 0;
    loop {
        let run = lab.shell(&line);
        let (_, rest) = run.out().split_once("the rest: ").unwrap();
        let rest = lab.shell(rest.split_once("]\n").unwrap().0);
        assert!(rest.out().contains("| apple") && !rest.stdout.contains("the rest: "), "{}", rest.stdout);
        seen += 1;
        let Some((_, next)) = run.stdout.split_once("[more messages: ") else { break };
        line = next.trim_end().trim_end_matches(']').to_owned();
    }
    assert_eq!(seen, 2);
    let range = lab.shell("lookback recall 'a chat' --from 0 --limit 1 --store 's 1.db'");
    assert!(
        range.out().ends_with("[more messages: lookback recall 'a chat' --from 1 --limit 1 --store 's 1.db']\n"),
        "{}",
        range.stdout
    );
    for behind in ["--entry 99", "--entry 0 --offset 99999"] {
        assert_eq!(lab.shell(&format!("lookback recall 'a chat' {behind} --store 's 1.db'")).code, Some(1), "{behind}");
    }
}

#[test]
fn a_store_that_is_not_there_is_made_for_writing_alone() {
    let lab = Lab::new().with("facts.jsonl", "");
    for args in [
        &["facts", "list"][..],
        &["facts", "resolve", "s0", "--with", "x"],
        &["facts", "forget", "s0"],
        &["facts", "history", "s0"],
        &["facts", "sheet"],
        &["facts", "export", "--shared"],
        &["recall", "x", "y"],
    ] {
        lab.run(args).fails(2, "there is no store at .lookback/lookback.db");
    }
    assert!(!lab.path(".lookback").exists());
}

#[test]
fn a_store_is_made_its_owners_to_read() {
    let lab = Lab::new();
    lab.run(&["facts", "add", "--shared", "finding", "It is so.", "--store", "a/b/s.db"]).out();
    let mode = |path: &str| fs::metadata(lab.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(["a", "a/b", "a/b/s.db"].map(mode), [0o700, 0o700, 0o600]);
}

#[test]
fn a_store_that_may_not_be_written_is_said() {
    let lab = lab();
    for path in [STORE, ".lookback"] {
        let mode = if path == STORE { 0o444 } else { 0o555 };
        fs::set_permissions(lab.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    if fs::write(lab.path(".lookback/probe"), "").is_ok() {
        crate::common::skipped("permissions do not bind this user");
        return;
    }
    let run = lab.run(&["facts", "add", "--shared", "finding", "It is so."]);
    run.fails(2, "the store .lookback/lookback.db is read-only; make its file and its folder writable");
    // The store can still be read.
    assert_eq!(lab.run(&["facts", "list", "--json"]).lines().len(), 1);
    lab.run(&["sessions", "show", "replay/session"]).out();
    lab.run(&["recall", "replay/session", "--entry", "1"]).out();
    fs::set_permissions(lab.path(".lookback"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn sessions_that_have_only_facts_are_found() {
    let lab = lab();
    lab.run(&["facts", "add", "--session", "only-facts", "finding", "It is so."]).out();
    assert_eq!(entries(&lab).len(), 3);
    let sessions = || {
        let of = |line: &serde_json::Value| {
            (line["session"].to_string(), line["entries"].as_u64() == Some(0), line["facts"].as_u64())
        };
        lab.run(&["sessions", "list", "--json"]).lines().iter().map(of).collect::<Vec<_>>()
    };
    let only = ("\"only-facts\"".to_owned(), true, Some(1));
    assert_eq!(sessions(), [only, ("\"replay/session\"".to_owned(), false, Some(2))]);
    let told = lab.run(&["sessions", "list"]);
    assert!(told.out().contains("\n only-facts            0      1        0  "), "{}", told.stdout);
    let says = |args: &[&str]| lab.run(&[&["facts", "list"], args].concat()).stderr;
    let more = "sessions have 3 facts of their own: only-facts (1), replay/session (2); --session NAME lists them\n";
    assert_eq!(says(&[]), more);
    assert_eq!(says(&["--workspace", "other"]), format!("no facts\n{more}"));
    for args in [&["--json"][..], &["--shared"], &["--session", "only-facts"]] {
        assert_eq!(says(args), "");
    }
    for name in ["a", "b", "c", "d"] {
        lab.run(&["facts", "add", "--session", name, "finding", "It is so."]).out();
    }
    let said = says(&[]);
    assert!(
        said.starts_with("sessions have 7 facts of their own: a (1), b (1), c (1), d (1), only-facts (1), 1 more; "),
        "{said}"
    );
}

#[test]
fn facts_go_with_their_session() {
    let lab = lab();
    lab.run(&["facts", "add", "--session", "only-facts", "finding", "It is so."]).out();
    lab.run(&["sessions", "delete", "replay/session"]).out();
    lab.run(&["facts", "list", "--session", "replay/session"]).fails(1, "there is no session `replay/session`");
    lab.run(&["sessions", "delete", "only-facts"]).out();
    // Shared facts belong to no session.
    assert_eq!(entries(&lab), [("memory:shared:shared".to_owned(), 1)]);
    assert_eq!(lab.run(&["sessions", "list", "--json"]).out(), "");
}

#[test]
fn what_has_left_the_window_is_recalled() {
    let lab = lab();
    assert_snapshot!(lab.all(&[
        &["recall", "replay/session", "late stand", "--limit", "1"],
        &["recall", "replay/session", "--entry", "1", "--limit", "40"],
        &["recall", "replay/session", "--entry", "1", "--offset", "40", "--limit", "40", "--json"],
        &["recall", "replay/session", "--from", "1", "--to", "2", "--limit", "1"],
    ]));
}
