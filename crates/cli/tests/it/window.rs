//! Tests of `lookback window`.

use crate::common::{Lab, example_messages, list};
use futures_lite::future::block_on;
use insta::assert_snapshot;
use lookback_engine::Settings;
use lookback_models::Models;
use lookback_presets as presets;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::dialect::{Dialect, Request};
use lookback_wire::message::Role;
use serde_json::{Value, json};

const OPENAI: &str = include_str!("../bodies/openai-chat.json");
const ANTHROPIC: &str = include_str!("../bodies/anthropic.json");
const BEDROCK: &str = include_str!("../bodies/bedrock.json");

/// A result that arrives after the conversation has continued.
const LATE: &str = r#"[{"role":"user","content":"go"},
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"run","arguments":"{}"}}]},
{"role":"user","content":"still there?"},
{"role":"assistant","content":"yes"},
{"role":"tool","tool_call_id":"c1","content":"done"},
{"role":"user","content":"and?"}]"#;

/// Two calls with the same identifier, arguments that are not an object, and a result without a call.
const BROKEN: &str = r#"[{"role":"user","content":"go"},
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"run","arguments":"{}"}},
{"id":"c1","type":"function","function":{"name":"run","arguments":"{"}}]},
{"role":"tool","tool_call_id":"c1","content":"1"},
{"role":"tool","tool_call_id":"c1","content":"2"},
{"role":"tool","tool_call_id":"zz","content":"3"}]"#;

