//! Tests of calls: which pass unchanged, which are cut, and what happens if the upstream refuses.

use lookback_engine::policy::Tokens;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_session::Session;
use lookback_wire::dialect::Dialect;
use serde_json::json;

use super::{Answer, Client, DIALECTS, Lab, serve};
use lookback_server::gateway::{Config, Gateway};
use stand_in::{Fault, too_long};

/// Returns a policy that cuts at this number of tokens.
pub(super) fn at(tokens: u64) -> Policy {
    Policy { limits: Limits::tokens(tokens), target: Some(Limits::tokens(tokens / 2)), ..Policy::production() }
}

pub(super) fn unlimited() -> Policy {
    Policy::never_compact()
}

#[test]
fn a_request_within_its_limits_passes_as_the_bytes_that_came() {
    let lab = Lab::new(None);
    let body = r#"{ "model" : "m",  "x_unknown": [ ], "stream":false,"temperature": 0.70,
        "messages": [ {"role":"user","content":"Hi", "x":1.0e0} ] }"#;
    let answer = lab.send(
        "POST",
        "/v1/chat/completions?a=b",
        &[("authorization", "Bearer k"), ("x-mine", "1"), ("x-lookback-session", "s")],
        body,
    );
    assert_eq!(answer.status, 200, "{}", answer.body);
    let seen = lab.stand_in.last().unwrap();
    assert_eq!((seen.path.as_str(), seen.body.as_ref()), ("/v1/chat/completions?a=b", body.as_bytes()));
    assert_eq!(seen.headers["authorization"], "Bearer k");
    assert_eq!(seen.headers["x-mine"], "1");
    assert!(!seen.headers.contains_key("x-lookback-session"), "Lookback's own headers go nowhere");
    assert!(!seen.headers.contains_key("user-agent") || seen.headers["user-agent"] != "hyper");
    assert_eq!(answer.header("x-request-id"), Some("req_1"));
    assert!(answer.session().starts_with("s@"), "{}", answer.session());
}

#[test]
fn other_paths_pass_with_their_method_and_body() {
    let lab = Lab::new(None);
    for (method, path) in
        [("GET", "/v1/models"), ("POST", "/v1/embeddings?x=1"), ("DELETE", "/v1/files/f"), ("GET", "/v1beta/models")]
    {
        let body = if method == "POST" { "anything" } else { "" };
        let answer = lab.send(method, path, &[], body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        let seen = lab.stand_in.last().unwrap();
        assert_eq!((seen.method.as_str(), seen.path.as_str()), (method, path));
        assert_eq!(seen.body, body);
    }
    let count = lab.stand_in.count();
    assert_eq!(lab.send("HEAD", "/", &[], "").status, 200);
    assert_eq!(lab.send("GET", "/readyz", &[], "").status, 200);
    assert_eq!(lab.stand_in.count(), count, "these are the gateway's own");
    let upgrade =
        [("connection", "Upgrade"), ("upgrade", "websocket"), ("openai-beta", "responses_websockets=2026-02-06")];
    assert_eq!(lab.send("GET", "/v1/responses", &upgrade, "").status, 426);
    // A client may offer HTTP/2, and the gateway may ignore the offer.
    let offer = [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAMAAABk")];
    assert_eq!(lab.send("GET", "/v1/models", &offer, "").status, 200);
    assert!(!lab.stand_in.last().unwrap().headers.contains_key("upgrade"));
}

#[test]
fn what_only_passes_may_be_longer_than_a_model_call() {
    let lab = Lab::configured("[[upstream]]\nurl = \"UPSTREAM\"\n[limits]\nbody = 1000\n");
    let file = "x".repeat(1_000_000);
    assert_eq!(lab.send("POST", "/v1/files", &[], &file).status, 200);
    assert_eq!(lab.stand_in.last().unwrap().body.len(), file.len());
}

#[test]
fn a_redirect_goes_to_the_client_and_the_key_goes_nowhere() {
    let lab = Lab::new(Some(unlimited()));
    let mut client = Client::new(Dialect::OpenAiChat);
    lab.stand_in.fail_next(Fault::Status(307, "elsewhere".to_owned()));
    assert_eq!(client.say(&lab, "Hi").status, 307);
    assert_eq!(lab.stand_in.count(), 1);
}

#[test]
fn a_conversation_is_recorded_in_every_dialect_streamed_or_not() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let lab = Lab::new(Some(unlimited()));
            let mut client = Client { stream, ..Client::new(dialect) };
            let first = client.say(&lab, "Hi");
            assert_eq!(first.status, 200, "{dialect}: {}", first.body);
            assert_eq!(first.header("x-lookback-line"), Some("new"), "{dialect}");
            let second = client.say(&lab, "And now?");
            assert_eq!(second.header("x-lookback-line"), Some("continued"), "{dialect} {stream}");
            assert_eq!(second.session(), first.session());
            assert!(second.header("x-lookback-cut").is_none());
            let texts = lab.texts(second.session());
            assert_eq!(texts.len(), 4, "{dialect} {stream}: {texts:?}");
            assert!(texts[0] == "Hi" && texts[2] == "And now?" && texts[3] == "This is answer 2.", "{texts:?}");
            assert_eq!(lab.stand_in.report().refused.len(), 0);
        }
    }
}

