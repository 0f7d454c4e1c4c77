//! A session: one conversation in a store. Messages are pushed into it, and it returns a window for each model call.

mod building;
mod hooks;
pub(crate) mod log;
mod overflow;
mod read;
mod resume;
mod search;
mod source;
mod summaries;
mod sync;
mod window;
mod writing;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lookback_core::Explanation;
use lookback_core::engine::{Engine, HardLimitExceeded, Settings};
use lookback_core::plan::Plan;
use lookback_core::policy::{Policy, Totals};
use lookback_core::transcript::{Entry, Millis, Origin, Position};
use lookback_core::view::{Item, View};
use lookback_core::{ConversionError, Message, Preamble};
use serde::Serialize;

pub use hooks::{CompactEnd, CompactStart, CompactionOutcome, Hooks, SummaryFailure};
pub use lookback_core::transcript::Label;
pub use overflow::Irreducible;
pub use read::{HistoryEntry, HistoryQuery, SessionRecord};
pub use resume::Resumed;
pub(crate) use search::excerpt;
pub use search::{SearchHit, search};
pub use source::{MessageSource, SourceKind};
pub use summaries::Job;
pub(crate) use summaries::are_summaries_of;
pub use sync::Synced;
pub use window::Window;

use self::log::{load, read};
use self::summaries::Summaries;
use crate::store::{BadName, IntoStore, LogName, Store, StoreError};

/// One conversation in a store.
///
/// A model call takes these steps:
///
/// - [`push`](Session::push) appends each new message. A client that resends its whole history calls
///   [`sync`](Session::sync) instead.
/// - [`window`](Session::window) repairs and compacts before the call. Send what it returns.
/// - [`usage`](Session::usage) records the tokens that the provider reports, which makes later counts more accurate.
/// - If the provider refuses the request as too long, [`overflow`](Session::overflow) makes the window smaller.
///
/// Several sessions, in any processes, may have the same name. Each sees the others' entries at its next write or
/// [`catch_up`](Session::catch_up). Nothing is lost or written twice.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::{MemoryStore, Message, Session, Settings};
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
/// session.push(Message::user("What is the capital of France?")).await?;
/// let window = session.window().await?;
/// assert_eq!(window.to_json()?, r#"[{"role":"user","content":"What is the capital of France?"}]"#);
/// # Ok::<(), lookback::Error>(())
/// # }).unwrap();
/// ```
pub struct Session {
    store: Arc<dyn Store>,
    name: LogName,
    engine: Engine,
    policies: Option<Arc<Policies>>,
    /// A second policy that the window must meet, with the session's own.
    bound: Option<Box<Bound>>,
    summaries: Summaries,
    hooks: Hooks,
    /// Whether the limits wait for a summary (see [`Engine::set_summary_pending`]). A new engine must be told.
    summary_pending: bool,
    /// How often the window was made smaller since the last message because the provider refused it.
    reductions: u64,
    /// Whether the engine may differ from the store, because a write failed or its future was dropped. If so, the store
    /// is read again before anything else.
    stale: bool,
    /// Tokens of the last window by Lookback's own count, for comparison with the provider's usage report.
    sent: u64,
}

/// Returns a session's policy, given its name.
type Policies = dyn Fn(&LogName) -> Policy + Send + Sync;

#[derive(Debug, Clone)]
struct Bound {
    own: Policy,
    by: Policy,
}

/// An error of a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not a valid session name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message came in another dialect, and the session's dialect cannot express all of it.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// The window exceeds a hard limit, and nothing is left that may be dropped.
    #[error(transparent)]
    HardLimitExceeded(#[from] HardLimitExceeded),
    /// The provider refuses the window as too long, and nothing is left that may be shortened or dropped.
    #[error(transparent)]
    Irreducible(#[from] Box<Irreducible>),
}

/// Statistics of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionStats {
    /// Messages of the conversation, Lookback's own not counted.
    pub messages: u64,
    /// Entries of the log.
    pub entries: u64,
    /// The totals of the current window.
    pub window: Totals,
}

