//! Agents whose plugins are programs: opencode and pi. Lookback's plugins for them start `lookback hook`, with events and
//! answers of this form.
//!
//! An event has `session_id`, `cwd`, `transcript_path` and `event`, which is `result` (with `tool`, `call`, `arguments`
//! and `text`), `recall` (with `arguments`), `asks`, `forgot` or `pauses`. The answer has `text`, for a result or for the
//! model's context.

use serde_json::{Value, json};

use super::{Hooked, event, recalls, text};
use crate::hooks::event::{Event, ToolResult, What};

/// An agent with a plugin of Lookback.
pub(super) struct Plugin {
    slug: &'static str,
}

pub(super) const OPENCODE: Plugin = Plugin { slug: "opencode" };
pub(super) const PI: Plugin = Plugin { slug: "pi" };

impl Hooked for Plugin {
    fn slug(&self) -> &'static str {
        self.slug
    }

    fn event(&self, input: &Value) -> Option<Event> {
        let what = match text(input, "event")? {
            "result" => What::Result(result(input)?),
            "recall" => What::Recalls(input.get("arguments")?.as_object()?.clone()),
            "asks" => What::Asks,
            "forgot" => What::Forgot,
            "pauses" => What::Pauses,
            _ => return None,
        };
        event(input, what)
    }

    fn has_one_log(&self) -> bool {
        self.slug == OPENCODE.slug
    }

    fn with_result(&self, _: &Value, _: &str, shown: &str) -> String {
        json!({"text": shown}).to_string()
    }

    fn with_context(&self, _: &Value, context: &str) -> String {
        json!({"text": context}).to_string()
    }
}

fn result(input: &Value) -> Option<ToolResult> {
    /// Tools that say what they have written.
    const OWN: [&str; 4] = ["edit", "write", "patch", "apply_patch"];
    let tool = text(input, "tool").filter(|tool| !recalls(tool) && !OWN.contains(tool))?;
    Some(ToolResult {
        tool: tool.to_owned(),
        call: text(input, "call")?.to_owned(),
        arguments: input.get("arguments").map(Value::to_string).unwrap_or_default(),
        text: text(input, "text")?.to_owned(),
        pointer: String::new(),
        is_numbered: false,
    })
}