#[test]
fn a_long_conversation_is_cut_and_stays_valid() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(at(1500)));
        let mut client = Client::new(dialect);
        let mut cuts = 0;
        for turn in 0..40 {
            let answer = client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
            assert_eq!(answer.status, 200, "{dialect} {turn}: {}", answer.body);
            cuts += usize::from(answer.header("x-lookback-cut").is_some());
            assert_eq!(answer.header("x-lookback-passed"), None, "{dialect} {turn}");
        }
        assert!(cuts > 10, "{dialect}: {cuts}");
        let sent =
            lookback_wire::dialect::Request::decode(lab.stand_in.last().unwrap().body.to_vec(), Some(dialect)).unwrap();
        // Of 81 messages, the window has the newest and people's words, shortened.
        assert!(sent.messages().len() < 54, "{dialect}: {}", sent.messages().len());
        // The session contains all messages.
        let session = client.say(&lab, "Last.").session().to_owned();
        assert_eq!(lab.texts(&session).len(), 82, "{dialect}");
        assert_eq!(lab.stand_in.report().refused, Vec::<String>::new());
    }
}

#[test]
fn what_is_too_long_is_sent_again_with_a_smaller_window() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(unlimited()));
        let mut client = Client::new(dialect);
        for turn in 0..10 {
            client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
        }
        lab.stand_in.set_window(400);
        // Clients accept compressed answers, so errors are compressed, too.
        client.headers.push(("accept-encoding", "gzip, br, zstd".to_owned()));
        let answer = client.say(&lab, "And in short?");
        assert_eq!(answer.status, 200, "{dialect}: {}", answer.body);
        assert!(answer.header("x-lookback-overflows").is_some(), "{dialect}: {:?}", answer.headers);
        assert_eq!(lab.stand_in.last().unwrap().headers["accept-encoding"], "gzip, br", "a window's answer is read");
        client.headers.clear();
        let after = client.say(&lab, "Thanks.");
        assert_eq!((after.status, after.header("x-lookback-overflows")), (200, None), "{dialect}");
    }
}

