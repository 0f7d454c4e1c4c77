//! A stand-in for the providers: it refuses what breaks a rule of theirs, counts tokens, and answers in their form.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use futures_lite::StreamExt as _;
use http_body_util::BodyExt as _;
use lookback::dialect::Severity;
use lookback::{Dialect, Settings, measure};
use serde_json::{Value, json};

/// What reached the stand-in.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What the stand-in does with the next requests, before it answers as usual again.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// It answers with this status and body.
    Status(u16, String),
    /// It ends the stream after the first words.
    Cut,
    /// It answers after this time.
    Wait(Duration),
    /// It says that more will come, and sends nothing more.
    Stall,
}

#[derive(Default)]
pub(super) struct StandIn {
    pub(super) seen: Mutex<Vec<Seen>>,
    pub(super) faults: Mutex<Vec<Fault>>,
    /// The most tokens of a request; 0 is no limit.
    pub(super) window: Mutex<u64>,
    /// What was refused, by rule.
    pub(super) refused: Mutex<Vec<String>>,
}

impl StandIn {
    /// Starts a stand-in, and returns it with its address.
    pub(super) fn start() -> (Arc<StandIn>, String) {
        let stand_in = Arc::new(StandIn::default());
        let (send, receive) = std::sync::mpsc::channel();
        let state = stand_in.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().fallback(answer).with_state(state);
                axum::serve(listener, router).await.unwrap();
            });
        });
        let address = receive.recv().unwrap();
        (stand_in, format!("http://{address}"))
    }

    pub(super) fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(super) fn fail_next(&self, fault: Fault) {
        self.faults.lock().unwrap().push(fault);
    }
}

fn dialect_of(path: &str) -> Option<Dialect> {
    let path = path.split('?').next().unwrap();
    if path.ends_with("/chat/completions") {
        Some(Dialect::OpenAiChat)
    } else if path.ends_with("/responses") {
        Some(Dialect::OpenAiResponses)
    } else if path.ends_with("/messages") {
        Some(Dialect::Anthropic)
    } else {
        path.to_lowercase().ends_with("generatecontent").then_some(Dialect::Gemini)
    }
}

async fn answer(State(stand_in): State<Arc<StandIn>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = parts.uri.path_and_query().unwrap().to_string();
    stand_in.seen.lock().unwrap().push(Seen { path: path.clone(), headers: parts.headers, body: body.clone() });
    let fault = {
        let mut faults = stand_in.faults.lock().unwrap();
        if faults.is_empty() { None } else { Some(faults.remove(0)) }
    };
    if let Some(Fault::Status(status, body)) = &fault {
        return respond(*status, "application/json", body.clone());
    }
    match &fault {
        Some(Fault::Wait(time)) => tokio::time::sleep(*time).await,
        Some(Fault::Stall) => {
            let never = Body::from_stream(
                futures_lite::stream::once(Ok("{")).chain(futures_lite::stream::pending::<Result<&str, Infallible>>()),
            );
            return Response::new(never);
        }
        _ => {}
    }
    let Some(dialect) = dialect_of(&path) else {
        return respond(200, "application/json", json!({"path": path, "method": parts.method.as_str()}).to_string());
    };
    let request = match lookback::Request::decode(body.to_vec(), Some(dialect)) {
        Ok(request) => request,
        Err(error) => {
            return respond(400, "application/json", json!({"error": {"message": error.to_string()}}).to_string());
        }
    };
    let refused = dialect.check(&request).into_iter().find(|finding| finding.severity == Severity::Refused);
    if let Some(finding) = refused {
        stand_in.refused.lock().unwrap().push(format!("{} at {}", finding.rule, finding.path));
        let message = words(dialect, finding.rule);
        return respond(400, "application/json", json!({"error": {"message": message}}).to_string());
    }
    let settings = Settings::for_model(dialect, "gpt-4o");
    let counted = request.messages().iter().map(|message| measure(message, &[], &*settings.counter).tokens);
    let tokens = counted.sum::<u64>() + request.preamble().measure(&*settings.counter).tokens;
    let most = *stand_in.window.lock().unwrap();
    if most > 0 && tokens > most {
        return respond(400, "application/json", too_long(dialect, tokens, most));
    }
    let number = request.messages().iter().filter(|message| message.role() == lookback::Role::Assistant).count();
    let streams =
        path.contains("streamGenerateContent") || request.member("stream").is_some_and(|stream| stream.get() == "true");
    // No two answers are the same.
    let asked = stand_in.seen.lock().unwrap().len();
    let words = format!("Answer {number} to {tokens} tokens, the {asked}th.");
    if streams {
        let mut events = stream(dialect, &words, tokens);
        if matches!(fault, Some(Fault::Cut)) {
            events.truncate(if dialect == Dialect::Gemini { 1 } else { 3 });
        }
        respond(200, "text/event-stream", events.concat())
    } else {
        respond(200, "application/json", whole(dialect, &words, tokens).to_string())
    }
}

