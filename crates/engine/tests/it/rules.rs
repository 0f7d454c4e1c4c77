//! Runs the vectors of `corpus/rules`: the findings of a check, and the repairs of a window.

#![allow(clippy::print_stdout)]

use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::Severity;
use lookback_wire::dialect::{Dialect, Request};
use serde::Deserialize;
use serde_json::value::RawValue;

const FILES: [(Dialect, &str); 5] = [
    (Dialect::OpenAiChat, include_str!("../../../../corpus/rules/openai-chat.json")),
    (Dialect::Anthropic, include_str!("../../../../corpus/rules/anthropic.json")),
    (Dialect::Bedrock, include_str!("../../../../corpus/rules/bedrock.json")),
    (Dialect::OpenAiResponses, include_str!("../../../../corpus/rules/openai-responses.json")),
    (Dialect::Gemini, include_str!("../../../../corpus/rules/gemini.json")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector<'a> {
    name: String,
    /// The path of the request's URL.
    #[serde(default)]
    path: Option<String>,
    /// The previous request.
    #[serde(borrow, default)]
    previous: Option<&'a RawValue>,
    #[serde(borrow)]
    request: &'a RawValue,
    findings: Vec<Finding>,
    repaired: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Finding {
    rule: String,
    path: String,
    kind: String,
    /// Whether the finding is only a warning.
    #[serde(default)]
    warns: bool,
}

impl Vector<'_> {
    fn request(&self, dialect: Dialect) -> Request {
        self.sent(dialect, self.request.get().to_owned())
    }

    fn sent(&self, dialect: Dialect, body: String) -> Request {
        let request = Request::decode(body, Some(dialect)).unwrap();
        self.path.iter().fold(request, |request, path| request.with_path(path))
    }
}

fn vectors(text: &str) -> Vec<Vector<'_>> {
    serde_json::from_str(text).unwrap()
}

/// Returns the findings of a check, as the vectors spell them.
fn check(request: &Request) -> Vec<Finding> {
    let findings = request.dialect().check(request).into_iter();
    findings
        .map(|finding| Finding {
            rule: finding.rule.to_owned(),
            path: finding.path,
            kind: serde_json::to_value(&finding.problem).unwrap()["kind"].as_str().unwrap().to_owned(),
            warns: finding.severity == Severity::Degraded,
        })
        .collect()
}

/// Returns the messages that a new conversation sends after it received the whole request.
fn window(request: &Request) -> Vec<Box<RawValue>> {
    let dialect = request.dialect();
    let mut engine = Engine::new(Settings::default().dialect(dialect));
    engine.set_target(request.target());
    engine.set_preamble(request.preamble());
    for message in request.messages() {
        engine.push(message.clone()).unwrap();
    }
    assert!(engine.window().exceeded.is_none());
    let first = encode(&engine);
    assert!(engine.window().entries.is_empty(), "a window that was repaired once needs no more repairs");
    assert_eq!(texts(&first), texts(&encode(&engine)));
    first
}

fn encode(engine: &Engine) -> Vec<Box<RawValue>> {
    let encoded = engine.view().encode(engine.target().clone()).unwrap();
    encoded.into_iter().map(|raw| raw.into_owned()).collect()
}

fn texts(messages: &[impl AsRef<RawValue>]) -> Vec<&str> {
    messages.iter().map(|raw| raw.as_ref().get()).collect()
}

fn each(test: impl Fn(Dialect, &Vector<'_>)) {
    for (dialect, text) in FILES {
        for vector in vectors(text) {
            println!("{dialect}: {}", vector.name);
            test(dialect, &vector);
        }
    }
}

#[test]
fn a_check_finds_what_the_vectors_say() {
    each(|dialect, vector| {
        let decode = |raw: &RawValue| Request::decode(raw.get(), Some(dialect)).unwrap();
        let request = vector.request(dialect);
        let request = vector.previous.map_or(request.clone(), |previous| request.after(&decode(previous)));
        assert_eq!(check(&request), vector.findings);
    });
}

#[test]
fn a_window_is_what_the_vectors_say() {
    each(|dialect, vector| {
        let request = vector.request(dialect);
        if request.stored().is_some() || vector.previous.is_some() {
            // Only the provider knows the earlier messages of these requests.
            return;
        }
        let window = window(&request);
        let sent = vector.sent(dialect, request.with_messages(&window));
        match &vector.repaired {
            Some(repaired) => {
                assert_eq!(texts(&window), texts(repaired));
                assert!(check(&sent).iter().all(|finding| finding.warns), "{:?}", check(&sent));
            }
            None if vector.findings.iter().all(|finding| finding.warns) => {
                // An assistant message may be several items.
                let came = request.messages().iter().map(|message| message.wire().unwrap().raw.get());
                let came = came.map(|raw| raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']')).unwrap_or(raw));
                assert_eq!(texts(&window).join(","), came.collect::<Vec<_>>().join(","));
            }
            None => assert_ne!(check(&sent), [], "it is mended by now: the vector should say how"),
        }
    });
}

