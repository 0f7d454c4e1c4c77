//! Tests of the JSON output: names and times are the same in all commands (docs/reference/json.md).

use crate::common::Lab;
use serde_json::Value;

/// Returns a lab with a session, its facts and shared facts, with some history.
fn lab() -> Lab {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json", "--policy", "messages:max_messages=10"]).out();
    let session = "replay/session";
    let key = ["--about", "the key", "--tag", "key"];
    let add = ["facts", "add", "blocker", "API_KEY is missing.", "--session", session];
    lab.run(&[&add[..], &key[..]].concat()).out();
    for args in [
        &["facts", "add", "finding", "It listens on port 5050.", "--session", session][..],
        &["facts", "add", "finding", "it listens on port 5050", "--session", session],
        &["facts", "resolve", "f0", "--with", "It is there now.", "--session", session],
        &["facts", "forget", "f1", "--session", session],
        &["facts", "add", "preference", "Use pnpm, not npm.", "--shared"],
    ] {
        lab.run(args).out();
    }
    lab
}

/// Collects every member of every object in a value, with its name.
fn members<'a>(value: &'a Value, into: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                into.push((name, value));
                members(value, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| members(value, into)),
        _ => {}
    }
}

#[test]
fn the_same_thing_has_one_name_and_times_are_text() {
    let lab = lab();
    let session = "replay/session";
    let mut names = Vec::new();
    for args in [
        &["sessions", "list"][..],
        &["sessions", "search", "late stand"],
        &["sessions", "calls", session],
        &["recall", session, "late stand"],
        &["recall", session, "--from", "1", "--to", "9"],
        &["facts", "list", "--shared"],
        &["facts", "history", "f0", "--session", session],
        &["facts", "history", "f1", "--session", session],
        &["facts", "sheet", "--session", session],
        &["facts", "add", "--shared", "finding", "It is so."],
    ] {
        let run = lab.run(&[args, &["--json"]].concat());
        run.out();
        let lines = run.lines();
        assert!(!lines.is_empty(), "{args:?}");
        let mut found = Vec::new();
        lines.iter().for_each(|line| members(line, &mut found));
        for (name, value) in found {
            match name {
                "time" | "created" | "used" | "said" => {
                    let text = value.as_str().unwrap_or_else(|| panic!("{args:?}: `{name}` is {value}"));
                    assert!(text.parse::<jiff::Timestamp>().is_ok() && text.ends_with('Z'), "{args:?}: {text}");
                }
                "entry" | "entries" => assert!(value.is_u64(), "{args:?}: `{name}` is {value}"),
                "session" => assert!(value.is_string(), "{args:?}: `{name}` is {value}"),
                "position" | "records" | "name" | "log" | "message" => panic!("{args:?}: `{name}`"),
                _ => {}
            }
            names.push(name.to_owned());
        }
    }
    let page = include_str!("../../../../docs/reference/json.md");
    for name in ["session", "entry", "entries", "id", "text", "excerpt", "time", "created", "used", "said"] {
        assert!(names.iter().any(|found| found == name), "{name} is written");
        assert!(page.contains(&format!("`{name}`")), "{name} is in docs/reference/json.md");
    }
}

#[test]
fn what_is_read_again_is_written_as_it_stands_in_the_log() {
    let lab = lab();
    let shown = lab.run(&["sessions", "show", "replay/session", "--json"]);
    assert!(shown.lines().iter().any(|entry| entry["message"]["time"].is_i64()), "{}", &shown.out()[..200]);
    let export = lab.run(&["facts", "export", "--session", "replay/session"]).lines();
    assert_eq!(export[0]["position"], 0);
    assert!(export[0]["entry"]["stated"]["time"].is_i64());
}

#[test]
fn a_line_of_a_fact_has_what_a_log_has_of_it() {
    let lab = lab();
    let history = lab.run(&["facts", "history", "f0", "--session", "replay/session", "--json"]).lines();
    let export = lab.run(&["facts", "export", "--session", "replay/session"]).lines();
    assert_eq!(history.len(), 2);
    let (told, kept) = (&history[0]["stated"], &export[0]["entry"]["stated"]);
    for name in ["kind", "text", "about", "confidence", "tags"] {
        assert_eq!(told[name], kept[name]);
        assert!(!told[name].is_null(), "{name}");
    }
    assert_eq!(history[1]["resolved"]["with"], "It is there now.");
}