#[test]
fn if_the_provider_shortens_a_conversation_nothing_is_cut_before_it_refuses_a_request() {
    for (dialect, asks) in [
        (Dialect::OpenAiResponses, json!([{"type": "compaction", "compact_threshold": 100_000}])),
        (Dialect::Anthropic, json!({"edits": [{"type": "clear_tool_uses_20250919"}]})),
    ] {
        let lab = Lab::new(Some(at(200)));
        let mut client = Client { more: json!({"context_management": asks}), ..Client::new(dialect) };
        for turn in 0..12 {
            let answer = client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
            assert_eq!((answer.status, answer.header("x-lookback-cut")), (200, None), "{dialect}");
        }
        lab.stand_in.set_window(400);
        assert!(client.say(&lab, "And in short?").header("x-lookback-cut").is_some(), "{dialect}");
    }
    // An edit that keeps all thinking does not shorten the conversation.
    let lab = Lab::new(Some(at(200)));
    let edits = json!({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]});
    let mut client = Client { more: json!({"context_management": edits}), ..Client::new(Dialect::Anthropic) };
    let cuts: Vec<_> =
        (0..12).map(|turn| client.say(&lab, &format!("{turn} {}", "Tell me more. ".repeat(10)))).collect();
    assert!(cuts.iter().any(|answer| answer.header("x-lookback-cut").is_some()));
}

#[test]
fn the_limit_is_below_those_at_which_clients_compact_by_themselves() {
    /// A client, a model, and the tokens at which the client compacts, by the model's context window.
    type Client = (&'static str, &'static str, fn(u64) -> u64);
    let clients: [Client; 5] = [
        ("Gemini CLI", "gemini-3-pro-preview", |window| window / 2),
        ("Codex", "gpt-5", |window| (window - 128_000) * 9 / 10),
        ("pi", "gpt-4o", |window| window - 16_384),
        ("Qwen Code", "qwen3-coder", |window| window * 7 / 10),
        ("opencode", "claude-sonnet-4-5", |window| window - 32_000),
    ];
    for (client, model, compacts_at) in clients {
        let window = lookback_models::Models::builtin().find(model).unwrap().window;
        let Some(Tokens::Count(limit)) = Gateway::policy().for_window(Some(window), 0).limits.tokens else {
            panic!("{client}: the limit is a share of the window");
        };
        assert!(limit < compacts_at(window), "{client}: {limit} of {window}");
    }
}

#[test]
fn a_header_that_asks_for_a_larger_context_window_raises_the_limit() {
    for (betas, cuts) in [("", true), ("files-api-2025-04-14,context-1m-2025-08-07", false)] {
        let lab = Lab::new(None);
        let mut client = Client { model: "claude-sonnet-4-5", ..Client::new(Dialect::Anthropic) };
        client.headers.push(("anthropic-beta", betas.to_owned()));
        // More than 45 % of 200,000 tokens.
        let asked: Vec<_> =
            (0..4).map(|turn| client.say(&lab, &format!("{turn} {}", "one two three four ".repeat(10_000)))).collect();
        assert_eq!(asked.iter().any(|answer| answer.header("x-lookback-cut").is_some()), cuts, "{betas}");
    }
}

/// An answer that ended because the window was full.
const FULL: &str = r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"And"}],
    "stop_reason":"model_context_window_exceeded","usage":{"input_tokens":9,"output_tokens":1}}"#;

#[test]
fn after_an_answer_that_ended_because_the_window_was_full_the_next_one_is_smaller() {
    let lab = Lab::new(Some(unlimited()));
    let mut client = Client::new(Dialect::Anthropic);
    for turn in 0..6 {
        client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
    }
    lab.stand_in.fail_next(Fault::Status(200, FULL.to_owned()));
    assert_eq!(client.say(&lab, "In short?").body, FULL);
    let next = client.say(&lab, "Go on.");
    assert!(next.header("x-lookback-cut").is_some(), "{:?}", next.headers);
}

#[test]
fn reasoning_that_the_provider_left_out_is_counted() {
    let lab = Lab::new(Some(unlimited()));
    let mut client = thinker();
    thinks(&lab, &mut client, "Hi");
    let left_out = r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Well."}],
        "stop_reason":"end_turn","input_transformations":[{"type":"thinking_dropped"},{"type":"thinking_dropped"}]}"#;
    lab.stand_in.fail_next(Fault::Status(200, left_out.to_owned()));
    assert_eq!(client.say(&lab, "Go on.").body, left_out);
    let metrics = lab.send("GET", "/metrics", &[], "").body;
    assert!(metrics.contains("lookback_lost_reasoning_total 2\n"), "{metrics}");
}

