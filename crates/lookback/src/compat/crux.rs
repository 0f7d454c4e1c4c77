//! The sliding window of Crux: the newest messages as they are, and a running summary of those before.
//!
//! [`SlidingWindow`] is `createSlidingWindow` with its options, defaults and methods in Rust's conventions, over a
//! [`Session`]. What differs from the original, and why:
//!
//! - **No push waits for a model.** The original summarises within `push`, and loses the message where that fails. Here the message is
//!   written, the summary made in the background, and what it is to cover stays in the window until it is there. Whoever reads
//!   ([`get_messages`](SlidingWindow::get_messages), [`get_stats`](SlidingWindow::get_stats)) waits for a summary that is being
//!   made, so that what is read is what the original would give. Where one fails, nothing leaves: the window is longer for a while.
//! - **[`batch`](Builder::batch)** is ours: with 1, the original's way, each message past the window costs a call; with 20, every
//!   twentieth, and between two summaries each request extends the one before, which a provider's cache rewards.
//! - **The log is whole.** `compact:ID:messages` holds every message ever pushed, and each compaction that a summary brought;
//!   `compact:ID:summary` who makes a summary, and what came of it. The statistics are counted from it, so a restart does not
//!   reset them.
//! - **Windows are valid.** A tool call goes with its results, a result without a call is not shown, and a call that waits for its
//!   result has a stand-in in what is read, until the result comes. System messages at the beginning stay, beside the window's number.
//! - **The budget holds:** a summary over it is cut; an empty one counts as a failure. A smaller `window_size` holds from the next read on.
//!
//! The one-shot calls of the system are [`summarize`](crate::summarize::summarize) (`summarizeMessages`),
//! [`key_facts`](crate::summarize::key_facts) (`extractKeyFacts`, with the feature `facts`) and [`Task::prompt`](crate::summarize::Task::prompt)
//! (the transcript). Its budget manager and its key-value stores are no part of the published page of the sliding window, and not here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_lock::{Mutex, MutexGuard};
use lookback_core::policy::{Keep, Limits, Policy, Stage, Summarize, SystemRule};
use lookback_core::tokens::TokenCounter;
use lookback_core::{DecodeError, Dialect, Message, Role, Settings};
use serde::Serialize;

use super::OptionError;
use crate::session::{CompactEnd, CompactStart, Hooks, Job, Outcome, Session};
use crate::store::{LogName, MemoryStore, Store};
use crate::summarize::Summarizer;

const DIALECT: Dialect = Dialect::OpenAiChat;

/// The newest messages of a conversation, and a running summary of those before.
///
/// Share it between tasks and threads as you like: each method takes `&self`. Several windows of one id may use one store, in any processes:
/// they are one conversation.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::compat::crux::SlidingWindow;
/// use lookback::summarize::Function;
/// use lookback::Message;
///
/// // `generate` and `model`: a call of your provider's cheap model, in earnest.
/// let model = Function::new("small-model", |_ask| async { Ok("The user is called Ada.".to_owned()) });
/// let window = SlidingWindow::builder(2, model).id("chat-1").open().await?;
/// for text in ["My name is Ada.", "Hi Ada!", "What is my name?"] {
///     window.push(Message::user(text)).await?;
/// }
/// let messages = window.get_messages().await?;
/// let texts: Vec<_> = messages.iter().map(Message::text).collect();
/// assert_eq!(texts, ["The user is called Ada.", "Hi Ada!", "What is my name?"]);
/// assert_eq!(window.get_stats().await?.evictions, 1);
/// # Ok::<(), lookback::compat::crux::Error>(())
/// # }).unwrap();
/// ```
pub struct SlidingWindow {
    session: Mutex<Session>,
    counter: Arc<dyn TokenCounter>,
}

/// The options of a [`SlidingWindow`].
#[must_use]
pub struct Builder {
    window_size: u64,
    summarizer: Arc<dyn Summarizer>,
    summary_budget: u64,
    summary_role: Role,
    batch: u64,
    id: String,
    store: Arc<dyn Store>,
    start: Option<Arc<Hook<CompactStart>>>,
    end: Option<Arc<Hook<CompactEnd>>>,
    failed: Option<Arc<Hook<CompactEnd>>>,
    time_limit: Option<Duration>,
    spawn: Option<Arc<dyn Fn(Job) + Send + Sync>>,
}

type Hook<T> = dyn Fn(&T) + Send + Sync;

