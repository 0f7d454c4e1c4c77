//! Chats of Gemini CLI: metadata, and messages in which a call has its result.

use std::fs;

use lookback_wire::dialect::Dialect;
use serde_json::{Map, Value, json};

use super::{Handoff, Resumable, Resume, command, is, lines, object, put};
use crate::home::Home;

pub(super) struct GeminiCli;

impl Resume for GeminiCli {
    fn agent(&self) -> &'static str {
        "Gemini CLI"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn write(&self, handoff: &Handoff<'_>, home: &Home) -> Resumable {
        let id = handoff.id;
        let mut values = vec![json!({
            "sessionId": id,
            "projectHash": "lookback",
            "startTime": handoff.written_time(0),
            "lastUpdated": handoff.written_time(handoff.elements.len()),
            "kind": "main",
        })];
        for (index, element) in handoff.elements.iter().enumerate() {
            let (id, time) = (format!("{id}-{index}"), handoff.written_time(index));
            let mut content = object(element);
            let (calls, results, others) = sorted(content.remove("parts"));
            if !is(&content, "role", "model") {
                if !others.is_empty() {
                    values.push(json!({"id": id, "timestamp": time, "type": "user", "content": others}));
                }
                answer(&mut values, results);
                continue;
            }
            let calls: Vec<Value> = calls.into_iter().filter_map(|call| pending(call, &time)).collect();
            let model = handoff.model().1;
            values.push(json!({
                "id": id,
                "timestamp": time,
                "type": "gemini",
                "content": others,
                "model": model,
                "toolCalls": calls,
            }));
        }
        let chats = home.below("GEMINI_CLI_HOME", "", ".gemini/tmp").join(folder(handoff, home)).join("chats");
        let time = handoff.file_time();
        let name = format!("session-{}-{}.jsonl", time.get(..16).unwrap_or_default(), id.get(..8).unwrap_or_default());
        Resumable {
            place: Some(chats.join(name)),
            text: lines(values),
            import: Vec::new(),
            resume: command(&["gemini", "--resume", id]),
        }
    }
}

/// Returns the calls, the results and the other parts of a message.
fn sorted(parts: Option<Value>) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
    let (mut calls, mut results, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let Some(Value::Array(parts)) = parts else { return (calls, results, others) };
    for part in parts {
        if part.get("functionCall").is_some() {
            calls.push(part);
        } else if part.get("functionResponse").is_some() {
            results.push(part);
        } else {
            others.push(part);
        }
    }
    (calls, results, others)
}

/// Returns a call whose result has not come.
fn pending(part: Value, time: &str) -> Option<Value> {
    let Value::Object(mut call) = part.get("functionCall")?.clone() else { return None };
    put(&mut call, [("status", json!("cancelled")), ("timestamp", json!(time)), ("result", json!([]))]);
    Some(Value::Object(call))
}

/// Puts results beside the calls of the newest answer: by their names, and those without one in order.
fn answer(values: &mut [Value], results: Vec<Value>) {
    let with_calls = |value: &Value| value.get("toolCalls").is_some_and(|calls| calls.get(0).is_some());
    let newest = values.iter_mut().rfind(|value| with_calls(value)).and_then(|value| value.get_mut("toolCalls"));
    let calls = newest.and_then(Value::as_array_mut).into_iter().flatten();
    let mut calls: Vec<_> = calls.filter_map(Value::as_object_mut).collect();
    for result in results {
        let id = result.get("functionResponse").and_then(|response| response.get("id")).cloned();
        let is_open = |call: &&mut &mut Map<String, Value>| {
            is(call, "status", "cancelled") && (id.is_none() || call.get("id") == id.as_ref())
        };
        if let Some(call) = calls.iter_mut().find(is_open) {
            put(call, [("status", json!("success")), ("result", json!([result]))]);
        }
    }
}

/// Returns the name of the project's folder, which Gemini CLI chooses when it first runs in a project.
fn folder(handoff: &Handoff<'_>, home: &Home) -> String {
    let list = fs::read_to_string(home.below("GEMINI_CLI_HOME", "", ".gemini/projects.json")).unwrap_or_default();
    let list: Value = serde_json::from_str(&list).unwrap_or_default();
    let projects = list.get("projects");
    let known = projects.and_then(|projects| projects.get(&*handoff.project.to_string_lossy())?.as_str());
    // A new project has the name of its folder.
    let name = handoff.project.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    known.map_or_else(|| plain.trim_matches('-').to_owned(), str::to_owned)
}
