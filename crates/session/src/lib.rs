//! Sessions: a session is one conversation in a store, which takes messages and returns a window for each model call.

pub mod adapter;
mod append;
mod attempt;
mod building;
mod compared;
mod erase;
mod erased_sources;
mod error;
mod hooks;
mod log;
mod overflow;
mod policy;
mod read;
mod resume;
mod source;
mod summaries;
mod sync;
mod verify;
mod views;
mod walk;
mod window;
mod writing;

use std::fmt;
use std::sync::Arc;

use lookback_engine::totals::Totals;
use lookback_engine::transcript::Entry;
use lookback_engine::view::View;
use lookback_engine::{Engine, Settings};
use serde::Serialize;

pub use append::{Batch, RecordedMessage};
pub use building::SummaryOptions;
pub use erase::{ErasedContents, OldContents};
pub use error::{Error, Irreducible};
pub use hooks::{CompactEnd, CompactStart, CompactionOutcome, Hooks, SummaryRefused};
use lookback_store::messages::{SearchHit, search};
pub use read::{HistoryEntry, HistoryQuery, SessionInfo};
pub use resume::Resumed;
pub use source::{MessageSource, SourceKind};
pub use summaries::NoSummary;
pub use sync::Synced;
pub use verify::{Fault, Verified, verify};
pub use window::Window;

use self::log::load;
use self::policy::Bound;
use self::summaries::Summaries;
use self::writing::Unclear;
use lookback_store::entries::read;
use lookback_store::search::Query;
use lookback_store::{IntoStore, LogName, Store};

/// One conversation in a store.
///
/// A model call takes these steps:
///
/// - [`push`](Session::push) appends each new message. A client that resends its whole history calls
///   [`sync`](Session::sync) instead.
/// - [`window`](Session::window) repairs and compacts the messages, and returns the window. Send its messages.
/// - [`answered`](Session::answered) appends the answer, and records the tokens that the provider reports.
/// - If the provider refuses the request as too long, [`overflow`](Session::overflow) makes the window smaller.
///
/// | group | methods |
/// |---|---|
/// | opening | [`open`](Session::open), [`with_summarizer`](Session::with_summarizer), [`with_hooks`](Session::with_hooks), [`resume`](Session::resume), [`refresh`](Session::refresh) |
/// | appending | [`push`](Session::push), [`append`](Session::append), [`sync`](Session::sync), [`answered`](Session::answered), [`replace`](Session::replace), [`set_preamble`](Session::set_preamble) |
/// | windows | [`window`](Session::window), [`overflow`](Session::overflow), [`enforce_limits`](Session::enforce_limits), [`wait_for_summary`](Session::wait_for_summary), [`usage`](Session::usage), [`set_policy`](Session::set_policy) |
/// | looking | [`view`](Session::view), [`explain`](Session::explain), [`stats`](Session::stats), [`info`](Session::info), [`is_unfinished`](Session::is_unfinished), [`name`](Session::name), [`settings`](Session::settings), [`store`](Session::store) |
/// | history | [`history`](Session::history), [`read`](Session::read), [`search`](Session::search), [`erase`](Session::erase) |
///
/// The module [`adapter`] has functions for adapters of frameworks and for servers.
///
/// Several sessions, in any processes, may have the same name. Each sees the others' entries at its next write or
/// [`refresh`](Session::refresh). Nothing is lost or written twice.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_engine::Settings;
/// use lookback_session::Session;
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
/// session.push(Message::user("What is the capital of France?")).await?;
/// let window = session.window().await?;
/// assert_eq!(window.to_json()?, r#"[{"role":"user","content":"What is the capital of France?"}]"#);
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
pub struct Session {
    store: Arc<dyn Store>,
    name: LogName,
    engine: Engine,
    /// A second policy that the window must meet, with the session's own.
    bound: Option<Box<Bound>>,
    summaries: Summaries,
    hooks: Hooks,
    /// Whether the limits wait for a summary (see [`Engine::hold_limits`]). It must be set again in a reloaded engine.
    summary_pending: bool,
    /// Whether decisions drop where the policy would summarize (see [`Engine::drop_at_limits`]).
    drops: bool,
    /// Whether the caller reported a cold provider cache, and no window was made since.
    reported_cold: bool,
    /// How often overflows have reduced the window since the last message.
    reductions: u64,
    /// Whether the engine may differ from the store, because a write failed or its future was dropped. If so, the log
    /// is read again before anything else.
    stale: bool,
    /// The last append, if it is unknown whether it was written.
    unclear: Option<Unclear>,
    /// Tokens of the last window by Lookback's own count, for comparison with the provider's usage report.
    sent: u64,
}

