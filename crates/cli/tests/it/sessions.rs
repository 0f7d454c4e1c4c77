//! Tests of `lookback sessions`, and of stores that cannot be used.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use crate::common::{Lab, example_messages, list};
use futures_lite::future::block_on;
use insta::assert_snapshot;
use lookback_engine::Settings;
use lookback_engine::policy::{Limits, Policy};
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::{Append, Record};
use lookback_store::{FileStore, LogName, Store};
use lookback_wire::{
    dialect::{Dialect, Request, Response},
    message::Message,
};

/// Returns a lab with the replayed example.
fn replayed() -> Lab {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json", "--policy", "messages:max_messages=10"]).out();
    lab
}

const COMMANDS: [&[&str]; 8] = [
    &["sessions", "list"],
    &["sessions", "show", "replay/session"],
    &["sessions", "window", "replay/session"],
    &["sessions", "calls", "replay/session"],
    &["sessions", "diff", "replay/session", "1", "2"],
    &["sessions", "export", "replay/session"],
    &["sessions", "search", "shell"],
    &["sessions", "delete", "replay/session"],
];

#[test]
fn a_store_is_listed_and_shown() {
    let lab = replayed();
    let list = lab.run(&["sessions", "list"]);
    assert!(list.out().starts_with(" session"), "{}", list.stdout);
    let json = lab.run(&["sessions", "list", "--json"]).lines();
    assert_eq!((json.len(), &json[0]["session"]), (1, &"replay/session".into()));
    assert!(json[0]["entries"].as_u64() > Some(216) && json[0]["bytes"].is_u64());
    let time = |key: &str| json[0][key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time("created") <= time("used"));
    let show = lab.run(&["sessions", "show", "replay/session"]);
    show.out();
    // Checks only the beginning and the end.
    let lines: Vec<_> = show.stdout.lines().collect();
    assert_snapshot!([&lines[..8], &["..."], &lines[lines.len() - 8..]].concat().join("\n"));
    // The first number of a row is the entry that `recall` takes, although not every entry is a message.
    let last: Vec<_> = lines[lines.len() - 3].split_whitespace().collect();
    assert!(last[0].parse::<usize>().unwrap() > 215, "{last:?}");
    let recalled = lab.run(&["recall", "replay/session", "--entry", last[0]]);
    assert!(recalled.out().contains(&last[4..].join(" ")), "{}", recalled.stdout);
    let entries = lab.run(&["sessions", "show", "replay/session", "--json"]);
    assert_eq!(entries.lines().len() as u64, json[0]["entries"].as_u64().unwrap());
}

/// Returns a lab with a store `s.db`, which contains a session with a summary and a session without times.
fn with_summary() -> Lab {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    let (lived, old): (LogName, LogName) = ("lived".parse().unwrap(), "old".parse().unwrap());
    let record = |text: &str| vec![Record::new("{}").text(text)];
    block_on(async {
        store.append(&old, Append::new(0, record(""))).await.unwrap();
        store.append(&lived, Append::new(0, record("")).time(Some(1_763_719_199_999))).await.unwrap();
        store.append(&lived.summary_of(), Append::new(0, record("apple")).time(Some(1_763_719_200_000))).await.unwrap();
        store.touch(&lived, 1_763_805_600_500).await.unwrap();
    });
    lab
}

#[test]
fn a_list_tells_when_sessions_were_created_and_used_and_leaves_their_summaries_out() {
    let lab = with_summary();
    assert_snapshot!(
        lab.all(&[&["sessions", "list", "--store", "s.db"], &["sessions", "list", "--store", "s.db", "--json"]])
    );
}

#[test]
fn a_summary_goes_with_its_session_and_is_neither_found_nor_named() {
    let lab = with_summary();
    let logs = || block_on(SqliteStore::open(lab.path("s.db")).unwrap().list("")).unwrap().len();
    for command in ["show", "window", "calls", "export", "delete"] {
        let run = lab.run(&["sessions", command, "compact:lived:summary", "--store", "s.db"]);
        run.fails(2, "a session's name may not begin with `compact:` and end with `:summary`");
    }
    assert_eq!(lab.run(&["sessions", "search", "apple", "--store", "s.db"]).stderr, "nothing found\n");
    assert_eq!(logs(), 3);
    let run = lab.run(&["sessions", "delete", "lived", "--store", "s.db"]);
    assert_eq!((run.out(), run.stderr.as_str()), ("", "deleted lived\n"));
    assert_eq!(logs(), 1);
}

