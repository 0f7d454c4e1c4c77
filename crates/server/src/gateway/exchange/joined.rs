//! A streamed answer in which the model may call the gateway's tools. Everything else passes to the client as it comes.
//! The gateway answers such a call itself, and the model's next answer continues the same stream.

use std::pin::Pin;
use std::str;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, RETRY_AFTER};
use axum::http::{HeaderMap, Response, StatusCode, response};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use lookback_wire::dialect::{Dialect, Preamble, ProviderError, RawRequest, Stitch};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::sleep;

use super::call::{Call, LineCall, failed};
use super::errors::read_error;
use super::relay::{Answer, Broken, record};
use super::retry::retry;
use super::told::Told;
use super::tools::answer_calls;
use super::{finish, send};
use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::http::copy::Copy;
use crate::gateway::http::encoding::Encoding;
use crate::gateway::http::headers;
use crate::gateway::lines::hidden_exchange;
use crate::gateway::lines::turn::Turn;
use crate::gateway::report::event::Event;
use crate::gateway::report::telemetry::CallSpan;
use crate::gateway::windows::Windows;

/// Returns the decoder of an answer that is a stream of events. `None` for other answers.
pub(super) fn decoder(parts: &response::Parts, answer: &Answer) -> Option<Encoding> {
    let is_stream = answer.copy().is_some_and(Copy::is_stream);
    if is_stream { Encoding::from_headers(&parts.headers, usize::MAX) } else { None }
}

/// The pauses before the model is asked again if it is busy, unless the upstream names a longer one.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];
/// The longest pause that an upstream may demand. Clients wait no longer for a stream to go on.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Returns whether an upstream may answer the same request later. A stream that begins with an error has status 200.
fn is_passing(status: StatusCode, error: &ProviderError) -> bool {
    match status.as_u16() {
        200 => matches!(error, ProviderError::Other),
        status => matches!(status, 408 | 409 | 429 | 500..),
    }
}

/// Returns the pause that an upstream demands.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers::text(headers, RETRY_AFTER.as_str())?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

/// The client's stream, into which the answers are joined.
struct Joined {
    admission: Admission,
    upstream: Upstream,
    call: Arc<Call>,
    stitch: Stitch,
    told: Told,
    span: CallSpan,
    client: Sender<Result<Bytes, Broken>>,
    /// Whether the answer has ended and is recorded, or cannot be completed.
    is_settled: bool,
}

/// The next step after an answer.
enum Next {
    /// The model is asked again, with this body.
    Ask(Option<Bytes>),
    /// The answer has ended.
    End,
    /// The answer cannot be continued.
    Fail(&'static str),
}

/// A line, with everything needed to make its windows except the request.
type Line = (Windows, Preamble, Turn);

/// Returns a stream for the client of a line, if its answers may have to be joined.
pub(super) fn stitch(dialect: Dialect, own: &LineCall<'_>) -> Option<Stitch> {
    let names: Vec<&str> = own.turn.offered.iter().map(|tool| tool.name).collect();
    let is_whole = names.is_empty() || own.request.is_answer_stored();
    if is_whole { None } else { Stitch::new(dialect, names) }
}

/// Returns the answer for the client, which begins with this answer of the upstream.
pub(super) fn joined(
    admission: Admission,
    upstream: &Upstream,
    (call, line): (Arc<Call>, Line),
    (mut told, span, stitch): (Told, CallSpan, Stitch),
    mut parts: response::Parts,
    first: (Answer, Encoding),
) -> Response<Body> {
    // The client gets decoded bytes, and their number is not known yet.
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.remove(CONTENT_LENGTH);
    let head = finish(Response::from_parts(parts, Body::empty()), &mut told).into_parts().0;
    let (client, mut pieces) = channel(1);
    let upstream = upstream.clone();
    let joined = Joined { admission, upstream, call, stitch, told, span, client, is_settled: false };
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(joined.run(line, first));
    let mut work = Some(work);
    // The work goes on only while the client reads.
    let pieces = stream::poll_fn(move |context| {
        if work.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
            work = None;
        }
        pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    });
    Response::from_parts(head, Body::new(StreamBody::new(pieces)))
}

impl Joined {
    async fn run(mut self, (windows, preamble, turn): Line, first: (Answer, Encoding)) {
        let call = self.call.clone();
        let text = call.text.as_deref().and_then(|text| str::from_utf8(text).ok());
        // It was read before.
        let Some(request) = text.and_then(|text| RawRequest::read(text, Some(call.dialect)).ok()) else { return };
        let mut own = Some(LineCall { windows, request, preamble, turn });
        let mut next = Some(first);
        while let Some(answer) = next {
            next = match self.pass(answer, &mut own).await {
                Some(body) => self.ask(body, own.as_mut()).await,
                None => None,
            };
        }
    }

    /// Passes an answer on. Returns the body of the next request if the model is to go on. The line is free for the
    /// client's next request before the client sees the end.
    async fn pass(
        &mut self,
        (mut answer, mut decoder): (Answer, Encoding),
        own: &mut Option<LineCall<'_>>,
    ) -> Option<Option<Bytes>> {
        loop {
            let (data, mut broken) = match answer.next().await {
                Some(Ok(frame)) => (frame.into_data().ok(), None),
                Some(Err(broken)) => (None, Some(broken)),
                None => (None, None),
            };
            let is_last = data.is_none();
            let read =
                |data: Bytes| decoder.decode(&data).map(|plain| self.stitch.read(plain.as_deref().unwrap_or(&data)));
            let mut out = data.map(read).transpose().unwrap_or_else(|_| {
                broken = Some(Broken::Encoding);
                None
            });
            let mut out = out.take().unwrap_or_default();
            if (is_last || answer.is_at_its_end())
                && let Some(line) = own
            {
                let next = self.end(&answer, line).await;
                if let Next::Ask(body) = next {
                    self.give(out).await;
                    self.stitch.resume();
                    return Some(body);
                }
                self.is_settled = true;
                *own = None;
                match next {
                    Next::End => out.extend(self.stitch.finish()),
                    Next::Fail(why) => {
                        self.give(out).await;
                        self.fail(why).await;
                        return None;
                    }
                    Next::Ask(_) => {}
                }
            }
            self.give(out).await;
            if let Some(broken) = broken {
                self.is_settled = true;
                self.span.failed("broken_off");
                let _ = self.client.send(Err(broken)).await;
                return None;
            }
            if is_last {
                return None;
            }
        }
    }

