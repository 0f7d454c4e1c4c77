//! The common parts of stores on a network: a runtime for drivers, retries, TLS, and errors of unreachable
//! servers.

mod tls;
mod trouble;

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

pub use tls::{Refused, tls_config};
pub use trouble::{Trouble, describe, out_of_reach};

use lookback_store::StoreError;

/// How long a call tries to reach a server that does not answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any process lives, and small enough to be added to a time.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
/// How long one host may take to accept a connection.
const LONGEST_FOR_A_HOST: Duration = Duration::from_secs(2);
/// How long one host may take at least, even if a call has little time.
const SHORTEST_FOR_A_HOST: Duration = Duration::from_millis(250);
/// The first and the longest wait between two tries.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Runs a driver's work on the runtime that all stores share, so that the caller may use any executor.
///
/// If the returned future is dropped, the work continues.
pub async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let start = || Builder::new_multi_thread().worker_threads(1).thread_name("lookback-store").enable_all().build();
    match RUNTIME.get_or_init(start) {
        Ok(runtime) => runtime.spawn(work).await.map_err(io::Error::other),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

/// Returns how long one host may take, so that there is time for another one.
pub fn patience_for_a_host(patience: Duration) -> Duration {
    (patience / 4).clamp(SHORTEST_FOR_A_HOST, LONGEST_FOR_A_HOST)
}

/// Returns the error of an append that an earlier try may have written.
pub fn unclear(place: &str, error: StoreError) -> StoreError {
    if error.is_unclear() {
        error
    } else {
        StoreError::Unreachable { place: place.to_owned(), source: Box::new(error) }
    }
}

/// The tries of a call, with the waits between them.
#[derive(Debug)]
pub struct Tries {
    /// The time at which the call ends.
    pub deadline: Instant,
    /// How long the call may take.
    pub patience: Duration,
    wait: Duration,
    /// The time at which the last try began.
    begun: Instant,
}

impl Tries {
    /// Begins a call that may take this long.
    pub fn new(patience: Duration) -> Self {
        let now = Instant::now();
        Tries { deadline: now.checked_add(patience).unwrap_or(now + FOREVER), patience, wait: WAITS.0, begun: now }
    }

    /// Waits before the next try. Returns `false` if there is no time for one: it would be interrupted, and would hide
    /// why the last one failed.
    pub async fn back_off(&mut self) -> bool {
        let wait = self.wait;
        self.wait = (wait * 2).min(WAITS.1);
        let needs = self.begun.elapsed().min(WAITS.1);
        if Instant::now() + wait + needs >= self.deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        self.begun = Instant::now();
        true
    }
}
