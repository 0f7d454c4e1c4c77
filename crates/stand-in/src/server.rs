//! The server: receives requests, checks and counts them, and answers by the script.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_lite::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use lookback_engine::Settings;
use lookback_wire::dialect::Dialect;
use lookback_wire::dialect::{Finding, Severity};
use serde_json::{Value, json};

use crate::bound::Signed;
use crate::cache::Caches;
use crate::fault::Fault;
use crate::model::{Said, Usage};
use crate::write::Answer;
use crate::{script, words};

/// A request that the stand-in received.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The method.
    pub method: Method,
    /// The path and the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What has happened since the start.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The number of answered model calls.
    pub answered: usize,
    /// The rules that requests broke, with the places.
    pub refused: Vec<String>,
    /// The number of requests that were too long.
    pub too_long: usize,
    /// The tool calls that the model made, by identifier.
    pub called: Vec<String>,
    /// The tool results that arrived, by the identifiers of their calls.
    pub results: Vec<String>,
    /// The tokens of all requests and answers.
    pub usage: Usage,
}

/// A stand-in for model providers. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct StandIn(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    seen: Vec<Seen>,
    faults: VecDeque<Fault>,
    window: Option<u64>,
    report: Report,
    caches: Caches,
    signed: Signed,
}

impl StandIn {
    /// Starts a stand-in on a free port, and returns it with its address.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub fn start() -> (StandIn, String) {
        let stand_in = StandIn::default();
        let (send, receive) = std::sync::mpsc::channel();
        let serving = stand_in.clone();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        std::thread::spawn(move || {
            serving.serve(any, |address| {
                let _ = send.send(address);
            })
        });
        let address = receive.recv().unwrap_or_else(|_| panic!("no free port"));
        (stand_in, format!("http://{address}"))
    }

    /// Serves until the program ends. Calls `ready` with the address.
    ///
    /// # Errors
    /// Returns an error if it cannot listen on the address.
    pub fn serve(&self, address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind(address).await?;
            ready(listener.local_addr()?);
            let router = Router::new().fallback(handle).with_state(self.clone());
            axum::serve(listener, router).await
        })
    }

    /// Sets the most tokens of a request. `None` removes the limit.
    pub fn set_window(&self, tokens: impl Into<Option<u64>>) {
        self.inner().window = tokens.into();
    }

    /// Adds a fault for the next request without one.
    pub fn fail_next(&self, fault: Fault) {
        self.inner().faults.push_back(fault);
    }

    /// Returns all requests.
    pub fn seen(&self) -> Vec<Seen> {
        self.inner().seen.clone()
    }

    /// Returns the newest request, or `None` if there was none.
    pub fn last(&self) -> Option<Seen> {
        self.inner().seen.last().cloned()
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.inner().seen.len()
    }

    /// Returns what happened.
    pub fn report(&self) -> Report {
        self.inner().report.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dialect_of(path: &str) -> Option<Dialect> {
    let path = path.split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "completions" => Some(Dialect::OpenAiChat),
        "responses" => Some(Dialect::OpenAiResponses),
        "messages" => Some(Dialect::Anthropic),
        last if last.to_lowercase().ends_with("rawpredict") => Some(Dialect::Anthropic),
        last => last.to_lowercase().ends_with("generatecontent").then_some(Dialect::Gemini),
    }
}

