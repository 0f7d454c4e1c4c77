//! One model call: from the client to its line, to the upstream, and back.

use std::fmt::Display;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, response};
use bytes::Bytes;
use hyper::body::Incoming;
use lookback_conversation::{Account, Identity, Kind, Query, Scope};
use lookback_wire::dialect::{Dialect, Preamble, ProviderError, RawRequest, Request};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::adds::Add;
use super::admission::Admission;
use super::client::{Head, Unanswered};
use super::copy::Copy;
use super::event::{Event, chained};
use super::note::{Note, Passed};
use super::payoff::Arm;
use super::relay::{Answer, relay};
use super::telemetry::CallSpan;
use super::turn::{Model, Turn};
use super::upstream::Upstream;
use super::window::{NoWindow, Sending, Windows};
use super::{answers, aside, copy, encoding, headers};

/// How often a window is made smaller because the upstream refuses it as too long.
const TRIES: u32 = 3;
/// The most bytes of an error that are read.
const ERROR: usize = 1 << 20;
/// How long the beginning of a stream is held back to see whether it begins with an error, if the dialect tells some there.
const HELD: Duration = Duration::from_millis(1500);

/// A model call.
pub(super) struct Call {
    pub(super) head: Head,
    /// The body as it came.
    pub(super) body: Bytes,
    /// The body without its encoding; `None` if it cannot be read.
    pub(super) text: Option<Bytes>,
    pub(super) dialect: Dialect,
    /// The model, if the path names it.
    pub(super) model: Option<String>,
    /// What is added to it.
    pub(super) adds: Vec<Add>,
}

/// A call that belongs to a line, and how windows are made for it.
struct LineCall<'a> {
    windows: Windows,
    request: RawRequest<'a>,
    preamble: Preamble,
    turn: Turn,
}

/// A call that is ready to be sent.
struct Prepared<'a> {
    own: Option<LineCall<'a>>,
    note: Note,
    /// The body, if it is not the one that came.
    body: Option<Bytes>,
    /// The answer, if the call was sent while it was recorded.
    sent: Option<Sent>,
}

impl Prepared<'_> {
    /// A call that passes as it came.
    fn passed(why: Passed) -> Self {
        Prepared { own: None, note: Note::passed(why), body: None, sent: None }
    }
}

type Sent = Result<Response<Incoming>, Unanswered>;

/// Makes a model call, and returns the answer for the client.
pub(super) async fn make(admission: Admission, upstream: &Upstream, call: Call) -> Response<Body> {
    let begun = Instant::now();
    let mut span = match admission.shared.has_log() {
        true => CallSpan::begin(call.dialect, &call.head.headers),
        false => CallSpan::untold(),
    };
    if let Some(model) = &call.model {
        span.asks(model);
    }
    let (answer, note) = answer(admission.clone(), upstream, &call, span).await;
    admission.shared.emit(&Event::Call {
        dialect: call.dialect,
        upstream: upstream.to_string(),
        status: answer.status().as_u16(),
        milliseconds: begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        note,
    });
    answer
}

