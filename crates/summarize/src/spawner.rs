//! The spawner of background work, which makes summaries and extracts facts.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_lite::future;

use super::SummarizerError;
use super::error::Kind;

/// A part of tokio's panic message if its runtime is missing.
const NO_RUNTIME: &str = "there is no reactor running";

/// Work that runs in the background.
pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs jobs in the background, such as making a summary or extracting facts.
///
/// By default, each job runs on a thread of a pool. A client that needs a tokio runtime, such as `reqwest`, panics
/// there, which becomes a [`SummarizerError`]. There are two ways to provide a runtime:
///
/// - With the feature `tokio` of this crate, a job that begins within a tokio runtime is spawned on that runtime.
/// - Without it, `SummaryOptions::spawner` and `FactSheet::with_spawner` take `tokio::spawn`, or the `spawn` of any
///   other executor.
///
/// ```
/// use lookback_summarize::Spawner;
///
/// let spawner = Spawner::new(tokio::spawn);
/// # let _ = spawner;
/// ```
#[derive(Clone, Default)]
pub struct Spawner {
    own: Option<Arc<dyn Fn(Job) + Send + Sync>>,
    /// Whether a job has failed because it needed a runtime.
    failed: Arc<AtomicBool>,
}

impl Spawner {
    /// Creates a spawner from a function. The function's return value is dropped, which must not end the job: if your
    /// executor cancels tasks whose handle is dropped, detach the task.
    pub fn new<R>(spawn: impl Fn(Job) -> R + Send + Sync + 'static) -> Self {
        Spawner { own: Some(Arc::new(move |job: Job| drop(spawn(job)))), failed: Arc::default() }
    }

    /// Starts a job.
    pub fn spawn(&self, job: Job) {
        match &self.own {
            Some(spawn) => spawn(job),
            None => spawn_by_default(job),
        }
    }

    /// Remembers if a job failed because it needed a runtime.
    pub fn learn(&self, error: &SummarizerError) {
        if matches!(error.0, Kind::NoRuntime { .. }) {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a job has failed for lack of a runtime, and another try would, too.
    pub fn lacks_runtime(&self) -> bool {
        self.failed.load(Ordering::Relaxed) && (self.own.is_some() || !is_in_runtime())
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("own", &self.own.is_some()).finish_non_exhaustive()
    }
}

/// Runs a job on the tokio runtime of the caller, or else on a thread of a pool.
fn spawn_by_default(job: Job) {
    #[cfg(feature = "tokio")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(job);
        return;
    }
    blocking::unblock(|| future::block_on(job)).detach();
}

/// Whether the caller is within a tokio runtime, on which jobs are spawned.
#[cfg(feature = "tokio")]
fn is_in_runtime() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}

/// Without the feature `tokio`, no runtime is used.
#[cfg(not(feature = "tokio"))]
fn is_in_runtime() -> bool {
    false
}

/// Whether a future panicked because it needs a tokio runtime.
pub(super) fn is_missing_runtime(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.is_some_and(|text| text.contains(NO_RUNTIME))
}
