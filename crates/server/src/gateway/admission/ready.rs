//! Whether requests can be recorded, for monitoring.

use std::time::{Duration, Instant};

use lookback_store::{Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long a result is reused. Anyone may send such requests, and often.
const FRESH: Duration = Duration::from_secs(1);

/// The time and the result of the last probe of the store.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<&'static str>)>>);

impl Readiness {
    /// Returns the reason that nothing can be recorded now, or `None` if the store works. Concurrent callers share one
    /// probe.
    pub(crate) async fn fault(&self, store: &dyn Store, patience: Duration) -> Option<&'static str> {
        let mut found = self.0.lock().await;
        if let Some((when, fault)) = *found
            && when.elapsed() < FRESH
        {
            return fault;
        }
        let fault = match timeout(patience, store.probe()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(said(&error)),
            Err(_) => Some(SILENT),
        };
        *found = Some((Instant::now(), fault));
        fault
    }
}

const SILENT: &str = "the store does not answer";

/// Describes an error without the location of the store, which callers must not learn.
fn said(error: &StoreError) -> &'static str {
    match error {
        StoreError::Full { .. } => "no space is left for the store",
        StoreError::ReadOnly { .. } => "the store is read-only",
        StoreError::Missing { .. } | StoreError::Replaced { .. } => "the store was deleted or replaced",
        StoreError::Late { .. } | StoreError::Unreachable { .. } | StoreError::Locked { .. } => SILENT,
        _ => "the store cannot be written to",
    }
}
