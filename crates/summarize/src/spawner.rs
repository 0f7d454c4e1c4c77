//! Where background work runs: the making of summaries, and the drawing of facts.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_lite::future;

use super::SummarizerError;

/// What a panic says if tokio's runtime is missing: its own words.
const NO_RUNTIME: &str = "there is no reactor running";

/// Work that runs in the background.
pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs jobs in the background: the making of summaries, and the drawing of facts.
///
/// By default a job has a thread of a pool for itself. A client that needs tokio, such as `reqwest`, does not find its
/// runtime there: it panics, which becomes [`SummarizerError::NoRuntime`]. Two ways give it one:
///
/// - With the feature `tokio` of this crate, a job that begins within a tokio runtime is spawned on that runtime.
/// - Without it, `SummaryOptions::spawner` and `FactSheet::with_spawner` take `tokio::spawn`, or the `spawn` of any other
///   executor.
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
    /// Creates a spawner from a function. What the function returns is dropped, and that must not end the job: detach
    /// the task if your executor cancels tasks whose handle is dropped.
    pub fn new<R>(spawn: impl Fn(Job) -> R + Send + Sync + 'static) -> Self {
        Spawner { own: Some(Arc::new(move |job: Job| drop(spawn(job)))), failed: Arc::default() }
    }

    /// Begins a job.
    pub fn spawn(&self, job: Job) {
        match &self.own {
            Some(spawn) => spawn(job),
            None => spawn_by_default(job),
        }
    }

    /// Remembers if a job failed because it needed a runtime.
    pub fn learn(&self, error: &SummarizerError) {
        if matches!(error, SummarizerError::NoRuntime { .. }) {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a job needed a runtime, and another try would not find one either.
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

/// Without the feature `tokio` no runtime is looked for.
#[cfg(not(feature = "tokio"))]
fn is_in_runtime() -> bool {
    false
}

/// Whether this is the panic of a future that needs a tokio runtime.
pub(super) fn is_want_of_runtime(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.is_some_and(|text| text.contains(NO_RUNTIME))
}
