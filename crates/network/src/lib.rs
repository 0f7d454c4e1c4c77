//! The common code of the stores in PostgreSQL and Redis: retries, TLS, and errors of unreachable servers.

mod remote;
mod retry;
mod tls;

use std::error::Error;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

#[doc(hidden)]
pub use remote::Remote;
#[doc(hidden)]
pub use retry::{Failure, Limit, retry};

use lookback_store::{StoreError, StoreFuture};

/// How long a call tries to reach a server that does not answer.
#[doc(hidden)]
pub const PATIENCE: Duration = Duration::from_secs(5);

impl Remote {
    /// Runs a call on the runtime that the drivers of all stores share, so that the caller may use any executor.
    ///
    /// If the returned future is dropped, the call continues.
    pub fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
        let start = || Builder::new_multi_thread().worker_threads(1).thread_name("lookback-store").enable_all().build();
        Box::pin(async move {
            let done = match RUNTIME.get_or_init(start) {
                Ok(runtime) => runtime.spawn(call).await.map_err(io::Error::other),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            done.map_err(|error| self.broken(error))?
        })
    }

    /// Returns the error of a store that failed for another reason: in this process, or in a task of its server.
    pub fn broken(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::Backend { place: self.place.clone(), source: source.into() }
    }
}
