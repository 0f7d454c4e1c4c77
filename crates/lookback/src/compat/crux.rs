//! The sliding window of Crux: the newest messages as they are, and a running summary of those before.
//!
//! [`SlidingWindow`] is `createSlidingWindow` with its options, defaults and methods in Rust's conventions, over a
//! [`Session`]. What differs from the original, and why:
//!
//! - **No push waits for a model.** The original summarizes within `push`, and loses the message where that fails. Here the message is
//!   written, the summary made in the background, and what it is to cover stays in the window until it is there. Whoever reads
//!   ([`get_messages`](SlidingWindow::get_messages), [`get_stats`](SlidingWindow::get_stats)) waits for a summary that is being
//!   made, so that what is read is what the original would give. Where one fails, nothing leaves: the window is longer for a while.
//! - **Messages leave in batches,** of a quarter of the window unless [`batch`](Builder::batch) says otherwise. One at a time, the original's
//!   way, each message past the window costs a call of the model. Between two batches each request extends the one before, which a
//!   provider's cache rewards.
//! - **The log is whole.** The session `compact:ID:messages` holds every message ever pushed, and each compaction that a summary brought. The
//!   statistics are counted from it, so a restart does not reset them.
//! - **Windows are valid.** A tool call goes with its results, a result without a call is not shown, and a call that waits for its
//!   result has a stand-in in what is read, until the result comes. System messages at the beginning stay, beside the window's number.
//! - **The budget holds:** a summary within it is taken, and one over it is cut; an empty one counts as a failure. A smaller `window_size`
//!   holds from the next read on.
//!
//! The document keeps the window under two keys of its store, `compact:ID:messages` and `compact:ID:summary`. [`get`] reads them.
//!
//! The one-shot calls of the system are [`summarize`](crate::summarize::summarize) (`summarizeMessages`),
//! [`key_facts`](crate::summarize::key_facts) (`extractKeyFacts`, with the feature `facts`) and [`Task::prompt`](crate::summarize::Task::prompt)
//! (the transcript). Its budget manager and its key-value stores are no part of the published page of the sliding window, and not here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_lock::{Mutex, MutexGuard};
use lookback_core::dialect::Shown;
use lookback_core::policy::{Keep, Limits, Policy, Stage, Summarize, SystemRule};
use lookback_core::tokens::TokenCounter;
use lookback_core::view::Item;
use lookback_core::{DecodeError, Dialect, Message, Role, Settings};
use serde::Serialize;

use super::OptionError;
use crate::presets::rolling_batch;
use crate::session::{CompactEnd, CompactStart, CompactionOutcome, Hooks, Job, Session, list};
use crate::store::{IntoStore, LogName, MemoryStore, Store};
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
    batch: u64,
}

/// The options of a [`SlidingWindow`].
#[must_use]
pub struct Builder {
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
    spawn: Option<Arc<dyn Fn(Job) + Send + Sync>>,
}

type Hook<T> = dyn Fn(&T) + Send + Sync;

/// What a window amounts to.
///
/// After 25 messages in a window of 20 these are the numbers that the document shows: 25 in total, 20 in the window, and 1 eviction, of 5
/// messages at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Messages ever pushed.
    pub total_messages: u64,
    /// Those that the window shows as they are, the system prompt among them.
    pub windowed_messages: u64,
    /// Tokens of the running summary, estimated; 0 where there is none.
    pub summary_tokens: u64,
    /// How many batches of messages have left the window, the last of which may be a part of one. With a [`batch`](Builder::batch) of 1, as in
    /// windows of less than 8, it is how many messages have left.
    pub evictions: u64,
}

/// What a key of the document holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// The text of the summary, or the messages as a JSON list.
    pub content: String,
    /// What it is, and whose.
    pub metadata: Metadata,
}

/// What stands beside what a key holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// `sliding-window-messages` or `sliding-window-summary`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The window's id.
    pub window_id: String,
}

