//! Rollouts of Codex: metadata, and the items of OpenAI's Responses. Events repeat the texts for people.

use lookback_wire::dialect::Dialect;
use serde_json::{Map, Value, json};

use super::{Handoff, Resumable, Resume, command, is, lines, object, put};
use crate::home::Home;

pub(super) struct Codex;

impl Resume for Codex {
    fn agent(&self) -> &'static str {
        "Codex"
    }

    fn dialect(&self) -> Dialect {
        Dialect::OpenAiResponses
    }

    fn write(&self, handoff: &Handoff<'_>, home: &Home) -> Resumable {
        let id = handoff.id;
        let meta = json!({
            "id": id,
            "timestamp": handoff.written_time(0),
            "cwd": handoff.project,
            "originator": "lookback",
            "cli_version": "0.0.0",
            "source": "cli",
        });
        let record = |index: usize, kind: &str, payload: Value| json!({"timestamp": handoff.written_time(index), "type": kind, "payload": payload});
        let mut records = vec![record(0, "session_meta", meta)];
        for (index, element) in handoff.elements.iter().enumerate() {
            let item = item(object(element));
            let event = event(&item);
            records.push(record(index, "response_item", Value::Object(item)));
            records.extend(event.map(|event| record(index, "event_msg", event)));
        }
        let time = handoff.file_time();
        let day = time.get(..10).unwrap_or_default().replace('-', "/");
        let folder = home.below("CODEX_HOME", ".codex", "sessions").join(day);
        Resumable {
            place: Some(folder.join(format!("rollout-{time}-{id}.jsonl"))),
            marker: None,
            text: lines(records),
            import: Vec::new(),
            resume: command(&["codex", "resume", id]),
        }
    }
}

/// Returns a message with the members that Codex requires. In a request, they may be left out.
fn item(mut item: Map<String, Value>) -> Map<String, Value> {
    if item.contains_key("role") {
        put(&mut item, [("type", json!("message"))]);
        if let Some(text) = item.get("content").and_then(Value::as_str) {
            let kind = if is(&item, "role", "assistant") { "output_text" } else { "input_text" };
            let content = json!([{"type": kind, "text": text}]);
            put(&mut item, [("content", content)]);
        }
    }
    item
}

fn event(item: &Map<String, Value>) -> Option<Value> {
    let kind = match item.get("role")?.as_str()? {
        "user" => "user_message",
        "assistant" => "agent_message",
        _ => return None,
    };
    let content = item.get("content")?.as_array()?;
    let texts: Vec<&str> = content.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    Some(json!({"type": kind, "message": texts.join("\n")}))
}
