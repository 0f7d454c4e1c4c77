//! Tests of windows without sessions: for programs and gateways that send their requests themselves.

use super::calls::at;
use super::*;

const PATH: &str = "/lookback/v1/compress";
const GUARDRAIL: &str = "/lookback/v1/beta/litellm_basic_guardrail_api";

fn parsed(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Returns the messages of a body.
fn messages(body: &Value) -> &[Value] {
    let lists = ["messages", "input", "contents"];
    lists.iter().find_map(|name| body[*name].as_array()).unwrap()
}

#[test]
fn a_longer_request_gets_a_window_that_extends_the_earlier_one_until_the_next_compaction() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(at(1500)));
        let mut client = Client::new(dialect);
        let (mut before, mut compactions) = (Vec::new(), 0);
        for turn in 0..40 {
            client.messages.push(client.said("user", &format!("Question {turn}. {}", "Tell me more. ".repeat(14))));
            let answer = parsed(&lab.post(PATH, &[], &client.body()));
            let (body, report) = (&answer["body"], &answer["report"]);
            let sent = lookback_wire::dialect::Request::decode(body.to_string(), Some(dialect)).unwrap();
            assert_eq!(dialect.check(&sent).len(), 0, "{dialect}: {body}");
            assert_eq!(report["dialect"], dialect.name());
            let compacted = report["compacted"].as_array().unwrap().len();
            if compacted == compactions {
                assert!(messages(body).starts_with(&before), "{dialect}, turn {turn}");
            }
            if compacted == 0 {
                assert_eq!(*body, client.body(), "{dialect}: nothing is cut");
                assert_eq!(report["cut"], Value::Null);
            } else {
                assert!(report["cut"]["sent"].as_u64() < report["cut"]["of"].as_u64(), "{dialect}: {report}");
            }
            (before, compactions) = (messages(body).to_vec(), compacted);
            client.messages.push(client.said("assistant", &format!("Answer {turn}.")));
        }
        assert!(compactions >= 2, "{dialect}");
        assert_eq!(lab.stand_in.count(), 0, "{dialect}: nothing is sent");
        let sessions = parsed(&lab.send("GET", "/lookback/v1/sessions", &[], ""));
        assert_eq!(sessions["sessions"], json!([]), "{dialect}: nothing is recorded");
    }
}

#[test]
fn a_request_without_a_cut_comes_back_as_the_bytes_that_came() {
    let lab = Lab::new(None);
    let body = r#"{ "model" : "m",  "x_unknown": [ ], "messages": [ {"role":"user","content":"Hi", "x":1.0e0} ] }"#;
    let answer = lab.send("POST", PATH, &[], body);
    assert!(answer.body.starts_with(&format!("{{\"body\":{body},")), "{}", answer.body);
}

#[test]
fn a_policy_can_be_chosen_and_mistakes_are_explained() {
    let lab = Lab::new(None);
    let mut client = Client::new(Dialect::OpenAiChat);
    for turn in 0..9 {
        client.messages.push(client.said(["user", "assistant"][turn % 2], "Yes."));
    }
    let answer = parsed(&lab.post(&format!("{PATH}?policy=messages:max_messages=4"), &[], &client.body()));
    assert!(messages(&answer["body"]).len() <= 4, "{answer}");
    for (path, body, status, error) in [
        ("?policy=unknown", "{}", 400, "unknown"),
        ("?policy=/etc/passwd", "{}", 400, "passwd"),
        ("?polic=none", "{}", 400, "polic"),
        ("?dialect=latin", "{}", 400, "latin"),
        ("", "{", 422, "JSON"),
        ("", "[1]", 422, "message"),
        ("", "{\"model\": \"m\"}", 422, "messages"),
    ] {
        let answer = lab.send("POST", &format!("{PATH}{path}"), &[], body);
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
        assert!(answer.body.contains(error), "{path} {body}: {}", answer.body);
    }
}

