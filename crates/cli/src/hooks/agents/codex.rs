//! Codex: hooks in `hooks.json` or its settings, which a person trusts with `/hooks`. It refuses answers with members that
//! it does not know.

use serde_json::{Value, json};

use super::{Hooked, event, recalls, text};
use crate::hooks::event::{Event, ToolResult, What};

/// Codex.
pub(super) struct Codex;

impl Hooked for Codex {
    fn slug(&self) -> &'static str {
        "codex"
    }

    fn event(&self, input: &Value) -> Option<Event> {
        let what = match text(input, "hook_event_name")? {
            "PostToolUse" => What::Result(result(input)?),
            "SessionStart" => What::Begins { forgot: text(input, "source") != Some("resume") },
            "UserPromptSubmit" => What::Asks,
            "PreCompact" | "Stop" | "SessionEnd" => What::Pauses,
            _ => return None,
        };
        event(input, what)
    }

    fn with_result(&self, _: &Value, _: &str, shown: &str) -> String {
        // The model sees this text in place of the result.
        json!({"decision": "block", "reason": shown}).to_string()
    }

    fn with_context(&self, input: &Value, context: &str) -> String {
        let event = text(input, "hook_event_name").unwrap_or_default();
        json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}).to_string()
    }
}

fn result(input: &Value) -> Option<ToolResult> {
    let tool = text(input, "tool_name").filter(|tool| !recalls(tool))?;
    Some(ToolResult {
        tool: tool.to_owned(),
        call: text(input, "tool_use_id")?.to_owned(),
        arguments: input.get("tool_input").map(Value::to_string).unwrap_or_default(),
        // Results of other forms than text could not be replaced by one.
        text: text(input, "tool_response")?.to_owned(),
        pointer: String::new(),
        is_numbered: false,
    })
}
