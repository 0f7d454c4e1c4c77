//! Tests of what a gateway adds to requests if it is configured to.

use std::io::Read as _;

use super::*;
use futures_lite::future::block_on;
use lookback_engine::policy::{Keep, Limits};
use lookback_facts::{Memory, Scope, Statement};
use lookback_wire::dialect::{Request, ResponseStream};
use stand_in::Fault;

fn adding(adds: &str) -> Lab {
    Lab::configured(&format!("adds = [{adds}]\n[[upstream]]\nurl = \"UPSTREAM\"\n"))
}

fn adding_with(adds: &str, policy: Policy) -> Lab {
    Lab::configured_with(&format!("adds = [{adds}]\n[[upstream]]\nurl = \"UPSTREAM\"\n"), policy)
}

fn sent(lab: &Lab) -> String {
    String::from_utf8(lab.stand_in.last().unwrap().body.to_vec()).unwrap()
}

/// Writes a fact that all sessions of the clients' account share.
fn prefer(lab: &Lab, text: &str) {
    let answer = Client::new(Dialect::OpenAiChat).say(lab, "Which account is it?");
    let (_, account) = answer.session().split_once('@').unwrap();
    let memory = block_on(Memory::open_in(lab.store.clone(), "someone", &account[..16])).unwrap();
    block_on(memory.state(Scope::Shared, Statement::preference(text))).unwrap();
}

fn streaming() -> impl Iterator<Item = (Dialect, bool)> {
    DIALECTS.into_iter().flat_map(|dialect| [(dialect, false), (dialect, true)])
}

#[test]
fn a_fact_sheet_is_a_note_that_stays_and_changes_follow_it() {
    for dialect in DIALECTS {
        let lab = adding("\"fact-sheet\"");
        prefer(&lab, "Use pnpm.");
        let mut client = Client::new(dialect);
        let answer = client.say(&lab, "one");
        assert_eq!(answer.status, 200, "{dialect:?}: {}", answer.body);
        assert_eq!(sent(&lab).matches("Use pnpm.").count(), 1, "{dialect:?}");
        client.say(&lab, "two");
        let second = sent(&lab);
        assert_eq!(second.matches("Use pnpm.").count(), 1, "{dialect:?}: the model has read it");
        prefer(&lab, "Use tabs.");
        client.say(&lab, "three");
        let third = sent(&lab);
        assert_eq!((third.matches("Use pnpm.").count(), third.matches("Use tabs.").count()), (1, 1), "{dialect:?}");
        assert!(third.find("pnpm") < third.find("two") && third.find("three") < third.find("tabs"), "{dialect:?}");
        let report = lab.stand_in.report();
        assert!(report.refused.is_empty(), "{dialect:?}: {:?}", report.refused);
    }
}

#[test]
fn what_one_account_knows_no_other_one_and_no_web_page_learns() {
    let named = "hosts = [\"evil.example\"]\norigins = [\"http://evil.example\"]\n";
    let adds = "adds = [\"fact-sheet\", \"memory-tools\", \"recall\"]\n";
    let lab = Lab::configured(&format!("{named}{adds}[[upstream]]\nurl = \"UPSTREAM\"\n"));
    prefer(&lab, "Use pnpm.");
    let asked = |headers: &[(&str, &str)]| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": format!("Hi {headers:?}")}]});
        let headers = [&[("content-type", "application/json")], headers].concat();
        assert_eq!(lab.send("POST", "/v1/chat/completions", &headers, &body.to_string()).status, 200);
        sent(&lab)
    };
    let mine = asked(&[("authorization", "Bearer k")]);
    assert!(mine.contains("Use pnpm.") && mine.contains("memory_search"), "{mine}");
    let other = asked(&[("authorization", "Bearer other")]);
    assert!(!other.contains("Use pnpm.") && other.contains("memory_search"), "{other}");
    for (name, value) in [("host", "evil.example"), ("origin", "http://evil.example")] {
        let page = asked(&[("authorization", "Bearer k"), (name, value)]);
        assert!(!page.contains("Use pnpm.") && !page.contains("memory_search"), "{page}");
    }
}

