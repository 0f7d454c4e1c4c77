//! The signs of OpenAI's chat format.

use lookback_content::json;

use super::{Sign, Signs, any, block, has_tool_with};

pub(crate) static SIGNS: Signs = Signs {
    in_body: |body| {
        let tools = if has_tool_with(body, "function") { Some(Sign::Beside("tools")) } else { None };
        let members =
            || any(body, &["max_completion_tokens", "response_format", "frequency_penalty", "stream_options"]);
        // Services that resell models put the maker's name before the model's name.
        let is_resold = || body.get("model").and_then(json::text).is_some_and(|model| model.contains('/'));
        let resold = || if is_resold() { Some(Sign::Beside("model")) } else { None };
        tools.or_else(members).or_else(resold)
    },
    in_message: |message| {
        let role = message.text("role")?;
        let calls = || message.get("tool_calls").map(|_| Sign::Member("tool_calls"));
        let roles = || ["developer", "system"].into_iter().find(|known| *known == role).map(Sign::Role);
        if role == "tool" { Some(Sign::Role("tool")) } else { calls().or_else(roles) }
    },
    in_block: |fields| block(fields, &["image_url", "input_audio", "file", "refusal"]),
};
