//! Complete response bodies: reads the message to send again, and the reported tokens.

use lookback_wire::dialect::{Dialect, Response, ResponseStream};
use serde_json::json;

#[test]
fn a_chat_completion_gives_its_first_choice_as_it_came() {
    let message = r#"{"role":"assistant", "content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\": 1.0}"}}]}"#;
    let body = format!(
        r#"{{"id":"x","model":"gpt-4o","choices":[{{"index":0,"message":{message},"finish_reason":"tool_calls"}}],
            "usage":{{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{{"cached_tokens":5}}}}}}"#
    );
    let response = Response::decode(&body, Dialect::OpenAiChat).unwrap();
    assert_eq!(response.message.wire().unwrap().raw.get(), message);
    assert_eq!((response.model.as_deref(), response.input, response.output), (Some("gpt-4o"), Some(7), Some(3)));
    assert_eq!(response.text(), "");
}

#[test]
fn an_anthropic_message_loses_what_no_request_may_hold_and_counts_what_was_cached() {
    let content = r#"[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Look:"},
        {"type":"tool_use","id":"t1","name":"read","input":{"n":123456789012345678901234567890}}]"#;
    let body = format!(
        r#"{{"id":"msg","type":"message","role":"assistant","model":"claude","content":{content},"stop_reason":"tool_use",
            "usage":{{"input_tokens":2,"cache_read_input_tokens":100,"cache_creation_input_tokens":10,"output_tokens":4}}}}"#
    );
    let response = Response::decode(&body, Dialect::Anthropic).unwrap();
    let expected = format!(r#"{{"role":"assistant","content":{content}}}"#);
    assert_eq!(response.message.wire().unwrap().raw.get(), expected);
    assert_eq!((response.input, response.output, response.text().as_str()), (Some(112), Some(4), "Look:"));
    assert_eq!(response.message.tool_calls().count(), 1);
}

#[test]
fn a_converse_output_gives_its_message() {
    let body = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "one"}, {"text": "two"}]}},
        "usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 1, "totalTokens": 8},
    });
    let response = Response::decode(&body.to_string(), Dialect::Bedrock).unwrap();
    assert_eq!((response.input, response.output, response.text().as_str()), (Some(6), Some(2), "one\ntwo"));
}

#[test]
fn what_was_not_reported_is_not_made_up() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Hi"}}],"usage":null}"#;
    let response = Response::decode(body, Dialect::OpenAiChat).unwrap();
    assert_eq!((response.model, response.input, response.output), (None, None, None));
}

#[test]
fn what_holds_no_message_of_a_model_is_an_error_that_says_where() {
    let says = |body: &str, dialect| Response::decode(body, dialect).unwrap_err().to_string();
    let error = r#"{"error":{"message":"secret"}}"#;
    assert_eq!(says(error, Dialect::OpenAiChat), "`choices[0].message` must be a message");
    assert_eq!(says(r#"{"choices":[]}"#, Dialect::OpenAiChat), "`choices[0].message` must be a message");
    assert_eq!(says(error, Dialect::Anthropic), "`role` must be a string");
    assert_eq!(says(error, Dialect::Bedrock), "`output.message` must be a message");
    assert!(says("<html>secret</html>", Dialect::Anthropic).starts_with("not valid JSON"));
    assert_eq!(Response::decode("[]", Dialect::Anthropic).unwrap_err().to_string(), "a message must be an object");
    let user = r#"{"role":"user","content":"Hi"}"#;
    assert_eq!(says(user, Dialect::Anthropic), "`role` must be `assistant`");
}

#[test]
fn a_response_says_that_its_window_was_full_and_what_reasoning_was_lost() {
    let lost = r#"[{"type":"thinking_dropped","path":"messages.1.content.0","reason":"prefix"},{"type":"other"}]"#;
    let whole = format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"And"}}],"stop_reason":"model_context_window_exceeded","input_transformations":{lost}}}"#
    );
    let response = Response::decode(&whole, Dialect::Anthropic).unwrap();
    assert_eq!((response.fills_window, response.lost_reasoning), (true, 1));
    let mut stream = ResponseStream::new(Dialect::Anthropic);
    for event in [
        format!(
            r#"{{"type":"message_start","message":{{"role":"assistant","content":[],"input_transformations":{lost}}}}}"#
        ),
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"And"}}"#.to_owned(),
        r#"{"type":"content_block_stop","index":0}"#.to_owned(),
        r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}"#.to_owned(),
        r#"{"type":"message_stop"}"#.to_owned(),
    ] {
        stream.event(&event);
    }
    let response = stream.response().unwrap();
    assert_eq!((response.fills_window, response.lost_reasoning), (true, 1));
    let plain = r#"{"role":"assistant","content":[],"stop_reason":"end_turn"}"#;
    assert!(!Response::decode(plain, Dialect::Anthropic).unwrap().fills_window);
    let lost = r#"{"output":[{"type":"message","role":"assistant","content":[]}],"input_transformations":[{"id":"rs_1","type":"reasoning","action":"removed","reason":"prefix_mismatch"}]}"#;
    assert_eq!(Response::decode(lost, Dialect::OpenAiResponses).unwrap().lost_reasoning, 1);
}
