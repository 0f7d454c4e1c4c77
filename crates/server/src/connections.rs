//! The connections of a server: their states, and which one is closed to make room for another.
//!
//! Otherwise a client could occupy all connections without sending anything, and delay the shutdown of the server.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How often a full server looks for a connection to close.
const LOOKS_EVERY: Duration = Duration::from_millis(20);
/// How long a connection that waits for a request is safe from being closed to make room.
const WAITS: Duration = Duration::from_millis(250);
/// How long a connection whose request has stalled is safe from being closed to make room.
const STALLS: Duration = Duration::from_secs(5);

/// Marks an endless answer, which a shutdown need not wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// No request, or only the beginning of one, has arrived.
    Waiting,
    /// The body of a request has not arrived completely.
    Receiving,
    /// A request is being answered.
    Answering,
    /// An endless answer is being sent.
    Following,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    state: Mutex<State>,
    leave: Notify,
}

#[derive(Debug)]
struct State {
    doing: Doing,
    /// The time when this state began, or when the last bytes of a request arrived.
    since: Instant,
    /// Whether a request has arrived on it.
    has_asked: bool,
    is_leaving: bool,
}

impl Connection {
    fn new() -> Connection {
        let state = State { doing: Doing::Waiting, since: Instant::now(), has_asked: false, is_leaving: false };
        Connection { state: Mutex::new(state), leave: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn does(&self, doing: Doing) {
        let mut state = self.state();
        (state.doing, state.since) = (doing, Instant::now());
    }

    /// Takes a request whose head has arrived.
    pub(crate) fn asks(self: Arc<Self>, body: Incoming) -> Asked {
        self.does(if body.is_end_stream() { Doing::Answering } else { Doing::Receiving });
        self.state().has_asked = true;
        Asked { body, slot: self }
    }

    /// Takes the answer to a request.
    pub(crate) fn answers(self: Arc<Self>, answer: Response<Body>) -> Response<Answered> {
        if answer.extensions().get::<Endless>().is_some() {
            self.does(Doing::Following);
        }
        answer.map(|body| Answered { body, slot: self })
    }

    /// Records that more of a request's body has arrived, or all of it.
    fn receives(&self, is_whole: bool) {
        let mut state = self.state();
        if state.doing == Doing::Receiving {
            state.since = Instant::now();
            state.doing = if is_whole { Doing::Answering } else { Doing::Receiving };
        }
    }

    /// Waits until this connection has to make room.
    pub(crate) async fn is_to_leave(&self) {
        self.leave.notified().await;
    }

    /// Returns whether nothing is lost by closing it now: no request has arrived, the rest of one has stalled for this
    /// long, or its answer is endless.
    pub(crate) fn may_go(&self, stalls: Duration) -> bool {
        let state = self.state();
        match state.doing {
            Doing::Waiting => !state.has_asked,
            Doing::Receiving => state.since.elapsed() >= stalls,
            Doing::Answering => false,
            Doing::Following => true,
        }
    }
}

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Arc<Semaphore>,
    known: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Connections> {
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Connections { places, known: Mutex::default(), next: AtomicU64::new(0) })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. If there is none, closes the connection that has waited longest for a request, or otherwise
    /// the one whose request has stalled longest. Never interrupts an answer.
    pub(crate) async fn place(self: &Arc<Self>) -> Option<Place> {
        loop {
            match timeout(LOOKS_EVERY, self.places.clone().acquire_owned()).await {
                Ok(permit) => {
                    let permit = permit.ok()?;
                    let (number, slot) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(Connection::new()));
                    self.known().insert(number, slot.clone());
                    return Some(Place { slot, number, slots: self.clone(), _permit: permit });
                }
                Err(_) => self.make_room(),
            }
        }
    }

    fn make_room(&self) {
        let known = self.known();
        let longest = |doing: Doing, least: Duration| {
            let since = |slot: &&Arc<Connection>| {
                let state = slot.state();
                let is_it = state.doing == doing && !state.is_leaving && state.since.elapsed() >= least;
                is_it.then_some(state.since)
            };
            known.values().filter_map(|slot| Some((since(&slot)?, slot))).min_by_key(|(since, _)| *since)
        };
        let found = longest(Doing::Waiting, WAITS).or_else(|| longest(Doing::Receiving, STALLS));
        if let Some((_, slot)) = found {
            slot.state().is_leaving = true;
            slot.leave.notify_one();
        }
    }
}

/// The place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) slot: Arc<Connection>,
    number: u64,
    slots: Arc<Connections>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.slots.known().remove(&self.number);
    }
}

/// The body of a request, which reports its progress to the connection.
#[derive(Debug)]
pub(crate) struct Asked {
    body: Incoming,
    slot: Arc<Connection>,
}

impl HttpBody for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = &frame {
            self.slot.receives(frame.is_none() || self.body.is_end_stream());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // The rest is not needed.
        self.slot.receives(true);
    }
}

/// The body of an answer, which reports its end to the connection.
#[derive(Debug)]
pub(crate) struct Answered {
    body: Body,
    slot: Arc<Connection>,
}

impl HttpBody for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.slot.does(Doing::Waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does(slot: &Connection, doing: Doing, since: Duration) {
        let mut state = slot.state();
        (state.doing, state.since) = (doing, Instant::now().checked_sub(since).unwrap());
        state.has_asked = doing != Doing::Waiting;
    }

    #[tokio::test]
    async fn who_waits_longest_makes_room_and_who_is_answered_never_does() {
        let slots = Connections::new(3);
        let mut places = Vec::new();
        for (doing, since) in [(Doing::Answering, 3), (Doing::Waiting, 1), (Doing::Waiting, 2)] {
            let place = slots.place().await.unwrap();
            does(&place.slot, doing, Duration::from_secs(since));
            places.push(place);
        }
        let next = tokio::spawn({
            let slots = slots.clone();
            async move { slots.place().await }
        });
        places[2].slot.is_to_leave().await;
        assert!(places[2].slot.may_go(STALLS) && !places[0].slot.may_go(STALLS));
        places.pop();
        places.push(next.await.unwrap().unwrap());
        // Then a connection whose request has stalled makes room.
        does(&places[1].slot, Doing::Receiving, Duration::from_secs(6));
        does(&places[2].slot, Doing::Receiving, Duration::from_secs(1));
        let next = tokio::spawn({
            let slots = slots.clone();
            async move { slots.place().await }
        });
        places[1].slot.is_to_leave().await;
        drop(places);
        assert!(next.await.unwrap().is_some());
        assert!(slots.known().is_empty());
    }
}