/// Answers a request that is not a model call.
fn other(stand_in: &StandIn, method: &Method, path: &str, body: &Bytes) -> Response<Body> {
    let plain = path.split('?').next().unwrap_or_default();
    let answer = match plain.rsplit('/').next().unwrap_or_default() {
        "report" => {
            let report = stand_in.report();
            json!({
                "answered": report.answered, "refused": report.refused, "too_long": report.too_long,
                "called": report.called, "results": report.results, "input": report.usage.input,
                "cached": report.usage.cached, "requests": stand_in.count(),
            })
        }
        "requests" => {
            let inner = stand_in.inner();
            inner.seen.iter().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect::<Vec<_>>().into()
        }
        "faults" => {
            let text = String::from_utf8_lossy(body);
            let faults: Result<Vec<Fault>, String> = text.split(',').map(|fault| fault.trim().parse()).collect();
            match faults {
                Ok(faults) => faults.into_iter().for_each(|fault| stand_in.fail_next(fault)),
                Err(error) => return respond(400, json!({"error": error}).to_string()),
            }
            json!({})
        }
        "models" => {
            json!({"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "me"}]})
        }
        "count_tokens" => json!({"input_tokens": body.len() / 4}),
        last if last.ends_with(":countTokens") => json!({"totalTokens": body.len() / 4}),
        _ => json!({"path": path, "method": method.as_str()}),
    };
    respond(200, answer.to_string())
}

async fn handle(State(stand_in): State<StandIn>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
        return respond(400, words::error(Dialect::OpenAiChat, "the body did not come whole"));
    };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let Some(dialect) = dialect_of(&path) else {
        if !path.starts_with("/stand-in/") {
            stand_in.inner().seen.push(Seen {
                method: parts.method.clone(),
                path: path.clone(),
                headers: parts.headers,
                body: body.clone(),
            });
        }
        return other(&stand_in, &parts.method, &path, &body);
    };
    let said = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let version = said("anthropic-version").map(str::to_owned);
    let packs = said("accept-encoding").is_some_and(|accepted| accepted.contains("gzip"));
    stand_in.inner().seen.push(Seen {
        method: parts.method.clone(),
        path: path.clone(),
        headers: parts.headers,
        body: body.clone(),
    });
    let answer = answer_to(&stand_in, dialect, version, &path, &body).await;
    if packs && answer.status().is_client_error() { packed(answer).await } else { answer }
}

/// Compresses an answer, as the providers' servers do if the client accepts it.
async fn packed(answer: Response<Body>) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let whole = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(&whole).and_then(|()| encoder.finish()).unwrap_or_default();
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

/// Answers a model call.
async fn answer_to(
    stand_in: &StandIn,
    dialect: Dialect,
    version: Option<String>,
    path: &str,
    body: &Bytes,
) -> Response<Body> {
    let fault = stand_in.inner().faults.pop_front();
    if let Some(early) = fault.as_ref().and_then(|fault| fail(fault, dialect)) {
        return early;
    }
    if let Some(Fault::Wait(time)) = fault {
        tokio::time::sleep(time).await;
    }
    let request = match lookback_wire::dialect::Request::decode(body.to_vec(), Some(dialect)) {
        Ok(request) => request,
        Err(error) => return respond(400, words::error(dialect, &error.to_string())),
    };
    let request = match version {
        Some(version) => request.with_version(version),
        None => request,
    };
    answer(stand_in, &request, path, fault)
}

/// Returns the answer for faults that need not read the request.
fn fail(fault: &Fault, dialect: Dialect) -> Option<Response<Body>> {
    match fault {
        Fault::Status(status, body) => Some(respond(*status, body.clone())),
        Fault::Busy(seconds) => {
            let mut busy = respond(429, words::error(dialect, "Rate limit reached"));
            busy.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            Some(busy)
        }
        Fault::TooLong => Some(respond(400, words::too_long(dialect, 1_000_001, 1_000_000))),
        Fault::Malformed => Some(respond(200, "{\"choices\": [".to_owned())),
        Fault::Short => {
            let mut short = Response::new(Body::from_stream(ending(vec!["{".to_owned()], Duration::ZERO, true)));
            short.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(1000));
            short.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Some(short)
        }
        Fault::None | Fault::Cut | Fault::Stall | Fault::Wait(_) | Fault::Slow(_) => None,
    }
}

/// Returns the pieces as a stream. If `breaks` is set, the stream ends with an error, as if the connection had broken.
fn ending(pieces: Vec<String>, pause: Duration, breaks: bool) -> impl Stream<Item = io::Result<String>> {
    stream::unfold((pieces.into_iter(), breaks), move |(mut pieces, breaks)| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        match pieces.next() {
            Some(piece) => Some((Ok(piece), (pieces, breaks))),
            None => breaks.then(|| (Err(io::Error::other("the stand-in closes the connection")), (pieces, false))),
        }
    })
}

