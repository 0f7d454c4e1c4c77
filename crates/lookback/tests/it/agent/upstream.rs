//! A model's endpoint for tests: it answers by a script, checks each request against the provider's rules, and refuses
//! requests that are too long with the provider's own error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use lookback_wire::dialect::{Dialect, Request};
use serde_json::{Value, json};

/// The endpoint's reaction to a request that it accepts.
pub(crate) enum Reply {
    Say(&'static str),
    Call(Vec<(&'static str, Value)>),
    /// A status, and a whole body.
    Status(u16, &'static str),
    /// The connection is closed without an answer.
    Close,
    /// No answer ever comes.
    Hold,
    /// A refusal as too long, regardless of the limit.
    Refuse,
}

/// The properties of the endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) dialect: Dialect,
    /// Requests with more tokens are refused. A token is four bytes.
    pub(crate) limit: Option<u64>,
    /// Whether a refusal states the limit and the request's tokens.
    pub(crate) numbers: bool,
    /// The input tokens to report, instead of those of the request.
    pub(crate) usage: Option<u64>,
}

/// A request that the endpoint received.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) body: Value,
    pub(crate) bytes: usize,
    pub(crate) refused: bool,
}

pub(crate) struct Upstream {
    pub(crate) base: String,
    pub(crate) options: Options,
    pub(crate) held: Receiver<()>,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    accepted: usize,
    faults: Vec<String>,
}

type Script = dyn Fn(usize, &Value) -> Reply + Send + Sync;

impl Upstream {
    /// Answers requests by a script. It gets the number of each request that is not too long, from 0.
    pub(crate) fn new(options: Options, script: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = if options.dialect == Dialect::Anthropic { "" } else { "/v1" };
        let base = format!("http://{}{path}", listener.local_addr().unwrap());
        let (tell, held) = channel();
        let log = Arc::new(Mutex::new(Log::default()));
        let (kept, script): (_, Arc<Script>) = (log.clone(), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, script, tell) = (kept.clone(), script.clone(), tell.clone());
                thread::spawn(move || answer(stream.unwrap(), options, &log, &*script, &tell));
            }
        });
        Upstream { base, options, held, log }
    }

    /// Returns the requests so far, after checking that none broke a rule.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let log = self.log.lock().unwrap();
        assert!(log.faults.is_empty(), "{:?}: {:#?}", self.options.dialect, log.faults);
        log.seen.clone()
    }
}

fn answer(stream: TcpStream, options: Options, log: &Mutex<Log>, script: &Script, tell: &Sender<()>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let pairs = head.iter().filter_map(|line| line.split_once(": "));
        pairs.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let mut bytes = vec![0; header("content-length").unwrap().parse().unwrap()];
    reader.read_exact(&mut bytes).unwrap();
    let faults = faults(options.dialect, head.first().map_or("", String::as_str), header, &bytes);
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let tokens = bytes.len() as u64 / 4;
    let refused = options.limit.is_some_and(|limit| tokens > limit);
    let number = {
        let mut log = log.lock().unwrap();
        log.faults.extend(faults);
        log.seen.push(Seen { body: body.clone(), bytes: bytes.len(), refused });
        log.accepted += usize::from(!refused);
        log.accepted.wrapping_sub(1)
    };
    if refused {
        return write(stream, 400, &too_long(options, tokens));
    }
    match script(number, &body) {
        Reply::Refuse => write(stream, 400, &too_long(options, tokens)),
        Reply::Say(text) => write(stream, 200, &said(options, tokens, number, text, &[])),
        Reply::Call(calls) => write(stream, 200, &said(options, tokens, number, "", &calls)),
        Reply::Status(status, body) => write(stream, status, body),
        Reply::Close => {}
        Reply::Hold => {
            tell.send(()).unwrap();
            // Waits until the client closes the connection.
            _ = reader.read(&mut [0]);
        }
    }
}