#[test]
fn what_is_held_out_is_not_made_smaller_after_such_an_answer_either() {
    let lab = Lab::configured_with("holdout = 1.0\n[[upstream]]\nurl = \"UPSTREAM\"", unlimited());
    let mut client = Client::new(Dialect::Anthropic);
    for turn in 0..6 {
        client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
    }
    lab.stand_in.fail_next(Fault::Status(200, FULL.to_owned()));
    let session = client.say(&lab, "In short?").session().to_owned();
    let opened = Session::open(lab.store.clone(), &session, Settings::default().dialect(Dialect::Anthropic));
    let session = futures_lite::future::block_on(opened).unwrap();
    assert!(!session.view().is_cut());
}

#[test]
fn what_is_longer_than_any_window_passes_as_it_came_and_is_no_failure_of_the_store() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(Policy { hard: Some(Limits::tokens(30)), ..unlimited() }));
        let mut client = Client::new(dialect);
        client.messages.push(client.said("user", &"A question that is longer than any window may be. ".repeat(5)));
        let answer = client.ask(&lab);
        assert_eq!(answer.status, 200, "{dialect}: {}", answer.body);
        let why = "what cannot leave the window exceeds the model's limit";
        assert_eq!(answer.header("x-lookback-passed"), Some(why), "{dialect}");
        assert_eq!(lab.stand_in.last().unwrap().body, client.body().to_string(), "{dialect}");
        let metrics = lab.send("GET", "/metrics", &[], "").body;
        assert!(metrics.contains("\nlookback_store_failures_total 0\n"), "{metrics}");
    }
}

#[test]
fn if_nothing_helps_the_upstreams_own_words_go_to_the_client() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(unlimited()));
        lab.stand_in.set_window(3);
        let mut client = Client::new(dialect);
        let answer = client.say(&lab, "A single question that is longer than the whole window of this model");
        assert_eq!(answer.status, 400, "{dialect}");
        let is_theirs = |tokens| answer.body == too_long(dialect, tokens, 3);
        assert!((0..100).any(is_theirs), "{dialect}: {}", answer.body);
        for (status, body) in
            [(429, r#"{"error":"slow down"}"#), (500, "oops"), (529, r#"{"type":"error"}"#), (401, "who?")]
        {
            lab.stand_in.set_window(None);
            lab.stand_in.fail_next(Fault::Status(status, body.to_owned()));
            let count = lab.stand_in.count();
            let answer = client.ask(&lab);
            assert_eq!((answer.status, answer.body.as_str()), (status, body), "{dialect}");
            assert_eq!(lab.stand_in.count(), count + 1, "asked once");
        }
    }
}

