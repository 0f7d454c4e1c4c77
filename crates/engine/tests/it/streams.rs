//! Streamed responses give the same body as responses without streaming.

use lookback_wire::dialect::{Dialect, Response, ResponseStream};
use proptest::prelude::*;

/// Events of a stream, and the equivalent body without streaming.
struct Case {
    name: &'static str,
    dialect: Dialect,
    events: Vec<&'static str>,
    whole: &'static str,
}

fn cases() -> Vec<Case> {
    let chat = Dialect::OpenAiChat;
    let case = |name, dialect, events: &[&'static str], whole| Case { name, dialect, events: events.to_vec(), whole };
    vec![
        case(
            "words, reasoning and usage",
            chat,
            &[
                r#"{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":"h"}}],"usage":null}"#,
                r#"{"choices":[{"index":0,"delta":{"reasoning_content":"m"}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"content":"Par"}},{"index":1,"delta":{"content":"Rome"}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"content":"is."},"finish_reason":"stop"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
                "[DONE]",
            ],
            r#"{"model":"m","choices":[{"message":{"role":"assistant","content":"Paris.","reasoning_content":"hm"}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
        ),
        case(
            "parallel calls in pieces",
            chat,
            &[
                r#"{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
        ),
        case(
            "two calls with the index 0",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c2","type":"function","function":{"name":"read","arguments":"{\"n\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"2}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"n\":2}"}}]}}]}"#,
        ),
        case(
            "two whole calls in one piece, with the index 0 and no identifiers",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"n\":1}"}},{"index":0,"function":{"name":"now","arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
        ),
        case(
            "an empty identifier, type and name with each later piece",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","type":"","function":{"name":"","arguments":"{\"n\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","type":"","function":{"name":"","arguments":"1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}}]}}]}"#,
        ),
        case(
            "the identifier and the name again with each piece",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}}]}}]}"#,
        ),
        case(
            "pieces without an index",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"n\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":null,"id":"","function":{"arguments":"1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
        ),
        case(
            "whole calls without an index and without identifiers",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"read","arguments":"{\"n\":1}"}},{"function":{"name":"read","arguments":"{\"n\":2}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"","type":"function","function":{"name":"read","arguments":"{\"n\":2}"}}]}}]}"#,
        ),
        case(
            "calls whose indexes begin at 1, the later one first, and a name in pieces",
            chat,
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":2,"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c1","type":"function","function":{"name":"re"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"ad","arguments":"{\"n\":1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}"#,
        ),
        case(
            "thinking, words and a tool use",
            Dialect::Anthropic,
            &[
                r#"{"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","model":"claude","content":[],"usage":{"input_tokens":2,"cache_read_input_tokens":100,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
                r#"{"type":"ping"}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Look:"}}"#,
                r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}"#,
                r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 12345678"}}"#,
                r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"901234567890}"}}"#,
                r#"{"type":"content_block_stop","index":2}"#,
                r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t2","name":"now","input":{}}}"#,
                r#"{"type":"content_block_stop","index":3}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
                r#"{"type":"message_stop"}"#,
            ],
            r#"{"role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Look:"},{"type":"tool_use","id":"t1","name":"read","input":{"n": 12345678901234567890}},{"type":"tool_use","id":"t2","name":"now","input":{}}],"usage":{"input_tokens":2,"cache_read_input_tokens":100,"output_tokens":9}}"#,
        ),
        case(
            "reasoning, words and a tool use",
            Dialect::Bedrock,
            &[
                r#"{"messageStart":{"role":"assistant"}}"#,
                r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}}"#,
                r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}}"#,
                r#"{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"text":"Lo"}}}"#,
                r#"{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"text":"ok:"}}}"#,
                r#"{"contentBlockStart":{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"t1","name":"read"}}}}"#,
                r#"{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"n\":"}}}}"#,
                r#"{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"1}"}}}}"#,
                r#"{"contentBlockStop":{"contentBlockIndex":2}}"#,
                r#"{"messageStop":{"stopReason":"tool_use"}}"#,
                r#"{"metadata":{"usage":{"inputTokens":5,"outputTokens":2}}}"#,
            ],
            r#"{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},{"text":"Look:"},{"toolUse":{"toolUseId":"t1","name":"read","input":{"n":1}}}]}},"usage":{"inputTokens":5,"outputTokens":2}}"#,
        ),
        case(
            "items, each whole at its end",
            Dialect::OpenAiResponses,
            &[
                r#"{"type":"response.created","response":{"id":"resp","model":"gpt-6","output":[]}}"#,
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"incomplete"}}"#,
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}}"#,
                r#"{"type":"response.output_text.delta","output_index":1,"delta":"Paris."}"#,
                r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Paris.","annotations":[]}]}}"#,
                r#"{"type":"response.completed","response":{"id":"resp","model":"gpt-6","output":[],"usage":{"input_tokens":7,"output_tokens":2}}}"#,
            ],
            r#"{"model":"gpt-6","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Paris.","annotations":[]}]}],"usage":{"input_tokens":7,"output_tokens":2}}"#,
        ),
        case(
            "thoughts, words and calls",
            Dialect::Gemini,
            &[
                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"h","thought":true}]}}],"modelVersion":"gemini"}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"m","thought":true},{"text":"Lo"}]}}]}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ok:"}]}}]}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"n":1.0}},"thoughtSignature":"s"}]}}]}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"now","args":{}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"thoughtsTokenCount":3}}"#,
            ],
            r#"{"modelVersion":"gemini","candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Look:"},{"functionCall":{"name":"read","args":{"n":1.0}},"thoughtSignature":"s"},{"functionCall":{"name":"now","args":{}}}]}}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"thoughtsTokenCount":3}}"#,
        ),
    ]
}

