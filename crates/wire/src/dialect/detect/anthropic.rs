//! The signs of Anthropic's Messages.

use lookback_content::json;

use super::{Sign, Signs, any, block, has_tool_with};
use crate::cache_marker;

/// Types of blocks that other dialects do not have.
const BLOCKS: [&str; 7] =
    ["tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "redacted_thinking", "image", "document"];

pub(crate) static SIGNS: Signs = Signs {
    in_body: |body| {
        // Blocks without a type are Bedrock's, which is asked first. An empty list is in both formats.
        let system = body.get("system").filter(|system| system.get() != "null");
        if system.is_some_and(|system| json::array(system).is_none_or(|blocks| !blocks.is_empty())) {
            return Some(Sign::Beside("system"));
        }
        let tools = if has_tool_with(body, "input_schema") { Some(Sign::Beside("tools")) } else { None };
        tools.or_else(|| any(body, &["anthropic_version", "output_config"]))
    },
    in_message: |message| {
        let is_message = message.get("role").is_some();
        if is_message && message.get("output_config").is_some() { Some(Sign::Member("output_config")) } else { None }
    },
    in_block: |fields| {
        let thinking = || match fields.text("type")?.as_ref() {
            "thinking" if fields.get("signature").is_some() => Some(Sign::SignedThinking),
            "thinking" => Some(Sign::Thinking),
            _ => None,
        };
        let marker = || fields.get(cache_marker::MEMBER).map(|_| Sign::CacheMarker);
        block(fields, &BLOCKS).or_else(thinking).or_else(marker)
    },
};
