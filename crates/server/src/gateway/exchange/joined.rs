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
use lookback_wire::dialect::{Dialect, Preamble, RawRequest, Stitch};
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
use crate::gateway::http::copy::{self, Copy};
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
    if is_stream { Encoding::from_headers(&parts.headers, copy::MOST) } else { None }
}

/// The pauses before the model is asked again if it is busy, unless the upstream names a longer one.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];
/// The longest pause that an upstream may demand. Clients wait no longer for a stream to go on.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Returns whether an upstream may answer the same request later.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429 | 500..)
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
    /// The answer cannot be continued. The client gets these bytes.
    Fail(Vec<u8>),
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
        let mut own = LineCall { windows, request, preamble, turn };
        let mut next = Some(first);
        while let Some(answer) = next {
            next = match self.pass(answer, &mut own).await {
                Some(body) => self.ask(body, &mut own).await,
                None => None,
            };
        }
    }

    /// Passes an answer on. Returns the body of the next request if the model is to go on.
    async fn pass(
        &mut self,
        (mut answer, mut decoder): (Answer, Encoding),
        own: &mut LineCall<'_>,
    ) -> Option<Option<Bytes>> {
        loop {
            let data = match answer.next().await {
                Some(Ok(frame)) => frame.into_data().ok(),
                Some(Err(broken)) => {
                    self.break_off(broken).await;
                    return None;
                }
                None if self.is_settled => return None,
                None => None,
            };
            let is_last = data.is_none();
            let Ok(mut out) = data.map_or(Ok(Vec::new()), |data| self.read(&mut decoder, &data)) else {
                self.break_off(Broken::Encoding).await;
                return None;
            };
            let is_over = is_last || answer.is_at_its_end();
            if is_over && !self.is_settled {
                // The client may continue as soon as it sees the end, so the answer must be recorded before.
                match self.end(&answer, own).await {
                    Next::Ask(body) => {
                        self.give(out).await;
                        self.stitch.resume();
                        return Some(body);
                    }
                    Next::End => out.extend(self.stitch.finish()),
                    Next::Fail(error) => {
                        out.extend(error);
                        self.give(out).await;
                        return None;
                    }
                }
            }
            self.give(out).await;
        }
    }

    /// Reads the next bytes of an answer, and returns the bytes for the client.
    fn read(&mut self, decoder: &mut Encoding, data: &[u8]) -> std::io::Result<Vec<u8>> {
        let plain = decoder.decode(data)?;
        Ok(self.stitch.read(plain.as_deref().unwrap_or(data)))
    }

    async fn give(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            // Without a receiver, this does not run.
            let _ = self.client.send(Ok(bytes.into())).await;
        }
    }

    async fn break_off(&mut self, broken: Broken) {
        self.is_settled = true;
        self.span.failed("broken_off");
        let _ = self.client.send(Err(broken)).await;
    }

    /// Records an answer at its end, and answers the calls of the gateway's tools.
    async fn end(&mut self, answer: &Answer, own: &mut LineCall<'_>) -> Next {
        // An answer that broke off does so for the client, too.
        let Some(mut response) = answer.copy().and_then(Copy::response) else {
            self.is_settled = true;
            return Next::End;
        };
        let calls = hidden_exchange::calls(&response.message, &own.turn.offered, self.told.note.asides);
        self.span.answered(&response);
        let is_clients = calls.iter().flatten().any(|call| !call.is_ours);
        if let Some(calls) = calls.as_ref().filter(|_| !is_clients) {
            let noted = (&mut self.told.note, response, calls.as_slice());
            return match answer_calls(&self.admission, (&own.windows, &mut own.turn, &own.request), noted).await {
                Ok(body) => Next::Ask(body),
                Err(why) => self.fail(why),
            };
        }
        self.is_settled = true;
        let mut edits = Vec::new();
        if (is_clients || self.told.note.asides > 0)
            && let Some(message) = self.stitch.message()
        {
            edits = self.stitch.hide_shown(&message);
            response.message = message;
        }
        let LineCall { windows, turn, .. } = own;
        record(&self.admission, windows, turn, (response, edits)).await;
        let late: Vec<_> = calls.into_iter().flatten().filter(|call| call.is_ours).collect();
        if !late.is_empty()
            && let Err(error) = windows.later(turn, late).await
        {
            let what = format_args!("a memory tool of {} will not be answered: {}", turn.name(), chained(&error));
            failed(&self.admission, &what);
        }
        Next::End
    }

    /// Asks the model again. Returns its next answer, if it has one. The client sees no status, so that it cannot retry:
    /// this does.
    async fn ask(&mut self, mut body: Option<Bytes>, own: &mut LineCall<'_>) -> Option<(Answer, Encoding)> {
        let call = self.call.clone();
        let mut pauses = PAUSES.into_iter();
        loop {
            let answer = match send(&self.admission, &self.upstream, &call, body.clone()).await {
                Ok(answer) => answer,
                Err(error)
                    if error.is_passing()
                        && let Some(pause) = pauses.next() =>
                {
                    self.admission.shared.emit(&Event::unanswered(&self.upstream, &error));
                    sleep(pause).await;
                    continue;
                }
                Err(error) => {
                    self.admission.shared.emit(&Event::unanswered(&self.upstream, &error));
                    self.fail_with(&format!("Lookback's gateway: {error}")).await;
                    return None;
                }
            };
            let (parts, incoming) = answer.into_parts();
            let pause = self.admission.current.config.timeouts.pause;
            let (answer, error) = read_error(&parts, incoming, call.dialect, pause).await;
            let Some(error) = error else {
                match decoder(&parts, &answer) {
                    Some(decoder) => return Some((answer, decoder)),
                    None => {
                        self.fail_with("Lookback's gateway: the upstream went on without a stream").await;
                        return None;
                    }
                }
            };
            let refused = body.as_ref().or(call.text.as_ref()).map_or(&[][..], |body| body);
            let note = &mut self.told.note;
            match retry(&self.admission, Some(own), note, (parts.status, &error), (&call, refused)).await {
                Some(retry) => body = Some(retry.into()),
                None if is_passing(parts.status)
                    && let Some(pause) = pauses.next() =>
                {
                    sleep(retry_after(&parts.headers).unwrap_or(pause)).await;
                }
                None => {
                    self.admission.shared.metrics.refused();
                    self.is_settled = true;
                    self.span.failed(parts.status.as_str().to_owned());
                    let bytes = self.stitch.fail(&error);
                    self.give(bytes).await;
                    return None;
                }
            }
        }
    }

    async fn fail_with(&mut self, why: &str) {
        if let Next::Fail(bytes) = self.fail(why) {
            self.give(bytes).await;
        }
    }

    /// Ends the stream with an error of the gateway.
    fn fail(&mut self, why: &str) -> Next {
        self.is_settled = true;
        self.span.failed("unanswered");
        self.admission.shared.emit(&Event::failure(why.to_owned()));
        Next::Fail(self.stitch.fail(&self.call.dialect.error_body(502, why).to_string()))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if !self.is_settled {
            self.span.failed("client_gone");
        }
    }
}
