//! Configuring a session: its summarizer and its hooks.

use std::sync::Arc;
use std::time::Duration;

use super::{Hooks, Session};
use lookback_summarize::Job;
use lookback_summarize::{Extractive, Spawner, Summarizer};

/// How a session makes its running summary, if the policy asks for one (see [`Session::with_summarizer`]).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use lookback_engine::Settings;
/// use lookback_session::{Session, SummaryOptions};
/// use lookback_store::MemoryStore;
/// use lookback_summarize::Function;
///
/// let model = Function::new("small-model", |ask| async move {
///     tokio::time::sleep(std::time::Duration::from_millis(1)).await; // any client that runs on tokio
///     Ok(format!("In short: {}", ask.prompt))
/// });
/// let session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
/// let session = session.with_summarizer(SummaryOptions::new(model).spawner(tokio::spawn));
/// # let _ = session;
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a session has them"]
pub struct SummaryOptions {
    pub(super) summarizer: Arc<dyn Summarizer>,
    pub(super) focus: Vec<String>,
    pub(super) spawner: Spawner,
    pub(super) time_limit: Duration,
    /// Whether summaries are checked against their source.
    pub(super) check: bool,
}

impl SummaryOptions {
    /// Creates options with this summarizer.
    pub fn new(summarizer: impl Summarizer + 'static) -> Self {
        SummaryOptions {
            summarizer: Arc::new(summarizer),
            focus: ["decisions", "facts", "preferences"].map(str::to_owned).to_vec(),
            spawner: Spawner::default(),
            time_limit: Duration::from_secs(120),
            check: true,
        }
    }

    /// Sets the aspects that a summary should keep above all. The default is `decisions`, `facts` and `preferences`.
    pub fn focus(mut self, aspects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.focus = aspects.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the function that runs a summary's job in the background, for example `tokio::spawn`. Its return value is
    /// dropped.
    ///
    /// By default, the job runs on a thread of a pool; with the feature `tokio`, on the tokio runtime in which the
    /// session is used. If the summarizer's client needs tokio, as `reqwest` does, set a spawner or enable the feature:
    /// see [`Spawner`].
    pub fn spawner<R>(mut self, spawn: impl Fn(Job) -> R + Send + Sync + 'static) -> Self {
        self.spawner = Spawner::new(spawn);
        self
    }

    /// Sets the time limit for making a summary. The default is two minutes.
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Sets whether a summary is checked against its source before it is published (see
    /// [`SummarySource`](lookback_summarize::SummarySource)). The default is `true`.
    ///
    /// If a summary does not pass, the summarizer gets the faults and is asked once more. If the second one does not
    /// pass either, the messages leave the window without a summary, and the previous summary stays.
    pub fn check(mut self, check: bool) -> Self {
        self.check = check;
        self
    }
}

impl Default for SummaryOptions {
    /// Returns options with the summarizer [`Extractive`].
    fn default() -> Self {
        SummaryOptions::new(Extractive::default())
    }
}

impl<S: Summarizer + 'static> From<S> for SummaryOptions {
    fn from(summarizer: S) -> Self {
        SummaryOptions::new(summarizer)
    }
}

impl Session {
    /// Sets how the running summary is made, if the policy has one: a summarizer, or [`SummaryOptions`]. The default
    /// summarizer is [`Extractive`].
    #[must_use]
    pub fn with_summarizer(mut self, options: impl Into<SummaryOptions>) -> Self {
        self.summaries.options = options.into();
        self
    }

    /// Sets the hooks that are called for compactions and summaries.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }
}
