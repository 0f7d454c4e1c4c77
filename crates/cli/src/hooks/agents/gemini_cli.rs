//! Gemini CLI: hooks in its settings or in an extension. It runs them in folders that the person trusts.

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{Hooked, NO_ERROR, event, recalls, text};
use crate::hooks::event::{Event, ToolResult, What};

/// Gemini CLI.
pub(super) struct GeminiCli;

impl Hooked for GeminiCli {
    fn slug(&self) -> &'static str {
        "gemini-cli"
    }

    fn event(&self, input: &Value) -> Option<Event> {
        let what = match text(input, "hook_event_name")? {
            "AfterTool" => What::Result(llm_content(input)?),
            "SessionStart" => What::Begins { forgot: text(input, "source") != Some("resume") },
            "BeforeAgent" => What::Asks,
            "AfterAgent" | "PreCompress" | "SessionEnd" => What::Pauses,
            _ => return None,
        };
        event(input, what)
    }

    fn compacts_silently(&self) -> bool {
        true
    }

    fn with_result(&self, _: &Value, _: &str, shown: &str) -> String {
        json!({"decision": "deny", "reason": format!("{NO_ERROR}{shown}"), "suppressOutput": true}).to_string()
    }

    fn with_context(&self, input: &Value, context: &str) -> String {
        let event = text(input, "hook_event_name").unwrap_or_default();
        json!({"suppressOutput": true, "hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})
            .to_string()
    }
}

/// Returns the result of a tool that has succeeded, as the model would see it.
pub(super) fn llm_content(input: &Value) -> Option<ToolResult> {
    /// Tools that say what they have written.
    const OWN: [&str; 4] = ["edit", "replace", "write_file", "save_memory"];
    let tool = text(input, "tool_name").filter(|tool| !recalls(tool) && !OWN.contains(tool))?;
    let response = input.get("tool_response")?;
    if response.get("error").is_some_and(|error| !error.is_null()) {
        return None;
    }
    let arguments = input.get("tool_input").map(Value::to_string).unwrap_or_default();
    let unnamed = || format!("{:016x}", xxh3_64(format!("{tool} {arguments}").as_bytes()));
    Some(ToolResult {
        call: text(input, "tool_use_id").map_or_else(unnamed, str::to_owned),
        text: text(response, "llmContent")?.to_owned(),
        pointer: String::new(),
        is_numbered: false,
        tool: tool.to_owned(),
        arguments,
    })
}