#[test]
fn litellm_gets_the_messages_of_the_window() {
    let lab = Lab::new(Some(at(1500)));
    let mut client = Client::new(Dialect::OpenAiChat);
    let shown = |client: &Client, kind: &str| {
        json!({
            "input_type": kind, "model": "m", "structured_messages": client.messages, "tools": client.body()["tools"],
            "texts": [], "request_data": {}, "request_headers": {"host": "x"}, "litellm_version": "1.108.7",
            "images": null, "tool_calls": null, "additional_provider_specific_params": {},
        })
    };
    client.messages.push(client.said("user", "Hi"));
    assert_eq!(parsed(&lab.post(GUARDRAIL, &[], &shown(&client, "request"))), json!({"action": "NONE"}));
    for turn in 0..30 {
        client.messages.push(client.said("assistant", &format!("Answer {turn}.")));
        client.messages.push(client.said("user", &format!("Question {turn}. {}", "Tell me more. ".repeat(14))));
    }
    let decided = parsed(&lab.post(GUARDRAIL, &[], &shown(&client, "request")));
    assert_eq!(decided["action"], "GUARDRAIL_INTERVENED");
    let window = &parsed(&lab.post(PATH, &[], &client.body()))["body"]["messages"];
    assert_eq!(&decided["structured_messages"], window);
    assert_eq!(parsed(&lab.post(GUARDRAIL, &[], &shown(&client, "response"))), json!({"action": "NONE"}));
    assert_eq!(parsed(&lab.post(GUARDRAIL, &[], &json!({"input_type": "request"}))), json!({"action": "NONE"}));
    let broken = lab.send("POST", GUARDRAIL, &[], "no");
    assert_eq!(parsed(&broken), json!({"action": "NONE"}), "LiteLLM sends what it has");
    let metrics = lab.send("GET", "/metrics", &[], "").body;
    for counted in ["lookback_compressed_total{cut=\"true\"} 2\n", "lookback_compressed_total{cut=\"false\"} 1\n"] {
        assert!(metrics.contains(counted), "{metrics}");
    }
    let watching = Lab::configured_with("shadow = true\n[[upstream]]\nurl = \"UPSTREAM\"", at(1500));
    assert_eq!(parsed(&watching.post(GUARDRAIL, &[], &shown(&client, "request"))), json!({"action": "NONE"}));
}

#[test]
fn a_request_that_is_no_turn_stays_whole() {
    let lab = Lab::new(Some(at(100)));
    let mut client = Client::new(Dialect::OpenAiChat);
    for turn in 0..20 {
        client.messages.push(client.said(["user", "assistant"][turn % 2], "Tell me more about all of it."));
    }
    let whole = |client: &Client, more: Value, why: &str| {
        let mut body = client.body();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = parsed(&lab.post(PATH, &[], &body));
        assert_eq!((&answer["body"], answer["report"]["passed"].as_str()), (&body, Some(why)));
    };
    let asked = |text: &str| {
        let mut client = client.clone();
        client.messages.push(client.said("user", text));
        client
    };
    whole(&asked("Write a detailed summary of our conversation so far."), json!({}), "a compaction by the client");
    whole(&asked("Go on."), json!({"tool_choice": "none"}), "a compaction by the client");
    let titled = Client { tools: Vec::new(), ..asked("Go on.") };
    whole(&titled, json!({"response_format": {"type": "json_object"}}), "a call beside the conversation");
    let cut = parsed(&lab.post(PATH, &[], &asked("Go on.").body()));
    assert!(cut["report"]["cut"].is_object(), "{cut}");
}

#[test]
fn nothing_is_cut_for_a_tool_that_could_not_read_it() {
    let lab = Lab::new(None);
    let mut client = Client::new(Dialect::Gemini);
    client.tools = vec!["read", "recall"];
    for turn in 0..40 {
        let text = format!("{turn}. {}", "Tell me more about all of it. ".repeat(300));
        client.messages.push(client.said(["user", "assistant"][turn % 2], &text));
    }
    client.messages.push(client.said("user", "And?"));
    let cut = |query: &str| {
        let answer = parsed(&lab.post(&format!("{PATH}{query}"), &[], &client.body()));
        answer["report"]["cut"].is_object()
    };
    assert!(!cut("?dialect=gemini"), "the model is unknown");
    assert!(!cut("?dialect=gemini&model=gemini-2.5-pro"), "its context window is large");
    assert!(cut("?dialect=gemini&policy=default"));
    let claude = |betas: &[(&str, &str)]| {
        let mut client = Client { model: "claude-sonnet-4-5", ..Client::new(Dialect::Anthropic) };
        for turn in 0..41 {
            let text = format!("{turn}. {}", "Tell me more about all of it. ".repeat(400));
            client.messages.push(client.said(["user", "assistant"][turn % 2], &text));
        }
        parsed(&lab.post(PATH, betas, &client.body()))["report"]["cut"].is_object()
    };
    assert!(claude(&[]), "45 % of 200,000 tokens");
    assert!(!claude(&[("anthropic-beta", "context-1m-2025-08-07")]), "45 % of a million tokens");
}