#[test]
fn there_is_no_note_behind_what_the_model_has_begun() {
    let lab = adding("\"fact-sheet\"");
    prefer(&lab, "Use pnpm.");
    let mut client = Client::new(Dialect::Anthropic);
    client.messages.extend([client.said("user", "As JSON, please."), client.said("assistant", "{")]);
    assert_eq!(client.ask(&lab).status, 200);
    assert_eq!(sent(&lab), client.body().to_string());
}

#[test]
fn what_stands_in_the_window_stays_there_when_nothing_is_added_any_more() {
    let lab = adding("\"memory-tools\"");
    let mut client = Client::new(Dialect::Anthropic);
    client.say(&lab, r#"CALL memory_finding {"content":"It listens on 5050.","confidence":0.9}"#);
    let upstream = lab.stand_in_address.parse().unwrap();
    let plain = Lab { base: serve(Gateway::new(lab.store.clone()).with_upstream(upstream)), ..lab };
    for _ in 0..3 {
        let answer = client.say(&plain, "Go on.");
        assert_eq!(answer.header("x-lookback-line"), Some("continued"));
        let request = sent(&plain);
        assert!(request.contains("is remembered") && request.contains("\"name\":\"memory_finding\""), "{request}");
    }
}

#[test]
fn a_request_with_tools_that_stand_alone_gets_none_of_ours() {
    let lab = adding("\"memory-tools\"");
    let contents = json!([{"role": "user", "parts": [{"text": "Hi"}]}]);
    let body = json!({"contents": contents, "tools": [{"googleSearch": {}}]});
    lab.post("/v1beta/models/m:generateContent", &[], &body);
    assert_eq!(sent(&lab), body.to_string());
    let body = json!({"contents": contents, "tools": [{"function_declarations": [{"name": "read"}]}]});
    lab.post("/v1beta/models/m:generateContent", &[], &body);
    let request: Value = serde_json::from_str(&sent(&lab)).unwrap();
    assert_eq!(request["tools"].as_array().unwrap().len(), 1);
    assert!(request["tools"][0]["function_declarations"].as_array().unwrap().len() > 2, "{request}");
}

#[test]
fn a_compaction_is_told_also_if_something_is_added() {
    let policy = Policy { limits: Limits::tokens(600), target: Some(Limits::tokens(300)), ..Policy::production() };
    let lab = adding_with("\"cache-markers\", \"recall\"", policy);
    let mut client = Client::new(Dialect::Anthropic);
    let answers: Vec<Answer> =
        (0..12).map(|turn| client.say(&lab, &format!("{turn} {}", "word ".repeat(60)))).collect();
    assert!(answers.iter().any(|answer| answer.header("x-lookback-compacted").is_some()));
    let cuts = answers.iter().filter_map(|answer| answer.header("x-lookback-cut"));
    for cut in cuts {
        let numbers: Vec<u64> = cut.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] < numbers[1], "{cut}");
    }
}

