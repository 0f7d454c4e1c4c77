//! Tests of `lookback replay`.

use crate::common;
use std::fs;
use std::io::Write as _;

use crate::common::{Lab, Run, example_messages, list};
use insta::assert_snapshot;
use serde_json::{Value, json};

const FIELDS: [&str; 23] = [
    "id",
    "policy",
    "calls",
    "sent_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "uncached_tokens",
    "cost",
    "prefix_breaks",
    "compactions",
    "max_window_tokens",
    "invalid_requests",
    "over_limit_calls",
    "reused_identifiers",
    "missed_identifiers",
    "copied_spans",
    "missed_spans",
    "missed_calls",
    "calls_missing_identifiers",
    "rereads",
    "recall_cost",
    "missed_identifiers_by",
    "missed_spans_by",
];

const BY_CAUSE: [&str; 2] = ["missed_identifiers_by", "missed_spans_by"];
const CAUSES: [&str; 4] = ["capped", "cleared", "dropped", "summarized"];

const MESSAGES: &str = r#"{"role":"system","content":"Be brief.","time":"2026-01-01T00:00:00Z"}
{"role":"user","content":"Where is user_id set?","time":"2026-01-01T00:00:01Z"}
{"role":"assistant","content":"In src/main.rs.","time":"2026-01-01T00:00:02.500Z"}

{"role":"user","content":"And read_file?","time":1767225700.25}
{"role":"assistant","content":"In src/main.rs too, beside user_id."}
"#;

/// Returns two transcripts, one per line. The second one has tools.
fn transcripts() -> String {
    let messages = example_messages();
    let tools = r#"[{"type":"function","function":{"name":"shell","parameters":{"type":"object"}}}]"#;
    let line = |id: &str, end: usize, more: &str| {
        format!("{{\"id\":\"{id}\",\"messages\":{}{more}}}\n", list(&messages[..end]))
    };
    line("short", 6, "") + &line("long/one", 40, &format!(",\"tools\":{tools}"))
}