/// How often a write is tried if other writers are faster each time.
const TRIES: usize = 100;
/// Entries that are read at once when a whole history is read.
const PAGE: u64 = 1_024;

impl Session {
    /// Opens the session of this name, and creates it if it does not exist. The cost depends on the size of the window,
    /// not on the length of the history.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the store fails.
    pub async fn open(store: impl IntoStore, name: &str, settings: Settings) -> Result<Self, Error> {
        let name: LogName = name.parse()?;
        let store = store.into_store();
        let engine = load(&*store, &name, settings).await?;
        let summaries = Summaries::new(&name);
        let (hooks, policies) = (Hooks::default(), None);
        Ok(Session {
            store,
            name,
            engine,
            policies,
            bound: None,
            summaries,
            hooks,
            summary_pending: false,
            reductions: 0,
            stale: false,
            sent: 0,
        })
    }

    /// Replaces the policy. A smaller limit applies from the next window on. Under a larger limit, groups that a policy
    /// in the mode `on_read` left out appear again.
    pub fn set_policy(&mut self, policy: Policy) {
        let Some(bound) = &mut self.bound else { return self.engine.set_policy(policy) };
        let tightened = policy.tightened(&bound.by, self.engine.settings().model_window);
        bound.own = policy;
        self.engine.set_policy(tightened);
    }

    /// Sets a second policy that the window must meet besides the session's own, even if that changes; `None` removes
    /// it.
    pub(crate) fn bind(&mut self, by: Option<Policy>) {
        let own = self.bound.take().map_or_else(|| self.engine.settings().policy.clone(), |bound| bound.own);
        self.bound = by.map(|by| Box::new(Bound { own: own.clone(), by }));
        self.set_policy(own);
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        self.engine.settings()
    }

    /// Returns the tokens of a view, corrected by the provider's usage reports.
    pub(crate) fn tokens_of(&self, view: &View) -> u64 {
        self.engine.tokens(view)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the session's name.
    pub fn name(&self) -> &LogName {
        &self.name
    }

    /// Returns what the model would see now, as far as this session has read the log.
    pub fn view(&self) -> &View {
        self.engine.view()
    }

    /// Appends a message from the client, with the current time. Returns the positions of its entries in the log: one,
    /// or several if the session's dialect needs several messages for it, or none if it was ignored because it repeats
    /// the only system message.
    ///
    /// # Errors
    /// Returns an error if the session's dialect cannot express the message, or if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{Dialect, MemoryStore, Message, Session, Settings};
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// assert_eq!(session.push(Message::user("What is in notes.txt?")).await?, [0]);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn push(&mut self, message: impl Into<Arc<Message>>) -> Result<Vec<Position>, Error> {
        self.receive(message, Origin::Client, now()).await
    }

