//! One model call: from the client to its line, to the upstream, and back.

use std::fmt::Display;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header, response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use lookback::{Dialect, ProviderError, RawRequest, Request};
use tokio::time::timeout;

use super::Visit;
use super::client::Head;
use super::copy::Copy;
use super::event::Event;
use super::identity::Identity;
use super::kind::{self, Kind};
use super::lines::{Asked, Scope, Turn};
use super::note::Note;
use super::relay::relay;
use super::upstream::Upstream;
use super::window::NoWindow;
use super::{answers, headers};

/// How often a window is made smaller because the upstream refuses it as too long.
const TRIES: u32 = 3;
/// The most bytes of an error that are read.
const ERROR: usize = 1 << 20;
/// How long the beginning of a stream is held back to see whether it begins with an error. Only one dialect tells an
/// overflow there.
const HELD: Duration = Duration::from_millis(1500);

/// A model call.
pub(super) struct Call {
    pub(super) head: Head,
    pub(super) body: Bytes,
    pub(super) dialect: Dialect,
    /// The model, if the path names it.
    pub(super) model: Option<String>,
}

/// A call that belongs to a line.
struct Ours<'a> {
    request: RawRequest<'a>,
    turn: Turn,
}

/// Makes a model call, and returns the answer for the client.
pub(super) async fn make(visit: Visit, upstream: &Upstream, call: Call) -> Response<Body> {
    let begun = Instant::now();
    let (answer, note) = answer(visit.clone(), upstream, &call).await;
    visit.shared.metrics.answered(answer.status());
    visit.shared.tell(&Event::Call {
        dialect: call.dialect,
        upstream: upstream.to_string(),
        status: answer.status().as_u16(),
        milliseconds: begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        note,
    });
    answer
}

async fn answer(visit: Visit, upstream: &Upstream, call: &Call) -> (Response<Body>, Note) {
    let (ours, mut note, mut body) = prepare(&visit, call).await;
    loop {
        let sent = visit.current.client.send(upstream, Some(call.dialect), &call.head, Body::from(body)).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => {
                visit.shared.tell(&Event::failure(error.to_string()));
                return (finish(answers::unanswered(&error, Some(call.dialect)), &note), note);
            }
        };
        let (parts, incoming) = answer.into_parts();
        let beginning = match &ours {
            // Nothing is done about what belongs to no line.
            None => Beginning::Passes(incoming, Vec::new()),
            Some(_) => look(&parts, incoming, call.dialect).await,
        };
        let (bytes, text) = match beginning {
            Beginning::Passes(incoming, first) => {
                let recording = ours.and_then(|ours| Some((Copy::of(&parts.headers, call.dialect)?, ours.turn)));
                let body = relay(visit, first, incoming, recording);
                return (finish(Response::from_parts(parts, body), &note), note);
            }
            Beginning::Failed(bytes, text) => (bytes, text),
        };
        match again(&visit, ours.as_ref(), &mut note, (parts.status, &text), call).await {
            Some(retry) => body = retry.into(),
            None => {
                visit.shared.metrics.refused();
                return (finish(Response::from_parts(parts, Body::from(bytes)), &note), note);
            }
        }
    }
}

/// Finds the line of a call and makes its window. Returns the body to send.
async fn prepare<'a>(visit: &Visit, call: &'a Call) -> (Option<Ours<'a>>, Note, Bytes) {
    let Visit { shared, caller, .. } = visit;
    let pass = |why| (None, Note::passed(why), call.body.clone());
    if call.head.headers.contains_key(header::CONTENT_ENCODING) {
        return pass("the body is encoded");
    }
    let text = std::str::from_utf8(&call.body).ok();
    let Some(request) = text.and_then(|text| RawRequest::read(text, Some(call.dialect)).ok()) else {
        return pass("not understood");
    };
    let preamble = request.preamble();
    match Kind::of(&request, &preamble) {
        Kind::Turn => {}
        Kind::Side => return pass("a call beside the conversation"),
        Kind::Compaction => return pass("a compaction by the client"),
        Kind::Stored(member) => return pass(member),
    }
    let identity = Identity::of(&call.head.headers, &request);
    // These clients have tools in every call of a conversation.
    let is_agent = matches!(identity, Identity::Client { client: "claude-code" | "codex" | "opencode", .. });
    if is_agent && !kind::has_tools(&preamble) {
        return pass("a call beside the conversation");
    }
    let Some(scope) = Scope::of(&identity, caller, &request) else {
        return pass("no message of a user");
    };
    let retries = headers::text(&call.head.headers, "x-stainless-retry-count").and_then(|count| count.parse().ok());
    let retry = retries.is_some_and(|count: u32| count > 0);
    let asked = Asked { request: &request, preamble: &preamble, retry, named: Scope::is_named(&identity) };
    let failed = |what: &dyn Display| {
        shared.metrics.store_failed();
        shared.tell(&Event::failure(what.to_string()));
        pass("the store failed")
    };
    let windows = match visit.windows() {
        Ok(windows) => windows,
        Err(error) => return failed(&error),
    };
    let turn = match windows.line(&shared.lines, &scope, asked).await {
        Ok(turn) => turn,
        Err(NoWindow::Session(lookback::Error::Request(_))) => return pass("not understood"),
        Err(error) => return failed(&error),
    };
    let mut note = Note { session: Some(turn.line.name.to_string()), line: Some(turn.how), ..Note::default() };
    let model = call.model.clone().or_else(|| request.model());
    match windows.of(&turn, &request, &preamble, model.as_deref()).await {
        Ok(sending) => {
            sending.tell(&mut note);
            shared.metrics.window(sending.cut.is_some());
            let body = sending.body.map_or_else(|| call.body.clone(), Bytes::from);
            (Some(Ours { request, turn }), note, body)
        }
        Err(error) => failed(&format_args!("there is no window for {}: {error}", turn.line.name)),
    }
}

