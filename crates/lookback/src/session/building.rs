//! Building a session: what makes its summaries, what is told of its compactions, and where its policy comes from.

use std::sync::Arc;
use std::time::Duration;

use lookback_core::Policy;

use super::{Hooks, Job, Session};
use crate::store::LogName;
use crate::summarize::Summarizer;

impl Session {
    /// Has its running summary made by this summarizer, where its policy has one. Otherwise [`Extractive`](crate::summarize::Extractive) makes it.
    #[must_use]
    pub fn with_summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.summaries.summarizer = Arc::new(summarizer);
        self
    }

    /// What a summary should keep above all, such as `decisions`, instead of decisions, facts and preferences.
    #[must_use]
    pub fn with_focus(mut self, focus: Vec<String>) -> Self {
        self.summaries.focus = focus;
        self
    }

    /// Runs the making of summaries with this, such as `tokio::spawn`. Otherwise each has a thread of a pool while it is made, on which a
    /// summarizer that needs a runtime of its own would not find it.
    #[must_use]
    pub fn with_spawner(mut self, spawn: impl Fn(Job) + Send + Sync + 'static) -> Self {
        self.summaries.spawn = Arc::new(spawn);
        self
    }

    /// The longest that making a summary may take, instead of two minutes.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.summaries.time_limit = time_limit;
        self
    }

    /// Tells of compactions.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Has its policy from this, by the session's name, at each use: a limit may change while the session lives.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use lookback::{Limits, MemoryStore, Message, Policy, Session, Settings};
    ///
    /// let limit = Arc::new(AtomicU64::new(3));
    /// let read = limit.clone();
    /// let policy = move |_: &_| Policy { limits: Limits::messages(read.load(Ordering::Relaxed)), ..Policy::default() };
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?.with_policies(policy);
    /// session.extend(["one", "two", "three"].map(Message::user).to_vec()).await?;
    /// assert_eq!(session.window().await?.messages()?.len(), 3);
    /// limit.store(1, Ordering::Relaxed);
    /// assert_eq!(session.window().await?.messages()?.len(), 1);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn with_policies(mut self, policies: impl Fn(&LogName) -> Policy + Send + Sync + 'static) -> Self {
        self.policies = Some(Arc::new(policies));
        self
    }
}
