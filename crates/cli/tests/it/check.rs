//! Tests of `lookback check`.

use crate::common::{Lab, example_messages, list};
use insta::assert_snapshot;
use serde_json::{Value, json};

const SOUND: [(&str, &str); 3] = [
    ("openai-chat", include_str!("../bodies/openai-chat.json")),
    ("anthropic", include_str!("../bodies/anthropic.json")),
    ("bedrock", include_str!("../bodies/bedrock.json")),
];

/// In each dialect: a result before its call, a call without a result.
const BROKEN: [(&str, &str); 3] = [
    (
        "openai-chat",
        r#"[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"t1","content":"1"},
{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"a","arguments":"{}"}},
{"id":"t1","type":"function","function":{"name":"a","arguments":"nothing"}}]},{"role":"user","content":"hm"}]"#,
    ),
    (
        "anthropic",
        r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1"}]},{"role":"user","content":"x"},
{"role":"assistant","content":[{"type":"text","text":" "},{"type":"tool_use","id":"t1","name":"a","input":{}}]},
{"role":"user","content":"hm"}]"#,
    ),
    (
        "bedrock",
        r#"[{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"1"}]}}]},{"role":"user","content":[{"text":"x"}]},
{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"a","input":{}}}]},{"role":"user","content":[{"text":"hm"}]}]"#,
    ),
];

#[test]
fn a_sound_conversation_is_valid() {
    for (name, text) in SOUND {
        let lab = Lab::new().with("body.json", text);
        for args in [&["check", "body.json"][..], &["check", "body.json", "--dialect", name]] {
            let run = lab.run(args);
            assert_eq!((run.out(), run.stderr.as_str()), ("", ""), "{args:?}");
        }
        let run = lab.run(&["check", "body.json", "--json"]);
        run.out();
        assert_eq!(run.json(), json!({"valid": true, "dialect": name, "findings": []}));
        let fixed = lab.run(&["check", "body.json", "--fix"]);
        assert_eq!((fixed.out(), fixed.stderr.as_str()), (text, ""));
    }
}

#[test]
fn a_broken_conversation_is_told_of_line_by_line() {
    let mut told = Vec::new();
    for (name, text) in BROKEN {
        let lab = Lab::new().with("broken.json", text);
        let run = lab.run(&["check", "broken.json", "--dialect", name]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
        assert_eq!(lab.run(&["check", "broken.json"]).stdout, run.stdout, "{name} is found out");
        for line in run.stdout.lines() {
            let (path, rest) = line.split_once(": ").unwrap();
            let (rule, sentence) = rest.split_once(": ").unwrap();
            assert!(path.starts_with("messages[") || path == "request", "{line}");
            assert!(rule.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) && rule.len() > 2, "{line}");
            // The problem, and what to do.
            assert!(sentence.contains("; "), "{line}");
        }
        told.push(lab.snapshot(&run));
    }
    assert_snapshot!(told.join("\n"));
}

#[test]
fn json_is_one_object_with_the_same_findings() {
    for (name, text) in BROKEN {
        let lab = Lab::new().with("broken.json", text);
        let lines = lab.run(&["check", "broken.json"]).stdout;
        let run = lab.run(&["check", "broken.json", "--json"]);
        assert_eq!((run.code, run.stdout.lines().count(), run.stderr.as_str()), (Some(1), 1, ""));
        let answer = run.json();
        assert_eq!((&answer["valid"], &answer["dialect"]), (&json!(false), &json!(name)));
        let line = |finding: &Value| {
            assert!(matches!(finding["severity"].as_str(), Some("refused" | "degraded")));
            assert!(finding["problem"]["kind"].is_string());
            let part = |key: &str| finding[key].as_str().unwrap().to_owned();
            format!("{}: {}: {}\n", part("path"), part("rule"), part("message"))
        };
        assert_eq!(answer["findings"].as_array().unwrap().iter().map(line).collect::<String>(), lines);
    }
}

