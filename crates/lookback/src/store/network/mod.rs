//! What stores on a network share: a runtime for their drivers, how long they try, and appends whose answer was lost.

mod attempt;

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

pub(super) use attempt::{Attempt, Unresolved};

use super::StoreError;

/// How long a call tries to reach a server that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// What is longer than any process lives, and can be added to a time.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
/// The first and the longest wait between two tries.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Runs a driver's work in the runtime that all stores share, so that it does not matter which executor the caller has.
///
/// If the future that it returns is dropped, the work goes on.
pub(super) async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let start = || Builder::new_multi_thread().worker_threads(1).thread_name("lookback-store").enable_all().build();
    match RUNTIME.get_or_init(start) {
        Ok(runtime) => runtime.spawn(work).await.map_err(io::Error::other),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

/// The error of an append of which an earlier try may have been done all the same.
pub(super) fn unclear(place: &str, error: StoreError) -> StoreError {
    if error.is_unclear() {
        error
    } else {
        StoreError::Unreachable { place: place.to_owned(), source: Box::new(error) }
    }
}

/// Counts the tries of a call, and waits between them.
pub(super) struct Tries {
    pub(super) deadline: Instant,
    wait: Duration,
}

impl Tries {
    pub(super) fn new(patience: Duration) -> Self {
        let now = Instant::now();
        Tries { deadline: now.checked_add(patience).unwrap_or(now + FOREVER), wait: WAITS.0 }
    }

    /// Waits before the next try. Returns `false` if there is no time for one.
    pub(super) async fn again(&mut self) -> bool {
        let wait = self.wait;
        self.wait = (wait * 2).min(WAITS.1);
        if Instant::now() + wait >= self.deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }
}
