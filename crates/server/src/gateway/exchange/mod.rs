//! One model call: from the client to its session, to the upstream, and back.

mod call;
mod errors;
mod joined;
pub(crate) mod relay;
mod retry;
mod told;
mod tools;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Incoming;
use tokio::task::yield_now;

pub(crate) use self::call::Call;
use self::call::{LineCall, failed, find_line};
use self::errors::read_error;
use self::joined::{decoder, joined, stitch};
use self::relay::{Answer, relay};
use self::retry::retry;
use self::told::Told;
use self::tools::{AfterTools, answer_tools};
use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::client::Unanswered;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::http::answers;
use crate::gateway::report::event::Event;
use crate::gateway::report::note::{Note, Passed};
use crate::gateway::report::telemetry::CallSpan;
use crate::gateway::windows::{NoWindow, Sending};

/// A call that is ready to be sent.
struct Prepared<'a> {
    own: Option<LineCall<'a>>,
    note: Note,
    /// The body, if it differs from the one that arrived.
    body: Option<Bytes>,
    /// The answer, if the call was sent while it was recorded.
    sent: Option<Sent>,
}

impl Prepared<'_> {
    /// Creates a call that passes unchanged.
    fn passed(why: Passed) -> Self {
        Prepared { own: None, note: Note::passed(why), body: None, sent: None }
    }
}

type Sent = Result<Response<Incoming>, Unanswered>;

/// Makes a model call, and returns the answer for the client.
pub(crate) async fn make(admission: Admission, upstream: &Upstream, call: Call) -> Response<Body> {
    let told = Told::new(&admission, call.dialect, upstream);
    let mut span = match admission.shared.has_log() {
        true => CallSpan::begin(call.dialect, &call.head.headers),
        false => CallSpan::untold(),
    };
    if let Some(model) = &call.model {
        span.asks(model);
    }
    answer(admission, upstream, Arc::new(call), (told, span)).await
}

async fn answer(
    admission: Admission,
    upstream: &Upstream,
    call: Arc<Call>,
    (mut told, mut span): (Told, CallSpan),
) -> Response<Body> {
    let send = |body| send(&admission, upstream, &call, body);
    let Prepared { mut own, note, mut body, mut sent } = match find_line(&admission, upstream, &call).await {
        Ok(own) => prepare(&admission, own, &send).await,
        Err(why) => Prepared::passed(why),
    };
    told.note = note;
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
                return finish(error.answer(Some(call.dialect)), &mut told);
            }
        };
        let (parts, incoming) = answer.into_parts();
        let pause = admission.current.config.timeouts.pause;
        let (answer, error) = match &own {
            None if !parts.status.is_client_error() => (Answer::new(incoming, None, pause), None),
            _ => read_error(&parts, incoming, call.dialect, pause).await,
        };
        if let Some(error) = error {
            let refused = body.as_ref().or(call.text.as_ref()).map_or(&[][..], |body| body);
            match retry(&admission, own.as_mut(), &mut told.note, (parts.status, &error), (&call, refused)).await {
                Some(retry) => {
                    body = Some(retry.into());
                    continue;
                }
                None => admission.shared.metrics.refused(),
            }
            span.noted(&told.note, parts.status);
            let body = relay(admission, answer, None, Some(span)).await;
            return finish(Response::from_parts(parts, body), &mut told);
        }
        if let Some(decoder) = decoder(&parts, &answer)
            && let Some(stitch) = own.as_ref().and_then(|own| stitch(call.dialect, own))
            && let Some(LineCall { windows, preamble, turn, .. }) = own.take()
        {
            span.noted(&told.note, parts.status);
            let call = (call.clone(), (windows, preamble, turn));
            return joined(admission, upstream, call, (told, span, stitch), parts, (answer, decoder));
        }
        match answer_tools(&admission, own.as_mut(), (&mut told.note, &mut span), answer).await {
            AfterTools::Passes(answer) => {
                span.noted(&told.note, parts.status);
                let body = relay(admission, answer, own.map(|own| (own.windows, own.turn)), Some(span)).await;
                return finish(Response::from_parts(parts, body), &mut told);
            }
            AfterTools::AskAgain(again) => body = again,
            AfterTools::GivenUp(why) => {
                admission.shared.emit(&Event::failure(why.to_owned()));
                let answer = answers::error(StatusCode::BAD_GATEWAY, why, Some(call.dialect));
                span.noted(&told.note, answer.status());
                return finish(answer, &mut told);
            }
        }
    }
}