/// Returns the keys of a JSON object in order.
fn keys(line: &str) -> Vec<String> {
    struct Keys(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Keys;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                    let mut keys = Vec::new();
                    while let Some((key, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                        keys.push(key);
                    }
                    Ok(Keys(keys))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Keys>(line).unwrap().0
}

/// Asserts the properties that the JSON lines of every replay have, and returns them.
#[track_caller]
fn reports(run: &Run, policies: &[&str], transcripts: usize) -> Vec<Value> {
    run.out();
    assert_eq!(run.stderr, "");
    let lines = run.lines();
    assert_eq!(lines.len(), policies.len() * (transcripts + 1));
    for line in run.stdout.lines() {
        assert_eq!(keys(line), FIELDS);
    }
    let (each, totals) = lines.split_at(policies.len() * transcripts);
    for (total, policy) in totals.iter().zip(policies) {
        assert_eq!((&total["id"], &total["policy"]), (&"total".into(), &(*policy).into()));
        let of_policy: Vec<_> = each.iter().filter(|line| line["policy"] == *policy).collect();
        assert_eq!(of_policy.len(), transcripts);
        for (cause, kind) in CAUSES.into_iter().flat_map(|cause| BY_CAUSE.map(|kind| (cause, kind))) {
            let parts = of_policy.iter().filter_map(|line| line[kind][cause].as_u64());
            assert_eq!(total[kind][cause].as_u64().unwrap_or(0), parts.sum::<u64>(), "{kind} {cause}");
        }
        for field in FIELDS[2..].iter().filter(|field| !BY_CAUSE.contains(field)) {
            let parts = of_policy.iter().map(|line| line[field].as_f64().unwrap());
            let sum = if *field == "max_window_tokens" { parts.fold(0.0, f64::max) } else { parts.sum() };
            assert!((total[field].as_f64().unwrap() - sum).abs() < 1e-9, "{field}");
        }
    }
    for line in &lines {
        let number = |field: &str| line[field].as_u64().unwrap();
        let parts = number("cache_read_tokens") + number("cache_write_tokens") + number("uncached_tokens");
        assert_eq!(number("sent_tokens"), parts);
        assert!(number("missed_identifiers") <= number("reused_identifiers"));
        assert!(number("missed_spans") <= number("copied_spans"));
        assert!(number("missed_calls") <= number("missed_identifiers") + number("missed_spans"));
        assert!(number("calls_missing_identifiers") <= number("missed_calls"));
        let by_cause = |kind: &str| CAUSES.iter().filter_map(|cause| line[kind][*cause].as_u64()).sum::<u64>();
        assert_eq!(BY_CAUSE.map(by_cause), ["missed_identifiers", "missed_spans"].map(number));
        assert_eq!(number("missed_calls") > 0, line["recall_cost"].as_f64() > Some(0.0));
    }
    lines
}

#[test]
fn the_example_is_told_in_tables() {
    let lab = Lab::new().with_example();
    let run = lab.run(&["replay", "session.jsonl"]);
    assert_eq!(run.code, Some(0));
    // Progress is for terminals.
    assert!(!run.stderr.contains("replaying"));
    for row in ["no window", "last 40 messages"] {
        assert!(run.stdout.contains(row), "{row}");
    }
    assert!(
        run.stderr.contains(".lookback/lookback.db") && run.stderr.contains("lookback sessions show replay/session")
    );
    assert!(lab.path(".lookback/lookback.db").exists());
    assert_snapshot!(lab.snapshot(&run));
    assert_snapshot!(
        "the_example_under_two_policies",
        lab.snapshot(&lab.run(&[
            "replay",
            "session.jsonl",
            "--policy",
            "none",
            "--policy",
            "messages:target_messages=20"
        ]))
    );
}

#[test]
fn the_hints_can_be_followed() {
    let lab = Lab::new().with("my notes.jsonl", MESSAGES).with("plain.jsonl", MESSAGES);
    for args in [
        &["replay", "plain.jsonl"][..],
        &["replay", "plain.jsonl", "--policy", "none", "--policy", "messages"],
        &["replay", "my notes.jsonl", "--store", "a store/it's.db"],
    ] {
        let run = lab.run(args);
        let hint = run.stderr.lines().find(|line| line.contains("sessions show")).unwrap();
        let shown = lab.shell(hint.trim());
        assert!(shown.out().contains("Where is user_id set?"), "{hint}");
    }
}

#[test]
fn json_lines_have_the_fields_of_the_contract() {
    let lab = Lab::new().with("transcripts.jsonl", transcripts()).with("notes.jsonl", MESSAGES);
    let run = lab.run(&["replay", "transcripts.jsonl", "notes.jsonl", "--json"]);
    let lines = reports(&run, &["default"], 3);
    let ids: Vec<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["short", "long/one", "notes", "total"]);
    let calls: Vec<_> = lines.iter().map(|line| line["calls"].as_u64().unwrap()).collect();
    assert_eq!(calls[..3], [2, 13, 2]);
    assert!(lines.iter().all(|line| line["invalid_requests"] == 0));
    let identifiers = |field: &str| lines[2][field].as_u64().unwrap();
    assert_eq!((identifiers("reused_identifiers"), identifiers("missed_identifiers")), (2, 0));
}

#[test]
fn several_policies_are_compared() {
    let lab = Lab::new().with_example();
    let policies = ["none", "messages:max_messages=40,target_messages=20", "default"];
    let flags = policies.iter().flat_map(|policy| ["--policy", policy]);
    let run = lab.run(&["replay", "session.jsonl", "--json"].into_iter().chain(flags).collect::<Vec<_>>());
    let lines = reports(&run, &policies, 1);
    assert_eq!(
        (&lines[0]["prefix_breaks"], &lines[0]["compactions"], &lines[0]["missed_identifiers"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert!(lines[1]["compactions"].as_u64() > Some(0));
    assert!(lines.iter().all(|line| line["calls"] == 78 && line["invalid_requests"] == 0));
    let sessions = lab.run(&["sessions", "list"]);
    assert!(sessions.out().contains("replay/session "), "the first goes by the plain name: {}", sessions.stdout);
    for policy in &policies[1..] {
        assert!(sessions.out().contains(&format!("session@{policy}")), "{}", sessions.stdout);
    }
}

#[test]
fn the_last_call_sends_the_window_that_window_gives() {
    let messages = example_messages();
    let end = (0..messages.len()).rev().find(|index| messages[*index].contains(r#""role":"assistant""#)).unwrap();
    let lab = Lab::new().with_example().with("prefix.json", list(&messages[..end]));
    let policy = "messages:max_messages=12,target_messages=5";
    lab.run(&["replay", "session.jsonl", "--policy", policy, "--json"]).out();
    let replayed = lab.run(&["sessions", "window", "replay/session"]).json();
    let window = lab.run(&["window", "prefix.json", "--policy", policy]).json();
    let sent = window.as_array().unwrap();
    assert_eq!(replayed.as_array().unwrap()[..sent.len()], sent[..]);
}

#[test]
fn a_second_run_gives_the_same_and_does_not_double_the_store() {
    let lab = Lab::new().with_example().with("transcripts.jsonl", transcripts());
    let args = ["replay", "session.jsonl", "transcripts.jsonl", "--json", "--policy", "none", "--policy", "messages"];
    let list = || {
        let mut logs = lab.run(&["sessions", "list", "--json"]).lines();
        for log in &mut logs {
            // These are the times of the replay, not of the recording.
            log.as_object_mut().unwrap().retain(|key, _| !["created", "used"].contains(&key.as_str()));
        }
        logs
    };
    let first = lab.run(&args);
    let listed = list();
    let second = lab.run(&args);
    assert_eq!(first.out(), second.out());
    assert_eq!((&list(), listed.len()), (&listed, 6));
}

#[test]
fn transcripts_of_one_name_are_kept_apart() {
    let lab = Lab::new();
    for folder in ["a", "b"] {
        fs::create_dir(lab.path(folder)).unwrap();
    }
    let (one, two) = MESSAGES.split_once("\n\n").unwrap();
    fs::write(lab.path("a/notes.jsonl"), one).unwrap();
    fs::write(lab.path("b/notes.jsonl"), two).unwrap();
    let args = ["replay", "a/notes.jsonl", "b/notes.jsonl", "--json"];
    reports(&lab.run(&args), &["default"], 2);
    reports(&lab.run(&args), &["default"], 2);
    let list = lab.run(&["sessions", "list", "--json"]).lines();
    assert_eq!(
        list.iter().map(|log| log["session"].as_str().unwrap()).collect::<Vec<_>>(),
        ["replay/notes", "replay/notes-2"]
    );
    assert!(lab.run(&["sessions", "show", "replay/notes-2"]).out().contains("read_file"));
}

#[test]
fn a_name_may_be_a_number_or_left_out() {
    let line = |id: &str| format!(r#"{{{id}"messages":[{{"role":"user","content":"a"}}]}}"#);
    let text = [r#""id":7,"#, r#""id":null,"#, "", r#""id":[1],"#].map(line).join("\n");
    let lab = Lab::new().with("some.jsonl", text);
    let lines = reports(&lab.run(&["replay", "some.jsonl", "--json"]), &["default"], 4);
    let ids: Vec<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["7", "some-2", "some-3", "some-4", "total"]);
}

#[test]
fn names_that_no_session_may_have_are_replaced() {
    let line = |id: &str| format!(r#"{{"id":"{id}","messages":[{{"role":"user","content":"a"}}]}}"#);
    let long = "x".repeat(201);
    let text = ["../../etc/passwd", "a\\u0000b", "", &long, "team/ok"].map(line).join("\n");
    let lab = Lab::new().with("odd.jsonl", text);
    let run = lab.run(&["replay", "odd.jsonl", "--json"]);
    assert_eq!(reports(&run, &["default"], 5)[0]["id"], "../../etc/passwd");
    let names = lab.run(&["sessions", "list", "--json"]).lines();
    let names: Vec<_> = names.iter().map(|log| log["session"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["replay/team/ok", "replay/transcript-0", "replay/transcript-1", "replay/transcript-2", "replay/transcript-3"]
    );
}

#[test]
fn times_let_the_cache_go_cold() {
    let lab = Lab::new();
    let text = |minutes: u32| {
        let filler = "word ".repeat(2_000);
        format!(
            r#"{{"role":"user","content":"{filler}","time":"2026-01-01T00:00:00Z"}}
{{"role":"assistant","content":"a","time":"2026-01-01T00:00:01Z"}}
{{"role":"user","content":"b","time":"2026-01-01T00:{minutes:02}:00Z"}}
{{"role":"assistant","content":"c"}}"#
        )
    };
    let read = |minutes, prices: &str| {
        let run = lab.pipe(&["replay", "-", "--json", "--prices", prices], text(minutes));
        reports(&run, &["default"], 1)[0]["cache_read_tokens"].as_u64().unwrap()
    };
    assert!(read(1, "anthropic-5m") > 1_500);
    assert_eq!(read(9, "anthropic-5m"), 0);
    assert!(read(9, "anthropic-1h") > 1_500);
}

#[test]
fn prices_go_by_name_by_model_and_by_file() {
    let lab = Lab::new().with("notes.jsonl", MESSAGES);
    let own = r#"[[price]]
name = "mine"
provider = "Me"
models = []
input = 1000000.0
write = 1.0
read = 1.0
minimum = 0
step = 1
ttl = 60
entries = "every"
date = "2026-01-01"
source = "a napkin"
"#;
    fs::write(lab.path("mine.toml"), own).unwrap();
    fs::write(lab.path("wrong.toml"), own.replace("1000000.0", "-1.0")).unwrap();
    fs::write(lab.path("none.toml"), "price = []").unwrap();
    let cost = |prices: &str| {
        let run = lab.run(&["replay", "notes.jsonl", "--json", "--prices", prices]);
        let lines = reports(&run, &["default"], 1);
        (lines[0]["cost"].as_f64().unwrap(), lines[0]["sent_tokens"].as_f64().unwrap())
    };
    let (dollars, sent) = cost("mine.toml");
    assert!((dollars - sent).abs() < 1e-6, "a dollar a token");
    assert!(cost("claude-opus-4-6").0 > cost("anthropic-5m").0);
    assert_eq!(cost("claude-sonnet-4-5").0, cost("anthropic-5m").0);
    let told = lab.run(&["replay", "notes.jsonl", "--prices", "mine.toml"]);
    assert!(told.out().contains("Input at the prices `mine` of 2026-01-01 (a napkin)."));
    for prices in ["abacus", "wrong.toml", "none.toml", "missing.toml"] {
        lab.run(&["replay", "notes.jsonl", "--prices", prices]).fails(2, prices.split('.').next().unwrap_or_default());
    }
    assert_snapshot!(lab.all(&[
        &["replay", "notes.jsonl", "--prices", "abacus"],
        &["replay", "notes.jsonl", "--prices", "wrong.toml"],
        &["replay", "notes.jsonl", "--prices", "none.toml"],
    ]));
}

#[test]
fn the_store_is_where_it_is_said_to_be() {
    let lab = Lab::new().with("notes.jsonl", MESSAGES);
    let run = lab.run(&["replay", "notes.jsonl", "--store", "deep/down/s.db"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("deep/down/s.db") && run.stderr.contains("--store deep/down/s.db"), "{}", run.stderr);
    assert!(lab.path("deep/down/s.db").exists() && !lab.path(".lookback").exists());
    let by_variable = lab.run_with(&["replay", "notes.jsonl"], "", &[("LOOKBACK_STORE", "v.db")]);
    assert!(by_variable.stderr.contains("v.db"), "{}", by_variable.stderr);
    assert!(lab.path("v.db").exists() && !lab.path(".lookback").exists());
}

#[test]
fn other_dialects_are_replayed_when_they_are_named() {
    for (dialect, text) in
        [("anthropic", include_str!("../bodies/anthropic.json")), ("bedrock", include_str!("../bodies/bedrock.json"))]
    {
        let mut body: Value = serde_json::from_str(text).unwrap();
        body["id"] = dialect.into();
        let lab = Lab::new().with("body.jsonl", format!("{body}\n"));
        let run = lab.run(&["replay", "body.jsonl", "--json", "--dialect", dialect]);
        let lines = reports(&run, &["default"], 1);
        assert_eq!((&lines[0]["calls"], &lines[0]["invalid_requests"]), (&2.into(), &0.into()));
    }
}

#[test]
fn a_hard_limit_ends_it() {
    let lab = Lab::new().with("notes.jsonl", MESSAGES);
    let run = lab.run(&["replay", "notes.jsonl", "--policy", "default:hard.tokens=5"]);
    run.fails(1, "hard limit");
}

#[test]
fn wrong_files_are_named_with_the_line() {
    let lab = Lab::new()
        .with("syntax.jsonl", "{\"role\":\"user\",\"content\":\"a\"}\n\n{\"role\":\n")
        .with("neither.jsonl", "{\"prompt\":\"a\"}\n")
        .with("list.jsonl", "[1]\n")
        .with("mixed.jsonl", "{\"role\":\"user\",\"content\":\"a\"}\n{\"messages\":[]}\n")
        .with("mixed2.jsonl", "{\"messages\":[]}\n{\"role\":\"user\",\"content\":\"a\"}\n")
        .with("role.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"wizard\"}]}\n")
        .with("time.jsonl", "{\"role\":\"user\",\"content\":\"a\",\"time\":\"noon\"}\n")
        .with("member.jsonl", "{\"messages\":7}\n")
        .with("blank.jsonl", "\n \n")
        .with("empty.jsonl", "")
        .with("utf8.jsonl", b"{\"role\":\"user\",\"content\":\"\xff\"}\n")
        .with("good.jsonl", MESSAGES);
    let names =
        ["syntax", "neither", "list", "mixed", "mixed2", "role", "time", "member", "blank", "empty", "utf8", "missing"];
    let mut told = Vec::new();
    for name in names {
        let file = format!("{name}.jsonl");
        let run = lab.run(&["replay", &file]);
        run.fails(2, &file);
        told.push(lab.snapshot(&run));
        lab.run(&["replay", "good.jsonl", &file, "--json"]).fails(2, &file);
    }
    assert_snapshot!(told.join("\n"));
    assert!(!lab.path(".lookback").exists(), "nothing was written");
    fs::create_dir(lab.path("none")).unwrap();
    lab.run(&["replay", "none"]).fails(2, "none contains no transcript");
    lab.pipe(&["replay", "-"], "").fails(2, "standard input contains no transcript");
    assert_eq!(lab.run(&["replay"]).code, Some(2));
    lab.run(&["replay", "good.jsonl", "--policy", "recent"]).fails(2, "recent");
}

#[test]
fn deep_nesting_goes_through_the_store() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = format!(
        "{{\"role\":\"user\",\"content\":\"hi\",\"x\":{deep}}}\n{{\"role\":\"assistant\",\"content\":\"a\"}}\n"
    );
    let lab = Lab::new().with("deep.jsonl", text);
    reports(&lab.run(&["replay", "deep.jsonl", "--json"]), &["default"], 1);
    assert!(lab.run(&["sessions", "export", "replay/deep"]).out().contains(&deep));
    assert!(lab.run(&["sessions", "window", "replay/deep"]).out().contains(&deep));
    lab.run(&["sessions", "show", "replay/deep"]).out();
    lab.run(&["sessions", "show", "replay/deep", "--json"]).out();
}

#[test]
fn recordings_of_other_providers_are_read_as_what_they_are() {
    for (dialect, text) in
        [("anthropic", include_str!("../bodies/anthropic.json")), ("bedrock", include_str!("../bodies/bedrock.json"))]
    {
        let body: Value = serde_json::from_str(text).unwrap();
        let lines: String = body["messages"].as_array().unwrap().iter().map(|line| format!("{line}\n")).collect();
        for (file, text) in [("lines.jsonl", lines), ("whole.json", text.to_owned())] {
            let lab = Lab::new().with(file, text);
            let lines = reports(&lab.run(&["replay", file, "--json"]), &["default"], 1);
            assert_eq!((&lines[0]["calls"], &lines[0]["invalid_requests"]), (&2.into(), &0.into()), "{dialect} {file}");
            let session = format!("replay/{}", lines[0]["id"].as_str().unwrap());
            let window = lab.run(&["sessions", "window", &session]);
            let checked = lab.pipe(&["check", "-", "--dialect", dialect, "--json"], window.out());
            assert_eq!(checked.json()["valid"], true, "{dialect} {file}: {}", checked.stdout);
        }
    }
}

#[test]
fn a_recording_in_two_formats_is_refused_and_both_are_named() {
    let text = "{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}\n{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"b\"}\n";
    let run = Lab::new().with("two.jsonl", text).run(&["replay", "two.jsonl"]);
    run.fails(2, "--dialect");
    assert!(run.stderr.contains("bedrock") && run.stderr.contains("openai-chat"), "{}", run.stderr);
}

#[test]
fn two_replays_at_once_count_what_one_counts_and_leave_one_whole_session() {
    let lab = Lab::new().with_example();
    let args = ["replay", "session.jsonl", "--json"];
    let alone = lab.run(&args).out().to_owned();
    let listed = |lab: &Lab| lab.run(&["sessions", "list", "--json"]).lines()[0]["entries"].clone();
    let records = listed(&lab);
    let runs: Vec<String> = std::thread::scope(|scope| {
        let replays: Vec<_> = (0..3).map(|_| scope.spawn(|| lab.run(&args).out().to_owned())).collect();
        replays.into_iter().map(|replay| replay.join().unwrap()).collect()
    });
    assert!(runs.iter().all(|run| *run == alone));
    assert_eq!(listed(&lab), records);
}

#[cfg(unix)]
#[test]
fn a_replay_that_is_cut_short_tells_what_it_has_and_keeps_nothing() {
    use std::io::{BufRead as _, BufReader};

    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let kept = lab.run(&["sessions", "show", "replay/session", "--json"]).out().to_owned();
    // Hundreds of copies take a while, so the signal arrives during one of them, or between two.
    let text = fs::read_to_string(lab.path("session.jsonl")).unwrap();
    let messages: Vec<&str> = text.lines().collect();
    let line = |id: usize| format!("{{\"id\":\"s{id}\",\"messages\":[{}]}}\n", messages.join(","));
    fs::write(lab.path("many.jsonl"), (0..200).map(line).collect::<String>()).unwrap();
    let mut command = lab.command(common::LOOKBACK);
    command
        .args(["replay", "many.jsonl", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let pressed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(pressed.success());
    let lines: Vec<String> = std::iter::once(first).chain(out.lines().map(Result::unwrap)).collect();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cut short"), "{ended:?}");
    let mut lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let total = lines.pop().unwrap();
    assert_eq!((&total["id"], &total["cut_short"]), (&"total".into(), &true.into()));
    // Complete sessions are saved, and the one that was cut short is not.
    let (cut, whole): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line["cut_short"] == true);
    assert!(cut.len() <= 1 && !whole.is_empty() && whole.len() < 200, "{cut:?} {whole:?}");
    let list = lab.run(&["sessions", "list", "--json"]).lines();
    let mut listed: Vec<&str> = list.iter().map(|session| session["session"].as_str().unwrap()).collect();
    let replayed = whole.iter().map(|line| format!("replay/{}", line["id"].as_str().unwrap()));
    let mut expected: Vec<String> = replayed.chain(["replay/session".to_owned()]).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert_eq!(lab.run(&["sessions", "show", "replay/session", "--json"]).out(), kept);
}

#[test]
fn a_window_that_cannot_keep_to_its_limit_says_so() {
    let lab = Lab::new().with_example();
    let policy = "tokens:max_tokens=32000,target_tokens=16000";
    let run = lab.run(&["replay", "session.jsonl", "--policy", policy]);
    assert!(run.out().contains("over 32,000 tokens (pinned: the open round of tool calls)"), "{}", run.stdout);
    let lines = reports(&lab.run(&["replay", "session.jsonl", "--policy", policy, "--json"]), &[policy], 1);
    assert_eq!(lines[0]["over_limit_calls"], 1);
    let lines = reports(&lab.run(&["replay", "session.jsonl", "--json"]), &["default"], 1);
    assert_eq!(lines[0]["over_limit_calls"], 0);
}

#[test]
fn a_picture_has_every_policy_and_replaces_a_file_only_when_it_is_whole() {
    let lab = Lab::new().with_example().with("front.svg", "a picture of before");
    let policies = ["none", "messages:max_messages=40,target_messages=20", "tokens:max_tokens=32000"];
    let flags = policies.iter().flat_map(|policy| ["--policy", policy]);
    let args = ["replay", "session.jsonl", "--svg", "front.svg", "--json"];
    reports(&lab.run(&args.into_iter().chain(flags).collect::<Vec<_>>()), &policies, 1);
    let svg = fs::read_to_string(lab.path("front.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for policy in policies {
        assert!(svg.contains(&format!(">{policy}</text>")), "{policy}");
    }
    assert_eq!(svg.matches("class=\"front\"").count(), 3, "a front in each plot");
    // The drawing of a single policy includes the policies with which it is compared.
    lab.run(&["replay", "session.jsonl", "--svg", "front.svg"]).out();
    let compared = fs::read_to_string(lab.path("front.svg")).unwrap();
    assert!(["default", "no window", "last 40 messages"].iter().all(|label| compared.contains(label)));
    lab.run(&["replay", "session.jsonl", "--svg", "front.svg", "--policy", "default:hard.tokens=5"]).fails(1, "hard");
    assert_eq!(fs::read_to_string(lab.path("front.svg")).unwrap(), compared, "it stays if the replay fails");
    let unwritable = ["replay", "session.jsonl", "--svg", "missing/front.svg"];
    lab.run(&unwritable).fails(2, "missing/front.svg could not be written");
    lab.run(&["replay", "session.jsonl", "--svg", "."]).fails(2, "could not be written");
    let left: Vec<_> = fs::read_dir(lab.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().ends_with(".tmp")), "{left:?}");
}

/// Returns a lab with a folder of two Claude Code sessions, the second one with a side chain.
fn claude_code() -> Lab {
    let lab = Lab::new();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/tests/claude_code");
    fs::create_dir_all(lab.path("projects/one")).unwrap();
    fs::create_dir_all(lab.path("projects/two")).unwrap();
    fs::copy(format!("{fixtures}/session.jsonl"), lab.path("projects/one/session.jsonl")).unwrap();
    fs::copy(format!("{fixtures}/sides.jsonl"), lab.path("projects/two/sides.jsonl")).unwrap();
    fs::write(lab.path("projects/two/sessions-index.json"), "{\"version\":1}").unwrap();
    lab
}

#[test]
fn a_folder_of_claude_codes_sessions_is_told_session_by_session() {
    let lab = claude_code();
    let run = lab.run(&["replay", "projects"]);
    assert!(run.out().contains("session") && run.out().contains("/agent-"), "{}", run.stdout);
    assert!(run.stderr.contains("skipped: projects/two/sessions-index.json"), "{}", run.stderr);
    assert_snapshot!(lab.snapshot(&run));
    let lines = lab.run(&["replay", "projects", "--json"]).lines();
    assert!(lines.iter().all(|line| line["invalid_requests"] == 0));
}

#[test]
fn what_the_provider_reported_stands_beside_what_was_replayed() {
    // The reported usage includes a system prompt and tools of 5,000 tokens, which were not recorded.
    let usage = "[[1,3,5000,0,9],[3,2,20,5003,9]]";
    let said = |role: &str, text: &str| format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}");
    let messages = [
        said("user", "Where is it?"),
        said("assistant", "There."),
        said("user", "And now?"),
        said("assistant", "Here."),
    ];
    let text = format!("{{\"id\":\"lived\",\"messages\":[{}],\"meta\":{{\"usage\":{usage}}}}}", messages.join(","));
    let (lab, file) = (Lab::new().with("lived.jsonl", text), "lived.jsonl");
    let plain = lab.run(&["replay", file, "--policy", "none", "--json"]).lines()[0].clone();
    let reported = &plain["reported"];
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&reported["calls"]) > 0.0 && number(&reported["cost"]) > 0.0);
    let parts = ["cache_read_tokens", "cache_write_tokens", "uncached_tokens"].map(|part| number(&reported[part]));
    assert_eq!(parts.iter().sum::<f64>(), number(&reported["sent_tokens"]));
    assert!(number(&reported["replayed_tokens"]) < number(&reported["sent_tokens"]), "no system prompt was recorded");
    let framed = lab.run(&["replay", file, "--policy", "none", "--json", "--preamble-from-usage"]).lines()[0].clone();
    let off = |report: &Value| {
        let reported = &report["reported"];
        (number(&reported["replayed_tokens"]) / number(&reported["sent_tokens"])).ln().abs()
    };
    assert!(off(&framed) < 0.01 && off(&plain) > 4.0, "{framed} {plain}");
    assert_eq!((&reported["calls"], &reported["sent_tokens"]), (&2.into(), &10_028.into()));
    let told = lab.run(&["replay", file]);
    assert!(
        told.out().contains("The provider reported") && told.out().contains("--preamble-from-usage"),
        "{}",
        told.stdout
    );
}

#[test]
fn the_usage_of_calls_may_show_whether_a_pause_let_the_cache_expire() {
    let say = |role: &str, minute: u64| {
        let content = "A long message about nothing at all. ".repeat(400);
        json!({"role": role, "content": content, "time": format!("2026-01-01T00:{minute:02}:00Z")})
    };
    let messages: Vec<Value> = [(0, 0), (20, 20), (40, 40)]
        .into_iter()
        .flat_map(|(asked, answered)| [say("user", asked), say("assistant", answered)])
        .collect();
    // The cache still had the window after the first pause, and not after the second.
    let usage = json!([[1, 4_000, 4_000, 0, 9], [3, 10, 8_000, 4_000, 9], [5, 10, 20_000, 0, 9]]);
    let text = json!({"messages": messages, "meta": {"usage": usage}}).to_string();
    let lab = Lab::new().with("paused.json", text);
    let read = |args: &[&str]| {
        let args = [&["replay", "paused.json", "--policy", "none", "--json"], args].concat();
        lab.run(&args).lines()[0]["cache_read_tokens"].as_u64().unwrap()
    };
    let (by_times, by_usage) = (read(&[]), read(&["--cache-from-usage"]));
    assert!(by_times == 0 && by_usage > 2_000, "{by_times} {by_usage}");
}

#[test]
fn recordings_may_be_gzipped_and_begin_with_a_mark() {
    let lab = Lab::new().with("mark.jsonl", format!("\u{feff}{MESSAGES}")).with("plain.jsonl", MESSAGES);
    fs::write(lab.path("packed.jsonl.gz"), packed(MESSAGES.as_bytes())).unwrap();
    for file in ["mark.jsonl", "packed.jsonl.gz", "plain.jsonl"] {
        let lines = reports(&lab.run(&["replay", file, "--json"]), &["default"], 1);
        assert_eq!((&lines[0]["calls"], &lines[0]["id"]), (&2.into(), &file.split('.').next().unwrap().into()));
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packing.write_all(bytes).unwrap();
    packing.finish().unwrap()
}

#[cfg(unix)]
#[test]
fn tables_fit_the_terminal_that_they_are_shown_on() {
    let lab = Lab::new().with_example();
    let shown = |env: &str, width: usize| {
        let inside =
            format!("stty cols {width} rows 24; {env} \"{}\" replay session.jsonl 2> /dev/null", common::LOOKBACK);
        lab.shell(&format!(
            "command -v script > /dev/null || exit 77; TERM=xterm script -qec '{inside}' /dev/null < /dev/null"
        ))
    };
    for width in [70, 100] {
        let run = shown("NO_COLOR=1", width);
        if run.code == Some(77) {
            crate::common::skipped("there is no `script` to make a terminal");
            return;
        }
        let (tables, _) = run.stdout.split_once("Input at the prices").unwrap();
        let longest = tables.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!(longest <= width, "{width}: {}", run.stdout);
        for told in ["call", "cost", "compaction", "no window", "$3.87", "3.24"] {
            assert!(tables.contains(told), "{told}: {}", run.stdout);
        }
        assert!(!run.stdout.contains('\u{1b}'));
    }
    // Wide cells are wrapped, and columns that repeat the totals are left out.
    assert!(shown("", 100).stdout.contains("\u{1b}[1m"), "headers are bold");
}

#[test]
fn a_thousand_recordings_of_one_name_and_long_names_are_told_apart() {
    let line = |id: &str| format!("{{\"id\":\"{id}\",\"messages\":[{{\"role\":\"user\",\"content\":\"a\"}}]}}\n");
    let lab = Lab::new().with("same.jsonl", line("same").repeat(2_000)).with("long.jsonl", line(&"x".repeat(192)));
    reports(&lab.run(&["replay", "same.jsonl", "--json"]), &["default"], 2_000);
    assert_eq!(lab.run(&["sessions", "list", "--json"]).lines().len(), 2_000);
    let policies = ["none", "messages", "messages"];
    let flags = policies.iter().flat_map(|policy| ["--policy", policy]);
    let args: Vec<_> = ["replay", "long.jsonl", "--json", "--store", "long.db"].into_iter().chain(flags).collect();
    lab.run(&args).out();
    assert_eq!(lab.run(&["sessions", "list", "--json", "--store", "long.db"]).lines().len(), 3);
}

#[test]
fn facts_of_a_replayed_session_outlive_the_next_replay() {
    let lab = Lab::new().with("notes.jsonl", MESSAGES);
    lab.run(&["replay", "notes.jsonl", "--json"]).out();
    lab.run(&["facts", "add", "--session", "replay/notes", "finding", "user_id is set in main."]).out();
    lab.run(&["replay", "notes.jsonl", "--json"]).out();
    assert!(lab.run(&["facts", "list", "--session", "replay/notes"]).out().contains("user_id is set in main."));
}

#[test]
fn a_usage_that_no_call_can_have_had_is_left_out() {
    let text = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"a\"}},{{\"role\":\"assistant\",\"content\":\"b\"}}],\"usage\":[[1,{},0,0,1]]}}\n",
        u64::MAX
    );
    let lab = Lab::new().with("odd.jsonl", text.repeat(2));
    for args in [&["replay", "odd.jsonl", "--json"][..], &["replay", "odd.jsonl", "--json", "--preamble-from-usage"]] {
        let lines = reports(&lab.run(args), &["default"], 2);
        assert!(lines.iter().all(|line| line["reported"].is_null()));
    }
}