/// What a store holds under a key of the document: the messages of a window under `compact:ID:messages`, and the running summary of those
/// before them under `compact:ID:summary`. `None` if there is no such window, no summary yet, or the key is another.
///
/// For programs that have the store and no window. It only looks: it waits for no summary that is being made, and changes nothing.
///
/// # Errors
/// Where the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
///
/// use lookback::compat::crux::{SlidingWindow, get};
/// use lookback::summarize::Function;
/// use lookback::{MemoryStore, Message};
///
/// let store = Arc::new(MemoryStore::new());
/// let model = Function::new("small-model", |_ask| async { Ok("The user is called Ada.".to_owned()) });
/// let window = SlidingWindow::builder(2, model).id("chat-1").store(store.clone()).open().await?;
/// for text in ["My name is Ada.", "Hi Ada!", "What is my name?"] {
///     window.push(Message::user(text)).await?;
/// }
/// window.get_messages().await?;
/// let summary = get(store.clone(), "compact:chat-1:summary").await?.map(|stored| stored.content);
/// assert_eq!(summary.as_deref(), Some("The user is called Ada."));
/// assert!(get(store, "compact:chat-2:summary").await?.is_none());
/// # Ok::<(), lookback::compat::crux::Error>(())
/// # }).unwrap();
/// ```
pub async fn get(store: impl IntoStore, key: &str) -> Result<Option<Stored>, Error> {
    const MESSAGES: &str = "sliding-window-messages";
    const SUMMARY: &str = "sliding-window-summary";
    let Some(rest) = key.strip_prefix("compact:") else { return Ok(None) };
    let ends = [(":messages", MESSAGES), (":summary", SUMMARY)];
    let Some((id, kind)) = ends.into_iter().find_map(|(end, kind)| Some((rest.strip_suffix(end)?, kind))) else {
        return Ok(None);
    };
    let Ok(name) = log_of(id) else { return Ok(None) };
    let session = Session::open(store, &name, settings(Policy::default())).await?;
    if session.stats().entries == 0 {
        return Ok(None);
    }
    let summary = session.newest_summary().await?;
    let content = if kind == SUMMARY {
        summary.map(|(text, _)| text)
    } else {
        let covers = summary.map(|(_, covers)| covers).unwrap_or_default();
        let is_shown = |item: &&Item| !item.is_own() && !covers.iter().any(|span| span.contains(&item.position()));
        let items = session.view().messages().filter(is_shown);
        let shown = items.map(|item| Shown { message: item.message(), edits: item.edits() });
        Some(list(&DIALECT.encode(shown).map_err(crate::Error::from)?))
    };
    let metadata = Metadata { kind, window_id: id.to_owned() };
    Ok(content.map(|content| Stored { content, metadata }))
}

/// The name of the log of a window's messages.
fn log_of(id: &str) -> Result<String, Error> {
    let length = id.chars().count();
    if length == 0 || length > SlidingWindow::LONGEST_ID {
        let value = length.to_string();
        return Err(OptionError { option: "id", expected: "1 to 183 characters", value }.into());
    }
    // An id of `..` would not show in the log's name, which is why it is looked at by itself.
    let id: LogName = id.parse().map_err(crate::Error::from)?;
    Ok(format!("compact:{id}:messages"))
}

