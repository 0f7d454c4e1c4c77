//! Building a session: its summarizer, its hooks, and where its policy comes from.

use std::sync::Arc;
use std::time::Duration;

use lookback_engine::policy::Policy;

use super::{Hooks, Session};
use lookback_store::LogName;
use lookback_summarize::Job;
use lookback_summarize::{Spawner, Summarizer};

impl Session {
    /// Sets the summarizer for the running summary, if the policy makes one. The default is
    /// [`Extractive`](lookback_summarize::Extractive).
    #[must_use]
    pub fn with_summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.summaries.summarizer = Arc::new(summarizer);
        self.summaries.spawner.forget();
        self
    }

    /// Sets what a summary should keep above all. The default is `decisions`, `facts` and `preferences`.
    #[must_use]
    pub fn with_focus(mut self, aspects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.summaries.focus = aspects.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the function that starts the making of a summary in the background, for example `tokio::spawn`. What it
    /// returns is dropped.
    ///
    /// By default a summary is made on a thread of a pool; with the feature `tokio`, on the tokio runtime that the
    /// session is used in. A summarizer whose client needs tokio, such as `reqwest`, needs one of the two: see
    /// [`Spawner`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use lookback_summarize::Function;
    /// use lookback_store::MemoryStore;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let model = Function::new("small-model", |ask| async move {
    ///     tokio::time::sleep(std::time::Duration::from_millis(1)).await; // any client that runs on tokio
    ///     Ok(format!("In short: {}", ask.prompt))
    /// });
    /// let session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// let session = session.with_summarizer(model).with_spawner(tokio::spawn);
    /// # let _ = session;
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn with_spawner<R>(mut self, spawn: impl Fn(Job) -> R + Send + Sync + 'static) -> Self {
        self.summaries.spawner = Spawner::new(spawn);
        self
    }

    /// Sets the time limit for making a summary. The default is two minutes.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.summaries.time_limit = time_limit;
        self
    }

    /// Sets whether a summary is checked against what it replaces before it is published (see
    /// [`SummarySource`](lookback_summarize::SummarySource)). The default is `true`.
    ///
    /// A summary that does not pass is asked for once more, with what was wrong. If the second one does not pass either,
    /// what it would have covered leaves the window without a summary, and the summary before it stays.
    #[must_use]
    pub fn with_summary_check(mut self, check: bool) -> Self {
        self.summaries.check = check;
        self
    }

    /// Sets the hooks that are called for compactions and summaries.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets a function that returns the session's policy, given its name. It is called at each use, so a limit may
    /// change while the session is open.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use lookback_engine::{Settings, policy::{Limits, Policy}};
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_session::Session;
    ///
    /// let limit = Arc::new(AtomicU64::new(3));
    /// let read = limit.clone();
    /// let policy = move |_: &_| Policy { limits: Limits::messages(read.load(Ordering::Relaxed)), ..Policy::unlimited() };
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?.with_policies(policy);
    /// session.extend(["one", "two", "three"].map(Message::user).to_vec()).await?;
    /// assert_eq!(session.window().await?.messages()?.len(), 3);
    /// limit.store(1, Ordering::Relaxed);
    /// assert_eq!(session.window().await?.messages()?.len(), 1);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn with_policies(mut self, policies: impl Fn(&LogName) -> Policy + Send + Sync + 'static) -> Self {
        self.policies = Some(Arc::new(policies));
        self
    }
}