    /// Appends several messages from the client, with the current time: all or none, in one write. Returns their
    /// positions.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn extend(&mut self, messages: Vec<Message>) -> Result<Vec<Position>, Error> {
        let time = now();
        self.receive_all(messages.into_iter().map(|message| (message, time)).collect(), Origin::Client).await
    }

    /// Appends several messages from the client, and enforces the limits after each, as [`Session::manage`] does: all
    /// or none, in one write. Returns the positions of the messages. Summaries wait for the next window.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{Limits, MemoryStore, Message, Policy, Session, Settings};
    ///
    /// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
    /// let settings = Settings::default().policy(policy);
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// session.extend_managed(["one", "two", "three"].map(Message::user).to_vec()).await?;
    /// assert_eq!(session.view().messages().count(), 2);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn extend_managed(&mut self, messages: Vec<Message>) -> Result<Vec<Position>, Error> {
        let messages = shared(messages);
        self.follow_policy();
        self.reductions = 0;
        let time = now();
        let change = |engine: &mut Engine| {
            let mut entries = Vec::new();
            for message in &messages {
                let arrived = engine.receive(message.clone(), Origin::Client, time)?;
                // A message that is ignored changes nothing, so nothing else does either.
                if !arrived.is_empty() {
                    entries.extend(arrived);
                    entries.extend(engine.manage().entries);
                }
            }
            Ok(entries)
        };
        let written = self.commit(change).await?;
        self.tell(&written);
        Ok(written.messages())
    }

    /// Appends a message of any origin, with a time of its own. Returns its positions, as [`Session::push`] does.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn receive(
        &mut self,
        message: impl Into<Arc<Message>>,
        origin: Origin,
        time: Option<Millis>,
    ) -> Result<Vec<Position>, Error> {
        let message = message.into();
        self.follow_policy();
        // A note of Lookback's must not reset the count: with a note at each try, the tries would never end.
        if origin != Origin::Lookback {
            self.reductions = 0;
        }
        let written = self.commit(|engine| Ok(engine.receive(message.clone(), origin, time)?)).await?;
        Ok(written.messages())
    }

    /// Appends several messages of one origin, each with a time of its own: all or none, in one write. Returns their
    /// positions.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn receive_all(
        &mut self,
        messages: Vec<(Message, Option<Millis>)>,
        origin: Origin,
    ) -> Result<Vec<Position>, Error> {
        let messages: Vec<_> = messages.into_iter().map(|(message, time)| (Arc::new(message), time)).collect();
        self.follow_policy();
        self.reductions = 0;
        let change = |engine: &mut Engine| {
            let mut entries = Vec::new();
            for (message, time) in &messages {
                entries.extend(engine.receive(message.clone(), origin, *time)?);
            }
            Ok(entries)
        };
        Ok(self.commit(change).await?.messages())
    }

    /// Appends a message from the client that is shown whole, even if the policy truncates results on arrival.
    pub(crate) async fn receive_whole(&mut self, message: Message) -> Result<Vec<Position>, Error> {
        let message = Arc::new(message);
        self.follow_policy();
        self.reductions = 0;
        let time = now();
        let change = |engine: &mut Engine| {
            let own = engine.settings().policy.clone();
            engine.set_policy(Policy { arrival: None, ..own.clone() });
            let entries = engine.receive(message.clone(), Origin::Client, time);
            engine.set_policy(own);
            Ok(entries?)
        };
        Ok(self.commit(change).await?.messages())
    }

    /// Sets the preamble: the system prompt and the tools, if they are sent outside the messages.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn set_preamble(&mut self, preamble: &Preamble) -> Result<(), Error> {
        self.commit(|engine| Ok(engine.set_preamble(preamble))).await?;
        Ok(())
    }

    /// Records the input tokens that the provider reported for the last window, cached ones included. Lookback's counts
    /// for this model are corrected by it.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn usage(&mut self, model: &str, reported: u64) -> Result<(), Error> {
        let sent = self.sent;
        self.commit(|engine| Ok(engine.usage(model, sent, reported))).await?;
        Ok(())
    }

    /// Returns the window for the next model call. It breaks no rule of the provider, and it is recorded before it is
    /// returned.
    ///
    /// # Errors
    /// Returns an error if pinned groups exceed a hard limit, or if the store fails.
    pub async fn window(&mut self) -> Result<Window<'_>, Error> {
        self.follow_policy();
        let mut entries = self.tend().await;
        let outcome = self.decide(Engine::window).await?;
        entries.extend(outcome.entries);
        if let Some(exceeded) = outcome.exceeded {
            return Err(exceeded.into());
        }
        let view = outcome.on_read.map_or(Cow::Borrowed(self.engine.view()), |view| Cow::Owned(*view));
        self.sent = view.totals().size.tokens;
        Ok(Window {
            over: self.engine.over(&view),
            tokens: self.engine.tokens(&view),
            dialect: self.engine.settings().dialect,
            plan: outcome.plan,
            view,
            entries,
        })
    }

    /// Returns what could be sent now, without recording anything: for looking at a session in the middle of a turn. It
    /// has a stand-in for each missing result, but the session goes on waiting for the result. No limit is enforced.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{MemoryStore, Message, Session, Settings, ToolCall};
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// session.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")])).await?;
    /// assert!(session.preview().to_json()?.contains("interrupted"));
    /// session.push(Message::tool_result("c1", "buy milk")).await?;
    /// assert!(session.preview().to_json()?.contains("buy milk"));
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn preview(&self) -> Window<'_> {
        let view = self.engine.preview();
        let (tokens, dialect) = (self.engine.tokens(&view), self.engine.settings().dialect);
        Window { over: self.engine.over(&view), view, dialect, tokens, plan: None, entries: Vec::new() }
    }

    /// Returns the window under the current limits, with the calls of the newest message still open (see
    /// [`Engine::glance`]).
    pub(crate) fn glance(&self) -> Cow<'_, View> {
        self.engine.glance()
    }

    /// Enforces the limits now, regardless of the policy's pace, and repairs nothing. If the policy summarizes, a
    /// summary is begun or taken up.
    ///
    /// Call it at the end of a turn, when no model call is waiting for a window.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn manage(&mut self) -> Result<(), Error> {
        self.follow_policy();
        self.tend().await;
        self.decide(Engine::manage).await?;
        Ok(())
    }

    /// Makes the window smaller now, by this policy instead of the session's own, and repairs nothing. Returns the
    /// plan, which says what was done. A plan that asks for a summary does nothing.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn compact(&mut self, policy: &Policy) -> Result<Option<Plan>, Error> {
        let written = self.commit(|engine| Ok(engine.compact(policy))).await?;
        self.tell(&written);
        Ok(written.outcome.plan)
    }

    /// Removes notes from the window (see [`Engine::dismiss`]).
    pub(crate) async fn dismiss(&mut self, leaves: fn(&Item) -> bool) -> Result<(), Error> {
        let written = self.commit(|engine| Ok(engine.dismiss(leaves))).await?;
        self.tell(&written);
        Ok(())
    }

    fn follow_policy(&mut self) {
        if let Some(policies) = &self.policies {
            let policy = policies(&self.name);
            let own = self.bound.as_ref().map_or(&self.engine.settings().policy, |bound| &bound.own);
            if policy != *own {
                self.set_policy(policy);
            }
        }
    }

    /// Returns the decision and the reason for each group of the window, even if no limit is exceeded, and the entries
    /// of each group.
    pub fn explain(&self) -> Explanation {
        self.engine.explain()
    }

    /// Returns every entry of the log, including those of earlier branches.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn entries(&mut self) -> Result<Vec<Entry>, Error> {
        self.refresh().await?;
        Ok(read(&*self.store, &self.name, 0..self.engine.end()).await?)
    }

    /// Finds the messages of this session that contain every word of the query: at most `most`, best first.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<SearchHit>, Error> {
        Ok(search(&*self.store, Some(&self.name), query, most).await?)
    }

    /// Returns the statistics of the session.
    pub fn stats(&self) -> SessionStats {
        SessionStats { messages: self.view().history_len(), entries: self.engine.end(), window: self.view().totals() }
    }

    /// Reads what other writers have written meanwhile. Returns whether they have written anything.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use lookback::{MemoryStore, Message, Session, Settings};
    ///
    /// let store = Arc::new(MemoryStore::new());
    /// let mut writer = Session::open(store.clone(), "chat-1", Settings::default()).await?;
    /// let mut reader = Session::open(store, "chat-1", Settings::default()).await?;
    /// writer.push(Message::user("Hello")).await?;
    /// assert!(reader.catch_up().await? && !reader.catch_up().await?);
    /// assert_eq!(reader.view().history_len(), 1);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn catch_up(&mut self) -> Result<bool, Error> {
        let before = self.engine.end();
        let end = self.store.head(&self.name, None).await?.map_or(0, |head| head.end);
        self.stale |= end != before;
        self.refresh().await?;
        Ok(self.engine.end() != before)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.engine.end();
        f.debug_struct("Session")
            .field("name", &self.name)
            .field("store", &self.store)
            .field("entries", &end)
            .field("summaries", &self.summaries)
            .finish_non_exhaustive()
    }
}

/// The current time by the system's clock; `None` if it is set to before 1970.
pub(crate) fn now() -> Option<Millis> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// Messages as the engine shares them with the log, so that a write that has to be repeated copies nothing.
fn shared(messages: Vec<Message>) -> Vec<Arc<Message>> {
    messages.into_iter().map(Arc::new).collect()
}
