//! Summaries over HTTP, with servers that check each request against the provider's rules.

#![cfg(feature = "http")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_engine::policy::Summarize;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy, Stage},
};
use lookback_session::Session;
use lookback_session::SummaryOptions;
use lookback_session::{CompactionOutcome, Hooks};
use lookback_store::MemoryStore;
use lookback_summarize::{
    Anthropic, HttpLimits, OpenAi, SummarizeOptions, Summarizer, SummarizerError, SummaryTask, passages, run, summarize,
};
use lookback_tokens::{Estimate, TokenCounter, Vocabulary};
use lookback_wire::message::Message;
use serde_json::{Value, json};

const KEY: &str = "sk-very-secret-0123456789";
const SAID: &str = "the blue whale sings at night";
/// A time limit that no operation here reaches, even on a slow machine.
const LONGEST: Duration = Duration::from_secs(60);

/// A request as the server saw it.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

enum Reply {
    Json(u16, Value),
    With(u16, &'static str, Value),
    Raw(&'static str),
    /// A response of this many bytes.
    Huge(usize),
    /// A byte at a time, with pauses.
    Trickle,
    Hang,
    Close,
}

struct Server {
    base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// A server that answers requests by their number, from 0.
fn serve(reply: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let reply = Arc::new(reply);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (reply, log) = (reply.clone(), log.clone());
            thread::spawn(move || answer(stream.unwrap(), &*reply, &log));
        }
    });
    Server { base, seen }
}

fn answer(stream: TcpStream, reply: &dyn Fn(usize, &Seen) -> Reply, log: &Mutex<Vec<Seen>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("POST"));
    let path = words.next().unwrap().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let mut seen = Seen { path, headers, body: Value::Null };
    let mut body = vec![0; seen.header("content-length").unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    assert_eq!(seen.header("content-type"), Some("application/json"));
    seen.body = serde_json::from_slice(&body).unwrap();
    let number = {
        let mut log = log.lock().unwrap();
        log.push(seen.clone());
        log.len() - 1
    };
    write(stream, reply(number, &seen));
}

fn write(mut stream: TcpStream, reply: Reply) {
    let head = |status: u16, length: usize, more: &str| {
        format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n"
        )
    };
    // The client may have closed the connection.
    let _ = match reply {
        Reply::Json(status, body) => {
            let body = body.to_string();
            stream.write_all((head(status, body.len(), "") + &body).as_bytes())
        }
        Reply::With(status, header, body) => {
            let body = body.to_string();
            stream.write_all((head(status, body.len(), &format!("{header}\r\n")) + &body).as_bytes())
        }
        Reply::Raw(body) => stream.write_all((head(200, body.len(), "") + body).as_bytes()),
        Reply::Huge(bytes) => {
            let sent = stream.write_all(head(200, bytes, "").as_bytes());
            sent.and_then(|()| stream.write_all(&vec![b' '; bytes]))
        }
        Reply::Trickle => {
            let sent = stream.write_all(head(200, 1_000, "").as_bytes());
            sent.and_then(|()| {
                (0..1_000).try_for_each(|_| {
                    thread::sleep(Duration::from_millis(20));
                    stream.write_all(b" ")
                })
            })
        }
        Reply::Hang => {
            thread::sleep(2 * LONGEST);
            Ok(())
        }
        Reply::Close => Ok(()),
    };
}

/// An answer in OpenAI's form.
fn chat(text: &str) -> Value {
    let message = json!({"role": "assistant", "content": text, "refusal": null});
    json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
}

/// An answer in Anthropic's form.
fn message(content: Value, stop: &str) -> Value {
    json!({"id": "x", "type": "message", "role": "assistant", "content": content, "stop_reason": stop})
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn refusal(code: &str) -> Value {
    json!({"error": {"message": format!("You said: {SAID}, with {KEY}"), "type": "some_error", "code": code}})
}

fn limits() -> HttpLimits {
    HttpLimits::default().time(LONGEST).tries(3).wait(Duration::from_millis(5))
}

fn openai(server: &Server) -> OpenAi {
    OpenAi::new("gpt-mock").with_key(KEY).with_base(&format!("{}/v1/", server.base)).with_limits(limits())
}

fn anthropic(server: &Server) -> Anthropic {
    Anthropic::new("claude-mock").with_key(KEY).with_base(&server.base).with_limits(limits())
}

/// Returns the error of a call.
fn failure(model: &dyn Summarizer) -> String {
    ask(model).unwrap_err().to_string()
}

fn ask(model: &dyn Summarizer) -> Result<String, SummarizerError> {
    let asked = block_on(summarize(&[Message::user(SAID)], model, &SummarizeOptions::default().budget(90)));
    let shown = format!("{asked:?} {model:?} {}", asked.as_ref().map_or_else(ToString::to_string, |_| String::new()));
    assert!(!shown.contains("secret") && !shown.contains("whale"), "{shown}");
    asked.map(|summary| summary.text)
}

#[test]
fn openai_is_asked_in_its_own_form() {
    let server = serve(|_, _| Reply::Json(200, chat("They greet.")));
    assert_eq!(ask(&openai(&server)).unwrap(), "They greet.");
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!((&seen.body["model"], &seen.body["max_tokens"]), (&json!("gpt-mock"), &json!(90)));
    let messages = seen.body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1], json!({"role": "user", "content": format!("[1] user: {SAID}")}));
    assert!(messages[0]["role"] == "system" && messages[0]["content"].as_str().unwrap().contains("under 90 tokens"));
    assert!(seen.body.get("response_format").is_none() && seen.body.get("stream").is_none());
}