fn respond(status: u16, kind: &str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert("content-type", kind.parse().unwrap());
    response.headers_mut().insert("x-request-id", "req_1".parse().unwrap());
    response
}

/// An error of the provider for a rule, in its words.
fn words(dialect: Dialect, rule: &str) -> String {
    match rule {
        "OC2" => "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.".to_owned(),
        "OR1" => "No tool output found for function call c1.".to_owned(),
        "AM2" => "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1.".to_owned(),
        "GM2" => "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.".to_owned(),
        rule => format!("{dialect} refuses it by {rule}"),
    }
}

pub(super) fn too_long(dialect: Dialect, tokens: u64, most: u64) -> String {
    match dialect {
        Dialect::Anthropic => json!({"type": "error", "error": {"type": "invalid_request_error", "message": format!("prompt is too long: {tokens} tokens > {most} maximum")}}),
        Dialect::Gemini => json!({"error": {"code": 400, "message": format!("The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."), "status": "INVALID_ARGUMENT"}}),
        Dialect::OpenAiResponses => json!({"error": {"message": "Your input exceeds the context window of this model. Please adjust your input and try again.", "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}}),
        _ => json!({"error": {"message": format!("This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."), "code": "context_length_exceeded"}}),
    }
    .to_string()
}

fn whole(dialect: Dialect, words: &str, tokens: u64) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": words}], "stop_reason": "end_turn", "usage": {"input_tokens": tokens, "output_tokens": 5}})
        }
        Dialect::Gemini => {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": words}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 5}})
        }
        Dialect::OpenAiResponses => {
            json!({"id": "resp", "object": "response", "model": "m", "status": "completed", "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": words, "annotations": []}]}], "usage": {"input_tokens": tokens, "output_tokens": 5}})
        }
        _ => {
            json!({"id": "chat", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}], "usage": {"prompt_tokens": tokens, "completion_tokens": 5}})
        }
    }
}

/// The events of a stream; the words come in two pieces.
fn stream(dialect: Dialect, words: &str, tokens: u64) -> Vec<String> {
    let (one, two) = words.split_at(6);
    let events = match dialect {
        Dialect::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": tokens, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": two}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ],
        Dialect::Gemini => vec![
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": one}]}}]}),
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": two}]}}]}),
            json!({"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 5}}),
        ],
        Dialect::OpenAiResponses => vec![
            json!({"type": "response.created", "response": {"id": "resp", "model": "m", "output": []}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": one}),
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": two}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": words, "annotations": []}]}}),
            json!({"type": "response.completed", "response": whole(dialect, words, tokens)}),
        ],
        _ => vec![
            json!({"id": "chat", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
            json!({"id": "chat", "choices": [{"index": 0, "delta": {"content": one}}]}),
            json!({"id": "chat", "choices": [{"index": 0, "delta": {"content": two}}]}),
            json!({"id": "chat", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"id": "chat", "choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 5}}),
        ],
    };
    let mut written: Vec<String> = events
        .into_iter()
        .map(|event| match event["type"].as_str() {
            Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        })
        .collect();
    if dialect == Dialect::OpenAiChat {
        written.push("data: [DONE]\n\n".to_owned());
    }
    written
}
