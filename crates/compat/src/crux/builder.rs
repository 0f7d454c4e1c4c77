//! The options of a window, and how to open it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_lock::Mutex;
use lookback_engine::policy::{Keep, Limits, Policy, Stage, Summarize, SystemRule};
use lookback_wire::message::Role;

use super::{Error, SlidingWindow, log_of, settings};
use crate::error::at_least_one;
use lookback_session::SummaryOptions;
use lookback_session::{CompactEnd, CompactStart, CompactionOutcome, Hooks, Session};
use lookback_store::{IntoStore, MemoryStore, Store};
use lookback_summarize::Job;
use lookback_summarize::{Spawner, Summarizer};

/// The options of a [`SlidingWindow`].
#[must_use]
pub struct SlidingWindowBuilder {
    window_size: u64,
    summarizer: Arc<dyn Summarizer>,
    summary_budget: u64,
    summary_role: Role,
    batch: Option<u64>,
    id: String,
    store: Arc<dyn Store>,
    start: Option<Arc<Hook<CompactStart>>>,
    end: Option<Arc<Hook<CompactEnd>>>,
    failed: Option<Arc<Hook<CompactEnd>>>,
    time_limit: Option<Duration>,
    spawner: Option<Spawner>,
}

type Hook<T> = dyn Fn(&T) + Send + Sync;

impl SlidingWindow {
    /// Starts building a window of the newest `window_size` messages (at least 1), with summaries by this summarizer. A
    /// [`Function`](lookback_summarize::Function) replaces the original's `generate` and `model`.
    pub fn builder(window_size: u64, summarizer: impl Summarizer + 'static) -> SlidingWindowBuilder {
        SlidingWindowBuilder::new(window_size, Arc::new(summarizer))
    }
}

impl SlidingWindowBuilder {
    pub(super) fn new(window_size: u64, summarizer: Arc<dyn Summarizer>) -> Self {
        SlidingWindowBuilder {
            window_size,
            summarizer,
            summary_budget: 1_000,
            summary_role: Role::System,
            batch: None,
            id: "default".to_owned(),
            store: Arc::new(MemoryStore::new()),
            start: None,
            end: None,
            failed: None,
            time_limit: None,
            spawner: None,
        }
    }

    /// Sets the most tokens of the running summary, at least 1. The default is 1,000. A longer summary is cut.
    pub fn summary_budget(self, summary_budget: u64) -> Self {
        SlidingWindowBuilder { summary_budget, ..self }
    }

    /// Sets the conversation's id. The default is `default`. Windows of one id over one store are one conversation.
    ///
    /// An id has 1 to 183 characters ([`SlidingWindow::LONGEST_ID`]) and is itself a valid
    /// [`LogName`](lookback_store::LogName): it has no control characters and no backslashes, and no part between
    /// slashes is empty, `.` or `..`.
    pub fn id(self, id: impl Into<String>) -> Self {
        SlidingWindowBuilder { id: id.into(), ..self }
    }

    /// Sets the role of the summary's message. The default is the system's.
    pub fn summary_role(self, summary_role: Role) -> Self {
        SlidingWindowBuilder { summary_role, ..self }
    }

    /// Sets the number of messages that leave the window at a time, at least 1.
    ///
    /// The window grows to `window_size + batch - 1` messages, and the next message reduces it to `window_size`. It
    /// keeps more only to keep a tool call with its results, or if the window is small compared to the batch: a
    /// compaction never goes below the newest message plus an eighth of the limit.
    ///
    /// The default is a quarter of the window, and 1 for windows smaller than 8. The original's documentation makes
    /// three statements about it, and no number makes all of them true:
    ///
    /// - A window of 20 shows 20 of 25 messages, after 1 eviction. With a batch of 1 or 5 the newest 20 are shown, and
    ///   with 5 that takes one eviction. The default for 20 is 5, so this is true.
    /// - Messages past the window leave at once, which is a batch of 1. Windows smaller than 8 do so. Larger ones show
    ///   at most a quarter more than their size.
    /// - A summary is made every 15 to 25 turns. A window of 20 makes its first at message 25, and then one at every
    ///   fifth message, which is as rare as the first statement allows. Use `batch(20)` for the documentation's pace.
    ///   The window then shows up to 39 messages.
    pub fn batch(self, batch: u64) -> Self {
        SlidingWindowBuilder { batch: Some(batch), ..self }
    }

    /// Sets the store that keeps the conversation. The default is process memory for this window alone.
    pub fn store(self, store: impl IntoStore) -> Self {
        SlidingWindowBuilder { store: store.into_store(), ..self }
    }