/// Returns a conversation with this number of turns, each with a question and an answer.
fn talk(turns: usize) -> String {
    let turn = |turn: usize| {
        [
            format!(r#"{{"role":"user","content":"question {turn}"}}"#),
            format!(r#"{{"role":"assistant","content":"answer {turn}"}}"#),
        ]
    };
    list(&(0..turns).flat_map(turn).collect::<Vec<_>>())
}

fn contents(window: &Value) -> Vec<&str> {
    window.as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

#[test]
fn what_fits_passes_byte_for_byte() {
    for (name, body) in [("openai-chat", OPENAI), ("anthropic", ANTHROPIC), ("bedrock", BEDROCK)] {
        for policy in ["default", "none", "messages"] {
            for dialect in ["auto", name] {
                let run = Lab::new().pipe(&["window", "--policy", policy, "--dialect", dialect], body);
                assert_eq!(run.out(), body, "{name} {policy} {dialect}");
                assert_eq!(run.stderr, "", "{name} {policy} {dialect}");
            }
        }
    }
}

#[test]
fn a_bare_list_passes_byte_for_byte() {
    for text in ["[]", " [ ]\n", "{\"messages\" : [ ] }", "[ {\"role\":\"user\",\n\"content\":\"x\"} ]\r\n\n"] {
        assert_eq!(Lab::new().pipe(&["window"], text).out(), text);
    }
}

#[test]
fn blocks_that_nobody_knows_pass() {
    for text in [
        r#"[{"role":"user","content":[{"type":"hologram","depth":3.00}]}]"#,
        r#"[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"x"}},{"type":"hologram"}]}]"#,
        r#"[{"role":"user","content":[{"hologram":{"depth":1}}]}]"#,
    ] {
        assert_eq!(Lab::new().pipe(&["window"], text).out(), text);
    }
}

#[test]
fn a_limit_on_messages_cuts() {
    let lab = Lab::new().with("talk.json", talk(30));
    let window = lab.run(&["window", "talk.json", "--policy", "messages:max_messages=5"]).json();
    assert_eq!(contents(&window), ["answer 27", "question 28", "answer 28", "question 29", "answer 29"]);
    let window = lab.run(&["window", "talk.json", "--policy", "messages"]).json();
    assert_eq!(contents(&window).len(), 40);
}

#[test]
fn a_body_keeps_every_byte_outside_its_messages() {
    let lab = Lab::new();
    let run = lab.pipe(&["window", "--policy", "messages:max_messages=3"], OPENAI);
    let (before, rest) = OPENAI.split_once("\"messages\": [").unwrap();
    let (_, after) = rest.rsplit_once("],").unwrap();
    assert!(run.out().starts_with(&format!("{before}\"messages\": [")), "{}", run.stdout);
    assert!(run.stdout.ends_with(&format!("],{after}")), "{}", run.stdout);
    // Kept messages stay unchanged.
    assert!(run.stdout.contains(r#"{"role": "system", "content": "Be brief.", "x_note": 1.50}"#), "{}", run.stdout);
    assert!(run.stdout.contains(r#"{"role": "assistant", "content": "Noon.", "score": 1E+2}"#), "{}", run.stdout);
}

#[test]
fn json_alone_changes_nothing() {
    let lab = Lab::new().with("talk.json", talk(30));
    let plain = lab.run(&["window", "talk.json", "--policy", "messages"]);
    let json = lab.run(&["window", "talk.json", "--policy", "messages", "--json"]);
    assert_eq!((plain.out(), &plain.stderr), (json.out(), &json.stderr));
}

/// Asserts that the output of `--json --explain` has the documented form, for an input with this number of messages.
#[track_caller]
fn assert_explained(answer: &Value, messages: usize) {
    let keys: Vec<_> = answer.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["findings", "over", "plan", "tokens", "window"]);
    assert!(answer["tokens"].is_u64() && answer["over"].is_array());
    let mut at = 0;
    for line in answer["plan"].as_array().unwrap() {
        let span = line["span"].as_array().unwrap();
        let (start, end) = (span[0].as_u64().unwrap(), span[1].as_u64().unwrap());
        assert_eq!((span.len(), start), (2, at), "{line}");
        assert!(end > start, "{line}");
        at = end;
        let mended = matches!(line["action"].as_str(), Some("move" | "merge" | "relabel" | "unmark"));
        let planned = matches!(line["action"].as_str(), Some("keep" | "truncate" | "clear" | "summarize" | "drop"));
        assert!(planned || (mended && line["mends"][0]["kind"].is_string()), "{line}");
        assert!(line["reason"]["kind"].is_string(), "{line}");
        assert!(line["tokens"].is_u64(), "{line}");
    }
    assert_eq!(at, messages as u64);
}

#[test]
fn explain_as_json_is_one_object() {
    let lab = Lab::new().with("talk.json", talk(6));
    let run = lab.run(&["window", "talk.json", "--policy", "messages:max_messages=5", "--json", "--explain"]);
    assert_explained(&run.json(), 12);
    assert_eq!(run.stderr, "");
    // The members have the documented order.
    assert!(
        run.stdout.starts_with(r#"{"window":[{"role":"user","content":"#)
            || run.stdout.starts_with(r#"{"window":[{"role":"assistant""#)
    );
    assert!(run.stdout.contains(r#"],"plan":[{"span":[0,"#), "{}", run.stdout);
    let window = lab.run(&["window", "talk.json", "--policy", "messages:max_messages=5"]);
    assert!(run.stdout.starts_with(&format!("{{\"window\":{},\"plan\"", window.out())));
    let drop = &run.json()["plan"][0];
    assert_eq!((&drop["action"], &drop["span"][0]), (&json!("drop"), &json!(0)));
    assert_eq!(
        drop["reason"],
        json!({"kind": "exceeded", "measure": "messages", "actual": 7, "limit": 5, "target": 5})
    );
}

#[test]
fn explain_as_json_of_nothing() {
    let run = Lab::new().pipe(&["window", "--json", "--explain"], "[]");
    assert!(run.out().starts_with(r#"{"window":[],"plan":[],"tokens":0,"over":[],"findings":[{"rule":"OC0","#));
}

#[test]
fn explain_accounts_for_every_message_of_the_example() {
    let messages = example_messages();
    let policies = [
        ("default", 216),
        ("messages:max_messages=12,target_messages=6", 150),
        ("rounds:max_rounds=3", 90),
        ("tokens:max_tokens=20000,target_tokens=8000", 131),
        ("turns:max_turns=2", 200),
    ];
    std::thread::scope(|scope| {
        for (policy, length) in policies {
            let list = list(&messages[..length]);
            scope.spawn(move || {
                let run = Lab::new().pipe(&["window", "--policy", policy, "--json", "--explain"], &list);
                run.out();
                assert_explained(&run.json(), length);
            });
        }
    });
}

#[test]
fn explain_for_people_goes_to_standard_error() {
    let lab = Lab::new().with("talk.json", talk(6));
    let plain = lab.run(&["window", "talk.json", "--policy", "messages:max_messages=5"]);
    let explained = lab.run(&["window", "talk.json", "--policy", "messages:max_messages=5", "--explain"]);
    assert_eq!(explained.out(), plain.out());
    assert_snapshot!(lab.snapshot(&explained));
}

#[test]
fn tokens_are_those_of_the_window_with_system_and_tools() {
    let lab = Lab::new();
    let explain = ["window", "--json", "--explain", "--policy", "none", "--model", "gpt-4o"];
    let with = lab.pipe(&explain, OPENAI).json();
    let mut body: Value = serde_json::from_str(OPENAI).unwrap();
    let tools = body.as_object_mut().unwrap().remove("tools").unwrap();
    assert!(tools.is_array());
    let without = lab.pipe(&explain, body.to_string()).json();
    let plan: u64 = without["plan"].as_array().unwrap().iter().map(|line| line["tokens"].as_u64().unwrap()).sum();
    assert!(with["tokens"].as_u64() > without["tokens"].as_u64());
    assert!(without["tokens"].as_u64().unwrap() >= plan);
}

#[test]
fn once_plans_the_last_list_alone() {
    // Call by call, the window goes down to 4 and grows again; planned once, it goes down to 4 at the end.
    let policy = "messages:max_messages=10,target_messages=4";
    let lab = Lab::new().with("talk.json", talk(30));
    let each = lab.run(&["window", "talk.json", "--policy", policy]).json();
    let once = lab.run(&["window", "talk.json", "--policy", policy, "--once"]).json();
    assert_eq!(contents(&once), ["question 28", "answer 28", "question 29", "answer 29"]);
    assert!(contents(&each).len() > 4, "{each}");
}

#[test]
fn a_late_result_is_left_out_where_a_stand_in_was_sent() {
    let lab = Lab::new().with("late.json", LATE);
    assert_snapshot!(lab.all(&[
        &["window", "late.json"],
        &["window", "late.json", "--strict"],
        &["window", "late.json", "--once"],
        &["window", "late.json", "--once", "--strict", "--explain"],
    ]));
    assert_explained(&lab.run(&["window", "late.json", "--json", "--explain"]).json(), 6);
    assert_explained(&lab.run(&["window", "late.json", "--json", "--explain", "--once"]).json(), 6);
}

#[test]
fn a_broken_history_is_mended_and_that_is_said() {
    let lab = Lab::new().with("broken.json", BROKEN);
    assert_snapshot!(lab.all(&[&["window", "broken.json"], &["window", "broken.json", "--strict", "--explain"]]));
    assert_explained(&lab.run(&["window", "broken.json", "--json", "--explain"]).json(), 5);
    let checked = lab.pipe(&["check"], &lab.run(&["window", "broken.json"]).stdout);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), ""));
}

#[test]
fn what_no_repair_mends_is_said() {
    let call = r#"{"id":"c1","type":"function","function":{"name":"$READFILE","arguments":"{}"}}"#;
    let messages = format!(
        r#"[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":null,"tool_calls":[{call}]}},{{"role":"tool","tool_call_id":"c1","content":"x"}}]"#
    );
    let lab = Lab::new().with("named.json", format!(r#"{{"model":"gpt-5","temperature":3,"messages":{messages}}}"#));
    assert_snapshot!(
        lab.all(&[&["window", "named.json"], &["window", "named.json", "--strict", "--explain", "--json"]])
    );
    // Another provider may accept the name.
    let elsewhere = ["named.json", "--provider", "deepseek"];
    for command in [&["window"][..], &["check", "--fix"]] {
        let run = lab.run(&[command, &elsewhere].concat());
        assert!(run.stderr.contains("OC10") && !run.stderr.contains("OC12"), "{command:?}: {}", run.stderr);
    }
}

#[test]
fn strict_is_content_with_a_sound_history() {
    let lab = Lab::new().with("talk.json", talk(30));
    assert_eq!(lab.run(&["window", "talk.json", "--policy", "messages", "--strict"]).code, Some(0));
    assert_eq!(lab.pipe(&["window", "--strict"], ANTHROPIC).code, Some(0));
}

#[test]
fn what_is_pinned_stays_over_a_limit_with_a_warning() {
    let lab = Lab::new().with("talk.json", talk(30));
    assert_snapshot!(lab.all(&[
        &["window", "talk.json", "--policy", "messages:max_messages=2,keep.last=4"],
        &["window", "talk.json", "--policy", "messages:max_messages=2,keep.last=4", "--strict"],
        &["window", "talk.json", "--policy", "tokens:max_tokens=3", "--strict"],
    ]));
}

#[test]
fn a_hard_limit_refuses_and_names_what_is_pinned() {
    let lab = Lab::new().with("talk.json", talk(30)).with("openai.json", OPENAI);
    let refused = lab.run(&["window", "talk.json", "--set", "hard.tokens=3"]);
    refused.fails(1, "hard limit");
    assert!(refused.stderr.contains("newest"), "{}", refused.stderr);
    for more in ["--strict", "--explain", "--json", "--once"] {
        lab.run(&["window", "talk.json", "--set", "hard.tokens=3", more]).fails(1, "hard limit");
    }
    lab.run(&["window", "talk.json", "--policy", "none", "--set", "hard.messages=1"]).fails(1, "hard limit");
    assert_snapshot!(lab.all(&[
        &["window", "talk.json", "--set", "hard.tokens=3"],
        &["window", "openai.json", "--set", "hard.tokens=10"],
    ]));
}

#[test]
fn a_policy_is_the_same_by_name_by_file_and_by_settings() {
    let lab = Lab::new()
        .with("talk.json", talk(30))
        .with("p.toml", "[limits]\nmessages = 9\n[target]\nmessages = 3\n[keep]\nfirst = 1\n")
        .with("p.json", r#"{"limits":{"messages":9},"target":{"messages":3},"keep":{"first":1}}"#)
        .with("base.toml", "[limits]\nmessages = 20\n");
    let window = |args: &[&str]| lab.run(&[&["window", "talk.json"], args].concat()).out().to_owned();
    let named = window(&["--policy", "messages:max_messages=9,target_messages=3,keep.first=1"]);
    assert!(named.contains("question 0"));
    assert_eq!(window(&["--policy", "p.toml"]), named);
    assert_eq!(window(&["--policy", "p.json"]), named);
    assert_eq!(window(&["--policy", "messages:limits.messages=9,target.messages=3,keep.first=1"]), named);
    let set = ["--set", "max_messages=9", "--set", "target_messages=3", "--set", "keep.first=1"];
    assert_eq!(window(&[&["--policy", "messages"], &set[..]].concat()), named);
    assert_eq!(window(&[&["--policy", "base.toml"], &set[..]].concat()), named);
}

#[test]
fn a_policy_file_with_limits_but_no_target_brings_a_warning() {
    let lab = Lab::new()
        .with("talk.json", talk(3))
        .with("slides.toml", "[limits]\nmessages = 9\n")
        .with("jumps.toml", "[limits]\nmessages = 9\n[target]\nmessages = 3\n")
        .with("unlimited.toml", "[keep]\nfirst = 1\n")
        .with("on_read.toml", "mode = 'on_read'\n[limits]\nmessages = 9\n");
    let warned = |more: &[&str]| {
        let run = lab.run(&[&["window", "talk.json", "--policy"], more].concat());
        run.out();
        run.stderr
    };
    let warning = "warning: slides.toml: the policy has limits but no target: a full window is cut at every call, and \
                   misses the prompt cache\n";
    assert_eq!(warned(&["slides.toml"]), warning);
    assert_eq!(warned(&["slides.toml", "--json"]), warning);
    for silent in ["jumps.toml", "unlimited.toml", "on_read.toml", "messages:max_messages=9"] {
        assert_eq!(warned(&[silent]), "", "{silent}");
    }
    assert_eq!(warned(&["slides.toml", "--set", "target_messages=3"]), "");
}

#[test]
fn every_preset_has_the_limit_it_is_described_with() {
    let lab = Lab::new().with("talk.json", talk(120));
    let kept = |policy: &str| contents(&lab.run(&["window", "talk.json", "--policy", policy]).json()).len();
    assert_eq!(kept("none"), 240);
    assert_eq!(kept("default"), 240);
    assert_eq!(kept("messages"), 40);
    assert_eq!(kept("turns"), 100);
    assert_eq!(kept("rounds"), kept("rounds:max_rounds=10"));
    assert!((19..=21).contains(&kept("rounds")), "{}", kept("rounds"));
    assert_eq!(kept("tokens"), kept("tokens:max_tokens=8000"));
}

#[test]
fn wrong_policies_are_named() {
    let lab = Lab::new()
        .with("talk.json", talk(2))
        .with("broken.toml", "[limits\n")
        .with("broken.json", "{")
        .with("list.json", "[1]")
        .with("unknown.toml", "limit = 3\n")
        .with("zero.json", r#"{"limits":{"messages":0}}"#);
    let wrong = [
        "recent",
        "messages:depth=1",
        "messages:max_depth=1",
        "messages:max_messages",
        "messages:max_messages=many",
        "messages:max_messages=-1",
        "messages:target_messages=41",
        "tokens:max_tokens=1.5",
        "broken.toml",
        "broken.json",
        "list.json",
        "unknown.toml",
        "zero.json",
        "missing.toml",
        "",
    ];
    let runs = wrong.map(|policy| lab.run(&["window", "talk.json", "--policy", policy]));
    for run in &runs {
        run.fails(2, "");
    }
    assert_snapshot!(runs.map(|run| lab.snapshot(&run)).join("\n"));
    lab.run(&["window", "talk.json", "--set", "depth=1"]).fails(2, "unknown field `depth`");
    lab.run(&["window", "talk.json", "--set", "max_messages"]).fails(2, "KEY=VALUE");
}

#[test]
fn standard_input_is_read_without_a_file_and_for_a_dash() {
    let lab = Lab::new();
    let window = lab.pipe(&["window", "--policy", "messages:max_messages=5"], talk(9)).out().to_owned();
    assert_eq!(lab.pipe(&["window", "-", "--policy", "messages:max_messages=5"], talk(9)).out(), window);
    let file = Lab::new().with("talk.json", talk(9));
    assert_eq!(file.run(&["window", "talk.json", "--policy", "messages:max_messages=5"]).out(), window);
}

#[test]
fn an_unknown_model_is_said_to_be() {
    let lab = Lab::new().with("talk.json", talk(2)).with("body.json", OPENAI.replace("gpt-4o", "brain-9"));
    assert_snapshot!(lab.all(&[&["window", "talk.json", "--model", "brain-9"], &["window", "body.json"]]));
    // An unknown model is not an error of the history.
    assert_eq!(lab.run(&["window", "talk.json", "--model", "brain-9", "--strict"]).code, Some(0));
    assert_eq!(lab.run(&["window", "talk.json", "--model", "gpt-4o"]).stderr, "");
}

#[test]
fn unreadable_input_is_a_wrong_question() {
    let lab = Lab::new()
        .with("empty.json", "")
        .with("cut.json", "[{\"role\":\"user\",\n\"content\":")
        .with("trailing.json", "[] x")
        .with("wizard.json", r#"[{"role":"user","content":"a"},{"role":"wizard","content":"b"}]"#)
        .with("number.json", "3")
        .with("nothing.json", "null")
        .with("object.json", r#"{"prompt":"x"}"#)
        .with("members.json", r#"{"messages":{}}"#)
        .with("inner.json", "[3]")
        .with("bare.json", "[{}]")
        .with("content.json", r#"[{"role":"user","content":3}]"#)
        .with("utf8.json", b"[{\"role\":\"user\",\"content\":\"\xff\"}]")
        .with("deep.json", format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)));
    let names = [
        "empty", "cut", "trailing", "wizard", "number", "nothing", "object", "members", "inner", "bare", "content",
        "utf8", "deep",
    ];
    let mut told = Vec::new();
    for name in names {
        let file = format!("{name}.json");
        for args in [&["window", &file][..], &["check", &file], &["check", &file, "--fix"], &["check", &file, "--json"]]
        {
            let run = lab.run(args);
            run.fails(2, &file);
            if args.len() == 2 && args[0] == "window" {
                told.push(lab.snapshot(&run));
            }
        }
    }
    for (file, says) in [(".", "directory"), ("missing.json", "No such file"), ("--", "standard input: not valid JSON")]
    {
        let run = lab.run(&["window", file]);
        run.fails(2, says);
        told.push(lab.snapshot(&run));
    }
    assert_snapshot!(told.join("\n"));
}

#[test]
fn deep_nesting_passes_where_nobody_looks_into_it() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let list = format!(r#"[{{"role":"user","content":"hi","x":{deep}}}]"#);
    let lab = Lab::new();
    assert_eq!(lab.pipe(&["window"], &list).out(), list);
    assert_eq!(lab.pipe(&["check"], &list).out(), "");
    let explained = lab.pipe(&["window", "--json", "--explain"], &list);
    assert!(explained.out().starts_with(&format!("{{\"window\":{list},\"plan\":[")));
}

#[test]
fn a_wrong_command_line_is_a_wrong_question() {
    let lab = Lab::new();
    for args in [
        &["window", "--dialect", "latin"][..],
        &["window", "a", "b"],
        &["window", "--policy"],
        &["window", "--nonesuch"],
        &["windows"],
    ] {
        let run = lab.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{args:?}");
    }
    assert_snapshot!(lab.snapshot(&lab.run(&["window", "--dialect", "latin"])));
}

/// Returns the window of a session after all messages were pushed one by one, with a window before each assistant message
/// except the first message.
fn session_window(list: &str, policy: &str, dialect: Dialect) -> String {
    let request = Request::decode(list, Some(dialect)).unwrap();
    let settings = Settings::default()
        .dialect(dialect)
        .policy(presets::named(policy).unwrap())
        .counter(lookback_tokens::counter(Models::builtin().find("gpt-4o").unwrap()));
    block_on(async {
        let mut session = Session::open(MemoryStore::new(), "same", settings).await.unwrap();
        for (index, message) in request.messages().iter().enumerate() {
            if index > 0 && message.role() == Role::Assistant {
                session.window().await.unwrap();
            }
            session.push(message.clone()).await.unwrap();
        }
        session.window().await.unwrap().to_json().unwrap()
    })
}

#[test]
fn the_window_is_the_one_that_a_session_gives() {
    let messages = example_messages();
    let counted = ["default", "tokens:max_tokens=12000,target_tokens=5000"];
    let uncounted = [
        "none",
        "messages:max_messages=7",
        "messages:max_messages=12,target_messages=5,keep.first=2",
        "turns:max_turns=2",
        "rounds:max_rounds=3,start=user",
        "messages:max_messages=9,mode=on_read",
    ];
    let prefixes = |every: usize| (1..=messages.len()).filter(move |length| *length < 4 || length % every == 0);
    let cases = counted.iter().flat_map(|policy| prefixes(108).map(move |length| (policy, length)));
    let cases = cases.chain(uncounted.iter().flat_map(|policy| prefixes(43).map(move |length| (policy, length))));
    for (policy, length) in cases {
        let list = list(&messages[..length]);
        let run = Lab::new().pipe(&["window", "--policy", policy], &list);
        assert_eq!(run.out(), session_window(&list, policy, Dialect::OpenAiChat), "{policy}, {length} messages");
    }
    for text in [LATE, BROKEN] {
        let run = Lab::new().pipe(&["window"], text);
        assert_eq!(run.out(), session_window(text, "default", Dialect::OpenAiChat));
    }
}

#[test]
fn a_running_summary_takes_the_place_of_what_leaves() {
    let lab = Lab::new().with("talk.json", talk(6));
    let run = lab.run(&["window", "talk.json", "--policy", "rolling-summary:window_size=4", "--strict"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let window: Value = serde_json::from_str(run.out()).unwrap();
    assert_eq!(window[0]["role"], "system");
    assert!(window[0]["content"].as_str().unwrap().contains("question 0"), "{window}");
    assert_eq!(contents(&window)[1..], ["question 4", "answer 4", "question 5", "answer 5"]);
    // Above a hard limit, the messages are dropped at once, and their summary is still made.
    let policy = "rolling-summary:window_size=8,summary_budget=8,hard.tokens=70";
    let run = lab.run(&["window", "talk.json", "--policy", policy, "--once"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn options_of_a_preset_may_be_settings() {
    let lab = Lab::new().with("talk.json", talk(6)).with("policy.toml", "preset = 'message-window:max_messages=3'\n");
    let set = lab.run(&["window", "talk.json", "--policy", "message-window", "--set", "max_messages=3"]);
    assert_eq!(contents(&serde_json::from_str(set.out()).unwrap()), ["answer 4", "question 5", "answer 5"]);
    assert_eq!(lab.run(&["window", "talk.json", "--policy", "policy.toml"]).out(), set.out());
    let missing = lab.run(&["window", "talk.json", "--policy", "message-window"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("message-window needs max_messages"), "{}", missing.stderr);
}

#[test]
fn a_window_that_is_looked_at_between_turns_warns_of_nothing_before() {
    let call = |n: u64| {
        [
            json!({"role": "assistant", "tool_calls": [{"id": format!("c{n}"), "type": "function", "function": {"name": "run", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": "done"}),
        ]
    };
    let task = json!({"role": "user", "content": "go"});
    let talk: Vec<Value> = [task].into_iter().chain((0..4).flat_map(call)).collect();
    let text = serde_json::to_string(&talk).unwrap();
    let run = Lab::new().pipe(&["window", "--policy", "managed-window:window_size=4", "--strict"], &text);
    assert_eq!((run.code, run.stderr.as_str(), run.out()), (Some(0), "", text.as_str()));
    let run = Lab::new().pipe(&["window", "--policy", "managed-window:window_size=4,per_turn=true", "--strict"], &text);
    assert_eq!(serde_json::from_str::<Value>(run.out()).unwrap().as_array().unwrap().len(), 3);
}

#[test]
fn what_exceeds_a_limit_is_part_of_the_explanation() {
    let lab = Lab::new().with("talk.json", talk(30));
    let run = lab.run(&["window", "talk.json", "--policy", "tokens:max_tokens=3", "--json", "--explain"]);
    assert_eq!(run.json()["over"], json!([{"measure": "tokens", "actual": 14, "limit": 3}]));
    let sentence = run.stderr.trim_start_matches("warning: ").trim_end();
    assert!(sentence.starts_with("the window has 14 tokens (limit 3); these may not be dropped: "), "{sentence}");
    let run = lab.run(&["window", "talk.json", "--policy", "tokens:max_tokens=3", "--explain"]);
    assert_eq!(run.stderr.lines().last(), Some(sentence));
    let fits = lab.run(&["window", "talk.json", "--policy", "messages", "--json", "--explain"]);
    assert_eq!(fits.json()["over"], json!([]));
}

/// Two consecutive messages of the same role, which a block format sends as one.
const NEIGHBORS: &str = r#"[{"role":"user","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"}]}]"#;

#[test]
fn neighbors_that_are_merged_are_told_of_and_explained() {
    let lab = Lab::new().with("two.json", NEIGHBORS);
    let sentence = "it is merged with the message before it, which has the same role";
    let run = lab.run(&["window", "two.json", "--strict"]);
    assert_eq!((run.code, run.stderr), (Some(1), format!("warning: messages[1]: {sentence}\n")));
    let run = lab.run(&["window", "two.json", "--explain"]);
    let row = run.stderr.lines().last().unwrap();
    assert_eq!(row.split_whitespace().take(2).collect::<Vec<_>>(), ["1", "merge"], "{row}");
    assert!(row.ends_with(sentence), "{row}");
    let answer = lab.run(&["window", "two.json", "--json", "--explain"]).json();
    assert_explained(&answer, 2);
    assert_eq!(answer["plan"][1]["mends"], json!([{"kind": "merged_with_previous"}]));
    assert_eq!((&answer["plan"][0]["action"], &answer["plan"][0]["mends"]), (&json!("keep"), &Value::Null));
}

#[test]
fn neighbors_that_a_compaction_made_are_no_fault_of_the_history() {
    let said = |index: usize| {
        let role = if index.is_multiple_of(2) { "user" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":[{{"text":"{index}"}}]}}"#)
    };
    let lab = Lab::new().with("talk.json", list(&(0..5).map(said).collect::<Vec<_>>()));
    let args = ["window", "talk.json", "--policy", "messages:max_messages=2,keep.first=1"];
    let run = lab.run(&[&args[..], &["--strict"]].concat());
    assert_eq!(run.out(), r#"[{"role":"user","content":[{"text":"0"},{"text":"4"}]}]"#);
    assert_eq!(run.stderr, "");
    let answer = lab.run(&[&args[..], &["--json", "--explain"]].concat()).json();
    assert_eq!(answer["plan"].as_array().unwrap().last().unwrap()["action"], "merge");
}

#[test]
fn a_recording_is_taken_as_a_request() {
    let lines = "{\"role\":\"user\",\"content\":\"Hello\",\"time\":\"2026-01-01T00:00:00Z\"}\n{\"role\":\"assistant\",\"content\":\"Hi\"}\n";
    let messages = r#"[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]"#;
    assert_eq!(Lab::new().pipe(&["window"], lines).out(), messages);
    let answer = Lab::new().pipe(&["window", "--json", "--explain"], lines).json();
    assert_eq!(answer["window"], serde_json::from_str::<Value>(messages).unwrap());
    let lab = Lab::new().with_example().with("list.json", list(&example_messages()));
    let policy = ["--policy", "messages:max_messages=5"];
    let window = |file: &str| lab.run(&[&["window", file], &policy[..]].concat()).json();
    assert_eq!(window("session.jsonl"), window("list.json"));
}

#[test]
fn of_several_transcripts_one_is_named() {
    let transcript = |id: &str| format!(r#"{{"id":"{id}","messages":[{{"role":"user","content":"I am {id}."}}]}}"#);
    let lab = Lab::new().with("some.jsonl", ["a", "b"].map(transcript).join("\n")).with("talk.json", talk(1));
    lab.run(&["window", "some.jsonl"])
        .fails(2, "some.jsonl contains 2 transcripts; choose one with --transcript: `a`, `b`");
    assert_eq!(lab.run(&["window", "some.jsonl", "--transcript", "b"]).out(), transcript("b"));
    lab.run(&["window", "some.jsonl", "--transcript", "c"])
        .fails(2, "some.jsonl contains no transcript `c`; choose `a`, `b`");
    lab.run(&["window", "talk.json", "--transcript", "a"])
        .fails(2, "talk.json contains no transcript `a`: it is not a recording");
}

#[test]
fn a_session_of_claude_code_is_taken_as_a_request() {
    let lines = [
        r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"Hello"}}"#,
        r#"{"type":"assistant","uuid":"2","parentUuid":"1","sessionId":"s","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Hi"}]}}"#,
    ];
    let lab = Lab::new().with("s.jsonl", lines.join("\n"));
    let window = lab.run(&["window", "s.jsonl"]).json();
    assert_eq!(window["messages"].as_array().unwrap().len(), 2, "{window}");
    assert_eq!(lab.run(&["check", "s.jsonl", "--json"]).json()["dialect"], "anthropic");
}