#[test]
fn each_call_of_a_session_is_told_with_what_it_cost_and_what_the_window_saved() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let run = lab.run(&["sessions", "calls", "replay/session"]);
    run.out();
    assert_snapshot!(lab.snapshot(&run));
}

#[test]
fn the_window_of_a_call_is_told_with_what_became_of_each_message() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let args = ["sessions", "window", "replay/session", "--call", "53", "--explain"];
    let run = lab.run(&args);
    let sent: serde_json::Value = serde_json::from_str(run.out()).unwrap();
    assert_snapshot!(run.stderr.lines().take(12).collect::<Vec<_>>().join("\n"));
    let explained = lab.run(&[&args[..], &["--json"]].concat()).json();
    assert_eq!((&explained["call"], &explained["messages"]), (&53.into(), &sent));
    let shown = explained["rows"].as_array().unwrap().iter().filter(|row| row["sent"] == true).count();
    assert_eq!(shown, sent.as_array().unwrap().len());
    // Without --explain, the output is only the messages, and the newest call differs from the current window.
    let plain = lab.run(&["sessions", "window", "replay/session", "--call", "53"]);
    assert_eq!((serde_json::from_str::<serde_json::Value>(plain.out()).unwrap(), &*plain.stderr), (sent, ""));
    for call in ["0", "79"] {
        let run = lab.run(&["sessions", "window", "replay/session", "--call", call]);
        run.fails(1, &format!("session `replay/session` has 78 calls, and no call {call}"));
    }
}

#[test]
fn a_session_is_written_as_a_page() {
    let lab = Lab::new().with_example();
    let replayed = lab.run(&["replay", "session.jsonl", "--html", "replayed.html"]);
    replayed.out();
    assert!(replayed.stderr.contains("The page is replayed.html. Open it in a browser."), "{}", replayed.stderr);
    let page = std::fs::read_to_string(lab.path("replayed.html")).unwrap();
    assert!(page.contains("What another policy would have done") && page.contains("You are a coding agent"));
    let run = lab.run(&["sessions", "export", "replay/session", "--html", "session.html", "--no-contents"]);
    assert_eq!((run.out(), &*run.stderr), ("", "wrote session.html\n"));
    let page = std::fs::read_to_string(lab.path("session.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("You are a coding agent"));
    // An impossible option is reported before the long replay, and no file is written.
    let several = lab.run(&["replay", "session.jsonl", "session.jsonl", "--html", "several.html"]);
    several.fails(2, "--html shows one session, and there are 2; name one of them");
    assert!(!lab.path("several.html").exists());
    lab.run(&["replay", "session.jsonl", "--no-contents"]).fails(2, "--html <FILE>");
}

#[test]
fn two_calls_are_compared() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let cut = lab.run(&["sessions", "diff", "replay/session", "66", "67"]);
    cut.out();
    assert_snapshot!(lab.snapshot(&cut));
    let lines = lab.run(&["sessions", "diff", "replay/session", "66", "67", "--json"]).lines();
    assert!(lines.iter().any(|line| line["change"] == "cleared" && line["is"].as_u64() < line["was"].as_u64()));
    assert!(lines.iter().any(|line| line["change"] == "came" && line["sent"] == true));
    let same = lab.run(&["sessions", "diff", "replay/session", "5", "5"]);
    assert_eq!(same.stderr, "the same messages\n");
}

#[test]
fn the_totals_of_the_calls_are_those_of_the_replay_and_without_a_window_those_of_one_that_drops_nothing() {
    let lab = Lab::new().with_example();
    let whole = lab.run(&["replay", "session.jsonl", "--json", "--policy", "none", "--prices", "openai-4o"]).lines();
    let report = lab.run(&["replay", "session.jsonl", "--json", "--prices", "openai-4o"]).lines();
    let calls = lab.run(&["sessions", "calls", "replay/session", "--json", "--prices", "openai-4o"]).lines();
    let (total, calls) = calls.split_last().unwrap();
    assert_eq!(total["calls"], calls.len());
    for field in ["calls", "sent_tokens", "cache_read_tokens", "cache_write_tokens", "compactions", "prefix_breaks"] {
        assert_eq!(total[field], report[0][field], "{field}");
    }
    let number = |line: &serde_json::Value, field: &str| line[field].as_f64().unwrap();
    assert!((number(total, "cost") - number(&report[0], "cost")).abs() < 1e-9);
    assert!((number(total, "cost_without_window") - number(&whole[0], "cost")).abs() < 1e-9);
    assert!((number(total, "saved") - number(&whole[0], "cost") + number(total, "cost")).abs() < 1e-9);
    for (index, call) in calls.iter().enumerate() {
        assert_eq!(call["call"], index + 1);
        let parts = ["cache_read_tokens", "cache_write_tokens", "uncached_tokens"].map(|field| number(call, field));
        assert!((number(call, "sent_tokens") - parts.iter().sum::<f64>()).abs() < 0.5);
    }
}

#[test]
fn a_list_with_costs_has_those_that_the_calls_of_each_session_have() {
    let lab = Lab::new();
    let store = Arc::new(SqliteStore::open(lab.path("s.db")).unwrap());
    let answer = r#"{"model":"gpt-4o","choices":[{"message":{"role":"assistant","content":"Yes."}}],
        "usage":{"prompt_tokens":4000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1000}}}"#;
    block_on(async {
        let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
        let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").policy(policy);
        let mut paid = Session::open(store.clone(), "paid", settings).await.unwrap();
        for turn in 0..6 {
            paid.push(Message::user(format!("Is {turn} a number?"))).await.unwrap();
            paid.window().await.unwrap();
            paid.answered(Response::decode(answer, Dialect::OpenAiChat).unwrap()).await.unwrap();
        }
        let mut silent = Session::open(store, "silent", Settings::default()).await.unwrap();
        silent.push(Message::user("Hello")).await.unwrap();
    });
    let listed = lab.run(&["sessions", "list", "--costs", "--json", "--store", "s.db"]).lines();
    let calls = lab.run(&["sessions", "calls", "paid", "--json", "--store", "s.db"]).lines();
    assert_eq!((&listed[0]["session"], &listed[0]["paid"]), (&"paid".into(), &calls.last().unwrap()["paid"]));
    assert!(listed[0]["paid"]["calls"] == 6 && listed[0]["paid"]["everything"].is_f64(), "{}", listed[0]);
    assert!(listed[1].get("paid").is_none(), "nothing was measured: {}", listed[1]);
    let table = lab.run(&["sessions", "list", "--costs", "--store", "s.db"]);
    let said = lab.run(&["sessions", "calls", "paid", "--store", "s.db"]).stdout;
    let sentence = said.lines().find(|line| line.starts_with("Paid $")).unwrap();
    assert!(table.out().lines().any(|line| line == sentence), "{} has not {sentence}", table.stdout);
    let silent = table.stdout.lines().find(|line| line.starts_with(" silent")).unwrap();
    assert_eq!(silent.split_whitespace().rev().take(2).collect::<Vec<_>>(), ["-", "-"], "{silent}");
    let plain = lab.run(&["sessions", "list", "--store", "s.db"]);
    assert!(!plain.out().contains("everything"), "{}", plain.stdout);
}