/// What a window amounts to.
///
/// The page of the original shows 25 messages, 20 of them in the window, and 1 eviction, which cannot be: 5 have left. Here evictions
/// are messages, so that `total_messages` is always `windowed_messages` and `evictions` together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Messages ever pushed.
    pub total_messages: u64,
    /// Those that the window shows as they are, the system prompt among them.
    pub windowed_messages: u64,
    /// Tokens of the running summary, estimated; 0 where there is none.
    pub summary_tokens: u64,
    /// Messages that the window does not show any more.
    pub evictions: u64,
}

/// Why a window did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that the system refuses.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The store failed, or a message cannot be said in OpenAI's format.
    #[error(transparent)]
    Session(#[from] crate::Error),
    /// What would be sent cannot be read as messages. It does not happen with messages that were pushed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl SlidingWindow {
    /// A window of the newest `window_size` messages (at least 1), with summaries of this summarizer: a
    /// [`Function`](crate::summarize::Function) is the original's `generate` and `model`.
    pub fn builder(window_size: u64, summarizer: impl Summarizer + 'static) -> Builder {
        Builder {
            window_size,
            summarizer: Arc::new(summarizer),
            summary_budget: 1_000,
            summary_role: Role::System,
            batch: 1,
            id: "default".to_owned(),
            store: Arc::new(MemoryStore::new()),
            start: None,
            end: None,
            failed: None,
            time_limit: None,
            spawn: None,
        }
    }

    /// A message arrives. It waits for the store, and never for a summary.
    ///
    /// # Errors
    /// Where the message cannot be said in OpenAI's format, or the store fails: then the message is not there.
    pub async fn push(&self, message: Message) -> Result<(), Error> {
        let mut session = self.session.lock().await;
        session.push(message).await?;
        if let Err(error) = session.manage().await {
            // The message is written. An error would have it pushed again.
            tracing::warn!(session = %session.name(), %error, "a summary could not be begun");
        }
        Ok(())
    }

    /// What is to be sent: the running summary, if there is one, and the newest messages. Where a summary is being made it is waited for,
    /// while others may go on pushing; one that another process has begun and left behind as it was killed is waited for until its time
    /// limit.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn get_messages(&self) -> Result<Vec<Message>, Error> {
        let session = self.settled().await?;
        let window = session.preview();
        let raw = window.messages().map_err(crate::Error::from)?;
        raw.iter().map(|raw| Ok(DIALECT.decode_raw(raw)?)).collect()
    }

    /// What the window amounts to, by the log: right after a restart, too. It waits as [`SlidingWindow::get_messages`] does.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn get_stats(&self) -> Result<Stats, Error> {
        let session = self.settled().await?;
        let view = session.view();
        let total_messages = view.history_len();
        let windowed_messages = view.messages().filter(|item| !item.is_own()).count() as u64;
        let summary_tokens = view.summary().map_or(0, |(_, summary)| self.counter.text(&summary.text));
        let evictions = total_messages.saturating_sub(windowed_messages);
        Ok(Stats { total_messages, windowed_messages, summary_tokens, evictions })
    }

    /// The session, as other windows of this id have left it, when no summary of what it held at the call is being made any more.
    async fn settled(&self) -> Result<MutexGuard<'_, Session>, Error> {
        let (mut standing, mut taken) = (None, 0);
        loop {
            let mut session = self.session.lock().await;
            session.catch_up().await?;
            let Some(pending) = session.pending().await? else { return Ok(session) };
            let summary = session.view().summary().map(|(position, _)| position);
            if standing.replace(summary).is_some_and(|before| before != summary) {
                taken += 1;
            }
            // The second that came was begun after the call, so what is being made now is of what was pushed since.
            if taken >= 2 {
                return Ok(session);
            }
            drop(session);
            pending.await;
        }
    }
}

impl Builder {
    /// The most tokens of the running summary, at least 1: 1,000 unless said otherwise. What is longer is cut.
    pub fn summary_budget(self, summary_budget: u64) -> Self {
        Builder { summary_budget, ..self }
    }

    /// Which conversation it is: `default` unless said otherwise. Windows of one id in one store are one conversation.
    pub fn id(self, id: impl Into<String>) -> Self {
        Builder { id: id.into(), ..self }
    }

    /// Whose message the summary is: the system's unless said otherwise.
    pub fn summary_role(self, summary_role: Role) -> Self {
        Builder { summary_role, ..self }
    }

