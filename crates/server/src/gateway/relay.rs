//! An answer on its way to the client: it passes as bytes, and is recorded before the client has all of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Shared;
use super::copy::Copy;
use super::lines::Turn;

/// The most frames that wait for a slow client. Then the upstream waits, too.
const WAITING: usize = 4;

/// Passes an answer on while a copy of it is read, and records the copy.
pub(super) fn relay(shared: Arc<Shared>, first: Vec<Bytes>, incoming: Incoming, copy: Copy, turn: Turn) -> Body {
    let (sender, receiver) = channel(WAITING);
    tokio::spawn(pass(shared, first, incoming, (copy, turn), sender));
    Body::new(Relayed(receiver))
}

async fn pass(
    shared: Arc<Shared>,
    first: Vec<Bytes>,
    mut incoming: Incoming,
    (mut copy, turn): (Copy, Turn),
    sender: Sender<Result<Frame<Bytes>, hyper::Error>>,
) {
    let mut turn = Some(turn);
    // What a client can only use whole waits until it is recorded.
    let mut held = Vec::new();
    let is_stream = copy.is_stream();
    for data in first {
        copy.read(&data);
        if sender.send(Ok(Frame::data(data))).await.is_err() {
            return;
        }
    }
    loop {
        let frame = tokio::select! {
            frame = incoming.frame() => frame,
            // The client has gone, so nobody needs the rest.
            () = sender.closed() => return,
        };
        let Some(frame) = frame else { break };
        if let Ok(Some(data)) = frame.as_ref().map(Frame::data_ref) {
            copy.read(data);
        }
        if copy.is_complete() {
            record(&shared, &copy, turn.take()).await;
        }
        if is_stream {
            if sender.send(frame).await.is_err() {
                return;
            }
        } else {
            held.push(frame);
        }
    }
    record(&shared, &copy, turn.take()).await;
    for frame in held {
        if sender.send(frame).await.is_err() {
            return;
        }
    }
}

/// Records an answer if it came whole. The client gets it in any case.
async fn record(shared: &Shared, copy: &Copy, turn: Option<Turn>) {
    let (Some(mut turn), Some(response)) = (turn, copy.response()) else { return };
    if let Err(error) = shared.windows.answered(&mut turn, response).await {
        shared.metrics.store_failed();
        shared.tell(&format!("the answer of {} was not recorded: {error}", turn.line.name));
    }
}

/// The body that the client reads.
struct Relayed(Receiver<Result<Frame<Bytes>, hyper::Error>>);

impl HttpBody for Relayed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0.poll_recv(context)
    }
}
