//! The signs of Bedrock.

use lookback_content::json::{self, Fields};
use serde_json::value::RawValue;

use super::{Sign, Signs, any};

pub(crate) static SIGNS: Signs = Signs {
    in_body: |body| {
        let is_untyped = |block: &RawValue| Fields::read(block).is_none_or(|fields| fields.get("type").is_none());
        let blocks = || body.get("system").and_then(json::array).unwrap_or_default();
        let system = || blocks().into_iter().find(|block| is_untyped(block)).map(|_| Sign::Beside("system"));
        any(body, &["toolConfig", "inferenceConfig", "modelId"]).or_else(system)
    },
    in_message: |_| None,
    // Blocks have no type: their key is their kind.
    in_block: |block| if block.text("type").is_none() { Some(Sign::Untyped) } else { None },
};