/// Returns the stream as bytes, with everything that may be between events.
fn bytes(events: &[&str]) -> Vec<u8> {
    events.iter().flat_map(|data| format!(": comment\r\nevent: x\ndata: {data}\n\n").into_bytes()).collect()
}

fn wire(response: &Response) -> &str {
    response.message.wire().unwrap().raw.get()
}

#[test]
fn a_stream_is_what_would_have_come_at_once() {
    for case in cases() {
        let bytes = bytes(&case.events);
        let whole = Response::decode(case.whole, case.dialect).unwrap();
        for size in [1, 2, 3, 7, 64, bytes.len()] {
            let mut stream = ResponseStream::new(case.dialect);
            bytes.chunks(size).for_each(|bytes| stream.read(bytes));
            let response = stream.response().unwrap_or_else(|| panic!("{}: nothing came", case.name));
            assert!(stream.is_complete() && stream.has_content() && stream.error().is_none(), "{}", case.name);
            assert_eq!(wire(&response), wire(&whole), "{}", case.name);
            assert_eq!((&response.model, response.input, response.output), (&whole.model, whole.input, whole.output));
        }
    }
}

/// A stream that breaks off still gives a response, which is never called complete.
#[test]
fn a_stream_that_is_cut_off_is_kept_as_far_as_it_came() {
    for case in cases() {
        let mut last = 0;
        for end in 0..case.events.len() {
            let mut stream = ResponseStream::new(case.dialect);
            case.events.iter().take(end).for_each(|data| stream.event(data));
            let text = stream.response().map(|response| response.message.text().len()).unwrap_or_default();
            assert!(text >= last || stream.response().is_none(), "{} at {end}", case.name);
            last = text;
        }
        let mut stream = ResponseStream::new(case.dialect);
        stream.event(case.events[0]);
        assert!(!stream.is_complete(), "{}", case.name);
    }
}

#[test]
fn an_error_in_a_stream_is_told_before_and_after_the_first_words() {
    for (dialect, error) in [
        (Dialect::OpenAiChat, r#"{"error":{"message":"too long"}}"#),
        (Dialect::Anthropic, r#"{"type":"error","error":{"type":"overloaded_error"}}"#),
        (Dialect::Bedrock, r#"{"throttlingException":{"message":"slow"}}"#),
        (
            Dialect::OpenAiResponses,
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded"}}}"#,
        ),
        (Dialect::Gemini, r#"{"error":{"code":503}}"#),
    ] {
        let mut stream = ResponseStream::new(dialect);
        stream.event(error);
        assert_eq!((stream.error(), stream.has_content(), stream.is_complete()), (Some(error), false, false));
    }
}

#[test]
fn a_stream_keeps_contents_out_of_what_is_printed() {
    let mut stream = ResponseStream::new(Dialect::Anthropic);
    stream.event(r#"{"type":"error","error":{"message":"secret"}}"#);
    assert!(!format!("{stream:?}").contains("secret"), "{stream:?}");
}

/// Gemini's clients keep the pieces of a stream as separate parts, which must give the same message.
#[test]
fn a_text_in_pieces_is_the_same_text() {
    let gemini = |json: &str| Dialect::Gemini.decode(json).unwrap().digest();
    let one = gemini(r#"{"role":"model","parts":[{"text":"Paris."},{"functionCall":{"name":"now"}}]}"#);
    let pieces = gemini(
        r#"{"role":"model","parts":[{"text":"Par"},{"text":"","thoughtSignature":"s"},{"text":"is."},{"functionCall":{"name":"now"}}]}"#,
    );
    assert_eq!(one, pieces);
    let other = gemini(r#"{"role":"model","parts":[{"functionCall":{"name":"now"}},{"text":"Paris."}]}"#);
    assert_ne!(one, other);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, cut in any::<prop::sample::Index>(), index in 0usize..6) {
        for dialect in Dialect::ALL {
            let mut stream = ResponseStream::new(dialect);
            stream.read(&bytes);
            stream.response();
        }
        // Events of one dialect, read as another dialect, in an odd order.
        let cases = cases();
        let case = &cases[index];
        for dialect in Dialect::ALL {
            let mut stream = ResponseStream::new(dialect);
            for data in case.events.iter().rev() {
                let end = cut.index(data.len() + 1);
                stream.event(data.get(..end).unwrap_or(data));
                stream.event(data);
            }
            stream.response();
        }
    }
}
