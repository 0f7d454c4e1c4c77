//! An answer on its way to the client: it passes as bytes, and is recorded before the client has all of it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};

use super::copy::Copy;
use super::event::Event;
use super::lines::Turn;
use super::telemetry::CallSpan;
use super::visit::Visit;

/// The most frames that wait for a slow client. Then the upstream waits, too.
const WAITING: usize = 4;

/// How long what came before a failure has to be sent.
const FLUSH: Duration = Duration::from_millis(10);

/// Why the rest of an answer does not come.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("the upstream stopped in the middle of its answer")]
    Late,
}

/// An answer that is recorded: its copy, and its turn.
type Recording = (Copy, Turn);

/// An answer of an upstream, and what was read of it before it is passed on.
pub(super) struct Answer {
    incoming: Incoming,
    read: VecDeque<Bytes>,
    /// Why there is no more, if it broke off.
    broken: Option<Broken>,
}

impl Answer {
    pub(super) fn new(incoming: Incoming) -> Answer {
        Answer { incoming, read: VecDeque::new(), broken: None }
    }

    /// Reads the next piece, which is still passed on. `None` at the end.
    pub(super) async fn read(&mut self) -> Option<&Bytes> {
        if self.broken.is_some() {
            return None;
        }
        loop {
            match self.incoming.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.push_back(data);
                        return self.read.back();
                    }
                }
                Err(error) => {
                    self.broken = Some(error.into());
                    return None;
                }
            }
        }
    }

    /// Returns what was read.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.read.iter()
    }

    /// Takes note that the next piece did not come in time.
    pub(super) fn cut_short(&mut self) {
        self.broken = Some(Broken::Late);
    }

    /// Returns what is passed on next. `None` at the end.
    async fn next(&mut self, pause: Duration) -> Option<Result<Frame<Bytes>, Broken>> {
        if let Some(data) = self.read.pop_front() {
            return Some(Ok(Frame::data(data)));
        }
        let broken = match self.broken.take() {
            Some(broken) => broken,
            None => match timeout(pause, self.incoming.frame()).await {
                Ok(Some(Err(error))) => error.into(),
                Ok(frame) => return frame.map(|frame| frame.map_err(Broken::from)),
                Err(_) => Broken::Late,
            },
        };
        // A connection that fails at once would not even send what came before.
        sleep(FLUSH).await;
        Some(Err(broken))
    }
}

/// Passes an answer on. If it is recorded, a copy of it is read meanwhile.
pub(super) fn relay(visit: Visit, answer: Answer, recording: Option<Recording>, span: Option<CallSpan>) -> Body {
    let (sender, receiver) = channel(WAITING);
    tokio::spawn(pass(visit, answer, recording, span, sender));
    Body::new(Relayed(receiver))
}

async fn pass(
    visit: Visit,
    mut answer: Answer,
    mut recording: Option<Recording>,
    mut span: Option<CallSpan>,
    sender: Sender<Result<Frame<Bytes>, Broken>>,
) {
    // What a client can only use whole waits until it is recorded.
    let mut held = Vec::new();
    let holds = recording.as_ref().is_some_and(|(copy, _)| !copy.is_stream());
    let pause = visit.current.config.timeouts.pause;
    loop {
        let frame = tokio::select! {
            frame = answer.next(pause) => frame,
            // The client has gone, so nobody needs the rest.
            () = sender.closed() => {
                if let Some(span) = span.as_mut().filter(|_| recording.is_some()) {
                    span.failed("client_gone");
                }
                return;
            }
        };
        let Some(frame) = frame else { break };
        let is_broken = frame.is_err();
        if let (Some((copy, _)), Ok(Some(data))) = (&mut recording, frame.as_ref().map(Frame::data_ref)) {
            copy.read(data);
        }
        if let Some((copy, turn)) = recording.take_if(|(copy, _)| copy.is_complete()) {
            record(&visit, &copy, turn, span.as_mut()).await;
        }
        if holds {
            held.push(frame);
        } else if sender.send(frame).await.is_err() {
            return;
        }
        if is_broken {
            if let Some(span) = &mut span {
                span.failed("broken_off");
            }
            break;
        }
    }
    if let Some((copy, turn)) = recording {
        record(&visit, &copy, turn, span.as_mut()).await;
    }
    for frame in held {
        if sender.send(frame).await.is_err() {
            return;
        }
    }
}

/// Records an answer if it came whole. The client gets it in any case.
async fn record(visit: &Visit, copy: &Copy, mut turn: Turn, span: Option<&mut CallSpan>) {
    let Some(response) = copy.response() else { return };
    if let Some(span) = span {
        span.answered(&response);
    }
    let recorded = match visit.windows() {
        Ok(windows) => windows.answered(&mut turn, response).await.map(|dollars| (windows.arm(&turn.line), dollars)),
        Err(error) => Err(error.into()),
    };
    match recorded {
        Ok((arm, dollars)) => {
            visit.shared.payoff.count(visit.caller.tenant.as_ref(), arm, &mut turn.line.spent(), turn.asks, dollars);
        }
        Err(error) => {
            visit.shared.metrics.store_failed();
            let what = format!("the answer of {} was not recorded: {error}", turn.line.name);
            visit.shared.tell(&Event::failure(what));
        }
    }
}

/// The body that the client reads.
struct Relayed(Receiver<Result<Frame<Bytes>, Broken>>);

impl HttpBody for Relayed {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.0.poll_recv(context)
    }
}