#[test]
fn a_history_that_is_refused_as_malformed_is_repaired_once() {
    let tool = json!({"type": "object"});
    let tools = |dialect: Dialect| vec![dialect.tool("read", "", &tool)];
    let (chat, responses) = (tools(Dialect::OpenAiChat), tools(Dialect::OpenAiResponses));
    let (anthropic, gemini) = (tools(Dialect::Anthropic), tools(Dialect::Gemini));
    let part = json!({"functionResponse": {"name": "read", "response": {"output": "x"}}});
    for (path, body) in [
        // A call without a result.
        (
            "/v1/chat/completions",
            json!({"model": "m", "tools": chat, "messages": [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
                {"role": "user", "content": "Well?"},
            ]}),
        ),
        (
            "/v1/responses",
            json!({"model": "m", "tools": responses, "input": [
                {"role": "user", "content": "Go."},
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
                {"role": "user", "content": "Well?"},
            ]}),
        ),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 9, "tools": anthropic, "messages": [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
                {"role": "user", "content": "Well?"},
            ]}),
        ),
        // Each result twice, as Gemini CLI sends them after it was resumed.
        (
            "/v1beta/models/m:generateContent",
            json!({"tools": gemini, "contents": [
                {"role": "user", "parts": [{"text": "Go."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
                {"role": "user", "parts": [part, part]},
            ]}),
        ),
    ] {
        let lab = Lab::new(Some(unlimited()));
        let answer = lab.post(path, &[], &body);
        assert_eq!(
            (answer.status, answer.header("x-lookback-repaired")),
            (200, Some("yes")),
            "{path}: {}",
            answer.body
        );
        assert_eq!(lab.stand_in.count(), 2, "{path}");
        assert_eq!(lab.stand_in.seen()[0].body, body.to_string(), "{path}: the first try passes as it came");
        // If the request cannot be repaired, the client gets the upstream's error.
        let words = r#"{"error":{"message":"Invalid value for content","type":"invalid_request_error"}}"#;
        lab.stand_in.fail_next(Fault::Status(400, words.to_owned()));
        let answer = lab.post(
            path,
            &[],
            &json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}],
            "input": "Hi", "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
        );
        assert_eq!((answer.status, answer.body.as_str()), (400, words), "{path}");
    }
}

/// Returns a client of a model whose thinking is bound to everything before it.
fn thinker() -> Client {
    let model = "claude-opus-5-5";
    Client { model, more: json!({"thinking": {"type": "adaptive"}}), ..Client::new(Dialect::Anthropic) }
}

/// Sends a message, and keeps the whole answer, including its thinking.
fn thinks(lab: &Lab, client: &mut Client, text: &str) -> Answer {
    client.messages.push(client.said("user", text));
    let answer = client.ask(lab);
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    client.messages.push(json!({"role": "assistant", "content": body["content"]}));
    answer
}

#[test]
fn thinking_is_never_sent_behind_other_things_than_it_was_made_behind() {
    let lab = Lab::new(Some(at(200)));
    let mut client = thinker();
    let mut cuts = 0;
    for turn in 0..24 {
        let answer = thinks(&lab, &mut client, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(5)));
        assert_eq!(answer.status, 200, "{}", answer.body);
        cuts += usize::from(answer.header("x-lookback-compacted").is_some());
    }
    assert!(cuts > 2, "{cuts}");
    assert!(lab.stand_in.report().refused.is_empty(), "{:?}", lab.stand_in.report().refused);
}

#[test]
fn thinking_that_is_refused_because_a_client_changed_what_stood_before_it_is_left_out() {
    let lab = Lab::new(Some(unlimited()));
    let mut client = thinker();
    client.headers.push(("x-amp-thread-id", "s".to_owned()));
    for turn in 0..3 {
        thinks(&lab, &mut client, &format!("Question {turn}."));
    }
    client.messages[0] = client.said("user", "Another question.");
    let answer = thinks(&lab, &mut client, "Go on.");
    assert_eq!((answer.status, answer.header("x-lookback-repaired")), (200, Some("yes")), "{}", answer.body);
    assert_eq!(lab.stand_in.report().refused.len(), 1);
    // The refused thinking stays left out, and new thinking is sent.
    let answer = thinks(&lab, &mut client, "And on.");
    assert_eq!((answer.status, answer.header("x-lookback-repaired")), (200, None), "{}", answer.body);
    let sent = String::from_utf8(lab.stand_in.last().unwrap().body.to_vec()).unwrap();
    assert_eq!(sent.matches("signature").count(), 1, "{sent}");
}