/// Statistics of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionStats {
    /// Messages of the conversation, without Lookback's own.
    pub messages: u64,
    /// Entries of the log.
    pub entries: u64,
    /// The totals of the current window.
    pub window: Totals,
}

/// The most tries of a write if other writers are faster each time.
const TRIES: usize = 100;
/// The number of entries in one read when a whole history is read.
const PAGE: u64 = 1_024;

impl Session {
    /// Opens the session with this name, and creates it if it does not exist. The cost depends on the size of the
    /// window, not on the length of the history.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the store fails.
    pub async fn open(store: impl IntoStore, name: &str, settings: Settings) -> Result<Self, Error> {
        let name: LogName = name.parse()?;
        let store = store.into_store();
        let engine = load(&*store, &name, settings).await?;
        let summaries = Summaries::new(&name);
        let hooks = Hooks::default();
        Ok(Session {
            store,
            name,
            engine,
            bound: None,
            summaries,
            hooks,
            summary_pending: false,
            drops: false,
            reported_cold: false,
            reductions: 0,
            stale: false,
            unclear: None,
            sent: 0,
        })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        self.engine.settings()
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the session's name.
    pub fn name(&self) -> &LogName {
        &self.name
    }

    /// Returns the messages that the model would see now, as of this session's last read of the log.
    pub fn view(&self) -> &View {
        self.engine.view()
    }

    /// Searches the messages of this session. Returns at most `most` hits, the best first (see
    /// [`search`](lookback_store::search)).
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn search(&self, query: impl Into<Query>, most: usize) -> Result<Vec<SearchHit>, Error> {
        Ok(search(&*self.store, Some(&self.name), query, most).await?)
    }

    /// Returns the statistics of the session.
    pub fn stats(&self) -> SessionStats {
        SessionStats { messages: self.view().history_len(), entries: self.engine.end(), window: self.view().totals() }
    }

    /// Reads the entries that other writers have added. Returns whether there were any.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use lookback_store::MemoryStore;
    /// use lookback_session::Session;
    /// use lookback_wire::message::Message;
    /// use lookback_engine::Settings;
    ///
    /// let store = Arc::new(MemoryStore::new());
    /// let mut writer = Session::open(store.clone(), "chat-1", Settings::default()).await?;
    /// let mut reader = Session::open(store, "chat-1", Settings::default()).await?;
    /// writer.push(Message::user("Hello")).await?;
    /// assert!(reader.refresh().await? && !reader.refresh().await?);
    /// assert_eq!(reader.view().history_len(), 1);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn refresh(&mut self) -> Result<bool, Error> {
        let before = self.engine.end();
        let end = self.store.head(&self.name, None).await?.map_or(0, |head| head.end);
        self.stale |= end != before;
        self.reload_if_stale().await?;
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

/// Returns every entry of the log, including those of earlier branches.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn entries(session: &mut Session) -> Result<Vec<Entry>, Error> {
    session.reload_if_stale().await?;
    Ok(read(&*session.store, &session.name, 0..session.engine.end()).await?)
}

/// Returns the session's engine, as of the session's last read of the log.
pub fn engine(session: &Session) -> &Engine {
    &session.engine
}