    async fn give(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            // Without a receiver, this does not run.
            let _ = self.client.send(Ok(bytes.into())).await;
        }
    }

    /// Records an answer at its end, and answers the calls of the gateway's tools.
    async fn end(&mut self, answer: &Answer, own: &mut LineCall<'_>) -> Next {
        let asides = self.told.note.asides;
        // The last answer may be empty. The client has what came before.
        let is_complete = answer.copy().is_some_and(Copy::is_complete);
        let empty = || {
            let mut said = self.stitch.response().filter(|_| asides > 0 && is_complete)?;
            // What the model wrote before has been counted.
            said.output = None;
            Some(said)
        };
        // An answer that broke off does so for the client, too.
        let Some(mut response) = answer.copy().and_then(Copy::response).or_else(empty) else { return Next::End };
        let calls = hidden_exchange::calls(&response.message, &own.turn.offered, asides).unwrap_or_default();
        self.span.answered(&response);
        let is_mixed = calls.iter().any(|call| !call.is_ours);
        if !calls.is_empty() && !is_mixed {
            let noted = (&mut self.told.note, response, calls.as_slice());
            return match answer_calls(&self.admission, (&own.windows, &mut own.turn, &own.request), noted).await {
                Ok(body) => Next::Ask(body),
                Err(why) => Next::Fail(why),
            };
        }
        let mut edits = Vec::new();
        if (is_mixed || asides > 0)
            && let Some(message) = self.stitch.message()
        {
            edits = self.stitch.hide_shown(&message);
            response.message = message;
        }
        let LineCall { windows, turn, .. } = own;
        record(&self.admission, windows, turn, (response, edits)).await;
        if !calls.is_empty()
            && let Err(error) = windows.answer_later(turn, &calls).await
        {
            let what = format_args!("a memory tool of {} was not answered: {}", turn.name(), chained(&error));
            failed(&self.admission, &what);
        }
        Next::End
    }

    /// Asks the model again. Returns its next answer, if it has one. The client sees no status, so that it cannot retry:
    /// this does.
    async fn ask(&mut self, mut body: Option<Bytes>, mut own: Option<&mut LineCall<'_>>) -> Option<(Answer, Encoding)> {
        let call = self.call.clone();
        let mut pauses = PAUSES.into_iter();
        loop {
            let answer = match send(&self.admission, &self.upstream, &call, body.clone()).await {
                Ok(answer) => answer,
                Err(error) => {
                    self.admission.shared.emit(&Event::unanswered(&self.upstream, &error));
                    match pauses.next().filter(|_| error.is_passing()) {
                        Some(pause) => sleep(pause).await,
                        None => {
                            self.give_error(502, &format!("Lookback's gateway: {error}")).await;
                            return None;
                        }
                    }
                    continue;
                }
            };
            let (parts, incoming) = answer.into_parts();
            let pause = self.admission.current.config.timeouts.pause;
            let (answer, error) = read_error(&parts, incoming, call.dialect, pause).await;
            let Some(error) = error else {
                let decoder = decoder(&parts, &answer);
                if decoder.is_none() {
                    self.fail("the upstream went on without a stream").await;
                }
                return decoder.map(|decoder| (answer, decoder));
            };
            let refused = body.as_ref().or(call.text.as_ref()).map_or(&[][..], |body| body);
            let refusal = (parts.status, error.as_str());
            let again =
                retry(&self.admission, own.as_deref_mut(), &mut self.told.note, refusal, (&call, refused)).await;
            if let Some(again) = again {
                body = Some(again.into());
            } else if is_passing(parts.status, &call.dialect.provider_error(None, &error))
                && let Some(pause) = pauses.next()
            {
                sleep(retry_after(&parts.headers).map_or(pause, |longer| longer.max(pause))).await;
            } else {
                self.admission.shared.metrics.refused();
                let why = format!("the upstream refused to go on after a hidden call, with status {}", parts.status);
                self.admission.shared.emit(&Event::failure(why.clone()));
                self.is_settled = true;
                self.span.failed(parts.status.as_str().to_owned());
                match self.stitch.fail(&error) {
                    Some(bytes) => self.give(bytes).await,
                    None => self.give_error(parts.status.as_u16(), &why).await,
                }
                return None;
            }
        }
    }

    /// Ends the stream because of a failure of the gateway.
    async fn fail(&mut self, why: &str) {
        self.admission.shared.emit(&Event::failure(why.to_owned()));
        self.give_error(502, why).await;
    }

    async fn give_error(&mut self, status: u16, why: &str) {
        self.is_settled = true;
        self.span.failed("unanswered");
        let body = self.call.dialect.error_body(status, why).to_string();
        let bytes = self.stitch.fail(&body).unwrap_or_default();
        self.give(bytes).await;
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if !self.is_settled {
            self.span.failed("client_gone");
        }
    }
}
