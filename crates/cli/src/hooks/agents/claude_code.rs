//! Claude Code: hooks in its settings or in a plugin, each with JSON on standard input and output.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Hooked, event, longest, recalls, replaced, text};
use crate::hooks::event::{Event, ToolResult, What};

/// Claude Code.
pub(super) struct ClaudeCode;

/// Tools whose results are not shown to the model as text, or say what it has written itself.
const OWN: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];
/// The members of results that are pictures, paths, or files before an edit.
const NOT_SHOWN: [&str; 7] = ["base64", "data", "filePath", "filenames", "originalFile", "prompt", "structuredPatch"];

impl Hooked for ClaudeCode {
    fn slug(&self) -> &'static str {
        "claude-code"
    }

    fn event(&self, input: &Value) -> Option<Event> {
        let what = match text(input, "hook_event_name")? {
            "PostToolUse" => What::Result(result(input)?),
            "SessionStart" => What::Begins { forgot: text(input, "source") != Some("resume") },
            "UserPromptSubmit" => What::Asks,
            "PreCompact" | "Stop" | "SessionEnd" => What::Pauses,
            _ => return None,
        };
        // The folder of the project stays, also if the agent works in another one.
        let project = std::env::var_os("CLAUDE_PROJECT_DIR").filter(|folder| !folder.is_empty());
        let event = event(input, what)?;
        Some(match project {
            Some(project) => Event { folder: PathBuf::from(project), ..event },
            None => event,
        })
    }

    fn with_result(&self, input: &Value, pointer: &str, text: &str) -> String {
        let response = input.get("tool_response").unwrap_or(&Value::Null);
        answer("PostToolUse", "updatedToolOutput", replaced(response, pointer, text))
    }

    fn with_context(&self, input: &Value, context: &str) -> String {
        answer(text(input, "hook_event_name").unwrap_or_default(), "additionalContext", context.into())
    }
}

fn answer(event: &str, name: &str, value: Value) -> String {
    json!({"suppressOutput": true, "hookSpecificOutput": {"hookEventName": event, name: value}}).to_string()
}

fn result(input: &Value) -> Option<ToolResult> {
    let tool = text(input, "tool_name")?;
    if OWN.contains(&tool) || recalls(tool) {
        return None;
    }
    let response = input.get("tool_response")?;
    let (pointer, found) = longest(response, &|name| !NOT_SHOWN.contains(&name))?;
    Some(ToolResult {
        tool: tool.to_owned(),
        call: text(input, "tool_use_id")?.to_owned(),
        arguments: input.get("tool_input").map(Value::to_string).unwrap_or_default(),
        text: found,
        is_numbered: pointer == "/file/content",
        pointer,
    })
}
