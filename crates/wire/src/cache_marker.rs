//! Cache markers, which tell a provider how much of a request to cache, and mean nothing to the model.
//!
//! This is the only file outside the dialects with names from providers' formats, because a message's digest must leave
//! out cache markers.

use serde_json::Value;

/// The member that marks a block in Anthropic's format. Some gateways also accept it in OpenAI's format.
pub(crate) const MEMBER: &str = "cache_control";

/// The kind of block that is a marker in Bedrock's format.
pub(crate) const BLOCK: &str = "cachePoint";

/// Returns whether a part of this kind is a cache marker.
pub(crate) fn is_marker(kind: &str) -> bool {
    kind == BLOCK
}

/// Removes the cache marker of a block, if it has one.
///
/// Call it only with a block: an argument of a tool call may have the same name.
pub(crate) fn remove_marker(block: &mut Value) {
    if let Some(members) = block.as_object_mut() {
        members.remove(MEMBER);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_marker_is_a_block_or_a_member_of_one() {
        assert!(is_marker("cachePoint") && !is_marker("text") && !is_marker(""));
        let mut block = json!({"type": "search_result", "cache_control": {"type": "ephemeral"}, "n": 1});
        remove_marker(&mut block);
        assert_eq!(block, json!({"type": "search_result", "n": 1}));
        let mut list = json!(["cache_control"]);
        remove_marker(&mut list);
        assert_eq!(list, json!(["cache_control"]));
    }
}