#[test]
fn calls_of_memory_tools_are_answered_and_the_client_sees_none_of_it() {
    for (dialect, stream) in streaming() {
        let lab = adding("\"memory-tools\", \"recall\", \"fact-sheet\"");
        let mut client = Client::new(dialect);
        client.stream = stream;
        let words = r#"Please CALL memory_finding {"content":"It listens on 5050.","confidence":0.9} now."#;
        let answer = client.say(&lab, words);
        assert_eq!(answer.status, 200, "{dialect:?} {stream}: {}", answer.body);
        assert!(!answer.body.contains("memory_finding"), "{dialect:?} {stream}: {}", answer.body);
        assert_eq!(answer.header("x-lookback-asides"), (!stream).then_some("1"), "{dialect:?} {stream}");
        assert_eq!(lab.stand_in.count(), 2, "{dialect:?} {stream}");
        assert!(sent(&lab).contains("is remembered"), "{dialect:?} {stream}: {}", sent(&lab));

        // The next request includes the messages that the client did not see, so that the provider's cache matches its
        // beginning.
        if stream {
            client.messages.pop();
            client.messages.extend(streamed(dialect, &answer));
        }
        let again = client.say(&lab, r#"And CALL memory_search {"query":"listens"} too."#);
        assert_eq!((again.status, again.session()), (200, answer.session()), "{dialect:?} {stream}");
        let request = sent(&lab);
        assert!(request.contains("is remembered") && request.matches("It listens on 5050.").count() >= 2, "{request}");
        let report = lab.stand_in.report();
        assert!(report.refused.is_empty(), "{dialect:?} {stream}: {:?}", report.refused);
        let memory = block_on(Memory::open(lab.store.clone(), answer.session())).unwrap();
        let facts = block_on(memory.facts()).unwrap();
        assert_eq!(facts.len(), 1, "{dialect:?} {stream}");
        assert_eq!(facts[0].statement.source.session.as_deref(), Some(answer.session()));
    }
}

#[test]
fn reasoning_that_the_provider_has_not_stored_is_not_sent_back_to_it() {
    for stream in [false, true] {
        let lab = adding("\"memory-tools\"");
        let words = r#"Please CALL memory_search {"query":"port"} now."#;
        let body = json!({"model": "m", "store": false, "stream": stream, "reasoning": {"effort": "low"},
            "input": [{"role": "user", "content": words}]});
        let answer = lab.post("/v1/responses", &[], &body);
        assert_eq!((answer.status, lab.stand_in.count()), (200, 2), "{}", answer.body);
        assert!(answer.body.contains("rs_"), "the client gets what the model said: {}", answer.body);
        let again = sent(&lab);
        assert!(again.contains("function_call_output") && !again.contains("rs_"), "{again}");
        assert_eq!(lab.stand_in.report().refused, Vec::<String>::new());
    }
}

#[test]
fn what_the_client_did_not_see_is_there_after_a_restart_and_counts_as_a_call() {
    let lab = adding("\"memory-tools\"");
    let mut client = Client::new(Dialect::Anthropic);
    client.say(&lab, r#"CALL memory_finding {"content":"It listens on 5050.","confidence":0.9}"#);
    let config = Config::from_toml("adds = [\"memory-tools\"]").unwrap();
    let upstream = lab.stand_in_address.parse().unwrap();
    let other = Lab { base: serve(Gateway::new(lab.store.clone()).with_config(config).with_upstream(upstream)), ..lab };
    let answer = client.say(&other, "Go on.");
    assert_eq!(answer.header("x-lookback-line"), Some("continued"));
    assert!(sent(&other).contains("is remembered"), "{}", sent(&other));
    let calls =
        other.send("GET", &format!("/lookback/v1/sessions/{}/calls", answer.session().replace('/', "%2F")), &[], "");
    let calls: Value = serde_json::from_str(&calls.body).unwrap();
    assert_eq!(calls["total"]["calls"], 3, "{calls}");
}

#[test]
fn what_is_called_together_with_a_memory_tool_is_called_again_alone() {
    for dialect in DIALECTS {
        let lab = adding("\"recall\"");
        let mut client = Client::new(dialect);
        let answer = client.say(&lab, r#"CALL recall {"query":"nothing"} and CALL read {"path":"a"} please"#);
        assert_eq!(answer.status, 200, "{dialect:?}: {}", answer.body);
        assert!(sent(&lab).contains("Call it again"), "{dialect:?}: {}", sent(&lab));
        assert!(lab.stand_in.report().refused.is_empty(), "{dialect:?}");
    }
}

/// Returns the model's part of a streamed answer, as messages for the next request.
fn streamed(dialect: Dialect, answer: &Answer) -> Vec<Value> {
    let mut stream = ResponseStream::new(dialect);
    stream.read(answer.body.as_bytes());
    let message = stream.response().unwrap().message;
    message.wire().unwrap().elements().iter().map(|raw| serde_json::from_str(raw.get()).unwrap()).collect()
}

/// Returns the messages of a request.
fn messages(dialect: Dialect, body: &[u8]) -> Vec<String> {
    let request = Request::decode(body, Some(dialect)).unwrap();
    request.messages().iter().map(|message| message.wire().unwrap().raw.get().to_owned()).collect()
}

#[test]
fn everything_but_calls_of_memory_tools_is_streamed_and_the_model_sees_it_once() {
    for dialect in DIALECTS {
        let lab = adding("\"memory-tools\"");
        let mut client = Client { stream: true, ..Client::new(dialect) };
        client.say(&lab, "The heron stands at the lake.");
        let answer = client.say(&lab, r#"CALL memory_search {"query":"heron"} please"#);
        let words = client.words(&answer);
        assert!(words.starts_with("I shall see.\n") && words.ends_with("\nThis is answer 3."), "{dialect:?}: {words}");
        client.messages.pop();
        client.messages.extend(streamed(dialect, &answer));

        let answer = client.say(&lab, "Go on.");
        assert_eq!(answer.header("x-lookback-line"), Some("continued"), "{dialect:?}");
        let seen = lab.stand_in.seen();
        let [aside, next] = [&seen[2], &seen[3]].map(|seen| messages(dialect, &seen.body));
        assert_eq!(next[..aside.len()], aside, "{dialect:?}: the provider has cached these messages");
        let next = next.concat();
        assert_eq!(next.matches("I shall see.").count(), 1, "{dialect:?}: {next}");
        assert!(next.find("I shall see.") < next.find("This is answer 3."), "{dialect:?}: {next}");
        assert!(lab.stand_in.report().refused.is_empty(), "{dialect:?}");

        // If the gateway forgets everything, the client's history is still valid.
        let other = adding("\"memory-tools\"");
        let answer = client.say(&other, "Once more.");
        assert_eq!(answer.status, 200, "{dialect:?}: {}", answer.body);
        assert!(other.stand_in.report().refused.is_empty(), "{dialect:?}");
    }
}

#[test]
fn an_answer_that_never_ends_has_begun_for_the_client() {
    for dialect in DIALECTS {
        let lab = adding("\"recall\"");
        let mut client = Client { stream: true, ..Client::new(dialect) };
        client.messages.push(client.said("user", "Hi"));
        lab.stand_in.fail_next(Fault::Stall);
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut answer = agent.post(format!("{}{}", lab.base, client.path())).send(client.body().to_string()).unwrap();
        let mut begun = [0; 6];
        answer.body_mut().as_reader().read_exact(&mut begun).unwrap();
        assert!(begun.starts_with(b"event:") || begun.starts_with(b"data:"), "{dialect:?}: {begun:?}");
    }
}

#[test]
fn the_usage_of_a_joined_answer_has_the_input_of_the_last_and_what_the_model_wrote_in_all() {
    for dialect in DIALECTS {
        let lab = adding("\"memory-tools\"");
        let mut client = Client { stream: true, ..Client::new(dialect) };
        client.say(&lab, "The heron stands at the lake.");
        let answer = client.say(&lab, r#"CALL memory_search {"query":"heron"} please"#);
        let mut stream = ResponseStream::new(dialect);
        stream.read(answer.body.as_bytes());
        let response = stream.response().unwrap();
        let path = format!("/lookback/v1/sessions/{}/calls", answer.session().replace('/', "%2F"));
        let calls: Value = serde_json::from_str(&lab.send("GET", &path, &[], "").body).unwrap();
        let calls = calls["calls"].as_array().unwrap();
        let numbers = |name: &str| calls.iter().skip(1).filter_map(|call| call[name].as_u64()).collect::<Vec<_>>();
        let (sent, written) = (numbers("sent_tokens"), numbers("output_tokens"));
        assert_eq!((sent.len(), sent.last().copied()), (2, response.input), "{dialect:?}: {calls:?}");
        assert!(response.output.unwrap() > written[1], "{dialect:?}: {calls:?}");
    }
}

#[test]
fn thinking_after_a_hidden_call_is_left_out_where_the_call_is_missing() {
    let lab = adding("\"recall\"");
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let tool = Dialect::Anthropic.tool("run", "Runs a command.", &schema);
    let mut client = Client {
        stream: true,
        model: "claude-opus-5-5",
        more: json!({"thinking": {"type": "adaptive"}, "tools": [tool]}),
        ..Client::new(Dialect::Anthropic)
    };
    client.messages.push(client.said("user", "Please run the steps 1 to 4, each with the tool."));
    loop {
        let answer = client.ask(&lab);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let message = streamed(Dialect::Anthropic, &answer).remove(0);
        let calls: Vec<Value> =
            message["content"].as_array().unwrap().iter().filter(|it| it["type"] == "tool_use").cloned().collect();
        client.messages.push(message);
        let result = |call: &Value| {
            let output = call["input"].to_string().replace("echo ", "");
            json!({"type": "tool_result", "tool_use_id": call["id"], "content": output})
        };
        let results: Vec<Value> = calls.iter().map(result).collect();
        if results.is_empty() {
            break;
        }
        client.messages.push(json!({"role": "user", "content": results}));
    }
    assert!(lab.stand_in.report().refused.is_empty(), "{:?}", lab.stand_in.report().refused);
    assert!(lab.stand_in.report().called.iter().any(|call| call.starts_with("recall")), "{:?}", client.messages);

    // The client compacts its history. The gateway sends what the client has, which lacks the call.
    let mut compacts = client.clone();
    compacts.messages.push(client.said("user", "Please write a detailed summary of our conversation so far."));
    let answer = compacts.ask(&lab);
    assert_eq!((answer.status, answer.header("x-lookback-repaired")), (200, Some("yes")), "{}", answer.body);
    assert_eq!(lab.stand_in.report().refused.len(), 1, "{:?}", lab.stand_in.report().refused);
}

#[test]
fn a_call_beside_one_of_the_client_is_answered_with_its_next_request() {
    // The second policy changes nothing, so that requests are sent while they are recorded.
    for (dialect, policy) in
        DIALECTS.into_iter().flat_map(|dialect| [(dialect, Gateway::policy()), (dialect, Policy::never_compact())])
    {
        let lab = adding_with("\"recall\"", policy);
        let mut client = Client { stream: true, ..Client::new(dialect) };
        client.say(&lab, "The heron stands at the lake.");
        let words = r#"CALL recall {"query":"heron"} and CALL read {"path":"a"} please"#;
        client.messages.push(client.said("user", words));
        let answer = client.ask(&lab);
        assert_eq!((answer.status, lab.stand_in.count()), (200, 2), "{dialect:?}: {}", answer.body);
        assert!(!answer.body.contains("heron"), "{dialect:?}: {}", answer.body);
        let mut stream = ResponseStream::new(dialect);
        stream.read(answer.body.as_bytes());
        let message = stream.response().unwrap().message;
        let call = message.tool_calls().next().unwrap().1.clone();
        assert_eq!(message.tool_calls().count(), 1, "{dialect:?}");
        client.messages.extend(streamed(dialect, &answer));
        client.messages.push(client.result(&call.id, "The file is empty."));
        let answer = client.ask(&lab);
        assert_eq!((answer.status, answer.header("x-lookback-line")), (200, Some("continued")), "{dialect:?}");
        let last = sent(&lab);
        let result = last.find("The file is empty.").unwrap();
        assert!(last[result..].contains("You also called recall"), "{dialect:?}: {last}");
        assert!(last[result..].contains("stands at the lake"), "{dialect:?}: {last}");
        assert!(lab.stand_in.report().refused.is_empty(), "{dialect:?}: {:?}", lab.stand_in.report().refused);
    }
}

#[test]
fn an_error_after_a_hidden_call_is_an_error_in_the_stream() {
    for dialect in DIALECTS {
        let lab = adding("\"memory-tools\"");
        let mut client = Client { stream: true, ..Client::new(dialect) };
        client.say(&lab, "The heron stands at the lake.");
        lab.stand_in.fail_next(Fault::None);
        // A retry helps.
        lab.stand_in.fail_next("529".parse().unwrap());
        lab.stand_in.fail_next(Fault::Busy(0));
        let answer = client.say(&lab, r#"CALL memory_search {"query":"heron"}"#);
        assert!(client.words(&answer).contains("This is answer"), "{dialect:?}: {}", answer.body);
        lab.stand_in.fail_next(Fault::None);
        lab.stand_in.fail_next("403".parse().unwrap());
        client.messages.push(client.said("user", r#"CALL memory_search {"query":"crane"}"#));
        let answer = client.ask(&lab);
        let mut stream = ResponseStream::new(dialect);
        stream.read(answer.body.as_bytes());
        assert!(stream.error().is_some() && !stream.is_complete(), "{dialect:?}: {}", answer.body);
        // The client asks again, and the model still has the result.
        let again = client.ask(&lab);
        assert_eq!(again.status, 200, "{dialect:?}: {}", again.body);
        assert!(lab.stand_in.report().refused.is_empty(), "{dialect:?}: {:?}", lab.stand_in.report().refused);
    }
}

#[test]
fn without_a_list_a_request_with_tools_gets_recall() {
    for dialect in DIALECTS {
        let (stand_in, upstream) = stand_in::StandIn::start();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let base = serve(Gateway::new(store.clone()).with_upstream(upstream.parse().unwrap()));
        let lab = Lab { stand_in, stand_in_address: upstream, store, base };
        for (tools, adds) in [(vec!["read"], true), (vec!["read", "mcp__lookback__recall"], false)] {
            let mut client = Client { tools, stream: true, ..Client::new(dialect) };
            for text in ["The heron stands at the lake.", "And now?"] {
                let answer = client.say(&lab, text);
                assert_eq!(answer.status, 200, "{dialect:?}: {}", answer.body);
                assert_eq!(sent(&lab).contains("\"name\":\"recall\""), adds, "{dialect:?}: {}", sent(&lab));
            }
        }
        let contents = json!([{"role": "user", "content": "Hi", "parts": [{"text": "Hi"}]}]);
        let plain = json!({"model": "m", "messages": contents, "contents": contents, "input": "Hi"});
        let path = Client { stream: false, ..Client::new(dialect) }.path();
        lab.post(path, &[], &plain);
        assert_eq!(sent(&lab), plain.to_string(), "{dialect:?}: a request without tools");
        let tools: Vec<Value> =
            (0..128).map(|number| dialect.tool(&format!("tool_{number}"), "", &json!({}))).collect();
        let client = Client { messages: vec![Client::new(dialect).said("user", "Hi")], ..Client::new(dialect) };
        let many = Client { more: json!({"tools": tools}), ..client };
        many.ask(&lab);
        assert_eq!(sent(&lab), many.body().to_string(), "{dialect:?}: providers refuse more tools");
        let elsewhere = json!({"model": "m", "messages": contents, "tools": [{"name": "read", "input_schema": {}}]});
        if dialect == Dialect::Anthropic {
            lab.post(path, &[("origin", "http://127.0.0.1:1")], &elsewhere);
            assert!(!sent(&lab).contains("recall"), "a web page may not read the store");
        }
        assert!(lab.stand_in.report().refused.is_empty(), "{dialect:?}: {:?}", lab.stand_in.report().refused);
    }
}

#[test]
fn a_model_that_calls_memory_tools_for_ever_is_stopped() {
    let lab = adding("\"recall\"");
    let mut client = Client::new(Dialect::Anthropic);
    // The recalled message asks for the same call again.
    let answer = client.say(&lab, r#"CALL recall {"query":"please for ever"} please for ever"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let asides: u32 = answer.header("x-lookback-asides").unwrap().parse().unwrap();
    assert_eq!(asides, 9, "told once that it was enough, it goes on without");
    assert_eq!(lab.stand_in.count(), 10);
}

#[test]
fn a_tool_of_the_client_with_the_name_of_ours_is_its_own() {
    let lab = adding("\"recall\", \"memory-tools\"");
    let mut client = Client::new(Dialect::OpenAiChat);
    client.tools = vec!["recall"];
    client.messages.push(client.said("user", r#"CALL recall {"query":"x"}"#));
    let answer = client.ask(&lab);
    assert!(answer.body.contains("\"recall\""), "{}", answer.body);
    assert_eq!(sent(&lab).matches("\"name\":\"recall\"").count(), 1);
    assert!(sent(&lab).contains("memory_search"));
}

#[test]
fn an_answer_that_breaks_off_while_it_is_held_breaks_off_for_the_client() {
    let lab = adding("\"recall\"");
    let mut client = Client::new(Dialect::OpenAiChat);
    client.stream = true;
    client.say(&lab, "Hello");
    lab.stand_in.fail_next(Fault::Cut);
    client.messages.push(client.said("user", "Hi"));
    let body = client.body().to_string();
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut answer = agent.post(format!("{}/v1/chat/completions", lab.base)).send(&body).unwrap();
    let read = answer.body_mut().read_to_string();
    assert!(answer.status() == 200 && read.is_err(), "{answer:?} {read:?}");
}

#[test]
fn cache_markers_are_added_where_a_client_sets_none() {
    let lab = adding("\"cache-markers\"");
    let mut client = Client::new(Dialect::Anthropic);
    client.say(&lab, "one");
    assert!(sent(&lab).starts_with(r#"{"cache_control":{"type":"ephemeral"},"#), "{}", sent(&lab));
    // A quoted marker does not count.
    client.say(&lab, r#"What is "cache_control"?"#);
    assert!(sent(&lab).starts_with(r#"{"cache_control":{"type":"ephemeral"},"#), "{}", sent(&lab));
    client.messages[0] =
        json!({"role": "user", "content": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]});
    client.say(&lab, "three");
    assert_eq!(sent(&lab), client_body(&client));
    let mut other = Client::new(Dialect::OpenAiChat);
    other.say(&lab, "one");
    assert_eq!(sent(&lab), client_body(&other));
}

/// Returns the body of the client's last request, which did not yet contain the answer.
fn client_body(client: &Client) -> String {
    let mut before = Client { headers: Vec::new(), ..client.clone() };
    before.messages.pop();
    before.body().to_string()
}

#[test]
fn a_summary_takes_the_place_of_what_leaves() {
    // People's words would be shortened instead.
    let keep = Keep { people: 0, ..Keep::default() };
    let (limits, target) = (Limits::tokens(5000), Some(Limits::tokens(2500)));
    let lab = adding_with("\"summaries\"", Policy { limits, target, keep, ..Policy::production() });
    let mut client = Client::new(Dialect::Anthropic);
    for turn in 0..30 {
        let answer =
            client.say(&lab, &format!("In turn {turn}, the heron stood at the lake. {}", "It was cold. ".repeat(80)));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    assert!(sent(&lab).contains("[Summary of the conversation before this point]"), "{}", sent(&lab));
    assert!(lab.stand_in.report().refused.is_empty());
}

#[test]
fn a_model_that_goes_in_circles_is_told_so() {
    let lab = adding("\"progress\"");
    let mut client = Client::new(Dialect::OpenAiChat);
    client.messages.push(client.said("user", r#"Find it. CALL read {"path":"a"}"#));
    for _ in 0..4 {
        let answer: Value = serde_json::from_str(&client.ask(&lab).body).unwrap();
        let message = answer["choices"][0]["message"].clone();
        let id = message["tool_calls"][0]["id"].clone();
        client.messages.push(message);
        let again = r#"Nothing there. CALL read {"path":"a"}"#;
        client.messages.push(json!({"role": "tool", "tool_call_id": id, "content": again}));
    }
    client.ask(&lab);
    assert!(sent(&lab).contains("3 times in a row"), "{}", sent(&lab));
    assert!(lab.stand_in.report().refused.is_empty());
}

#[test]
fn the_list_of_a_key_counts_more_than_that_of_an_upstream() {
    let (secret, key) = lookback_server::gateway::Key::generate("ann".parse().unwrap()).unwrap();
    let config = format!(
        "adds = [\"cache-markers\"]\n[[upstream]]\nurl = \"UPSTREAM\"\nadds = []\n{}adds = [\"fact-sheet\"]\n",
        key.to_toml()
    );
    let lab = Lab::configured(&config);
    let tenant = lab.store.scoped(&"ann".parse().unwrap()).unwrap();
    let memory = block_on(Memory::open(tenant, "someone")).unwrap();
    block_on(memory.state(Scope::Shared, Statement::preference("Use pnpm."))).unwrap();
    let mut client = Client::new(Dialect::Anthropic);
    client.headers.push(("x-lookback-key", secret));
    client.say(&lab, "one");
    assert!(sent(&lab).contains("Use pnpm.") && !sent(&lab).contains("cache_control"), "{}", sent(&lab));
}

#[test]
fn what_the_gateway_adds_is_no_message_of_the_conversation() {
    let lab = adding("\"fact-sheet\", \"recall\"");
    prefer(&lab, "Use pnpm.");
    let mut client = Client::new(Dialect::OpenAiChat);
    client.say(&lab, r#"CALL recall {"query":"pnpm"}"#);
    let answer = client.say(&lab, "two");
    assert_eq!(answer.header("x-lookback-line"), Some("continued"));
    let mut session = block_on(Session::open(lab.store.clone(), answer.session(), Settings::default())).unwrap();
    assert_eq!(block_on(session.info()).unwrap().unwrap().messages, 4);
    // An edited message begins a branch, and no message of the old one is sent.
    client.messages.truncate(2);
    client.messages.push(client.said("user", "three"));
    assert_eq!(client.ask(&lab).status, 200);
    assert!(!sent(&lab).contains("two"), "{}", sent(&lab));
    assert!(lab.stand_in.report().refused.is_empty());
}
