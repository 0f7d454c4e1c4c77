//! Chats of Gemini CLI: metadata, and messages in which a call has its result.

use std::fs;

use lookback_wire::dialect::Dialect;
use serde_json::{Map, Value, json};

use super::{Handoff, Resumable, Resume, command, is, lines, object, put};
use crate::home::Home;

/// The file that says whose folder it is.
const MARKER: &str = ".project_root";

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
                let others = as_prompt(others);
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
        let folder = home.below("GEMINI_CLI_HOME", "", ".gemini/tmp").join(folder(handoff, home));
        let time = handoff.file_time();
        let name = format!("session-{}-{}.jsonl", time.get(..16).unwrap_or_default(), id.get(..8).unwrap_or_default());
        Resumable {
            place: Some(folder.join("chats").join(name)),
            marker: Some((folder.join(MARKER), handoff.project.display().to_string())),
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

/// Returns the parts of a prompt. Gemini CLI takes a prompt that begins like a command for one, and leaves it out.
fn as_prompt(mut parts: Vec<Value>) -> Vec<Value> {
    let first = parts.first().and_then(|part| part.get("text")?.as_str()).unwrap_or_default();
    if first.trim_start().starts_with(['/', '?']) {
        parts.insert(0, json!({"text": "Prompt: "}));
    }
    parts
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

/// Returns the name of the project's folder. Gemini CLI keeps a list of them. A new one has the name of the project, with a
/// number if another project has that.
fn folder(handoff: &Handoff<'_>, home: &Home) -> String {
    let root = home.below("GEMINI_CLI_HOME", "", ".gemini");
    let project = handoff.project.to_string_lossy();
    let list = fs::read_to_string(root.join("projects.json")).unwrap_or_default();
    let list: Value = serde_json::from_str(&list).unwrap_or_default();
    let known = list.get("projects").and_then(Value::as_object);
    if let Some(own) = known.and_then(|known| known.get(&*project)?.as_str()) {
        return own.to_owned();
    }
    let name = handoff.project.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join("-");
    let plain = if plain.is_empty() { "project".to_owned() } else { plain };
    let owner = |name: &str| fs::read_to_string(root.join("tmp").join(name).join(MARKER)).ok();
    let is_taken = |name: &str| {
        let is_listed = known.is_some_and(|known| known.values().any(|listed| listed == name));
        is_listed || owner(name).is_some_and(|owner| owner.trim() != project)
    };
    let numbered = (1..).map(|number| format!("{plain}-{number}"));
    std::iter::once(plain.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(plain)
}