fn answer(
    stand_in: &StandIn,
    request: &lookback_wire::dialect::Request,
    path: &str,
    fault: Option<Fault>,
) -> Response<Body> {
    let dialect = request.dialect();
    let mut inner = stand_in.inner();
    let is_refused = |finding: &Finding| finding.severity == Severity::Refused || is_newer(dialect, path, finding.rule);
    if let Some(finding) = dialect.check(request).into_iter().find(is_refused) {
        inner.report.refused.push(format!("{} at {}", finding.rule, finding.path));
        return respond(400, words::refused(dialect, finding.rule, &finding.path));
    }
    if let Some(at) = inner.signed.broken(request) {
        inner.report.refused.push(format!("AM6 at messages[{at}]"));
        return respond(400, words::error(dialect, &format!("messages.{at}.content.0: {}", words::BOUND)));
    }
    let settings = Settings::for_model(dialect, "gpt-4o");
    let mut usage = inner.caches.count(request, &settings);
    if let Some(most) = inner.window.filter(|most| usage.input > *most) {
        inner.report.too_long += 1;
        return respond(400, words::too_long(dialect, usage.input, most));
    }
    let number = inner.seen.len();
    let said = script::say(request, number);
    let said = Said { signature: signature(request, number), thinks: request.member("reasoning").is_some(), ..said };
    if let Some(signature) = &said.signature {
        inner.signed.sign(signature, request);
    }
    usage.output = 5 + said.text.len() as u64 / 4;
    let report = &mut inner.report;
    report.answered += 1;
    report.called.extend(said.calls.iter().map(|call| call.id.clone()));
    for result in request.messages().iter().flat_map(lookback_wire::message::Message::parts) {
        if let lookback_wire::message::PartRef::ToolResult(result) = result
            && !report.results.contains(&result.call_id)
        {
            report.results.push(result.call_id.clone());
        }
    }
    report.usage.input += usage.input;
    report.usage.cached += usage.cached;
    report.usage.output += usage.output;
    drop(inner);
    let model = request.model().unwrap_or("m1");
    let answer = Answer { said: &said, usage, model, number };
    let streams = request.member("stream").is_some_and(|stream| stream.get() == "true");
    if !(streams || path.contains("streamGenerateContent")) {
        if fault == Some(Fault::Stall) {
            let begun = stream::once(Ok::<_, Infallible>("{"));
            return Response::new(Body::from_stream(begun.chain(stream::pending())));
        }
        return respond(200, answer.whole(dialect).to_string());
    }
    let mut events = answer.events(dialect);
    if dialect == Dialect::Gemini && !path.contains("alt=sse") {
        let list: Vec<Value> =
            events.iter().filter_map(|event| serde_json::from_str(event.get(6..)?.trim()).ok()).collect();
        return respond(200, Value::Array(list).to_string());
    }
    let (is_cut, stalls) = (fault == Some(Fault::Cut), fault == Some(Fault::Stall));
    if is_cut || stalls {
        events.truncate(if dialect == Dialect::Gemini { 1 } else { 3 });
    }
    let pause = match fault {
        Some(Fault::Slow(pause)) => pause,
        // Gives the pieces before the cut time to be sent.
        Some(Fault::Cut) => Duration::from_millis(5),
        _ => Duration::ZERO,
    };
    let mut response = respond(200, String::new());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    *response.body_mut() = if stalls {
        Body::from_stream(ending(events, Duration::ZERO, false).chain(stream::pending()))
    } else if is_cut || !pause.is_zero() {
        Body::from_stream(ending(events, pause, is_cut))
    } else {
        Body::from(events.concat())
    };
    response
}

/// Returns whether the path names a newer model that enforces a rule which older models only warn about.
fn is_newer(dialect: Dialect, path: &str, rule: &str) -> bool {
    let names = |version: &str| path.contains(&format!("gemini-{version}"));
    dialect == Dialect::Gemini && rule == "GM3" && ["3", "4"].into_iter().any(names)
}

/// Returns a signature for the answer, if the request asks for something that has to be signed.
fn signature(request: &lookback_wire::dialect::Request, number: usize) -> Option<String> {
    let says = |member: &str, word: &str| request.member(member).is_some_and(|value| value.get().contains(word));
    let signs = match request.dialect() {
        Dialect::Anthropic => says("thinking", "adaptive") || says("thinking", "enabled"),
        Dialect::OpenAiResponses => says("include", "reasoning.encrypted_content"),
        Dialect::Gemini => request.preamble().tools.is_some(),
        _ => false,
    };
    // In Base64, as some providers require.
    signs.then(|| format!("c2lnbmVk{number:04}"))
}

fn respond(status: u16, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert("x-request-id", HeaderValue::from_static("req_1"));
    response
}