#[test]
fn a_tool_loop_goes_on_without_its_thinking_if_the_provider_refuses_it() {
    let lab = Lab::new(Some(unlimited()));
    let mut client = thinker();
    client.more["system"] = json!("It is noon.");
    let answer = thinks(&lab, &mut client, r#"CALL read {"path":"a"}"#);
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let call = body["content"].as_array().unwrap().iter().find(|block| block["type"] == "tool_use").unwrap();
    client.messages.push(client.result(call["id"].as_str().unwrap(), "It is empty."));
    client.more["system"] = json!("It is one o'clock.");
    let answer = client.ask(&lab);
    assert_eq!((answer.status, answer.header("x-lookback-repaired")), (200, Some("yes")), "{}", answer.body);
    let sent = String::from_utf8(lab.stand_in.last().unwrap().body.to_vec()).unwrap();
    assert!(!sent.contains("signature") && sent.contains("It is empty."), "{sent}");
}

#[test]
fn if_thinking_is_refused_again_although_it_was_left_out_the_refusal_goes_to_the_client() {
    let lab = Lab::new(Some(unlimited()));
    let mut client = thinker();
    for turn in 0..3 {
        thinks(&lab, &mut client, &format!("Question {turn}."));
    }
    let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}).to_string();
    client.messages.push(client.said("user", "Go on."));
    for tries in [2, 1] {
        for _ in 0..tries {
            lab.stand_in.fail_next(Fault::Status(400, refusal.clone()));
        }
        let count = lab.stand_in.count();
        let answer = client.ask(&lab);
        assert_eq!((answer.status, &*answer.body), (400, &*refusal));
        assert_eq!(lab.stand_in.count(), count + tries, "what would be sent again is what was refused");
    }
}

#[test]
fn calls_beside_the_conversation_and_stored_state_pass_untouched() {
    let lab = Lab::new(Some(at(10)));
    let mut client = Client::new(Dialect::OpenAiResponses);
    client.say(&lab, "Hi");
    for (name, value, why) in [
        ("previous_response_id", json!("resp_1"), "previous_response_id"),
        ("conversation", json!("conv_1"), "conversation"),
    ] {
        let mut body = json!({"model": "m", "input": [{"role": "user", "content": "And then? ".repeat(100)}]});
        body[name] = value;
        let answer = lab.post("/v1/responses", &[], &body);
        assert_eq!(answer.header("x-lookback-passed"), Some(why));
        assert_eq!(lab.stand_in.last().unwrap().body, body.to_string());
    }
    let item =
        json!({"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "So?"}]});
    assert_eq!(lab.post("/v1/responses", &[], &item).header("x-lookback-passed"), Some("item_reference"));
    let title = json!({"model": "m", "text": {"format": {"type": "json_schema"}}, "input": [{"role": "user", "content": "Hi"}]});
    let answer = lab.post("/v1/responses", &[], &title);
    assert_eq!(answer.header("x-lookback-passed"), Some("a call beside the conversation"));
    assert!(answer.header("x-lookback-session").is_none());
    let broken = lab.post("/v1/responses", &[], &json!({"input": 7}));
    assert_eq!((broken.status, broken.header("x-lookback-passed")), (400, Some("not understood")));
}

/// No end is invented, and the incomplete answer is not recorded.
#[test]
fn a_stream_that_is_cut_off_stays_cut_off() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(unlimited()));
        let mut client = Client { stream: true, ..Client::new(dialect) };
        client.say(&lab, "Hi");
        lab.stand_in.fail_next(Fault::Cut);
        client.messages.push(client.said("user", "Go on."));
        let answer = client.ask(&lab);
        let ends = ["[DONE]", "message_stop", "response.completed", "finishReason"];
        assert!(ends.iter().all(|end| !answer.body.contains(end)), "{dialect}: {}", answer.body);
        // The client tries again, and its line continues.
        let again = client.ask(&lab);
        assert_eq!((again.status, again.session()), (200, answer.session()), "{dialect}");
    }
}