#[test]
fn a_local_server_needs_no_key() {
    let server = serve(|_, _| Reply::Json(200, chat("Fine.")));
    let model = OpenAi::new("local").with_base(&server.base).with_window(4_096);
    assert_eq!((ask(&model).unwrap().as_str(), model.model(), model.window()), ("Fine.", "local", Some(4_096)));
    assert_eq!((server.seen()[0].path.as_str(), server.seen()[0].header("authorization")), ("/chat/completions", None));
}

#[test]
fn anthropic_is_asked_in_its_own_form() {
    let server = serve(|_, _| Reply::Json(200, message(text("They greet."), "end_turn")));
    assert_eq!(ask(&anthropic(&server)).unwrap(), "They greet.");
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/messages");
    assert_eq!((seen.header("x-api-key"), seen.header("authorization")), (Some(KEY), None));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!((&seen.body["model"], &seen.body["max_tokens"]), (&json!("claude-mock"), &json!(90)));
    assert!(seen.body["system"].as_str().unwrap().contains("under 90 tokens"));
    assert_eq!(seen.body["messages"], json!([{"role": "user", "content": format!("[1] user: {SAID}")}]));
    assert!(seen.body.get("tools").is_none());
}

#[test]
fn a_schema_is_asked_for_in_the_form_of_each() {
    let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}});
    let task = SummaryTask::new(passages(&[Message::user(SAID)]), 90).schema(schema.clone());

    let server = serve(|_, _| Reply::Json(200, chat(r#"{"port": 5050}"#)));
    let facts = block_on(run(&openai(&server), task.clone(), &Estimate::default())).unwrap();
    assert_eq!(facts.text, r#"{"port": 5050}"#);
    let format = &server.seen()[0].body["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["schema"]), (&json!("json_schema"), &schema));
    assert!(format["json_schema"]["name"].is_string());

    let input = json!([{"type": "text", "text": "Here."}, {"type": "tool_use", "id": "t", "name": "record_facts", "input": {"port": 5050}}]);
    let server = serve(move |_, _| Reply::Json(200, message(input.clone(), "tool_use")));
    let facts = block_on(run(&anthropic(&server), task, &Estimate::default())).unwrap();
    assert_eq!(facts.text, r#"{"port":5050}"#);
    let body = &server.seen()[0].body;
    assert_eq!(body["tools"][0]["input_schema"], schema);
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": body["tools"][0]["name"]}));
}

#[test]
fn an_answer_that_was_stopped_ends_with_a_sentence() {
    let mut stopped = chat("One two three. Four fi");
    stopped["choices"][0]["finish_reason"] = json!("length");
    let server = serve(move |_, _| Reply::Json(200, stopped.clone()));
    assert_eq!(ask(&openai(&server)).unwrap(), "One two three.");
    let server = serve(|_, _| Reply::Json(200, message(text("- one two\n- three\n- fo"), "max_tokens")));
    assert_eq!(ask(&anthropic(&server)).unwrap(), "- one two\n- three");
}

#[test]
fn the_newer_name_of_the_limit_is_taken_where_it_is_asked_for() {
    let server = serve(|_, seen| {
        if seen.body.get("max_tokens").is_some() {
            let said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
            return Reply::Json(400, json!({"error": {"message": said, "code": "unsupported_parameter"}}));
        }
        assert_eq!(seen.body["max_completion_tokens"], 90);
        Reply::Json(200, chat("Fine."))
    });
    let model = openai(&server);
    assert_eq!(ask(&model).unwrap(), "Fine.");
    assert_eq!(ask(&model).unwrap(), "Fine.");
    assert_eq!(server.seen().len(), 3, "it is remembered");
}

#[test]
fn what_passes_is_tried_again() {
    for status in [408, 429, 500, 503, 529] {
        let server = serve(move |number, _| match number {
            0 => Reply::Json(status, refusal("rate_limit_exceeded")),
            1 => Reply::Close,
            _ => Reply::Json(200, chat("Fine.")),
        });
        assert_eq!(ask(&openai(&server)).unwrap(), "Fine.", "{status}");
        assert_eq!(server.seen().len(), 3);
    }
}

#[test]
fn tries_end() {
    let server = serve(|_, _| Reply::Json(500, refusal("server_error")));
    assert_eq!(failure(&openai(&server)), "gpt-mock answered with status 500 (server_error) (tries: 3)");
    assert_eq!(server.seen().len(), 3);

    let server = serve(|_, _| Reply::Close);
    let failed = failure(&anthropic(&server));
    assert_eq!(failed, "claude-mock could not be reached: the connection broke (tries: 3)");

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failed = failure(&OpenAi::new("m").with_base(&format!("http://{free}")).with_limits(limits()));
    assert!(failed.starts_with("m could not be reached: ") && failed.ends_with(" (tries: 3)"), "{failed}");
}

#[test]
fn what_does_not_pass_is_tried_once() {
    for status in [301, 302, 400, 401, 403, 404, 413] {
        let server = serve(move |_, _| Reply::With(status, "location: /elsewhere", refusal("invalid_api_key")));
        let expected = format!("gpt-mock answered with status {status} (invalid_api_key) (tries: 1)");
        assert_eq!(failure(&openai(&server)), expected);
        assert_eq!(server.seen().len(), 1);
    }
}

#[test]
fn a_server_that_says_how_long_to_wait_is_believed() {
    let server = serve(|number, _| match number {
        0 => Reply::With(429, "retry-after: 0.3", refusal("rate_limit_exceeded")),
        _ => Reply::Json(200, chat("Fine.")),
    });
    let start = Instant::now();
    assert_eq!(ask(&openai(&server)).unwrap(), "Fine.");
    assert!(start.elapsed() >= Duration::from_millis(300));

    // The wait is longer than the remaining time, so there is no other try.
    let server = serve(|_, _| Reply::With(429, "retry-after: 1000", refusal("rate_limit_exceeded")));
    assert_eq!(failure(&openai(&server)), "gpt-mock answered with status 429 (rate_limit_exceeded) (tries: 1)");
}

#[test]
fn time_is_limited() {
    let time = Duration::from_secs(2);
    for slow in [|| Reply::Hang, || Reply::Trickle] {
        let server = serve(move |_, _| slow());
        let start = Instant::now();
        let failed = failure(&openai(&server).with_limits(limits().time(time)));
        assert_eq!(failed, "gpt-mock did not answer within 2s");
        assert!(start.elapsed() < LONGEST);
    }
}

#[test]
fn why_a_try_failed_is_told_when_time_is_up() {
    let limits = limits().time(Duration::from_secs(3));
    let server =
        serve(|number, _| if number == 0 { Reply::Json(503, refusal("overloaded_error")) } else { Reply::Hang });
    let failed = failure(&openai(&server).with_limits(limits));
    assert_eq!(failed, "gpt-mock answered with status 503 (overloaded_error) (tries: 2)");

    let server = serve(|number, _| if number == 0 { Reply::Close } else { Reply::Hang });
    let failed = failure(&anthropic(&server).with_limits(limits));
    assert_eq!(failed, "claude-mock could not be reached: the connection broke (tries: 2)");
}

#[test]
fn why_a_try_failed_is_told_when_the_time_of_a_session_is_up() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // The next try is after the session's time limit for a summary.
    let limits = HttpLimits::default().time(2 * LONGEST).wait(LONGEST);
    let model = OpenAi::new("m").with_base(&format!("http://{closed}")).with_limits(limits);
    let (tell, told) = std::sync::mpsc::channel();
    let hooks = Hooks::default().on_compact_end(move |end| tell.send(end.outcome.clone()).unwrap());
    let policy = Policy {
        limits: Limits::messages(2),
        stages: vec![Stage::Summarize(Summarize { budget: 100, ..Summarize::default() })],
        ..Policy::unlimited()
    };
    let session = Session::open(MemoryStore::new(), "chat", Settings::default().policy(policy));
    let mut session = block_on(session)
        .unwrap()
        .with_summarizer(SummaryOptions::new(model).time_limit(Duration::from_secs(2)))
        .with_hooks(hooks);
    for number in 0..4 {
        block_on(session.push(Message::user(format!("message {number} says a little more than nothing")))).unwrap();
    }
    block_on(session.enforce_limits()).unwrap();
    let CompactionOutcome::Failed { reason } = told.recv_timeout(LONGEST).unwrap() else { panic!("it was summarized") };
    assert!(reason.to_string().contains("the connection was refused"), "{reason}");
}

#[test]
fn a_certificate_that_is_not_accepted_is_told_at_once() {
    let server = crate::deaf::Deaf::untrusted(0, b"");
    let model = OpenAi::new("m").with_base(&format!("https://127.0.0.1:{}", server.port)).with_limits(limits());
    assert_eq!(failure(&model), "m could not be reached: the certificate was not accepted (tries: 1)");
    assert_eq!(server.tried(), 1);
}

#[test]
fn responses_are_limited() {
    let server = serve(|_, _| Reply::Huge(3 << 20));
    let limited = openai(&server).with_limits(limits().response(1 << 20));
    let failed = failure(&limited);
    assert!(failed.starts_with("the response of gpt-mock is larger than 1048576 bytes: "), "{failed}");
}

#[test]
fn responses_of_another_form_are_named() {
    for body in ["", "<html>Welcome</html>", "{\"choices\": [", "[]", "{\"choices\": []}", "{\"content\": \"x\"}"] {
        let server = serve(move |_, _| Reply::Raw(body));
        let failed = failure(&openai(&server));
        assert!(failed.starts_with("the response of gpt-mock is not "), "{body}: {failed}");
        let failed = failure(&anthropic(&server));
        assert!(failed.starts_with("the response of claude-mock is not "), "{body}: {failed}");
    }
}

#[test]
fn silence_and_refusal_are_told_apart() {
    let server = serve(|_, _| Reply::Json(200, chat(" ")));
    assert_eq!(failure(&openai(&server)), "gpt-mock returned an empty answer");
    let mut declined = chat("");
    declined["choices"][0]["message"]["refusal"] = json!("I cannot speak of whales.");
    let server = serve(move |_, _| Reply::Json(200, declined.clone()));
    assert_eq!(failure(&openai(&server)), "gpt-mock declined to answer");
    let server = serve(|_, _| Reply::Json(200, message(json!([]), "end_turn")));
    assert_eq!(failure(&anthropic(&server)), "claude-mock returned an empty answer");
    let server = serve(|_, _| Reply::Json(200, message(text("No."), "refusal")));
    assert_eq!(failure(&anthropic(&server)), "claude-mock declined to answer");
}

#[test]
fn a_key_or_an_address_that_cannot_be_sent_is_not_shown() {
    let server = serve(|_, _| Reply::Json(200, chat("Fine.")));
    let failed = failure(&openai(&server).with_key("secret\nkey"));
    assert!(failed.starts_with("gpt-mock could not be reached: ") && failed.ends_with(" (tries: 1)"), "{failed}");
    for base in ["nowhere", "ftp://secret@x/", "http://", "http://[secret"] {
        let failed = failure(&OpenAi::new("m").with_base(base).with_limits(limits()));
        assert!(failed.starts_with("m could not be reached: "), "{base}: {failed}");
    }
}

#[test]
fn no_request_is_larger_than_the_window() {
    let window = 1_500;
    let counter = Arc::new(lookback_tokens::OpenAiCounter::new(Vocabulary::O200k));
    let counts = counter.clone();
    // The server counts the whole body, which is a little more than a provider counts.
    let server = serve(move |_, seen| {
        let text = |pointer: &str| counts.text(seen.body.pointer(pointer).unwrap().as_str().unwrap());
        let sent = text("/messages/0/content") + text("/messages/1/content") + 8;
        if sent + seen.body["max_tokens"].as_u64().unwrap() > window {
            return Reply::Json(400, refusal("context_length_exceeded"));
        }
        Reply::Json(200, chat(&"A part of it, and the port is 5050. ".repeat(50)))
    });
    let messages: Vec<Message> =
        (0..60).map(|n| Message::user(format!("Fact {n}: {}", "the port is 5050, and so on. ".repeat(n)))).collect();
    let model = openai(&server).with_window(window);
    let summary = block_on(run(&model, SummaryTask::new(passages(&messages), 200), &*counter)).unwrap();
    assert!(summary.tokens_after <= 200 && summary.text.ends_with("5050."), "{}", summary.text);
    assert!(server.seen().len() > 10);
    let whole = openai(&server);
    assert!(
        block_on(run(&whole, SummaryTask::new(passages(&messages), 200), &*counter)).is_err(),
        "it did not need splitting"
    );
}

#[cfg(feature = "facts")]
#[test]
fn facts_that_do_not_fit_are_asked_for_once_more() {
    use lookback_summarize::key_facts;
    let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]});
    let server = serve(|number, seen| {
        let system = seen.body["messages"][0]["content"].as_str().unwrap();
        assert_eq!(number > 0, system.contains("/properties/port/type"), "{system}");
        Reply::Json(200, chat(if number == 0 { r#"{"port": "whale"}"# } else { r#"{"port": 5050}"# }))
    });
    let facts = block_on(key_facts(&[Message::user(SAID)], &openai(&server), &schema)).unwrap();
    assert_eq!(facts, json!({"port": 5050}));
    assert_eq!(server.seen().len(), 2);
}
