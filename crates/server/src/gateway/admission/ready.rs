//! Whether what is served can be recorded, for whoever watches the gateway.

use std::time::{Duration, Instant};

use lookback_store::{Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long what was found is taken for what is. Anybody may ask, and as often.
const FRESH: Duration = Duration::from_secs(1);

/// When the store was tried last, and what was wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<&'static str>)>>);

impl Readiness {
    /// Returns why nothing can be recorded now; `None` if it can. Whoever asks meanwhile waits for the same answer.
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

/// Says what is wrong. Where the store is, is nobody's business here.
fn said(error: &StoreError) -> &'static str {
    match error {
        StoreError::Full { .. } => "no space is left for the store",
        StoreError::ReadOnly { .. } => "the store is read-only",
        StoreError::Missing { .. } | StoreError::Replaced { .. } => "the store was deleted or replaced",
        StoreError::Late { .. } | StoreError::Unreachable { .. } | StoreError::Locked { .. } => SILENT,
        _ => "the store cannot be written to",
    }
}
