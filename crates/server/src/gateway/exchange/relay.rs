//! An answer on its way to the client: passed on byte by byte, and recorded before the client has all of it.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use lookback_wire::dialect::Response;
use lookback_wire::edit::Edit;
use tokio::time::{sleep, timeout};

use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::http::copy::{self, Copy};
use crate::gateway::lines::turn::Turn;
use crate::gateway::report::event::Event;
use crate::gateway::report::telemetry::CallSpan;
use crate::gateway::windows::Windows;

/// The time for sending what came before a failure.
const FLUSH: Duration = Duration::from_millis(10);

/// The reason that the rest of an answer is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("the upstream stopped in the middle of its answer")]
    Late,
    #[error("the answer does not have its encoding")]
    Encoding,
}

/// An answer of an upstream, with the pieces that were read ahead.
pub(crate) struct Answer {
    incoming: Incoming,
    /// The longest pause between two pieces.
    pause: Duration,
    read: VecDeque<Bytes>,
    /// A copy of what was read. `None` if it is not needed, or if it cannot be decoded.
    copy: Option<Copy>,
    /// Whether the end was read.
    is_over: bool,
    /// The reason that it broke off, if it did.
    broken: Option<Broken>,
}

impl Answer {
    pub(crate) fn new(incoming: Incoming, copy: Option<Copy>, pause: Duration) -> Answer {
        Answer { incoming, pause, read: VecDeque::new(), copy, is_over: false, broken: None }
    }

    /// Returns the copy of what was read.
    pub(crate) fn copy(&self) -> Option<&Copy> {
        self.copy.as_ref()
    }

    /// Reads the next piece, and keeps it to be passed on. Returns its length in bytes, or `None` at the end.
    pub(crate) async fn read(&mut self) -> Option<usize> {
        while self.broken.is_none() {
            match self.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        let length = data.len();
                        self.read.push_back(data);
                        return Some(length);
                    }
                }
                Some(Err(error)) => self.broken = Some(error),
                None => return None,
            }
        }
        None
    }

    /// Reads the rest, and keeps it to be passed on. Stops after more than `most` bytes.
    pub(crate) async fn read_rest(&mut self, most: usize) {
        let mut length = 0;
        while length <= most
            && let Some(more) = self.read().await
        {
            length += more;
        }
    }

    /// Returns whether the newest frame was the last one, as far as can be known.
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.read.is_empty() && (self.incoming.is_end_stream() || self.copy().is_some_and(Copy::is_over))
    }

    /// Returns what was read ahead and not passed on yet.
    pub(crate) fn bytes(&self) -> Bytes {
        self.read.iter().flatten().copied().collect()
    }

    /// Returns the next frame to pass on. `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Frame<Bytes>, Broken>> {
        if let Some(data) = self.read.pop_front() {
            return Some(Ok(Frame::data(data)));
        }
        let broken = match self.broken.take() {
            Some(broken) => broken,
            None => match self.frame().await {
                Some(Err(broken)) => broken,
                frame => return frame,
            },
        };
        self.is_over = true;
        // A connection that fails at once would not even send the pieces before the failure.
        sleep(FLUSH).await;
        Some(Err(broken))
    }

    /// Receives the next frame.
    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, Broken>> {
        if self.is_over {
            return None;
        }
        let frame = match timeout(self.pause, self.incoming.frame()).await {
            Ok(Some(frame)) => frame.map_err(Broken::from),
            Ok(None) => {
                self.is_over = true;
                return None;
            }
            Err(_) => Err(Broken::Late),
        };
        if let (Some(copy), Ok(Some(data))) = (&mut self.copy, frame.as_ref().map(Frame::data_ref)) {
            copy.read(data);
        }
        Some(frame)
    }
}

/// Passes an answer on. Records it if it belongs to a turn.
pub(crate) async fn relay(
    admission: Admission,
    answer: Answer,
    turn: Option<(Windows, Turn)>,
    span: Option<CallSpan>,
) -> Body {
    // An answer that cannot be decoded cannot be recorded.
    let turn = if answer.copy().is_some() { turn } else { None };
    let mut relay = Relay { admission, answer, turn, span };
    // A client cannot use a part of an answer that is not a stream, so it gets nothing before everything is recorded.
    if relay.turn.is_some() && relay.answer.copy().is_some_and(|copy| !copy.is_stream()) {
        relay.answer.read_rest(copy::MOST).await;
        if relay.answer.is_over {
            relay.record().await;
        }
    }
    let pieces = unfold(relay, |mut relay| async move {
        let piece = relay.next().await?;
        Some((piece, relay))
    });
    Body::new(StreamBody::new(pieces))
}

/// An answer that is being passed on.
struct Relay {
    admission: Admission,
    answer: Answer,
    /// The turn to record the answer in, until it is recorded.
    turn: Option<(Windows, Turn)>,
    span: Option<CallSpan>,
}

impl Relay {
    /// Returns the next frame to pass on. `None` at the end.
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Broken>> {
        let frame = self.answer.next().await;
        // The client may continue as soon as it sees the end, so the answer must be recorded before.
        if frame.as_ref().is_none_or(Result::is_err) || self.answer.is_at_its_end() {
            self.record().await;
        }
        if let (Some(Err(_)), Some(span)) = (&frame, &mut self.span) {
            span.failed("broken_off");
        }
        frame
    }

    /// Records the answer if it is complete. The client gets it in any case. If the client has disconnected, the answer
    /// is not recorded here: the client resends what it received with its next request.
    async fn record(&mut self) {
        if let Some((windows, mut turn)) = self.turn.take()
            && let Some(response) = self.answer.copy().and_then(Copy::response)
        {
            if let Some(span) = &mut self.span {
                span.answered(&response);
            }
            record(&self.admission, &windows, &mut turn, (response, Vec::new())).await;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The client has disconnected, and the rest is not needed.
        if let (Some(_), Some(span)) = (&self.turn, &mut self.span) {
            span.failed("client_gone");
        }
    }
}

/// Records an answer in its turn. Its window shows it with these edits.
pub(super) async fn record(
    admission: &Admission,
    windows: &Windows,
    turn: &mut Turn,
    (response, edits): (Response, Vec<Edit>),
) {
    if turn.matched.is_apart() {
        return admission.shared.lines.recent.compacted(&turn.matched, &response.message.text());
    }
    admission.shared.metrics.reasoning_lost(response.lost_reasoning);
    match windows.answered(turn, response, edits).await {
        // Without windows, there is nothing to compare with.
        Ok(_) if admission.current.config.shadow => {}
        Ok(dollars) => {
            admission.shared.payoff.count(
                admission.caller.tenant.as_ref(),
                windows.arm(turn),
                &mut turn.matched.line.state.spent(),
                turn.matched.is_from_person,
                dollars,
            );
        }
        Err(error) => {
            admission.shared.metrics.store_failed();
            let what = format!("the answer of {} was not recorded: {}", turn.name(), chained(&error));
            admission.shared.emit(&Event::failure(what));
        }
    }
}
