//! Session files of Claude Code: rows that name the row before them.

use lookback_wire::dialect::Dialect;
use serde_json::json;

use super::{Handoff, Resumable, Resume, command, is, lines, object, put};
use crate::home::Home;

pub(super) struct ClaudeCode;

impl Resume for ClaudeCode {
    fn agent(&self) -> &'static str {
        "Claude Code"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn write(&self, handoff: &Handoff<'_>, home: &Home) -> Resumable {
        let id = handoff.id;
        // The names of rows must be unique, and of the form of a UUID.
        let uuid = |index: usize| format!("{}{index:012x}", id.get(..24).unwrap_or_default());
        let row = |(index, element): (usize, &&_)| {
            let mut message = object(element);
            let is_answer = is(&message, "role", "assistant");
            if is_answer {
                let members = [
                    ("id", json!(format!("msg_{index:06}"))),
                    ("type", json!("message")),
                    ("model", json!(handoff.model().1)),
                    ("usage", json!({"input_tokens": 0, "output_tokens": 0})),
                ];
                put(&mut message, members);
            }
            json!({
                "parentUuid": index.checked_sub(1).map(uuid),
                "isSidechain": false,
                "userType": "external",
                "cwd": handoff.project,
                "sessionId": id,
                "version": "2.0.0",
                "type": if is_answer { "assistant" } else { "user" },
                "message": message,
                "uuid": uuid(index),
                "timestamp": handoff.written_time(index),
            })
        };
        let folder = home.below("CLAUDE_CONFIG_DIR", ".claude", "projects").join(handoff.dashed());
        Resumable {
            place: Some(folder.join(format!("{id}.jsonl"))),
            marker: None,
            text: lines(handoff.elements.iter().enumerate().map(row)),
            import: Vec::new(),
            resume: command(&["claude", "--resume", id]),
        }
    }
}