fn settings(policy: Policy) -> Settings {
    Settings { dialect: DIALECT, policy, ..Settings::default() }
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
    /// The most characters of a window's id: 183. The session is named `compact:ID:messages`, and a session's name has at most
    /// [`LogName::LONGEST`] characters.
    pub const LONGEST_ID: usize = LogName::LONGEST - "compact::messages".len();

    /// A window of the newest `window_size` messages (at least 1), with summaries of this summarizer: a
    /// [`Function`](crate::summarize::Function) is the original's `generate` and `model`.
    pub fn builder(window_size: u64, summarizer: impl Summarizer + 'static) -> Builder {
        Builder {
            window_size,
            summarizer: Arc::new(summarizer),
            summary_budget: 1_000,
            summary_role: Role::System,
            batch: None,
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
        let session = self.wait_for_summary().await?;
        let window = session.preview();
        let raw = window.messages().map_err(crate::Error::from)?;
        raw.iter().map(|raw| Ok(DIALECT.decode_raw(raw)?)).collect()
    }

    /// What the window amounts to, by the log: right after a restart, too. It waits as [`SlidingWindow::get_messages`] does.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn get_stats(&self) -> Result<Stats, Error> {
        let session = self.wait_for_summary().await?;
        let view = session.view();
        let total_messages = view.history_len();
        let windowed_messages = view.messages().filter(|item| !item.is_own()).count() as u64;
        let summary_tokens = view.summary().map_or(0, |(_, summary)| self.counter.text(&summary.text));
        let evictions = total_messages.saturating_sub(windowed_messages).div_ceil(self.batch);
        Ok(Stats { total_messages, windowed_messages, summary_tokens, evictions })
    }

    /// The session, as other windows of this id have left it, when no summary of what it held at the call is being made any more.
    async fn wait_for_summary(&self) -> Result<MutexGuard<'_, Session>, Error> {
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
    ///
    /// It has 1 to 183 characters ([`SlidingWindow::LONGEST_ID`]), and is itself a [`LogName`]: without control characters and backslashes,
    /// and without parts between slashes that are empty, `.` or `..`.
    pub fn id(self, id: impl Into<String>) -> Self {
        Builder { id: id.into(), ..self }
    }

    /// Whose message the summary is: the system's unless said otherwise.
    pub fn summary_role(self, summary_role: Role) -> Self {
        Builder { summary_role, ..self }
    }

    /// How many messages leave the window at a time, at least 1. The window grows to `window_size + batch - 1` messages, and with the next
    /// comes down to `window_size`. It keeps more than that only if a tool call and its results need it, or if the window is so small beside
    /// the batch that an eighth of the limit stands above the newest message.
    ///
    /// Unless it is set it is a quarter of the window, and 1 for windows of less than 8. The document says three things about it, and no
    /// number makes all of them true:
    ///
    /// - A window of 20 shows 20 of 25 messages, after 1 eviction. The newest 20 are shown with a batch of 1 or 5, and with 5 they are what one
    ///   eviction leaves. A quarter of 20 is 5, so this is true as it stands.
    /// - What overflows leaves at once, which is a batch of 1. Windows of less than 8 do so. Larger ones show at most a quarter more than
    ///   their size.
    /// - A summary is made every 15 to 25 turns. A window of 20 has its first at message 25, and then one at every fifth message: as seldom as
    ///   the first allows. For the document's pace say `batch(20)`. Then it shows up to 39 messages.
    pub fn batch(self, batch: u64) -> Self {
        Builder { batch: Some(batch), ..self }
    }

    /// Where the conversation is kept: process memory of its own unless said otherwise.
    pub fn store(self, store: impl IntoStore) -> Self {
        Builder { store: store.into_store(), ..self }
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
    /// Where an option is out of its range, the id is too long or cannot be part of a log's name, and where the store fails.
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
        let batch = self.batch.unwrap_or_else(|| rolling_batch(self.window_size));
        let options = [("windowSize", self.window_size), ("summaryBudget", self.summary_budget), ("batch", batch)];
        for (option, value) in options {
            if value == 0 {
                return Err(OptionError { option, expected: "at least 1", value: value.to_string() }.into());
            }
        }
        let name = log_of(&self.id)?;
        let settings = settings(self.policy(batch));
        let counter = settings.counter.clone();
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
                CompactionOutcome::Summarized | CompactionOutcome::Cut => &end,
                CompactionOutcome::Failed { .. } => &failed,
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
