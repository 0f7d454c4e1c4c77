//! The signs of Gemini.

use lookback_content::json;

use super::{Sign, Signs, any, has};

pub(crate) static SIGNS: Signs = Signs {
    in_body: |body| if has(body, "messages") { None } else { any(body, &["contents"]) },
    in_message: |message| {
        let has_parts = message.get("content").is_none() && message.get("parts").and_then(json::array).is_some();
        has_parts.then_some(Sign::Member("parts"))
    },
    in_block: |_| None,
};