#[test]
fn fix_writes_a_valid_conversation_and_tells_what_was_wrong_and_what_was_done_apart() {
    for (name, text) in BROKEN {
        let lab = Lab::new().with("broken.json", text);
        let findings = lab.run(&["check", "broken.json"]).stdout;
        let fixed = lab.run(&["check", "broken.json", "--fix"]);
        // A repaired finding is reported without advice.
        let mended = |line: &str| format!("repaired: {}\n", line.split_once("; ").map_or(line, |(wrong, _)| wrong));
        let mended: String = findings.lines().map(mended).collect();
        let changes = fixed.stderr.strip_prefix(&mended).unwrap_or_else(|| panic!("{name}: {}", fixed.stderr));
        assert!(!changes.is_empty() && changes.lines().all(|line| line.starts_with("messages[")), "{changes}");
        let again = lab.pipe(&["check", "--dialect", name], fixed.out());
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{name}: {}", fixed.stdout);
        // A repaired conversation is not changed again.
        assert_eq!(lab.pipe(&["check", "--dialect", name, "--fix"], fixed.out()).out(), fixed.stdout);
        let json = lab.run(&["check", "broken.json", "--fix", "--json"]);
        assert_eq!(json.out(), fixed.stdout);
        let answer: Value = serde_json::from_str(&json.stderr).unwrap();
        // A repaired finding no longer has a severity.
        assert!(answer["fixed"].as_array().unwrap().iter().all(|fixed| fixed["severity"].is_null()), "{answer}");
        assert_eq!((&answer["valid"], &answer["findings"]), (&json!(true), &json!([])), "{name}");
        assert_eq!(answer["fixed"].as_array().unwrap().len(), findings.lines().count());
        let change =
            |change: &Value| format!("messages[{}]: {}\n", change["message"], change["change"].as_str().unwrap());
        assert_eq!(answer["changes"].as_array().unwrap().iter().map(change).collect::<String>(), changes);
    }
}

#[test]
fn fix_says_what_it_did_to_each_message() {
    let run = Lab::new().pipe(&["check", "--fix"], include_str!("../../../../examples/broken.json"));
    run.out();
    assert_eq!(
        run.stderr,
        "repaired: messages[1].tool_calls[1]: OC2: call `call_2` has no result\n\
         repaired: messages[4]: OC1: the result of `call_9` has no call in the message before it\n\
         messages[1]: call `call_2` has no result: a stand-in is sent\n\
         messages[4]: a tool result without a call before it (`call_9`) is left out\n"
    );
}

#[test]
fn fix_tells_of_several_changes_to_one_message_in_one_line() {
    let run = Lab::new().pipe(&["check", "--fix"], BROKEN[0].1);
    let told: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("messages[2]: ")).collect();
    assert_eq!(told.len(), 1, "{}", run.stderr);
    for what in ["it is sent as `", "they are sent inside one", "a stand-in is sent"] {
        assert!(told[0].contains(what), "{}", told[0]);
    }
}

