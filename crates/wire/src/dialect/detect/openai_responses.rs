//! The signs of OpenAI's Responses.

use super::{Sign, Signs, any, block, has};

/// Types of items that are not messages.
const ITEMS: [&str; 9] = [
    "function_call",
    "function_call_output",
    "reasoning",
    "custom_tool_call",
    "custom_tool_call_output",
    "item_reference",
    "compaction",
    "compaction_trigger",
    "web_search_call",
];

pub(crate) static SIGNS: Signs = Signs {
    in_body: |body| {
        if has(body, "messages") || (has(body, "contents") && !has(body, "input")) {
            return None;
        }
        let prompt =
            || body.get("prompt").filter(|prompt| prompt.get().starts_with('{')).map(|_| Sign::Beside("prompt"));
        any(body, &["input", "previous_response_id", "conversation"]).or_else(prompt)
    },
    in_message: |message| {
        let kind = message.text("type")?;
        ITEMS.into_iter().find(|known| *known == kind).map(Sign::Item)
    },
    in_block: |fields| block(fields, &["input_text", "output_text", "input_image", "input_file"]),
};