#[test]
fn a_list_with_costs_has_all_sessions_although_one_is_damaged() {
    let lab = Lab::new();
    let store = Arc::new(SqliteStore::open(lab.path("s.db")).unwrap());
    block_on(async {
        let mut whole = Session::open(store.clone(), "whole", Settings::default()).await.unwrap();
        whole.push(Message::user("Hello")).await.unwrap();
        let torn: LogName = "torn".parse().unwrap();
        store.append(&torn, Append::new(0, [Record::new("no entry")])).await.unwrap();
    });
    let run = lab.run(&["sessions", "list", "--costs", "--json", "--store", "s.db"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("torn"), "{}", run.stderr);
    let names: Vec<_> = run.stdout.lines().map(|line| line.contains("whole") || line.contains("torn")).collect();
    assert_eq!(names, [true, true], "{}", run.stdout);
}

#[test]
fn a_session_that_is_named_without_its_account_is_offered_with_it() {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    block_on(async {
        let mut session = Session::open(store, "support/4711@0123456789abcdef", Settings::default()).await.unwrap();
        session.push(Message::user("Hello")).await.unwrap();
    });
    let run = lab.run(&["sessions", "calls", "support/4711", "--store", "s.db"]);
    run.fails(1, "there is no session `support/4711` in s.db; choose `support/4711@0123456789abcdef`");
}

#[test]
fn a_session_without_an_answer_has_no_calls() {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    block_on(async {
        let mut session = Session::open(store, "asked", Settings::default()).await.unwrap();
        session.push(Message::user("Hello")).await.unwrap();
    });
    let run = lab.run(&["sessions", "calls", "asked", "--store", "s.db"]);
    assert_eq!(run.out(), "");
    assert!(run.stderr.starts_with("no model calls"), "{}", run.stderr);
    let json = lab.run(&["sessions", "calls", "asked", "--store", "s.db", "--json"]).lines();
    assert_eq!((json.len(), &json[0]["calls"]), (1, &0.into()));
}

#[test]
fn the_window_of_a_session_is_a_list_that_a_provider_accepts() {
    let lab = replayed();
    let window = lab.run(&["sessions", "window", "replay/session"]);
    let list = window.json();
    assert!(list.as_array().unwrap().len() <= 12, "{}", window.stdout);
    assert!(window.stdout.ends_with("]\n"));
    assert_eq!(lab.pipe(&["check"], &window.stdout).out(), "");
}

#[test]
fn an_export_is_the_history_and_replays_to_the_same() {
    let lab = Lab::new().with_example();
    let first = lab.run(&["replay", "session.jsonl", "--json"]);
    let export = lab.run(&["sessions", "export", "replay/session"]);
    assert_eq!(export.out().lines().count(), 216);
    let values = |text: &str| {
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(values(&export.stdout), values(&fs::read_to_string(common::example()).unwrap()));
    fs::create_dir(lab.path("again")).unwrap();
    fs::write(lab.path("again/session.jsonl"), &export.stdout).unwrap();
    let second = lab.run(&["replay", "again/session.jsonl", "--json", "--store", "again/s.db"]);
    assert_eq!(second.out(), first.out());
    let again = lab.run(&["sessions", "export", "replay/session", "--store", "again/s.db"]);
    assert_eq!(again.out(), export.stdout);
}

#[test]
fn an_export_has_what_the_conversation_has_left() {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    block_on(async {
        let mut session = Session::open(store, "chat", Settings::default()).await.unwrap();
        let said = |texts: &[&str]| texts.iter().map(|text| Message::user(*text)).collect::<Vec<_>>();
        for history in [&["one", "two", "three"][..], &["one", "four"], &["one", "four", "five"], &["six"]] {
            session.sync(said(history)).await.unwrap();
        }
    });
    let export = lab.run(&["sessions", "export", "chat", "--store", "s.db"]);
    let texts = |text: &str| {
        let line = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let messages = line["messages"].as_array().unwrap().iter();
            let texts: Vec<String> = messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect();
            (line["id"].as_str().unwrap().to_owned(), texts.join(" "))
        };
        text.lines().map(line).collect::<Vec<_>>()
    };
    let expected = [("chat", "six"), ("chat/left-1", "one two three"), ("chat/left-2", "one four five")];
    assert_eq!(texts(export.out()), expected.map(|(id, texts)| (id.to_owned(), texts.to_owned())));
    assert_eq!(export.stderr, "with 2 branches that the conversation has left; --current leaves them out\n");
    // The export is a recording of all branches.
    let imported = lab.pipe(&["sessions", "import", "-", "--store", "again.db"], &export.stdout);
    assert_eq!((imported.out(), &*imported.stderr), ("", "imported 7 messages of 3 sessions into again.db\n"));
    let again = lab.run(&["sessions", "export", "chat/left-2", "--store", "again.db"]);
    assert_eq!(again.out().lines().count(), 3);
    let current = lab.run(&["sessions", "export", "chat", "--store", "s.db", "--current"]);
    assert_eq!((current.out().lines().count(), &*current.stderr), (1, ""));
}

#[test]
fn an_exported_branch_has_the_system_prompt_that_it_was_sent_with() {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    block_on(async {
        let settings = Settings::default().dialect(Dialect::Anthropic);
        let mut session = Session::open(store, "chat", settings).await.unwrap();
        let calls = [(r#""system":"first","#, "two"), ("", "three"), (r#""system":"last","#, "four")];
        for (system, said) in calls {
            let body = format!(
                r#"{{{system}"max_tokens":9,"messages":[{{"role":"user","content":"one"}},{{"role":"user","content":"{said}"}}]}}"#
            );
            let request = Request::decode(body, Some(Dialect::Anthropic)).unwrap();
            session.set_preamble(request.preamble()).await.unwrap();
            session.sync(request.messages().to_vec()).await.unwrap();
        }
    });
    let export = lab.run(&["sessions", "export", "chat", "--store", "s.db"]);
    let system = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["system"].clone();
    let systems: Vec<_> = export.out().lines().map(system).collect();
    assert_eq!(serde_json::to_string(&systems).unwrap(), r#"["last","first",null]"#);
}

#[test]
fn an_export_keeps_tools_and_system_prompts() {
    let pretty = |text: &str| text.replace(",\"role\"", ",\n\"role\"");
    let messages = list(&example_messages()[..10]);
    let tools = r#"[{"type":"function","function":{"name":"shell","description":"A\nB"}}]"#;
    let openai = format!(r#"{{"id":"t","messages":{messages},"tools":{tools}}}"#);
    let flat = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap().to_string();
    for (dialect, text) in [
        ("openai-chat", openai),
        ("anthropic", flat(include_str!("../bodies/anthropic.json")).replacen('{', r#"{"id":"t","#, 1)),
    ] {
        let lab = Lab::new().with("t.jsonl", pretty(&text).replace('\n', " "));
        let first = lab.run(&["replay", "t.jsonl", "--json", "--dialect", dialect]);
        let sent = first.lines()[0]["sent_tokens"].as_u64().unwrap();
        let export = lab.run(&["sessions", "export", "replay/t"]);
        assert_eq!(export.out().lines().count(), 1, "{dialect}");
        let again = lab.pipe(&["replay", "-", "--json", "--dialect", dialect], &export.stdout);
        assert_eq!(again.out(), first.out());
        assert!(sent > 0);
    }
}

#[test]
fn an_export_holds_one_line_a_message_however_it_was_written() {
    let lab = Lab::new();
    let store = SqliteStore::open(lab.path("s.db")).unwrap();
    block_on(async {
        let mut session = Session::open(store, "pretty", Settings::default()).await.unwrap();
        session.push(Message::user("Hello")).await.unwrap();
        let request =
            Request::decode("[{\r\n \"role\": \"user\",\n \"content\": \"a\\nb\" }]", Some(Dialect::OpenAiChat))
                .unwrap();
        session.append(request.into_messages()).await.unwrap();
    });
    let export = lab.run(&["sessions", "export", "pretty", "--store", "s.db"]);
    let lines = export.lines();
    export.out();
    assert_eq!((lines.len(), &lines[0]["content"], &lines[1]["content"]), (2, &"Hello".into(), &"a\nb".into()));
    assert!(lines[0]["time"].is_string());
}

#[test]
fn a_search_finds_what_has_left_the_window() {
    let lab = replayed();
    let found = lab.run(&["sessions", "search", "late stand", "--limit", "2"]);
    assert_eq!(found.out().lines().count(), 3, "{}", found.stdout);
    let json = lab.run(&["sessions", "search", "late stand", "--limit", "2", "--json"]).lines();
    assert_eq!((json.len(), &json[0]["session"]), (2, &"replay/session".into()));
    assert!(json[0]["entry"].is_u64() && json[0]["excerpt"].is_string());
    lab.run(&["sessions", "search", "late", "--session", "replay/session"]).out();
    let said_by = |name| lab.run(&["sessions", "search", "late stand", "--speaker", name, "--json"]).lines();
    let all = lab.run(&["sessions", "search", "late stand", "--limit", "999", "--json"]).lines();
    assert!(!said_by("tool").is_empty() && said_by("tool").iter().all(|hit| all.contains(hit)));
    for limit in [["--speaker", "nobody"], ["--until", "1990-01-01"]] {
        let run = lab.run(&[&["sessions", "search", "late stand"][..], &limit].concat());
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), "nothing found\n"), "{limit:?}");
    }
    lab.run(&["sessions", "search", "late stand", "--since", "yesterday"]).fails(2, "write a day such as 2026-11-22");
    for nothing in ["zzyzzx", "", "\"", "zzyzzx(zzyzzx", "*", "\"late zzyzzx\""] {
        let run = lab.run(&["sessions", "search", nothing]);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(1), "", "nothing found\n"), "{nothing}");
        let run = lab.run(&["sessions", "search", nothing, "--json"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{nothing}");
    }
}

#[test]
fn all_sessions_are_deleted_only_where_that_is_asked_for() {
    let lab = with_summary();
    assert_ne!(lab.run(&["sessions", "delete", "--store", "s.db"]).code, Some(0));
    assert_ne!(lab.run(&["sessions", "delete", "", "--store", "s.db"]).code, Some(0));
    assert_ne!(lab.run(&["sessions", "delete", "lived", "--all", "--store", "s.db"]).code, Some(0));
    assert_ne!(lab.run(&["sessions", "list", "--json", "--store", "s.db"]).out(), "");
    let run = lab.run(&["sessions", "delete", "--all", "--store", "s.db"]);
    assert_eq!((run.out(), run.stderr.as_str()), ("", "deleted 2 sessions\n"));
    assert_eq!(lab.run(&["sessions", "list", "--json", "--store", "s.db"]).out(), "");
}

#[test]
fn sessions_are_deleted_all_or_none() {
    let lab = replayed();
    lab.run(&["replay", "session.jsonl", "--json", "--policy", "default", "--policy", "none", "--policy", "messages"])
        .out();
    let run = lab.run(&["sessions", "delete", "replay/session", "nobody"]);
    run.fails(1, "there is no session `nobody`");
    assert_eq!(lab.run(&["sessions", "list", "--json"]).lines().len(), 3);
    let run = lab.run(&["sessions", "delete", "replay/session", "replay/session@none"]);
    assert_eq!((run.out(), run.stderr.as_str()), ("", "deleted replay/session\ndeleted replay/session@none\n"));
    assert_eq!(lab.run(&["sessions", "list", "--json"]).lines().len(), 1);
    lab.run(&["sessions", "show", "replay/session"]).fails(1, "there is no session");
    let search = ["sessions", "search", "late", "--session", "replay/session"];
    lab.run(&search).fails(1, "there is no session `replay/session` in .lookback/lookback.db");
}

#[test]
fn a_session_that_is_not_there_is_a_no() {
    let lab = replayed();
    for command in ["show", "window", "calls", "export", "delete"] {
        lab.run(&["sessions", command, "nobody"]).fails(1, "there is no session `nobody` in .lookback/lookback.db");
    }
}

#[test]
fn a_store_that_is_not_there_is_a_wrong_question() {
    let lab = Lab::new();
    for args in COMMANDS {
        lab.run(args).fails(2, "there is no store at .lookback/lookback.db");
        lab.run(&[args, &["--store", "none.db"]].concat()).fails(2, "there is no store at none.db");
    }
    assert_eq!(fs::read_dir(lab.path("")).unwrap().count(), 0, "none was made");
}

#[test]
fn an_empty_variable_names_no_store() {
    let lab = Lab::new();
    let list = |store: &str, args: &[&str]| {
        lab.run_with(&[&["sessions", "list"], args].concat(), "", &[("LOOKBACK_STORE", store)])
    };
    list("", &[]).fails(2, "there is no store at .lookback/lookback.db");
    list("other.db", &[]).fails(2, "there is no store at other.db");
    list("other.db", &["--store", "own.db"]).fails(2, "there is no store at own.db");
    // An empty option is an error, unlike an empty variable.
    list("", &["--store", ""]).fails(2, "a value is required for '--store <STORE>'");
}

#[test]
fn names_that_leave_their_place_are_refused() {
    let lab = replayed();
    let long = "x".repeat(201);
    for name in ["../x", "a/../b", "..", ".", "/etc/passwd", "a//b", "a/", "a\\b", "a\nb", "a\u{7f}", "", &long] {
        for command in ["show", "window", "calls", "export", "delete"] {
            lab.run(&["sessions", command, name]).fails(2, "session's name");
        }
        lab.run(&["sessions", "search", "late", "--session", name]).fails(2, "session's name");
    }
    for name in ["%2e%2e", "'; DROP TABLE logs; --", "naïve", "…", "a b", "~", "$HOME"] {
        lab.run(&["sessions", "show", name]).fails(1, "there is no session");
    }
    assert_eq!(lab.run(&["sessions", "list", "--json"]).lines().len(), 1);
    assert_snapshot!(lab.all(&[
        &["sessions", "show", "../x"],
        &["sessions", "show", "a\\b"],
        &["sessions", "show", ""],
        &["sessions", "show", "nobody"]
    ]));
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let other = Lab::new();
    let mut lab = Lab::new().with_example().with("text.db", "hello\n");
    // A database of another program, and a store of a future version.
    SqliteStore::open(other.path("s.db")).unwrap();
    let store = fs::read(other.path("s.db")).unwrap();
    let mut foreign = store.clone();
    foreign[68..72].copy_from_slice(b"else");
    let mut newer = store;
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    lab = lab.with("foreign.db", &foreign).with("newer.db", &newer);
    for (file, says) in [
        ("text.db", "is not a store of Lookback"),
        ("foreign.db", "is not a store of Lookback"),
        ("newer.db", "has version 99, and this version of Lookback reads up to 1; update Lookback"),
    ] {
        let before = fs::read(lab.path(file)).unwrap();
        for args in COMMANDS.into_iter().chain([&["replay", "session.jsonl"][..]]) {
            lab.run(&[args, &["--store", file]].concat()).fails(2, says);
        }
        assert!(fs::read(lab.path(file)).unwrap() == before, "{file}");
    }
}

#[test]
fn a_folder_is_a_store_of_plain_files() {
    let lab = Lab::new().with_example();
    let replay = |store| lab.run(&["replay", "session.jsonl", "--json", "--policy", "messages", "--store", store]);
    // An existing folder and a path that ends in a slash are plain files. Any other path is SQLite.
    fs::create_dir(lab.path("there")).unwrap();
    let told = replay("s.db").out().to_owned();
    for (store, folder) in [("there", "there"), ("new/in/", "new/in")] {
        let [replayed, exported] =
            [replay(store), lab.run(&["sessions", "export", "replay/session", "--store", store])];
        assert_eq!(replayed.out(), told);
        assert_eq!(exported.out(), lab.run(&["sessions", "export", "replay/session", "--store", "s.db"]).out());
        let turns = fs::read_to_string(lab.path(folder).join("memory/replay%2Fsession/turns.jsonl")).unwrap();
        let list = lab.run(&["sessions", "list", "--json", "--store", store]).lines();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0]["entries"].as_u64().unwrap(), turns.lines().count() as u64 - 1);
        let files = lab.run(&["sessions", "search", "late stand", "--json", "--limit", "99", "--store", store]).lines();
        let sqlite =
            lab.run(&["sessions", "search", "late stand", "--json", "--limit", "99", "--store", "s.db"]).lines();
        let positions = |lines: &[serde_json::Value]| {
            lines.iter().map(|line| line["entry"].as_u64().unwrap()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(positions(&files), positions(&sqlite));
        // Replaying the same file again replaces the session.
        assert_eq!(replay(store).out(), told);
        lab.run(&["sessions", "delete", "replay/session", "--store", store]).out();
        lab.run(&["sessions", "show", "replay/session", "--store", store]).fails(1, "there is no session");
        assert_eq!(lab.run(&["sessions", "list", "--json", "--store", store]).out(), "");
    }
    assert!(lab.path("s.db").is_file());
}

#[test]
fn a_path_that_is_neither_a_file_nor_a_folder_is_no_store() {
    let lab = Lab::new().with_example().with("file", "");
    lab.run(&["replay", "session.jsonl", "--store", "file/s.db"]).fails(2, "file could not be created");
    lab.run(&["sessions", "list", "--store", "file/s.db"]).fails(2, "there is no store");
    for args in COMMANDS {
        lab.run(&[args, &["--store", "none/"]].concat()).fails(2, "there is no store at none/");
    }
    assert!(!lab.path("none").exists());
    lab.run(&["replay", "session.jsonl", "--store", "file/"]).fails(2, "the store file/");
}

#[test]
fn a_folder_that_is_no_store_is_not_taken_for_an_empty_one() {
    let lab = Lab::new().with_example();
    fs::create_dir_all(lab.path("examples")).unwrap();
    fs::create_dir_all(lab.path(".kb/memory/shared")).unwrap();
    fs::write(lab.path(".kb/memory/shared/memory.json"), r#"{"preferences":["Use pnpm."]}"#).unwrap();
    for args in COMMANDS.into_iter().chain([&["facts", "list"][..], &["recall", "x", "y"]]) {
        let run = lab.run(&[args, &["--store", "examples"]].concat());
        run.fails(2, "there is no store at examples");
        assert!(!run.stderr.contains("KB Labs"), "{}", run.stderr);
        let run = lab.run(&[args, &["--store", ".kb/"]].concat());
        run.fails(
            2,
            "there is no store at .kb/; it looks like a memory folder of KB Labs: `lookback facts import .kb/`",
        );
    }
    // A command that writes creates a store there.
    for store in ["examples", ".kb/"] {
        lab.run(&["facts", "import", ".kb", "--dry-run", "--store", store]).out();
        lab.run(&["sessions", "list", "--store", store]).fails(2, "there is no store");
        lab.run(&["facts", "add", "--shared", "finding", "It is so.", "--store", store]).out();
        assert_eq!(lab.run(&["facts", "list", "--json", "--store", store]).lines().len(), 1);
    }
}

#[test]
fn a_damaged_file_is_said_to_be_and_its_session_can_be_erased() {
    let lab = Lab::new();
    let store = FileStore::open(lab.path("store")).unwrap();
    let record = Record::new("{}").text("apple");
    block_on(store.append(&"one".parse().unwrap(), Append::new(0, [record.clone(), record]).time(Some(0)))).unwrap();
    let turns = lab.path("store/memory/one/turns.jsonl");
    let damaged = fs::read_to_string(&turns).unwrap().replace("\"at\":0", "\"at\":zero");
    fs::write(&turns, damaged).unwrap();
    let says = "entry 0 of `one` cannot be read: line 2 of store/memory/one/turns.jsonl is not valid JSON";
    for args in [&["sessions", "show", "one"][..], &["sessions", "search", "apple", "--session", "one"]] {
        lab.run(&[args, &["--store", "store"]].concat()).fails(2, says);
    }
    // The other sessions are listed and searched.
    let mut other = block_on(Session::open(store, "other", Settings::default())).unwrap();
    block_on(other.push(Message::user("an apple"))).unwrap();
    for args in [["sessions", "list"].as_slice(), &["sessions", "search", "apple"]] {
        for json in [&[][..], &["--json"]] {
            let run = lab.run(&[args, &["--store", "store"], json].concat());
            assert_eq!((run.code, run.stderr.as_str()), (Some(1), format!("warning: {says}\n").as_str()));
            assert!(run.stdout.contains("other") && !run.stdout.contains("one"), "{}", run.stdout);
        }
    }
    assert!(turns.exists());
    lab.run(&["sessions", "delete", "one", "--store", "store"]).out();
    assert!(!turns.exists());
}

#[test]
fn a_folder_that_may_not_be_written_to_is_said() {
    let lab = Lab::new().with_example();
    fs::create_dir(lab.path("shut")).unwrap();
    fs::set_permissions(lab.path("shut"), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(lab.path("shut/probe"), "").is_ok() {
        crate::common::skipped("permissions do not bind this user");
        return;
    }
    lab.run(&["replay", "session.jsonl", "--store", "shut/s.db"]).fails(2, "shut/s.db");
    lab.run(&["replay", "session.jsonl", "--store", "shut/in/s.db"]).fails(2, "shut/in could not be created");
}

#[test]
fn a_locked_store_is_said_to_be() {
    let lab = replayed();
    // Another process locks the store.
    let hold = "import sqlite3, sys\nc = sqlite3.connect('.lookback/lookback.db', isolation_level=None)\nc.execute('begin exclusive')\nprint('held', flush=True)\nsys.stdin.read()";
    let mut command = lab.command("python3");
    command.args(["-c", hold]).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let Ok(mut child) = command.spawn() else {
        crate::common::skipped("there is no python3 to hold the store");
        return;
    };
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    if line == "held\n" {
        // Readers continue. Writers wait for a while and then return an error.
        lab.run(&["sessions", "list"]).out();
        lab.run(&["sessions", "export", "replay/session"]).out();
        lab.run(&["sessions", "delete", "replay/session"]).fails(2, "locked by another process; try again");
    } else {
        crate::common::skipped("python3 has no sqlite3");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lab.run(&["sessions", "list", "--json"]).lines().len(), 1);
}

#[test]
fn a_session_that_is_listed_can_be_shown_though_it_has_nothing_but_facts() {
    let lab = Lab::new();
    lab.run(&["facts", "add", "--session", "notes", "finding", "It listens on 5050."]).out();
    let listed: Vec<String> = lab
        .run(&["sessions", "list", "--json"])
        .lines()
        .iter()
        .map(|line| line["session"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, ["notes"]);
    for session in &listed {
        let shown = lab.run(&["sessions", "show", session]);
        assert!(shown.out().contains("0 messages"), "{}", shown.stdout);
        assert!(lab.shell(shown.stderr.trim().split_once(": ").unwrap().1).out().contains("It listens on 5050."));
        assert_eq!(lab.run(&["sessions", "show", session, "--json"]).out(), "");
        assert_eq!(lab.run(&["sessions", "window", session]).out(), "[]\n");
        assert_eq!(lab.run(&["sessions", "export", session]).out(), "");
    }
    lab.run(&["sessions", "show", "nobody"]).fails(1, "there is no session `nobody`");
    assert_eq!(lab.run(&["sessions", "delete", "--all"]).stderr, "deleted 1 session\n");
    assert_eq!(lab.run(&["sessions", "list", "--json"]).out(), "");
}