async fn answer(admission: Admission, upstream: &Upstream, call: &Call, mut span: CallSpan) -> (Response<Body>, Note) {
    let client = &admission.current.client;
    let send = |body: Option<Bytes>| async move {
        let dialect = Some(call.dialect);
        match body {
            None => client.send(upstream, dialect, &call.head, Body::from(call.body.clone())).await,
            Some(body) => client.send(upstream, dialect, &call.head.own(), Body::from(body)).await,
        }
    };
    let Prepared { mut own, mut note, mut body, mut sent } = match find_line(&admission, upstream, call).await {
        Ok(own) => prepare(&admission, own, &send).await,
        Err(why) => Prepared::passed(why),
    };
    if let (None, Some(model)) = (&call.model, own.as_ref().and_then(|own| own.turn.model.name.as_deref())) {
        span.asks(model);
    }
    loop {
        let answer = match sent.take() {
            Some(sent) => sent,
            None => send(body.clone()).await,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                admission.shared.emit(&Event::unanswered(upstream, &error));
                span.failed("unanswered");
                return (finish(answers::unanswered(&error, Some(call.dialect)), &note), note);
            }
        };
        let (parts, incoming) = answer.into_parts();
        let pause = admission.current.config.timeouts.pause;
        let (answer, error) = match &own {
            // Nothing is done about what belongs to no line.
            None => (Answer::new(incoming, None, pause), None),
            Some(_) => read_error(&parts, incoming, call.dialect, pause).await,
        };
        if let Some(error) = error {
            let refused = body.as_ref().or(call.text.as_ref()).map_or(&[][..], |body| body);
            match retry(&admission, own.as_mut(), &mut note, (parts.status, &error), (call, refused)).await {
                Some(retry) => {
                    body = Some(retry.into());
                    continue;
                }
                None => admission.shared.metrics.refused(),
            }
            span.noted(&note, parts.status);
            let body = relay(admission, answer, None, Some(span)).await;
            return (finish(Response::from_parts(parts, body), &note), note);
        }
        match answer_tools(&admission, own.as_ref(), (&mut note, &mut span), answer).await {
            AfterTools::Passes(answer) => {
                span.noted(&note, parts.status);
                let body = relay(admission, answer, own.map(|own| (own.windows, own.turn)), Some(span)).await;
                return (finish(Response::from_parts(parts, body), &note), note);
            }
            AfterTools::AskAgain(sending) => {
                if let Some(own) = &mut own {
                    sending.describe(&mut note, &mut own.turn);
                }
                body = sending.body.map(Bytes::from);
            }
            AfterTools::GivenUp(why) => {
                admission.shared.emit(&Event::failure(why.to_owned()));
                let answer = answers::error(StatusCode::BAD_GATEWAY, why, Some(call.dialect));
                span.noted(&note, answer.status());
                return (finish(answer, &note), note);
            }
        }
    }
}

/// Finds the line of a call.
///
/// # Errors
/// Returns why the call passes as it came, if it belongs to no line.
async fn find_line<'a>(admission: &Admission, upstream: &Upstream, call: &'a Call) -> Result<LineCall<'a>, Passed> {
    let text = call.text.as_deref().ok_or(Passed::Encoded)?;
    let text = std::str::from_utf8(text).ok();
    let Some(request) = text.and_then(|text| RawRequest::read(text, Some(call.dialect)).ok()) else {
        return Err(Passed::NotUnderstood);
    };
    let preamble = request.preamble();
    let identity = Identity::from_request(&call.head.headers, &request);
    let kind = Kind::from_request(&request, &preamble, &identity);
    match kind {
        Kind::Turn | Kind::Compaction => {}
        Kind::Stored(member) => return Err(Passed::Stored(member)),
        _ => return Err(Passed::Side),
    }
    let account = Account { tenant: admission.caller.tenant.clone(), name: admission.caller.account.clone() };
    let scope = Scope::new(&identity, account, &request).ok_or(Passed::NoUser)?;
    let retries = headers::text(&call.head.headers, "x-stainless-retry-count").and_then(|count| count.parse().ok());
    let retry = retries.is_some_and(|count: u32| count > 0);
    let betas = headers::list(&call.head.headers, "anthropic-beta");
    let model = Model::from_request(&request, &call.head.path_and_query, &betas);
    let query = Query::new(&request, &preamble).retry(retry);
    let windows = Windows::open(admission).map_err(|error| failed(admission, &chained(&error)))?;
    let place = match kind {
        Kind::Compaction => windows.compaction(&scope, query).await,
        _ => windows.line(&scope, query).await,
    };
    match place {
        Ok(place) => {
            let turn = Turn::new(place, &call.adds, upstream, model);
            Ok(LineCall { windows, request, preamble, turn })
        }
        Err(NoWindow::Session(lookback_session::Error::Request(_))) => Err(Passed::NotUnderstood),
        Err(error) => Err(failed(admission, &chained(&error))),
    }
}

/// Says that the store failed, so that a call passes as it came.
fn failed(admission: &Admission, what: &dyn Display) -> Passed {
    admission.shared.metrics.store_failed();
    admission.shared.emit(&Event::failure(what.to_string()));
    Passed::StoreFailed
}

