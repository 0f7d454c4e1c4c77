//! Replays real transcripts with signed thinking in their tool loops, which the recordings have lost.
//!
//! A provider accepts such thinking only after its original prefix. So the windows of a loop may change only after the
//! last thinking in it, and a change before that is counted as an invalid request. The transcripts are converted to
//! Anthropic's format, with a thought of some 60 tokens in the first answer of each loop, or in each answer.

use std::process::Command;

use serde_json::{Map, Value, json};

use crate::corpus::{read, report};

/// The words of a thought.
const THOUGHT: &str = "I should look at the result before I go on, because the next step depends on it. ";

/// Replays a file of transcripts, with thinking in the first answer of each tool loop and in each answer.
pub fn run(file: &str) {
    let text = String::from_utf8(read(file)).expect("UTF-8");
    for (title, every) in
        [("without thinking", None), ("in the first answer of each loop", Some(false)), ("in each answer", Some(true))]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = folder.path().join("transcripts.jsonl");
        let lines = text.lines().map(|line| converted(&serde_json::from_str(line).expect("JSON"), every).to_string());
        std::fs::write(&plain, lines.collect::<Vec<_>>().join("\n")).expect("room on the disk");
        let mut command = Command::new(crate::body::lookback());
        command.arg("replay").arg(&plain).arg("--store").arg(folder.path().join("store.db")).arg("--json");
        command.args(["--policy", "none", "--policy", "default", "--policy", "frugal"]);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("Thinking {title}\n");
        report(&String::from_utf8_lossy(&output.stdout), &["none", "default", "frugal"]);
        println!();
    }
}

/// Returns a transcript in Anthropic's format. `every` is whether each answer of a loop has thinking, or only the first.
pub fn converted(transcript: &Value, every: Option<bool>) -> Value {
    let all = transcript["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_system = |message: &&Value| message["role"] == "system" || message["role"] == "developer";
    let system = all.first().filter(is_system);
    let skipped = usize::from(system.is_some());
    let mut in_loop = false;
    let mut messages = Vec::new();
    for (index, message) in all.iter().enumerate().skip(skipped) {
        let mut made = Map::new();
        let text = text(message);
        let (role, content) = if message["role"] == "tool" {
            let result = json!({"type": "tool_result", "tool_use_id": id(&message["tool_call_id"]), "content": text});
            ("user", json!([result]))
        } else if message["role"] == "assistant" {
            let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            let thinks = !calls.is_empty() && every.is_some_and(|every| every || !in_loop);
            in_loop = !calls.is_empty();
            let thought = json!({
                "type": "thinking",
                "thinking": format!("{index}: {}", THOUGHT.repeat(3)),
                "signature": format!("s{index}"),
            });
            let mut content: Vec<Value> = thinks.then_some(thought).into_iter().collect();
            content.extend((!text.is_empty()).then(|| json!({"type": "text", "text": text})));
            content.extend(calls.iter().map(call));
            ("assistant", Value::Array(content))
        } else {
            in_loop = false;
            ("user", json!(text))
        };
        made.insert("role".to_owned(), json!(role));
        made.insert("content".to_owned(), content);
        made.extend(message.get("time").map(|time| ("time".to_owned(), time.clone())));
        messages.push(Value::Object(made));
    }
    let meta = &transcript["meta"];
    let shifted =
        |index: &Value| index.as_u64().map_or(Value::Null, |index| json!(index.saturating_sub(skipped as u64)));
    let usage = meta["usage"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|usage| {
        let numbers = usage.as_array().map(Vec::as_slice).unwrap_or_default();
        let first = numbers.first().map(shifted);
        Value::Array(first.into_iter().chain(numbers.iter().skip(1).cloned()).collect())
    });
    let compactions = meta["compactions"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(shifted);
    json!({
        "id": transcript["id"],
        "system": system.map(text).unwrap_or_default(),
        "tools": transcript["tools"].as_array().map_or_else(Vec::new, |tools| tools.iter().map(tool).collect()),
        "messages": messages,
        "meta": {"usage": usage.collect::<Vec<_>>(), "compactions": compactions.collect::<Vec<_>>()},
    })
}

fn tool(tool: &Value) -> Value {
    let function = &tool["function"];
    json!({"name": function["name"], "description": function["description"], "input_schema": function["parameters"]})
}

fn call(call: &Value) -> Value {
    let function = &call["function"];
    let arguments = function["arguments"].as_str().unwrap_or_default();
    let input = serde_json::from_str::<Value>(arguments).ok().filter(Value::is_object);
    let input = input.unwrap_or_else(|| json!({"input": arguments}));
    json!({"type": "tool_use", "id": id(&call["id"]), "name": function["name"], "input": input})
}

/// Returns an identifier that Anthropic's format allows.
fn id(id: &Value) -> String {
    let is_allowed = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    id.as_str().unwrap_or("none").chars().map(|char| if is_allowed(&char) { char } else { '_' }).collect()
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}