/// Returns the body for another try, if there is one: a smaller window if it was too long, or a repaired history.
async fn again(
    visit: &Visit,
    ours: Option<&Ours<'_>>,
    note: &mut Note,
    (status, text): (StatusCode, &str),
    call: &Call,
) -> Option<String> {
    let (dialect, sent) = (call.dialect, &call.body);
    let Ours { request, turn } = ours?;
    let windows = visit.windows().ok()?;
    let sending = match dialect.provider_error(Some(status.as_u16()), text) {
        ProviderError::TooLong(cause) if note.overflows < TRIES => {
            note.overflows += 1;
            visit.shared.metrics.overflow();
            windows.smaller(turn, request, cause).await.ok()?
        }
        ProviderError::Malformed { .. } if !note.repaired => {
            note.repaired = true;
            let sending = windows.repaired(turn, request).await.ok()?;
            // If there is nothing to repair, the answer would be the same.
            let findings = |body: &str| {
                Request::decode(body, Some(dialect)).map(|request| dialect.check(&request).len()).unwrap_or(usize::MAX)
            };
            let before = std::str::from_utf8(sent).map_or(0, findings);
            let is_better = sending.body.as_deref().is_some_and(|body| findings(body) < before);
            Some(sending).filter(|_| is_better)?
        }
        _ => return None,
    };
    sending.tell(note);
    sending.body
}

/// The beginning of an answer, after it was looked at.
enum Beginning {
    /// It passes on, with what was read of it.
    Passes(Incoming, Vec<Bytes>),
    /// It is an error, with its words.
    Failed(Bytes, String),
}

/// Looks whether an answer is an error.
async fn look(parts: &response::Parts, incoming: Incoming, dialect: Dialect) -> Beginning {
    if parts.status.is_success() {
        hold(parts, incoming, dialect).await
    } else if parts.status.is_client_error() || parts.status.is_server_error() {
        let (bytes, text) = read_error(parts, incoming).await;
        Beginning::Failed(bytes, text)
    } else {
        Beginning::Passes(incoming, Vec::new())
    }
}

/// Reads the beginning of a stream until the model says something, if an error could come instead.
async fn hold(parts: &response::Parts, mut incoming: Incoming, dialect: Dialect) -> Beginning {
    let copy = Copy::of(&parts.headers, dialect).filter(|copy| copy.is_stream());
    let Some(mut copy) = copy.filter(|_| dialect == Dialect::OpenAiResponses) else {
        return Beginning::Passes(incoming, Vec::new());
    };
    let mut first: Vec<Bytes> = Vec::new();
    let reading = async {
        while !copy.has_begun() && copy.error().is_none() {
            let Some(Ok(frame)) = incoming.frame().await else { break };
            if let Ok(data) = frame.into_data() {
                copy.read(&data);
                first.push(data);
            }
        }
    };
    // A frame is read whole or not at all, so nothing is lost when time is up.
    let _ = timeout(HELD, reading).await;
    match copy.error().map(str::to_owned) {
        Some(error) if !copy.has_begun() => {
            // The rest belongs to the error.
            while let Some(Ok(frame)) = incoming.frame().await {
                first.extend(frame.into_data().ok());
            }
            Beginning::Failed(first.concat().into(), error)
        }
        _ => Beginning::Passes(incoming, first),
    }
}

/// Reads the body of an error.
async fn read_error(parts: &response::Parts, incoming: Incoming) -> (Bytes, String) {
    let bytes = Limited::new(incoming, ERROR).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let encoded = parts.headers.contains_key(header::CONTENT_ENCODING);
    let text = if encoded { String::new() } else { String::from_utf8_lossy(&bytes).into_owned() };
    (bytes, text)
}

/// Adds the note to an answer, and removes what belongs to the connection that it came over.
fn finish(mut answer: Response<Body>, note: &Note) -> Response<Body> {
    to_pass_back(answer.headers_mut());
    note.write(answer.headers_mut());
    answer
}

/// Removes what ends with the upstream's connection.
pub(super) fn to_pass_back(headers: &mut HeaderMap) {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "trailer"] {
        headers.remove(name);
    }
}
