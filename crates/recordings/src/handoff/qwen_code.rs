//! Chats of Qwen Code: rows with messages of Gemini's, each with the name of the row before it.

use lookback_wire::dialect::Dialect;
use serde_json::json;

use super::{Handoff, Resumable, Resume, command, is, lines, object};
use crate::home::Home;

pub(super) struct QwenCode;

impl Resume for QwenCode {
    fn agent(&self) -> &'static str {
        "Qwen Code"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn write(&self, handoff: &Handoff<'_>, home: &Home) -> Resumable {
        let id = handoff.id;
        let uuid = |index: usize| format!("{}{index:012x}", id.get(..24).unwrap_or_default());
        let row = |(index, element): (usize, &&_)| {
            let message = object(element);
            let first = message.get("parts").and_then(|parts| parts.get(0));
            let has_results = first.is_some_and(|first| first.get("functionResponse").is_some());
            let kind = match has_results {
                _ if is(&message, "role", "model") => "assistant",
                true => "tool_result",
                false => "user",
            };
            json!({
                "uuid": uuid(index),
                "parentUuid": index.checked_sub(1).map(uuid),
                "sessionId": id,
                "timestamp": handoff.written_time(index),
                "type": kind,
                "cwd": handoff.project,
                "version": "0.15.0",
                "message": message,
            })
        };
        let folder = home.below("QWEN_HOME", ".qwen", "projects").join(handoff.dashed()).join("chats");
        Resumable {
            place: Some(folder.join(format!("{id}.jsonl"))),
            marker: None,
            text: lines(handoff.elements.iter().enumerate().map(row)),
            import: Vec::new(),
            resume: command(&["qwen", "--resume", id]),
        }
    }
}