#[test]
fn a_compressed_request_is_read_and_passes_as_it_came() {
    for stream in [false, true] {
        let lab = Lab::new(Some(at(300)));
        let mut client = Client { stream, ..Client::new(Dialect::OpenAiResponses) };
        let mut is_cut = false;
        for turn in 0..12 {
            client.messages.push(client.said("user", &format!("question {turn} {}", "word ".repeat(30))));
            let plain = client.body().to_string();
            let packed =
                ruzstd::encoding::compress_to_vec(plain.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
            let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let request = agent.post(format!("{}/v1/responses", lab.base)).header("content-encoding", "zstd");
            let mut answer = request.send(&packed[..]).unwrap();
            let body = answer.body_mut().read_to_string().unwrap();
            let answer = Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body };
            assert!(answer.header("x-lookback-session").is_some(), "{:?}", answer.headers);
            let seen = lab.stand_in.last().unwrap();
            if answer.header("x-lookback-cut").is_some() {
                assert!(!seen.headers.contains_key("content-encoding"));
                assert!(seen.body.len() < plain.len());
                is_cut = true;
            } else {
                assert_eq!((&seen.body[..], seen.headers["content-encoding"].to_str().unwrap()), (&packed[..], "zstd"));
            }
            if answer.status == 200 {
                let words = client.words(&answer);
                client.messages.push(client.said("assistant", &words));
            } else {
                // The stand-in cannot read compressed requests.
                client.messages.push(client.said("assistant", "Go on."));
            }
        }
        assert!(is_cut);
    }
}

/// A new conversation begins with the calibration that earlier ones have learned about a model, even after a restart.
#[test]
fn a_new_conversation_begins_with_the_calibration_of_those_before() {
    let lab = Lab::new(None);
    let text = "The heron stands in the reeds and waits for a fish that does not come. ".repeat(40);
    let first_window = |lab: &Lab, name: &str| {
        let mut client = Client::new(Dialect::Anthropic);
        client.model = "claude-sonnet-4-5";
        client.headers.push(("x-lookback-session", name.to_owned()));
        let answer = client.say(lab, &text);
        answer.header("x-lookback-window").unwrap().trim_end_matches(" tokens").parse::<u64>().unwrap()
    };
    let (first, second) = (first_window(&lab, "one"), first_window(&lab, "two"));
    assert_ne!(first, second, "the stand-in counts otherwise than is estimated");
    let upstream = lab.stand_in_address.parse().unwrap();
    let config = Config::from_toml("adds = []").unwrap();
    let gateway = Gateway::new(lab.store.clone()).with_config(config).with_upstream(upstream);
    let again = Lab { base: serve(gateway), ..lab };
    // No usage is reported to the new gateway, so it can only know the calibration from the store.
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(120) {
        let mut client = Client::new(Dialect::Anthropic);
        client.model = "claude-sonnet-4-5";
        client.headers.push(("x-lookback-session", format!("again {:?}", begun.elapsed())));
        client.messages.push(client.said("user", &text));
        again.stand_in.fail_next(Fault::Status(500, "{}".to_owned()));
        let answer = client.ask(&again);
        if answer.header("x-lookback-window") == Some(&format!("{second} tokens")) {
            return;
        }
    }
    panic!("it is not read from the store");
}

#[test]
fn a_client_that_changes_its_system_prompt_with_each_request_is_told_what_it_costs() {
    let (stand_in, upstream) = stand_in::StandIn::start();
    let store: std::sync::Arc<dyn lookback_store::Store> = std::sync::Arc::new(lookback_store::MemoryStore::new());
    let (send, events) = std::sync::mpsc::channel();
    let gateway = Gateway::new(store.clone()).with_upstream(upstream.parse().unwrap()).with_log(move |event| {
        let _ = send.send(serde_json::to_value(event).unwrap());
    });
    let lab = Lab { stand_in, stand_in_address: upstream, store, base: serve(gateway) };
    let mut client = Client::new(Dialect::Anthropic);
    for turn in 0..6 {
        client.more = json!({"system": format!("It is {turn} o'clock.")});
        client.say(&lab, &format!("Question {turn}."));
    }
    let advice: Vec<_> = events.try_iter().filter(|event| event["event"] == "advice").collect();
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert_eq!(advice[0]["habit"], "changing_preamble");
}
