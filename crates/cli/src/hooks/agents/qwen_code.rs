//! Qwen Code: hooks in its settings. It ignores what a hook says when a conversation begins, so facts come with the first
//! question.

use serde_json::{Value, json};

use super::gemini_cli::llm_content;
use super::{Hooked, event, text};
use crate::hooks::event::{Event, What};

/// Qwen Code.
pub(super) struct QwenCode;

impl Hooked for QwenCode {
    fn slug(&self) -> &'static str {
        "qwen-code"
    }

    fn event(&self, input: &Value) -> Option<Event> {
        let what = match text(input, "hook_event_name")? {
            "PostToolUse" => What::Result(llm_content(input)?),
            // It also asks after each round of tools, without a question.
            "UserPromptSubmit" if text(input, "prompt").is_some_and(|prompt| !prompt.is_empty()) => What::Asks,
            "PostCompact" => What::Forgot,
            "PreCompact" | "Stop" | "SessionEnd" => What::Pauses,
            _ => return None,
        };
        event(input, what)
    }

    fn with_result(&self, _: &Value, _: &str, shown: &str) -> String {
        // The model sees this text in place of the result, and the turn goes on.
        json!({"continue": false, "stopReason": shown}).to_string()
    }

    fn with_context(&self, input: &Value, context: &str) -> String {
        let event = text(input, "hook_event_name").unwrap_or_default();
        json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}).to_string()
    }
}
