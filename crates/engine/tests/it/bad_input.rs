//! Broken, hostile and odd input: it gives a clear error or passes through as documented, and never panics.

#![allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

use std::time::{Duration, Instant};

use lookback_engine::{Engine, Settings, policy::Policy};
use lookback_wire::dialect::{Finding, Severity};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Message,
};

/// Deeper than a recursive parser could go on a thread's stack of two megabytes.
const DEEP: usize = 10_000;

fn nested(open: &str, inside: &str, close: &str) -> String {
    open.repeat(DEEP) + inside + &close.repeat(DEEP)
}

fn deep_list() -> String {
    nested("[", "", "]")
}

fn deep_object() -> String {
    nested(r#"{"a":"#, "1", "}")
}

/// Returns the error that a request gives.
fn error(bytes: impl Into<Vec<u8>>, dialect: Option<Dialect>) -> String {
    Request::decode(bytes, dialect).unwrap_err().to_string()
}

/// Runs a request through the engine, as far as its messages can be read, and returns the messages to send.
fn live(request: &Request) -> Vec<String> {
    let dialect = request.dialect();
    dialect.check(request);
    let mut engine = Engine::new(Settings::default().dialect(dialect).policy(Policy::unlimited()));
    engine.set_preamble(request.preamble());
    for message in request.messages() {
        message.text();
        message.digest();
        Dialect::ALL.into_iter().for_each(|to| drop(to.convert(message)));
        let entries = engine.push(message.clone()).unwrap();
        for entry in entries {
            let json = serde_json::to_string(&entry).unwrap();
            serde_json::from_str::<lookback_engine::transcript::Entry>(&json).unwrap();
        }
    }
    engine.window();
    engine.explain();
    dialect.encode(engine.view().shown()).unwrap().iter().map(|raw| raw.get().to_owned()).collect()
}

/// Every message is unchanged, and nothing needs mending.
fn passes(list: &str, dialect: Dialect) {
    let request = Request::decode(list, Some(dialect)).unwrap();
    let refused = |finding: &Finding| finding.severity == Severity::Refused;
    assert!(!dialect.check(&request).iter().any(refused));
    let came: Vec<_> = request.messages().iter().map(|message| message.wire().unwrap().raw.get()).collect();
    assert_eq!(live(&request), came);
}

#[test]
fn deep_arguments_pass_through() {
    for deep in [deep_list(), deep_object()] {
        let arguments = serde_json::to_string(&format!(r#"{{"deep":{deep}}}"#)).unwrap();
        let call = format!(r#"[{{"id":"c1","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]"#);
        let call = format!(r#"{{"role":"assistant","content":null,"tool_calls":{call}}}"#);
        passes(
            &format!(
                r#"[{{"role":"user","content":"Hi"}},{call},{{"role":"tool","tool_call_id":"c1","content":"x"}}]"#
            ),
            Dialect::OpenAiChat,
        );
    }
}

#[test]
fn a_deep_input_passes_through() {
    for deep in [deep_list(), deep_object()] {
        let input = format!(r#"{{"deep":{deep}}}"#);
        let call = format!(r#"{{"type":"tool_use","id":"c1","name":"f","input":{input}}}"#);
        passes(
            &format!(
                r#"[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":[{call}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c1","content":"x"}}]}}]"#
            ),
            Dialect::Anthropic,
        );
        let call = format!(r#"{{"toolUse":{{"toolUseId":"c1","name":"f","input":{input}}}}}"#);
        passes(
            &format!(
                r#"[{{"role":"user","content":[{{"text":"Hi"}}]}},{{"role":"assistant","content":[{call}]}},{{"role":"user","content":[{{"toolResult":{{"toolUseId":"c1","content":[{{"json":{deep}}}]}}}}]}}]"#
            ),
            Dialect::Bedrock,
        );
    }
}

#[test]
fn a_deep_part_that_nobody_knows_passes_through() {
    for deep in [deep_list(), deep_object()] {
        for dialect in Dialect::ALL {
            let text = match dialect {
                Dialect::Bedrock | Dialect::Gemini => r#"{"text":"Hi"}"#,
                Dialect::OpenAiResponses => r#"{"type":"input_text","text":"Hi"}"#,
                _ => r#"{"type":"text","text":"Hi"}"#,
            };
            let content = if dialect == Dialect::Gemini { "parts" } else { "content" };
            let part = format!(r#"{{"type":"x","x":{deep}}}"#);
            passes(&format!(r#"[{{"role":"user","{content}":[{part},{text}],"y":{deep}}}]"#), dialect);
        }
    }
}

#[test]
fn what_is_deep_where_a_shape_is_expected_is_unknown() {
    let deep = deep_list();
    let results =
        format!(r#"[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c1","content":{deep}}}]}}]"#);
    passes(&results, Dialect::Anthropic);
    let nested = nested(r#"{"type":"tool_result","tool_use_id":"c1","content":["#, "", "]}");
    let request = Request::decode(format!(r#"[{{"role":"user","content":[{nested}]}}]"#), Some(Dialect::Anthropic));
    live(&request.unwrap());
    assert_eq!(
        error(format!(r#"[{{"role":"user","content":[{deep}]}}]"#), None),
        "messages[0]: `content[0]` must be an object"
    );
}

#[test]
fn a_deep_body_is_read() {
    for deep in [deep_list(), deep_object()] {
        let body = format!(r#"{{"metadata":{deep},"messages":[{{"role":"user","content":"Hi"}}],"tools":{deep}}}"#);
        let request = Request::decode(body.as_str(), None).unwrap();
        assert_eq!(live(&request), [r#"{"role":"user","content":"Hi"}"#]);
        let same: Vec<_> = request.messages().iter().map(|message| &message.wire().unwrap().raw).collect();
        assert_eq!(request.with_messages(&same), body);
        assert_eq!(
            error(deep, None),
            if body.contains("[[") { "messages[0]: a message must be an object" } else { NO_MESSAGES }
        );
    }
}

const NO_MESSAGES: &str = "neither a list of messages nor a request body with `messages`, `input` or `contents`";

#[test]
fn bytes_that_are_not_utf8() {
    assert_eq!(error(b"[{\"role\":\"user\",\"content\":\"\xff\"}]".as_slice(), None), "not valid UTF-8 at byte 27");
    assert_eq!(error(b"\xff\xfe[\0]\0".as_slice(), None), "not valid UTF-8 at byte 0");
    // Half of a surrogate pair as raw bytes, which some encoders write.
    assert_eq!(error(b"[\"\xed\xa0\xbd\"]".as_slice(), None), "not valid UTF-8 at byte 2");
}

#[test]
fn text_that_is_not_json() {
    assert_eq!(error("", None), "not valid JSON: EOF while parsing a value at line 1, column 0");
    assert_eq!(error("Hi", None), "not valid JSON: expected value at line 1, column 1");
    assert_eq!(error("\u{feff}[]", None), "not valid JSON: expected value at line 1, column 1");
    assert_eq!(error("[] []", None), "not valid JSON: trailing characters at line 1, column 4");
    assert_eq!(error("[\n{\"role\":\"user\",}]", None), "not valid JSON: key must be a string at line 2, column 16");
    assert_eq!(error("[{'role':'user'}]", None), "not valid JSON: key must be a string at line 1, column 3");
    assert_eq!(error("[NaN]", None), "not valid JSON: expected value at line 1, column 2");
    assert_eq!(
        error("[\"a\nb\"]", None),
        "not valid JSON: control character (\\u0000-\\u001F) found while parsing a string at line 1, column 3"
    );
    assert_eq!(
        error("[\"a\0b\"]", None),
        "not valid JSON: control character (\\u0000-\\u001F) found while parsing a string at line 1, column 3"
    );
    assert_eq!(error(r#"["\x"]"#, None), "not valid JSON: invalid escape at line 1, column 4");
}

#[test]
fn json_that_was_cut_off_anywhere() {
    let whole = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"é\n"}]}],"n":1.5}"#;
    for at in 0..whole.len() {
        let Some(cut) = whole.get(..at) else { continue };
        let error = error(cut, None);
        let number = "not valid JSON: invalid number at line 1, column 90";
        assert!(error.starts_with("not valid JSON: EOF while parsing ") || error == number, "{cut}: {error}");
    }
    assert!(Request::decode(whole, None).is_ok());
}

#[test]
fn what_is_no_request() {
    for text in ["{}", "7", "null", "\"messages\"", "true", r#"{"Messages":[]}"#] {
        assert_eq!(error(text, None), NO_MESSAGES, "{text}");
    }
    for list in ["{}", "null", "7", "\"Hi\""] {
        assert_eq!(error(format!(r#"{{"messages":{list}}}"#), None), NO_MESSAGES, "{list}");
    }
}

#[test]
fn an_empty_list_is_a_request_that_breaks_a_rule() {
    for (dialect, rule, path) in [
        (Dialect::OpenAiChat, "OC0", "messages"),
        (Dialect::Anthropic, "AM1", "messages"),
        (Dialect::Bedrock, "BC1", "messages"),
        (Dialect::OpenAiResponses, "OR0", "input"),
        (Dialect::Gemini, "GM0", "contents"),
    ] {
        for text in ["[]", " [ ] ", r#"{"messages":[]}"#] {
            let request = Request::decode(text, Some(dialect)).unwrap();
            let findings = dialect.check(&request);
            assert_eq!(findings.len(), 1);
            assert_eq!((findings[0].rule, findings[0].path.as_str(), findings[0].message), (rule, path, 0));
        }
    }
}

#[test]
fn messages_that_are_no_objects() {
    for message in ["7", "null", "\"Hi\"", "[]", "true"] {
        for dialect in Dialect::ALL {
            let list = format!(r#"[{{"role":"user","content":[]}},{message}]"#);
            let member = match dialect {
                Dialect::OpenAiResponses => "input",
                Dialect::Gemini => "contents",
                _ => "messages",
            };
            assert_eq!(error(list, Some(dialect)), format!("{member}[1]: a message must be an object"));
        }
    }
}

#[test]
fn roles_that_nobody_has() {
    let request = |role: &str| format!(r#"[{{"role":{role},"content":[]}}]"#);
    let error = |role: &str, dialect| error(request(role), Some(dialect));
    assert_eq!(
        error(r#""nobody""#, Dialect::OpenAiChat),
        "messages[0]: unknown role `nobody`; openai-chat has system, developer, user, assistant and tool"
    );
    assert_eq!(
        error(r#""tool""#, Dialect::Anthropic),
        "messages[0]: unknown role `tool`; anthropic has user, assistant and system"
    );
    assert_eq!(
        error(r#""system""#, Dialect::Bedrock),
        "messages[0]: unknown role `system`; bedrock has user and assistant"
    );
    assert_eq!(error(r#""""#, Dialect::Bedrock), "messages[0]: unknown role ``; bedrock has user and assistant");
    // A long role must not fill the log.
    assert_eq!(
        error(&format!("\"{}\"", "é".repeat(1_000_000)), Dialect::Bedrock),
        format!("messages[0]: unknown role `{}`; bedrock has user and assistant", "é".repeat(40))
    );
    for role in ["7", "null", "[]"] {
        assert_eq!(error(role, Dialect::OpenAiChat), "messages[0]: `role` must be a string");
    }
}

#[test]
fn content_of_another_type() {
    for content in ["7", "true", "{}"] {
        let list = format!(r#"[{{"role":"user","content":{content}}}]"#);
        let error = |dialect| error(list.as_str(), Some(dialect));
        assert_eq!(error(Dialect::OpenAiChat), "messages[0]: `content` must be a string, a list of parts or null");
        assert_eq!(error(Dialect::Anthropic), "messages[0]: `content` must be a string or a list of blocks");
        assert_eq!(error(Dialect::Bedrock), "messages[0]: `content` must be a list of blocks");
    }
}

#[test]
fn numbers_as_identifiers() {
    let call = r#"[{"role":"assistant","content":null,"tool_calls":[{"id":7,"type":"function","function":{"name":"f","arguments":"{}"}}]}]"#;
    assert_eq!(error(call, None), "messages[0]: `tool_calls[0].id` must be a string");
    let result = r#"[{"role":"tool","tool_call_id":7,"content":"x"}]"#;
    assert_eq!(error(result, None), "messages[0]: `tool_call_id` must be a string");
    // A block of a known type with another shape is unknown, and passes through.
    passes(
        r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":7,"name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":7,"content":"x"}]}]"#,
        Dialect::Anthropic,
    );
}

#[test]
fn a_block_that_nobody_knows_passes_through() {
    passes(r#"[{"role":"user","content":[{"type":"hologram","z":[1,2]},{}]}]"#, Dialect::OpenAiChat);
    passes(r#"[{"role":"user","content":[{"type":"hologram","z":[1,2]},{}]}]"#, Dialect::Anthropic);
    passes(r#"[{"role":"user","content":[{"hologram":{"z":[1,2]}},{}]}]"#, Dialect::Bedrock);
}

#[test]
fn of_two_equal_keys_the_last_counts_and_both_pass_through() {
    let list = r#"[{"role":"assistant","role":"user","content":7,"content":"Hi"}]"#;
    passes(list, Dialect::OpenAiChat);
    assert_eq!(Request::decode(list, None).unwrap().messages()[0].text(), "Hi");
    let body = r#"{"messages":7,"messages":[{"role":"user","content":"Hi"}]}"#;
    let request = Request::decode(body, None).unwrap();
    let none: [Box<serde_json::value::RawValue>; 0] = [];
    assert_eq!(request.with_messages(&none), r#"{"messages":7,"messages":[]}"#);
}

#[test]
fn surrogate_pairs_and_nul_pass_through_and_halves_of_pairs_are_replaced() {
    for half in [r"\ud83d", r"\uDBFF", r"\ude00"] {
        let list = format!(r#"[{{"role":"user","content":"x{half}x"}}]"#);
        let sent = live(&Request::decode(list, Some(Dialect::OpenAiChat)).unwrap());
        assert_eq!(sent, [r#"{"role":"user","content":"x\ufffdx"}"#]);
    }
    for text in [r"a\u0000b", r"\ud83d\ude00", r"\uffff\ufeff", r"\\ud83d"] {
        passes(&format!(r#"[{{"role":"user","content":"x{text}x","{text}":1}}]"#), Dialect::OpenAiChat);
        passes(&format!(r#"[{{"role":"user","content":[{{"type":"text","text":"x{text}x"}}]}}]"#), Dialect::Anthropic);
        passes(&format!(r#"[{{"role":"user","content":[{{"text":"x{text}x"}}]}}]"#), Dialect::Bedrock);
    }
    let message = Dialect::OpenAiChat.decode(r#"{"role":"user","content":"a\ud83d\u0000"}"#).unwrap();
    assert_eq!(message.text(), "a\u{fffd}\0");
}

#[test]
fn many_neighbors_of_one_role_are_merged_in_linear_time() {
    let message = format!(r#"{{"role":"user","content":[{{"text":"{}"}}]}}"#, "x".repeat(1000));
    let list = format!("[{message}{}]", format!(",{message}").repeat(9_999));
    let request = Request::decode(list, Some(Dialect::Bedrock)).unwrap();
    let start = Instant::now();
    assert_eq!(live(&request).len(), 1);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// `cargo test --release -p lookback-engine --test it bad_input -- --ignored`
#[test]
#[ignore = "takes over five seconds without optimization"]
fn a_message_of_200_mb_passes_through() {
    let text = "lorem ipsum ".repeat((200 << 20) / 12);
    passes(&format!(r#"[{{"role":"user","content":"{text}"}}]"#), Dialect::OpenAiChat);
    let built = Message::user(text);
    let mut engine = Engine::new(Settings::default());
    engine.push(built).unwrap();
    assert!(engine.view().totals().size.bytes > 200_000_000);
}

#[test]
fn no_error_says_a_control_character_as_it_came() {
    let odd = r"x\u001b[35m\ny";
    let role = error(format!(r#"[{{"role":"{odd}","content":"a"}}]"#), Some(Dialect::OpenAiChat));
    let message = format!(r#"[{{"role":"user","content":"a","{odd}":1}}]"#);
    let request = Request::decode(message, Some(Dialect::OpenAiChat)).unwrap();
    let loss = Dialect::Anthropic.convert(&request.messages()[0]).unwrap_err().to_string();
    for said in [role, loss] {
        assert!(said.contains(r"x\u{1b}[35m\ny") && !said.contains(char::is_control), "{said:?}");
    }
}