    /// How many messages leave the window at a time, at least 1, and 1 unless said otherwise: the window grows to
    /// `window_size + batch - 1`, and then comes down to `window_size`. It keeps more than that only where a tool call and its results
    /// need it, or where the window is so small beside the batch that an eighth of the limit stands above the newest message.
    pub fn batch(self, batch: u64) -> Self {
        Builder { batch, ..self }
    }

    /// Where the conversation is kept: process memory of its own unless said otherwise.
    pub fn store(self, store: impl Store + 'static) -> Self {
        Builder { store: Arc::new(store), ..self }
    }

    /// Calls this when messages are to leave the window.
    pub fn on_compact_start(self, hook: impl Fn(&CompactStart) + Send + Sync + 'static) -> Self {
        Builder { start: Some(Arc::new(hook)), ..self }
    }

    /// Calls this when a summary of them is made, from the thread on which it was.
    pub fn on_compact_end(self, hook: impl Fn(&CompactEnd) + Send + Sync + 'static) -> Self {
        Builder { end: Some(Arc::new(hook)), ..self }
    }

    /// Calls this when no summary came of it, for the reason that its outcome gives. The messages are still there, and it is tried
    /// again: at once, then after pauses that double. (The original's `push` fails instead.)
    pub fn on_compact_failed(self, hook: impl Fn(&CompactEnd) + Send + Sync + 'static) -> Self {
        Builder { failed: Some(Arc::new(hook)), ..self }
    }

    /// The longest that making a summary may take: two minutes unless said otherwise.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Builder { time_limit: Some(time_limit), ..self }
    }

    /// Runs the making of summaries with this, such as `tokio::spawn`: see [`Session::with_spawner`].
    pub fn spawner(self, spawn: impl Fn(Job) + Send + Sync + 'static) -> Self {
        Builder { spawn: Some(Arc::new(spawn)), ..self }
    }

    /// Opens the window, and goes on where the store has a conversation of its id.
    ///
    /// # Errors
    /// Where an option is out of its range, or the id cannot be part of a log's name, and where the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::compat::crux::SlidingWindow;
    /// use lookback::summarize::Extractive;
    ///
    /// let error = SlidingWindow::builder(0, Extractive::default()).open().await.unwrap_err();
    /// assert_eq!(error.to_string(), "windowSize must be at least 1, got 0");
    /// # });
    /// ```
    pub async fn open(self) -> Result<SlidingWindow, Error> {
        let options = [("windowSize", self.window_size), ("summaryBudget", self.summary_budget), ("batch", self.batch)];
        for (option, value) in options {
            if value == 0 {
                return Err(OptionError { option, expected: "at least 1", value: value.to_string() }.into());
            }
        }
        // The log's name would be one even if this were empty.
        let id: LogName = self.id.parse().map_err(crate::Error::from)?;
        let settings = Settings { dialect: DIALECT, policy: self.policy(), ..Settings::default() };
        let counter = settings.counter.clone();
        let name = format!("compact:{id}:messages");
        let focus = ["decisions", "key facts", "user preferences"].map(str::to_owned).to_vec();
        let hooks = self.hooks();
        let mut session = Session::open(self.store, &name, settings).await?;
        session = session.with_summarizer(self.summarizer).with_focus(focus).with_hooks(hooks);
        if let Some(time_limit) = self.time_limit {
            session = session.with_time_limit(time_limit);
        }
        if let Some(spawn) = self.spawn {
            session = session.with_spawner(move |job| spawn(job));
        }
        Ok(SlidingWindow { session: Mutex::new(session), counter })
    }

    fn policy(&self) -> Policy {
        let (budget, role, wording) = (self.summary_budget, self.summary_role, "{summary}".to_owned());
        Policy {
            limits: Limits::messages(self.window_size.saturating_add(self.batch - 1)),
            target: Some(Limits::messages(self.window_size)),
            keep: Keep { task: false, ..Keep::default() },
            system: SystemRule { counted: false, ..SystemRule::default() },
            stages: vec![Stage::Summarize(Summarize { budget, role, wording })],
            ..Policy::default()
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
                Outcome::Summarised | Outcome::Cut => &end,
                Outcome::Failed { .. } => &failed,
            };
            if let Some(hook) = hook {
                hook(event);
            }
        })
    }
}

impl fmt::Debug for SlidingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingWindow").field("session", &self.session).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
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