/// Sends a call: as it arrived, or with another body.
async fn send(admission: &Admission, upstream: &Upstream, call: &Call, body: Option<Bytes>) -> Sent {
    let (client, dialect) = (&admission.current.client, Some(call.dialect));
    match body {
        None => client.send(upstream, dialect, &call.head, Body::from(call.body.clone())).await,
        Some(body) => client.send(upstream, dialect, &call.head.own(), Body::from(body)).await,
    }
}

/// Takes a call over into the session of its line, and makes its window. If the window certainly equals the call, the
/// call is sent at the same time.
async fn prepare<'a, S>(
    admission: &Admission,
    mut own: LineCall<'a>,
    send: &impl Fn(Option<Bytes>) -> S,
) -> Prepared<'a>
where
    S: Future<Output = Sent>,
{
    let LineCall { windows, request, preamble, turn } = &mut own;
    if turn.matched.is_apart() {
        let note = Note { held_out: windows.is_compared(turn), ..Note::passed(Passed::COMPACTION) };
        return Prepared { own: Some(own), note, body: None, sent: None };
    }
    let ahead = windows.ahead(turn, request, preamble);
    let recording = async {
        if ahead.is_some() {
            // Lets an open connection send the request before this thread records it.
            yield_now().await;
        }
        let mut sending = windows.record(turn, request, preamble).await?;
        sending.shadow = windows.shadow(turn, request, preamble).await;
        Ok(sending)
    };
    let (recorded, sent): (Result<Sending, NoWindow>, _) = match &ahead {
        Some(body) => {
            let (sent, recorded) = tokio::join!(send(body.clone().map(Bytes::from)), recording);
            (recorded, Some(sent))
        }
        None => (recording.await, None),
    };
    match recorded {
        Ok(sending) => {
            let sending = match ahead {
                Some(body) => sending.sent_ahead(body),
                None => sending,
            };
            let (session, line) = (Some(turn.name().to_string()), Some(turn.matched.relation));
            let mut note = Note { session, line, held_out: windows.is_compared(turn), ..Note::default() };
            sending.describe(&mut note, &mut own.turn);
            admission.shared.metrics.window(sending.cut.is_some());
            let body = sending.body.map(Bytes::from);
            Prepared { own: Some(own), note, body, sent }
        }
        // The messages are recorded, and the upstream decides whether it accepts them.
        Err(NoWindow::Session(lookback_session::Error::HardLimitExceeded(_))) => {
            Prepared { sent, ..Prepared::passed(Passed::TOO_LONG) }
        }
        Err(error) => {
            let why = failed(admission, &format_args!("there is no window for {}: {}", turn.name(), chained(&error)));
            // Nobody would answer calls of the tools that were sent with it.
            let sent = sent.filter(|_| ahead.flatten().is_none());
            Prepared { sent, ..Prepared::passed(why) }
        }
    }
}

/// Adds the note to an answer, and removes hop-by-hop headers.
fn finish(mut answer: Response<Body>, told: &mut Told) -> Response<Body> {
    to_pass_back(answer.headers_mut());
    told.note.write(answer.headers_mut());
    told.answered(answer.status());
    answer
}

/// Removes hop-by-hop headers of the upstream's connection.
pub(crate) fn to_pass_back(headers: &mut HeaderMap) {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "trailer"] {
        headers.remove(name);
    }
}