    /// Calls `hook` when messages are about to leave the window.
    pub fn on_compact_start(self, hook: impl Fn(&CompactStart) + Send + Sync + 'static) -> Self {
        SlidingWindowBuilder { start: Some(Arc::new(hook)), ..self }
    }

    /// Calls `hook` when their summary is made, on the thread that made it.
    pub fn on_compact_end(self, hook: impl Fn(&CompactEnd) + Send + Sync + 'static) -> Self {
        SlidingWindowBuilder { end: Some(Arc::new(hook)), ..self }
    }

    /// Calls `hook` when a summary fails. The event's outcome has the reason.
    ///
    /// The messages are still in the window. Lookback tries again, first at once, then after pauses that double. In the
    /// original, `push` fails instead.
    pub fn on_compact_failed(self, hook: impl Fn(&CompactEnd) + Send + Sync + 'static) -> Self {
        SlidingWindowBuilder { failed: Some(Arc::new(hook)), ..self }
    }

    /// Sets the time limit for making a summary. The default is two minutes.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        SlidingWindowBuilder { time_limit: Some(time_limit), ..self }
    }

    /// Sets the function that runs a summary's job in the background, for example `tokio::spawn`. Its return value is
    /// dropped. See [`SummaryOptions::spawner`].
    pub fn spawner<R>(self, spawn: impl Fn(Job) -> R + Send + Sync + 'static) -> Self {
        SlidingWindowBuilder { spawner: Some(Spawner::new(spawn)), ..self }
    }

    /// Opens the window. If the store has a conversation of this id, the window continues it.
    ///
    /// # Errors
    /// Returns an error if an option is out of its range, if the id is too long or cannot be part of a log's name, or
    /// if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_compat::crux::SlidingWindow;
    /// use lookback_summarize::Extractive;
    ///
    /// let error = SlidingWindow::builder(0, Extractive::default()).open().await.unwrap_err();
    /// assert_eq!(error.to_string(), "windowSize must be at least 1, got 0");
    /// # });
    /// ```
    pub async fn open(self) -> Result<SlidingWindow, Error> {
        let batch = self.batch.unwrap_or_else(|| (self.window_size / 4).max(1));
        let options = [("windowSize", self.window_size), ("summaryBudget", self.summary_budget), ("batch", batch)];
        for (option, value) in options {
            at_least_one(option, value)?;
        }
        let name = log_of(&self.id)?;
        let settings = settings(self.policy(batch));
        let counter = settings.counter.clone();
        let focus = ["decisions", "key facts", "user preferences"];
        let hooks = self.hooks();
        // Crux accepts every summary unchecked.
        let mut options = SummaryOptions::new(self.summarizer).focus(focus).check(false);
        if let Some(time_limit) = self.time_limit {
            options = options.time_limit(time_limit);
        }
        if let Some(spawner) = self.spawner {
            options = options.spawner(move |job| spawner.spawn(job));
        }
        let session = Session::open(self.store, &name, settings).await?;
        let session = session.with_summarizer(options).with_hooks(hooks);
        Ok(SlidingWindow { session: Mutex::new(session), counter, batch })
    }

    fn policy(&self, batch: u64) -> Policy {
        let (budget, role, wording) = (self.summary_budget, self.summary_role, "{summary}".to_owned());
        Policy {
            limits: Limits::messages(self.window_size.saturating_add(batch - 1)),
            target: Some(Limits::messages(self.window_size)),
            keep: Keep { task: false, ..Keep::default() },
            system: SystemRule { counted: false, ..SystemRule::default() },
            stages: vec![Stage::Summarize(Summarize { budget, role, wording })],
            ..Policy::unlimited()
        }
    }

    fn hooks(&self) -> Hooks {
        let (start, end, failed) = (self.start.clone(), self.end.clone(), self.failed.clone());
        let mut hooks = Hooks::default();
        if let Some(start) = start {
            hooks = hooks.on_compact_start(move |event| start(event));
        }
        hooks.on_compact_end(move |event| {
            let hook = match event.outcome {
                CompactionOutcome::Summarized | CompactionOutcome::Cut => &end,
                CompactionOutcome::Failed { .. } | CompactionOutcome::Refused { .. } => &failed,
            };
            if let Some(hook) = hook {
                hook(event);
            }
        })
    }
}

impl fmt::Debug for SlidingWindowBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingWindowBuilder")
            .field("window_size", &self.window_size)
            .field("summarizer", &self.summarizer)
            .field("summary_budget", &self.summary_budget)
            .field("summary_role", &self.summary_role)
            .field("batch", &self.batch)
            .field("id", &self.id)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