#[test]
fn a_repair_is_idempotent() {
    each(|dialect, vector| {
        let Some(repaired) = &vector.repaired else { return };
        let request = vector.sent(dialect, vector.request(dialect).with_messages(repaired));
        assert_eq!(texts(&window(&request)), texts(repaired));
    });
}

#[test]
fn every_rule_has_a_vector_that_breaks_it() {
    // These two need requests that are too large for a table: see below.
    let generated = ["AM10"];
    for (dialect, text) in FILES {
        let vectors = vectors(text);
        for rule in dialect.rules().iter().filter(|rule| !generated.contains(&rule.id)) {
            let breaks = |vector: &Vector<'_>| vector.findings.iter().any(|finding| finding.rule == rule.id);
            assert!(vectors.iter().any(breaks), "{}", rule.id);
        }
        assert!(vectors.iter().any(|vector| vector.findings.is_empty()));
    }
}

#[test]
fn names_are_unique() {
    for (dialect, text) in FILES {
        let vectors = vectors(text);
        let names: std::collections::HashSet<_> = vectors.iter().map(|vector| &vector.name).collect();
        assert_eq!(names.len(), vectors.len(), "{dialect}");
    }
}

fn finding(rule: &str, path: &str, kind: &str) -> Vec<Finding> {
    vec![Finding { rule: rule.to_owned(), path: path.to_owned(), kind: kind.to_owned(), warns: false }]
}

#[test]
fn a_hundred_pictures_are_allowed_or_six_hundred_and_one_more_is_not() {
    let picture = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}"#;
    let result = format!(r#"{{"type":"tool_result","tool_use_id":"c1","content":[{picture}]}}"#);
    let request = |count: usize| {
        let more = format!(",{picture}").repeat(count - 1);
        let messages = format!(
            r#"[{{"role":"user","content":"Look"}},
                {{"role":"assistant","content":[{{"type":"tool_use","id":"c1","name":"look","input":{{}}}}]}},
                {{"role":"user","content":[{result}{more}]}}]"#
        );
        Request::decode(messages, Some(Dialect::Anthropic)).unwrap()
    };
    let too_many = finding("AM10", "messages", "too_much_media");
    assert_eq!(check(&request(100).with_model("claude-haiku-4-5")), []);
    assert_eq!(check(&request(101).with_model("claude-haiku-4-5")), too_many);
    // A model with a larger window accepts 600.
    assert_eq!(check(&request(600).with_model("claude-opus-5")), []);
    assert_eq!(check(&request(601).with_model("claude-opus-5")), too_many);
}

#[test]
fn a_body_of_32_mb_is_allowed_and_one_of_33_is_not() {
    let request = |bytes: usize| {
        let empty = r#"{"max_tokens":1,"messages":[{"role":"user","content":""}]}"#;
        let body = empty.replace(r#""content":"""#, &format!(r#""content":"{}""#, "x".repeat(bytes - empty.len())));
        Request::decode(body, Some(Dialect::Anthropic)).unwrap()
    };
    assert_eq!(check(&request(32 << 20)), []);
    assert_eq!(check(&request((32 << 20) + 1)), finding("AM10", "", "too_many_bytes"));
    assert_eq!(check(&request(33 << 20)), finding("AM10", "", "too_many_bytes"));
}

#[test]
fn a_hundred_thousand_messages_are_allowed_and_one_more_is_not() {
    let request = |count: usize| {
        let message = r#"{"role":"user","content":"Hi"}"#;
        let list = format!("[{message}{}]", format!(",{message}").repeat(count - 1));
        Request::decode(list, Some(Dialect::Anthropic)).unwrap()
    };
    assert_eq!(check(&request(100_000)), []);
    assert_eq!(check(&request(100_001)), finding("AM1", "messages", "too_many_messages"));
}
