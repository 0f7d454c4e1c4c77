//! Cache markers, which tell a provider how much of a request to cache, and mean nothing to the model.
//!
//! This is the only file outside the dialects with names from providers' formats, because a message's digest must leave
//! out cache markers.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use lookback_content::json::{self, Fields};

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

/// Returns the seconds for which the cache keeps a request after its last use, if the request says so. Of several
/// markers, the shortest lifetime counts, because the cache has the whole request only that long.
pub(crate) fn lifetime<'a>(body: &str, member: impl Fn(&str) -> Option<&'a RawValue>) -> Option<u64> {
    /// The lifetime of a marker that names none.
    const DEFAULT: u64 = 300;
    let options = member("prompt_cache_options").and_then(Fields::read);
    let option = options.as_ref().and_then(|options| options.text("ttl"));
    let named = option.or_else(|| member("prompt_cache_retention").and_then(json::text)).and_then(|ttl| seconds(&ttl));
    named.or_else(|| markers(body).map(|ttl| ttl.as_deref().and_then(seconds).unwrap_or(DEFAULT)).min())
}

/// Returns the lifetimes that the markers in a body name.
fn markers(body: &str) -> impl Iterator<Item = Option<String>> {
    #[derive(Deserialize)]
    struct Marker {
        ttl: Option<String>,
    }
    // In a text, the quotation marks would be escaped.
    [MEMBER, BLOCK].into_iter().flat_map(move |name| {
        body.match_indices(name).filter_map(move |(at, _)| {
            let before = body.get(..at)?.ends_with('"');
            let value = body.get(at + name.len()..)?.strip_prefix('"')?.trim_start().strip_prefix(':')?;
            let mut values = serde_json::Deserializer::from_str(value).into_iter::<Marker>();
            if before { values.next()?.ok().map(|marker| marker.ttl) } else { None }
        })
    })
}

/// Reads a time such as `5m` or `1h`.
fn seconds(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(char::is_alphabetic);
    let unit = match text.get(number.len()..)? {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_tells_how_long_it_is_cached() {
        for (body, expected) in [
            (json!({"messages": []}), None),
            (json!({"messages": [], "prompt_cache_retention": "24h"}), Some(86_400)),
            (json!({"messages": [], "prompt_cache_retention": "in_memory"}), None),
            (json!({"input": [], "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}), Some(1_800)),
            (json!({"messages": [], "system": [{"cache_control": {"type": "ephemeral"}}]}), Some(300)),
            (json!({"messages": [], "system": [{"cache_control": {"type": "ephemeral", "ttl": "1h"}}]}), Some(3_600)),
            (json!({"messages": [], "system": [{"cachePoint": {"type": "default", "ttl": "1h"}}]}), Some(3_600)),
            (json!({"messages": [], "cache_control": {"ttl": "1h"}, "tools": [{"cachePoint": {}}]}), Some(300)),
            (json!({"messages": [{"role": "user", "content": "\"cache_control\": {\"ttl\": \"1h\"}"}]}), None),
            (json!({"messages": [], "cache_control": null}), None),
        ] {
            let body = body.to_string();
            let read = crate::dialect::RawRequest::read(&body, None).unwrap();
            assert_eq!(read.cache_lifetime(), expected, "{body}");
        }
        assert_eq!(["90s", "1d", "h", "", "99999999999999999999h"].map(seconds), [Some(90), None, None, None, None]);
    }

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
