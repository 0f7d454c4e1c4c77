//! `lookback check`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Lab, example_messages, list};
use insta::assert_snapshot;
use serde_json::{Value, json};

const SOUND: [(&str, &str); 3] = [
    ("openai-chat", include_str!("bodies/openai-chat.json")),
    ("anthropic", include_str!("bodies/anthropic.json")),
    ("bedrock", include_str!("bodies/bedrock.json")),
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
            // What is wrong, and what to do.
            assert!(sentence.contains("; "), "{line}");
        }
        told.push(lab.told(&run));
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
fn fix_writes_a_valid_conversation_and_the_findings_apart() {
    for (name, text) in BROKEN {
        let lab = Lab::new().with("broken.json", text);
        let findings = lab.run(&["check", "broken.json"]).stdout;
        let fixed = lab.run(&["check", "broken.json", "--fix"]);
        assert_eq!(fixed.stderr, findings, "{name}");
        let again = lab.pipe(&["check", "--dialect", name], fixed.out());
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{name}: {}", fixed.stdout);
        // What is mended stays as it is.
        assert_eq!(lab.pipe(&["check", "--dialect", name, "--fix"], fixed.out()).out(), fixed.stdout);
        let json = lab.run(&["check", "broken.json", "--fix", "--json"]);
        assert_eq!(json.out(), fixed.stdout);
        let answer: Value = serde_json::from_str(&json.stderr).unwrap();
        assert_eq!(answer["findings"].as_array().unwrap().len(), findings.lines().count());
    }
}

#[test]
fn fix_mends_the_example() {
    let text = list(&example_messages());
    let lab = Lab::new();
    let run = lab.pipe(&["check"], &text);
    assert_eq!(run.code, Some(1));
    assert_snapshot!(lab.told(&run));
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
        assert_eq!((fixed.code, fixed.stdout.as_str(), fixed.stderr.as_str()), (Some(1), text, run.stdout.as_str()));
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