/// Returns the faults of a request.
fn faults(dialect: Dialect, start: &str, header: impl Fn(&str) -> Option<String>, bytes: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut demand = |kept: bool, what: String| {
        if !kept {
            faults.push(what);
        }
    };
    let anthropic = dialect == Dialect::Anthropic;
    let path = if anthropic { "/v1/messages" } else { "/v1/chat/completions" };
    demand(start == format!("POST {path} HTTP/1.1"), format!("sent to {start}"));
    let key = if anthropic { header("x-api-key") } else { header("authorization") };
    demand(key.as_deref() == Some(if anthropic { "secret" } else { "Bearer secret" }), "the key".to_owned());
    demand(!anthropic || header("anthropic-version").is_some(), "the version".to_owned());
    demand(header("content-type").as_deref() == Some("application/json"), "the content's type".to_owned());
    let request = match Request::decode(bytes, Some(dialect)) {
        Ok(request) => request,
        Err(error) => return vec![error.to_string()],
    };
    let findings = dialect.check(&request);
    demand(findings.is_empty(), format!("{findings:?}"));
    demand(request.model() == Some("model-1"), "the model".to_owned());
    let body: Value = serde_json::from_slice(bytes).unwrap();
    let choice = if anthropic { &body["tool_choice"]["type"] } else { &body["tool_choice"] };
    demand(*choice == "auto" || *choice == "none", format!("the choice of tools is {choice}"));
    let named = |tool: &Value| if anthropic { tool["name"].clone() } else { tool["function"]["name"].clone() };
    let names: Vec<Value> = body["tools"].as_array().into_iter().flatten().map(named).collect();
    for name in ["list", "read", "search", "memory_finding", "memory_preference"] {
        demand(names.contains(&json!(name)), format!("there is no tool {name}"));
    }
    if anthropic {
        demand(body["max_tokens"].as_u64().is_some_and(|most| most > 0), "`max_tokens`".to_owned());
        demand(body["system"].is_string(), "`system`".to_owned());
    } else {
        let systems = body["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "system");
        demand(systems.count() == 1 && body["messages"][0]["role"] == "system", "the system message".to_owned());
    }
    faults
}

fn said(options: Options, tokens: u64, number: usize, text: &str, calls: &[(&str, Value)]) -> String {
    let id = |index: usize| format!("call_{number}_{index}");
    let input = options.usage.unwrap_or(tokens);
    let body = if options.dialect == Dialect::Anthropic {
        let call = |(index, (name, input)): (usize, &(&str, Value))| json!({"type": "tool_use", "id": id(index), "name": name, "input": input});
        let words = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
        let content: Vec<Value> = words.into_iter().chain(calls.iter().enumerate().map(call)).collect();
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "model-1-20251121", "content": content,
            "stop_reason": stop, "stop_sequence": null,
            "usage": {"input_tokens": input, "cache_read_input_tokens": 0, "output_tokens": 10}})
    } else {
        let call = |(index, (name, arguments)): (usize, &(&str, Value))| json!({"id": id(index), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
        let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
        let message = match calls.is_empty() {
            true => json!({"role": "assistant", "content": text, "refusal": null}),
            false => json!({"role": "assistant", "content": null, "tool_calls": calls}),
        };
        json!({"id": "x", "object": "chat.completion", "model": "model-1-2025-11-21",
            "choices": [{"index": 0, "message": message, "finish_reason": if calls.is_empty() { "stop" } else { "tool_calls" }}],
            "usage": {"prompt_tokens": input, "completion_tokens": 10, "total_tokens": input + 10}})
    };
    body.to_string()
}

/// Returns a refusal from the vectors of `corpus/errors`, with its numbers replaced by these.
fn too_long(options: Options, tokens: u64) -> String {
    let (file, name, numbers) = match (options.dialect, options.numbers) {
        (Dialect::Anthropic, true) => ("anthropic", "the prompt is too long", ["219898", "200000"]),
        (Dialect::Anthropic, false) => ("anthropic", "without numbers", ["", ""]),
        (_, true) => ("openai-chat", "OpenAI: the messages are too many tokens", ["8202", "8192"]),
        (_, false) => ("openai-chat", "OpenAI: no numbers", ["", ""]),
    };
    let path = format!("{}/../../corpus/errors/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let vectors: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let body = vectors.iter().find(|vector| vector["name"] == name).unwrap()["body"].as_str().unwrap().to_owned();
    if !options.numbers {
        return body;
    }
    let limit = options.limit.unwrap_or_default().to_string();
    body.replace(numbers[0], &tokens.to_string()).replace(numbers[1], &limit)
}

fn write(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\nconnection: close\r\n");
    // The client may have closed the connection.
    _ = stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
}
