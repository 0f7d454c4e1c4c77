//! A body that is changed keeps all that was not changed, byte for byte, and can be read again.

use lookback_wire::dialect::{Dialect, RawRequest};
use serde_json::json;
use serde_json::value::RawValue;

/// Checks a body: the first byte says which messages are left out, and the others are the body.
pub fn body(data: &[u8]) {
    let Some((leaves, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    for dialect in Dialect::ALL {
        let Ok(request) = RawRequest::read(text, Some(dialect)) else { continue };
        assert_eq!(request.change().write(), text, "{dialect}: nothing was changed");
        let raw = |index: usize| RawValue::from_string(request.bytes(index)?.to_owned()).ok();
        let Some(all) = (0..request.len()).map(raw).collect::<Option<Vec<_>>>() else { continue };
        // What the model said at once may be several elements of the list, and one message.
        if all.iter().any(|message| message.get().starts_with('[')) {
            continue;
        }
        let kept: Vec<Box<RawValue>> =
            all.iter().enumerate().filter(|(at, _)| leaves >> (at % 8) & 1 == 0).map(|(_, raw)| raw.clone()).collect();
        let cut = request.change().messages(&kept).write();
        assert_messages(&cut, dialect, &kept);
        if let Some((before, behind)) = surroundings(text, &request) {
            assert!(
                cut.starts_with(before) && cut.ends_with(behind),
                "{dialect}: around the messages of {text}: {cut}"
            );
        }
        if !request.is_body() {
            continue;
        }
        let added =
            request.change().messages(&kept).tool("fuzz_tool", "", &json!({"type": "object"})).cache_marker().write();
        assert_messages(&added, dialect, &kept);
        let again = RawRequest::read(&added, Some(dialect)).expect("it was read before");
        if request.takes_tools() {
            let tools = again.preamble().tools.map(|tools| tools.get().to_owned()).unwrap_or_default();
            assert!(tools.contains("fuzz_tool"), "{dialect}: {added}");
        }
    }
}

fn assert_messages(body: &str, dialect: Dialect, messages: &[Box<RawValue>]) {
    let read = RawRequest::read(body, Some(dialect)).unwrap_or_else(|error| panic!("{dialect}: {error}: {body}"));
    let elements: Vec<&str> = (0..read.len()).filter_map(|index| read.bytes(index)).collect();
    let expected: Vec<&str> = messages.iter().map(|raw| raw.get()).collect();
    // Neighbors may be one message now.
    assert_eq!(plain(&elements.join(",")), plain(&expected.join(",")), "{dialect}: {body}");
}

/// What stands before the first message and behind the last one, if they stand in the text as they were read.
fn surroundings<'a>(text: &'a str, request: &RawRequest<'_>) -> Option<(&'a str, &'a str)> {
    let start = |part: &str| (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let (first, last) = (request.bytes(0)?, request.bytes(request.len().checked_sub(1)?)?);
    Some((text.get(..start(first)?)?.trim_end(), text.get(start(last)? + last.len()..)?.trim_start()))
}

/// Without the brackets and the space between the elements of what is one message now.
fn plain(list: &str) -> String {
    list.chars().filter(|char| !matches!(char, '[' | ']' | ' ' | '\n' | '\r' | '\t')).collect()
}