#[test]
fn fix_tells_of_neighbors_that_it_merges() {
    let text = r#"[{"role":"user","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"}]}]"#;
    let run = Lab::new().pipe(&["check", "--fix", "--json"], text);
    assert_eq!(run.out(), r#"[{"role":"user","content":[{"text":"a"},{"text":"b"}]}]"#);
    let answer: Value = serde_json::from_str(&run.stderr).unwrap();
    let change = "it is merged with the message before it, which has the same role";
    assert_eq!(answer["changes"], json!([{"message": 1, "change": change}]));
    assert_eq!((&answer["findings"], &answer["fixed"][0]["rule"]), (&json!([]), &json!("BC2")));
}

#[test]
fn fix_tells_of_results_that_it_moves() {
    let text = r#"[{"role":"user","content":"a"},
{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
{"role":"user","content":[{"type":"text","text":"b"},{"type":"tool_result","tool_use_id":"t","content":"c"}]}]"#;
    let run = Lab::new().pipe(&["check", "--fix"], text);
    let change = "messages[2]: its tool results are moved before its other content\n";
    assert!(run.out().find("tool_result").unwrap() < run.stdout.find(r#""b""#).unwrap(), "{}", run.stdout);
    assert!(run.stderr.ends_with(change), "{}", run.stderr);
}

#[test]
fn fix_mends_the_example() {
    let text = list(&example_messages());
    let lab = Lab::new();
    let run = lab.pipe(&["check"], &text);
    assert_eq!(run.code, Some(1));
    assert_snapshot!(lab.snapshot(&run));
    let fixed = lab.pipe(&["check", "--fix"], &text);
    assert_eq!(lab.pipe(&["check"], fixed.out()).code, Some(0));
}

#[test]
fn fix_keeps_the_bytes_of_what_was_sound() {
    let body = format!("{{\n \"model\": \"m\", \"x\": 1.0,\n \"messages\": {},\n \"y\": 1e2 }}\n", BROKEN[0].1);
    let fixed = Lab::new().pipe(&["check", "--fix"], &body);
    assert!(fixed.out().starts_with("{\n \"model\": \"m\", \"x\": 1.0,\n \"messages\": ["));
    assert!(fixed.stdout.ends_with("],\n \"y\": 1e2 }\n"));
    assert!(fixed.stdout.contains(r#"{"role":"user","content":"hm"}"#));
}

#[test]
fn what_cannot_be_mended_stays_invalid() {
    for text in ["[]", "{\"messages\": []}"] {
        let lab = Lab::new();
        let run = lab.pipe(&["check"], text);
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
        assert!(run.stdout.starts_with("messages: OC0: "), "{}", run.stdout);
        let fixed = lab.pipe(&["check", "--fix"], text);
        assert_eq!((fixed.code, fixed.stdout.as_str()), (Some(1), text));
        assert_eq!(fixed.stderr, format!("still wrong: {}", run.stdout));
        let fixed = lab.pipe(&["check", "--fix", "--json"], text);
        let answer: Value = serde_json::from_str(&fixed.stderr).unwrap();
        assert_eq!((&answer["valid"], &answer["fixed"], &answer["changes"]), (&json!(false), &json!([]), &json!([])));
        assert_eq!(answer["findings"][0]["rule"], "OC0");
    }
}

const TRANSCRIPTS: &str = concat!(
    r#"{"id":"sound","messages":[{"role":"user","content":"a","time":"2026-01-01T00:00:00Z"},{"role":"assistant","content":"b"}]}"#,
    "\n",
    r#"{"id":"br\u001boken","messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"b"}]}"#,
    "\n",
);

#[test]
fn each_transcript_of_a_recording_is_checked() {
    let lab = Lab::new().with("some.jsonl", TRANSCRIPTS);
    let run = lab.run(&["check", "some.jsonl"]);
    assert_eq!((run.code, run.stdout.lines().count(), run.stderr.as_str()), (Some(1), 1, ""));
    assert!(run.stdout.starts_with("br\\u001boken: messages[1]: OC1: "), "{}", run.stdout);
    let run = lab.run(&["check", "some.jsonl", "--json"]);
    assert_eq!(run.code, Some(1));
    let lines = run.lines();
    assert_eq!(lines[0], json!({"id": "sound", "valid": true, "dialect": "openai-chat", "findings": []}));
    assert_eq!((&lines[1]["id"], &lines[1]["valid"]), (&json!("br\u{1b}oken"), &json!(false)));
    assert_eq!(lines.len(), 2);
}

#[test]
fn fix_writes_a_recording_as_json_lines() {
    let lab = Lab::new().with("some.jsonl", TRANSCRIPTS);
    let fixed = lab.run(&["check", "some.jsonl", "--fix"]);
    assert_eq!(
        fixed.out(),
        concat!(
            r#"{"id":"sound","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
            "\n",
            r#"{"id":"br\u001boken","messages":[{"role":"user","content":"a"}]}"#,
            "\n"
        )
    );
    assert!(
        fixed.stderr.lines().all(|line| line.starts_with("br\\u001boken: ") && line.contains("messages[1]: ")),
        "{}",
        fixed.stderr
    );
    assert_eq!(lab.pipe(&["check"], fixed.out()).out(), "");
    // A recording with one message per line is written in the same form, without line breaks in a message.
    let messages =
        "{\"role\":\"user\",\n\"content\":\"a\"}\n{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"b\"}\n";
    assert_eq!(lab.pipe(&["check", "--fix"], messages).out(), "{\"role\":\"user\", \"content\":\"a\"}\n");
}

#[test]
fn a_recording_of_one_transcript_is_checked_as_a_request_is() {
    let messages = example_messages();
    let run = Lab::new().with_example().run(&["check", "session.jsonl"]);
    let listed = Lab::new().pipe(&["check"], list(&messages));
    assert_eq!((run.code, run.stdout, run.stderr), (listed.code, listed.stdout, listed.stderr));
}

#[test]
fn packed_files_and_marked_ones_are_read() {
    // `[{"role":"user","content":"Hi"}]`, gzipped.
    let packed =
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x8b\xae\x56\x2a\xca\xcf\x49\x55\xb2\x52\x2a\x2d\x4e\x2d\x52\xd2\x51\
        \x4a\xce\xcf\x2b\x49\xcd\x2b\x01\x0a\x78\x64\x2a\xd5\xc6\x02\x00\x27\x3f\x12\x7a\x20\x00\x00\x00";
    let plain = r#"[{"role":"user","content":"Hi"}]"#;
    let marked = format!("\u{feff}{plain}");
    for bytes in [&packed[..], marked.as_bytes()] {
        assert_eq!(Lab::new().pipe(&["check"], bytes).out(), "");
        assert_eq!(Lab::new().pipe(&["check", "--fix"], bytes).out(), plain);
        assert_eq!(Lab::new().pipe(&["window"], bytes).out(), plain);
    }
    Lab::new().pipe(&["check"], &packed[..30]).fails(2, "standard input: cannot unpack the gzip data");
}

#[test]
fn foreign_formats_are_told_what_to_do_as_by_replay() {
    let lab = Lab::new().with("body.json", r#"[{"conversations":[{"from":"human","value":"Hi"}]}]"#);
    let replayed = lab.run(&["replay", "body.json"]);
    replayed.fails(2, "body.json: this looks like conversations of a data set");
    for command in ["check", "window"] {
        assert_eq!(lab.run(&[command, "body.json"]).stderr, replayed.stderr);
    }
}

/// Items and contents are checked, repaired and cut in their own form.
#[test]
fn items_and_contents_are_written_as_they_came() {
    let call = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}"#;
    let body = format!(r#"{{"model":"m", "input":[{{"role":"user","content":"Go."}},{call}]}}"#);
    let lab = Lab::new().with("items.json", &body);
    let checked = lab.run(&["check", "items.json"]);
    assert_eq!(checked.code, Some(1));
    assert!(checked.stdout.contains("input[2]"), "{}", checked.stdout);
    let output =
        r#"{"type":"function_call_output","call_id":"c1","output":"[No result: the tool call was interrupted.]"}"#;
    let mended = body.replace(call, &format!("{call},{output}"));
    assert_eq!(lab.run(&["check", "--fix", "items.json"]).stdout, mended);
    let contents = r#"{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}], "cachedContent":null}"#;
    let lab = Lab::new().with("contents.json", contents);
    assert_eq!(lab.run(&["window", "contents.json"]).out(), contents);
    let last = r#"{"contents":[{"role":"user","parts":[{"text":"c"}]}], "cachedContent":null}"#;
    assert_eq!(lab.run(&["window", "contents.json", "--policy", "turns:max_turns=1"]).out(), last);
    // A replay, and the session that it writes, contain the items again.
    let lab = Lab::new().with("items.json", &body);
    assert_eq!(lab.run(&["replay", "items.json"]).code, Some(0));
    let exported = lab.run(&["sessions", "export", "replay/items-1"]);
    assert_eq!(exported.out().lines().count(), 3, "{}", exported.stdout);
}

#[test]
fn roles_cannot_write_to_the_terminal() {
    for text in [
        r#"[{"role":"a\u001b[31m\nerror: b","content":"c"}]"#,
        "{\"role\":\"user\",\"content\":\"c\"}\n{\"role\":\"a\\u001b[31m\\nerror: b\",\"content\":\"c\"}\n",
    ] {
        let run = Lab::new().pipe(&["check"], text);
        run.fails(2, "unknown role `a\\u{1b}[31m\\nerror: b`");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[test]
fn the_dialect_is_found_out_by_keys_then_by_shapes() {
    let found = |text: &str| Lab::new().pipe(&["check", "--json"], text).json()["dialect"].as_str().unwrap().to_owned();
    for (text, dialect) in [
        (r#"{"toolConfig":{},"messages":[{"role":"user","content":[{"text":"a"}]}]}"#, "bedrock"),
        (r#"{"inferenceConfig":{},"messages":[]}"#, "bedrock"),
        (r#"{"system":[{"text":"a"}],"messages":[]}"#, "bedrock"),
        (r#"{"system":[{"type":"text","text":"a"}],"messages":[]}"#, "anthropic"),
        (r#"{"system":"a","messages":[{"role":"user","content":"b"}]}"#, "anthropic"),
        (r#"{"anthropic_version":"x","messages":[{"role":"user","content":"b"}]}"#, "anthropic"),
        (r#"{"tools":[{"name":"a","input_schema":{}}],"messages":[{"role":"user","content":"b"}]}"#, "anthropic"),
        (r#"{"max_completion_tokens":1,"messages":[{"role":"user","content":[{"text":"b"}]}]}"#, "openai-chat"),
        (r#"[{"role":"user","content":[{"text":"b"}]}]"#, "bedrock"),
        (r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#, "anthropic"),
        (r#"[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"a","content":"b"}]"#, "openai-chat"),
        (r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}}]}]"#, "openai-chat"),
        (r#"[{"role":"user","content":"a"}]"#, "openai-chat"),
        (r#"{"input":"a"}"#, "openai-responses"),
        (r#"{"input":[{"role":"user","content":"a"}],"tools":[]}"#, "openai-responses"),
        (r#"[{"role":"user","content":"a"},{"type":"reasoning","summary":[]}]"#, "openai-responses"),
        (r#"{"contents":[],"toolConfig":{}}"#, "gemini"),
        (r#"[{"parts":[{"text":"a"}]}]"#, "gemini"),
        ("[]", "openai-chat"),
    ] {
        assert_eq!(found(text), dialect, "{text}");
    }
}

#[test]
fn identifiers_cannot_write_to_the_terminal() {
    let id = format!("c\\u001b[31m\\n{}", "x".repeat(100));
    let text = format!(r#"[{{"role":"user","content":"a"}},{{"role":"tool","tool_call_id":"{id}","content":"b"}}]"#);
    let run = Lab::new().pipe(&["check"], text);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(1), 1));
    assert!(!run.stdout.contains('\u{1b}') && run.stdout.contains("..."), "{}", run.stdout);
}

#[test]
fn unreadable_input_has_its_own_exit_code() {
    let lab = Lab::new();
    for (text, says) in [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("3", "neither a list"),
        (r#"[{"role":"x"}]"#, "unknown role `x`"),
    ] {
        for more in [&[][..], &["--json"], &["--fix"]] {
            lab.pipe(&[&["check"], more].concat(), text).fails(2, says);
        }
    }
    lab.run(&["check", "missing.json"]).fails(2, "missing.json: No such file");
    lab.run(&["check", "."]).fails(2, "directory");
    assert_eq!(lab.run(&["check", "--strict"]).code, Some(2));
}
