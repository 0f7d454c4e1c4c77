//! Requests that ask the provider to store nothing: reduces their answers to the parts that a later request can send.

use serde_json::value::RawValue;

use super::reading::{Kind, pieces};
use crate::dialect::RawRequest;
use crate::message::Message;
use crate::wire::Dialect;
use lookback_content::json::{self, Fields};

/// Returns whether an item is reasoning without its encrypted content.
pub(super) fn is_unreadable(raw: &RawValue) -> bool {
    Kind::detect(raw) == Kind::Reasoning
        && Fields::read(raw).is_some_and(|fields| fields.text("encrypted_content").is_none())
}

/// Removes from an answer everything that the provider would have to look up, although it has stored nothing: reasoning
/// without its content, and the identifiers of the other items, which refer to it.
pub(super) fn resendable(request: &RawRequest<'_>, answer: Message) -> Message {
    if !request.target().stateless {
        return answer;
    }
    let items = answer.wire().map(|wire| pieces(&wire.raw)).unwrap_or_default();
    if !items.iter().any(|item| is_unreadable(item)) {
        return answer;
    }
    let left = items.into_iter().filter(|item| !is_unreadable(item)).filter_map(|item| {
        let mut fields = Fields::read(item)?;
        fields.remove("id");
        Some(fields.write())
    });
    let left: Vec<Box<RawValue>> = left.collect();
    let list = json::write_array(json::elements(&left));
    // An answer that has only reasoning stays unchanged.
    Dialect::OpenAiResponses.decode_raw(&list).unwrap_or(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resent(store: &str, answer: &str) -> String {
        let body = format!(r#"{{"store":{store},"input":[{{"role":"user","content":"Hi"}}]}}"#);
        let request = RawRequest::read(&body, Some(Dialect::OpenAiResponses)).unwrap();
        let answer = Dialect::OpenAiResponses.decode(answer).unwrap();
        request.resendable(answer).wire().unwrap().raw.get().to_owned()
    }

    const CALL: &str = r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}"#;

    #[test]
    fn reasoning_that_nobody_has_is_left_out_with_the_identifiers_that_belong_to_it() {
        let call = r#"{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}"#;
        for reasoning in
            [r#"{"type":"reasoning","id":"rs_1","summary":[]}"#, r#"{"type":"reasoning","encrypted_content":null}"#]
        {
            assert_eq!(resent("false", &format!("[{reasoning},{CALL}]")), format!("[{call}]"));
            for store in ["true", "null"] {
                let answer = format!("[{reasoning},{CALL}]");
                assert_eq!(resent(store, &answer), answer);
            }
            assert_eq!(resent("false", &format!("[{reasoning}]")), format!("[{reasoning}]"));
        }
    }

    #[test]
    fn reasoning_with_its_content_stays() {
        let answer = format!(r#"[{{"type":"reasoning","id":"rs_1","encrypted_content":"c2VjcmV0"}},{CALL}]"#);
        assert_eq!(resent("false", &answer), answer);
    }
}