/// Takes a call over into the session of its line, and makes its window. If the window is certainly all of the call, it is
/// sent meanwhile.
async fn prepare<'a, S>(
    admission: &Admission,
    mut own: LineCall<'a>,
    send: &impl Fn(Option<Bytes>) -> S,
) -> Prepared<'a>
where
    S: Future<Output = Sent>,
{
    let LineCall { windows, request, preamble, turn } = &mut own;
    if turn.place.is_apart() {
        let held_out = windows.arm(turn) == Arm::HeldOut;
        let note = Note { held_out, ..Note::passed(Passed::Compaction) };
        return Prepared { own: Some(own), note, body: None, sent: None };
    }
    let has_room = windows.has_room(turn, request, preamble);
    let recording = windows.record(turn, request, preamble);
    let (recorded, sent) = if has_room {
        // If a connection is open, it sends the request before this thread records it.
        let recording = async {
            yield_now().await;
            recording.await
        };
        let (sent, recorded) = tokio::join!(send(None), recording);
        (recorded, Some(sent))
    } else {
        (recording.await, None)
    };
    match recorded {
        Ok(sending) => {
            let sending = if sent.is_some() { sending.passed() } else { sending };
            let (session, line) = (Some(turn.name().to_string()), Some(turn.place.relation));
            let mut note = Note { session, line, held_out: windows.arm(turn) == Arm::HeldOut, ..Note::default() };
            sending.describe(&mut note, &mut own.turn);
            admission.shared.metrics.window(sending.cut.is_some());
            let body = sending.body.map(Bytes::from);
            Prepared { own: Some(own), note, body, sent }
        }
        // Its messages are recorded, and only the upstream can say what it takes.
        Err(NoWindow::Session(lookback_session::Error::HardLimitExceeded(_))) => {
            Prepared { sent, ..Prepared::passed(Passed::TooLong) }
        }
        Err(error) => {
            let why = failed(admission, &format_args!("there is no window for {}: {}", turn.name(), chained(&error)));
            Prepared { sent, ..Prepared::passed(why) }
        }
    }
}

/// Returns the body for another try, if there is one: a smaller window if it was too long, or a repaired history.
async fn retry(
    admission: &Admission,
    own: Option<&mut LineCall<'_>>,
    note: &mut Note,
    (status, text): (StatusCode, &str),
    (call, refused): (&Call, &[u8]),
) -> Option<String> {
    let LineCall { windows, request, preamble, turn } = own?;
    if note.held_out {
        return None;
    }
    let error = call.dialect.provider_error(Some(status.as_u16()), text);
    let cause = match error {
        ProviderError::TooLong(cause) if note.overflows < TRIES => Some(cause),
        ProviderError::Malformed { .. } if !note.repaired => None,
        _ => return None,
    };
    let made = async {
        if turn.place.is_apart() {
            windows.apart(turn, request, preamble).await?;
        }
        match cause {
            Some(cause) => windows.smaller(turn, request, cause).await,
            None => windows.repaired(turn, request, error.refuses_reasoning()).await,
        }
    };
    let sending = match made.await {
        Ok(sending) => sending,
        // There is nothing left to leave out.
        Err(NoWindow::Session(
            lookback_session::Error::Irreducible(_) | lookback_session::Error::HardLimitExceeded(_),
        )) => return None,
        Err(error) => {
            failed(admission, &format_args!("there is no other window for {}: {}", turn.name(), chained(&error)));
            return None;
        }
    };
    let body = sending.body.as_deref()?;
    if cause.is_some() {
        note.overflows += 1;
        admission.shared.metrics.overflow();
    } else {
        // If it does not help, the answer would be the same.
        let refused = std::str::from_utf8(refused).ok()?;
        let helps = match error.refuses_reasoning() {
            // Only the provider can tell whether that is what it refuses.
            true => body != refused,
            false => faults(call, body) < faults(call, refused),
        };
        if !helps {
            return None;
        }
        note.repaired = true;
    }
    sending.describe(note, turn);
    sending.body
}

/// Returns how many rules a body breaks, and how often.
fn faults(call: &Call, body: &str) -> usize {
    let Ok(request) = Request::decode(body, Some(call.dialect)) else { return usize::MAX };
    let request = match headers::text(&call.head.headers, "anthropic-version") {
        Some(version) => request.with_version(version),
        None => request,
    };
    call.dialect.check(&request).len()
}

/// An answer, after its calls were looked at.
enum AfterTools {
    /// It is for the client.
    Passes(Answer),
    /// The gateway has answered its calls, and the model is asked on.
    AskAgain(Sending),
    /// The model cannot be asked on, and the client has no use for the answer.
    GivenUp(&'static str),
}

/// Keeps an answer that calls tools of the gateway, and answers the calls. Whether it does is only known at its end, so with
/// such tools an answer is read as a whole before the client gets any of it.
async fn answer_tools(
    admission: &Admission,
    own: Option<&LineCall<'_>>,
    (note, span): (&mut Note, &mut CallSpan),
    mut answer: Answer,
) -> AfterTools {
    let Some(LineCall { windows, request, turn, .. }) = own.filter(|own| !own.turn.offered.is_empty()) else {
        return AfterTools::Passes(answer);
    };
    if answer.copy().is_none() {
        return AfterTools::Passes(answer);
    }
    answer.read_rest(copy::MOST).await;
    let response = answer.copy().and_then(Copy::response);
    let calls = response.and_then(|response| {
        let calls = aside::calls(&response.message, &turn.offered, note.asides)?;
        Some((response, calls))
    });
    // What broke off breaks off for the client, too.
    let Some((response, calls)) = calls else { return AfterTools::Passes(answer) };
    span.answered(&response);
    if note.asides >= aside::MOST + aside::MORE {
        return AfterTools::GivenUp("the model calls memory tools again and again");
    }
    match windows.aside(turn, request, response, &calls).await {
        Ok((sending, dollars)) => {
            note.asides += 1;
            admission.shared.payoff.count(
                admission.caller.tenant.as_ref(),
                windows.arm(turn),
                &mut turn.place.line.state.spent(),
                false,
                dollars,
            );
            AfterTools::AskAgain(sending)
        }
        Err(error) => {
            failed(admission, &format_args!("a memory tool of {} was not answered: {}", turn.name(), chained(&error)));
            AfterTools::GivenUp("the memory of this gateway does not answer")
        }
    }
}

/// Looks whether an answer is an error. If it is one, its words are returned, too.
async fn read_error(
    parts: &response::Parts,
    incoming: Incoming,
    dialect: Dialect,
    pause: Duration,
) -> (Answer, Option<String>) {
    if parts.status.is_success() {
        let mut answer = Answer::new(incoming, Copy::new(&parts.headers, dialect), pause);
        let error = error_at_the_beginning(&mut answer, dialect).await;
        return (answer, error);
    }
    let mut answer = Answer::new(incoming, None, pause);
    if !parts.status.is_client_error() && !parts.status.is_server_error() {
        return (answer, None);
    }
    answer.read_rest(ERROR).await;
    let error = encoding::decoded(&parts.headers, &answer.bytes(), ERROR).unwrap_or_default();
    let error = String::from_utf8_lossy(&error).into_owned();
    (answer, Some(error))
}

/// Reads the beginning of a stream until the model says something, if an error could come instead.
async fn error_at_the_beginning(answer: &mut Answer, dialect: Dialect) -> Option<String> {
    let is_stream = answer.copy().is_some_and(Copy::is_stream);
    if !is_stream || !dialect.has_errors_in_streams() {
        return None;
    }
    let is_open = |answer: &Answer| answer.copy().is_some_and(|copy| !copy.has_begun() && copy.error().is_none());
    // A piece is read whole or not at all, so nothing is lost when time is up.
    let _ = timeout(HELD, async { while is_open(answer) && answer.read().await.is_some() {} }).await;
    answer.copy().filter(|copy| !copy.has_begun()).and_then(Copy::error).map(str::to_owned)
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
