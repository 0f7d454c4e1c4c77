//! AgentLIB's `SlidingWindowMemory`: the newest turns of each session, and of these what fits a number of tokens.
//!
//! A write keeps the newest [`max_turns`](Options::max_turns) turns; a read gives the newest of them that fit
//! [`max_tokens`](Options::max_tokens). A turn is what the system's document says: a message of the user's, and all that follows it until the
//! next. System messages are not kept: the agent brings its own to each call.
//!
//! Where it differs from the original, and why:
//!
//! - **A transcript that is written again is recognized** (see [`SlidingWindowMemory::write`]). The original appends it, and doubles with
//!   each run of its own agent.
//! - **A window is one that a provider accepts.** Calls and results stay together, and a call that waits for its result has a stand-in in
//!   what is read, until the result is written.
//! - **The newest message is always read,** with its calls and results, though it be larger than the limits.
//! - **`limit` does what it says.** The original ignores it. `query` and `tags` are not used by [`read`](SlidingWindowMemory::read), as the
//!   document says; [`search`](SlidingWindowMemory::search) is ours, and finds by them what was ever written in the session.
//! - **A turn without end is held in part:** what no read has room for stays in the store. The statistics count it all the same, as the
//!   original's do.
//! - **All that is sent is counted:** names, arguments and identifiers of tool calls, and reasoning, too.
//! - **Sessions are kept in any [`Store`],** this process's memory by default; a memory holds no more than 128 of them open at a time.
//!   Their names are those of [`LogName`].
//! - **`clear("")` is an error,** and clears nothing. So is a limit of 0.
//! - What a read gives is a copy: to change it changes nothing in the memory.
//!
//! The methods take `&self`: tasks and threads share one memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_core::dialect::Shown;
use lookback_core::message::Role;
use lookback_core::policy::{Keep, Mode, Tokens};
use lookback_core::tokens::TokenCounter;
use lookback_core::transcript::{Label, Millis};
use lookback_core::view::Item;
use lookback_core::{ConversionError, DecodeError, Dialect, Engine, Limits, Message, Policy, Settings, View, view};

use super::OptionError;
use crate::session::{self, HistoryEntry, HistoryQuery, Session, now};
use crate::store::{BadName, IntoStore, LogName, MemoryStore, Store, StoreError, purge};

/// The session of whoever names none.
const DEFAULT_SESSION: &str = "default";
/// The dialect that messages are kept and given in: the one that the original's messages are nearest to.
const DIALECT: Dialect = Dialect::OpenAiChat;
/// Sessions that are held open; the one that was used longest ago is closed for another.
const OPEN: usize = 128;
/// Reads of a session that are remembered: so many runs of an agent may begin before the first of them is written.
const READS: usize = 32;
/// Messages that are read of a log at a time.
const PAGE: usize = 256;

/// Why a memory did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that makes no sense.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The session's name is none, a message cannot be said in OpenAI's format, or the store failed.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// A message that was to be given cannot be read. (None in practice: it was read before.)
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        session::Error::from(error).into()
    }
}

impl From<BadName> for Error {
    fn from(error: BadName) -> Self {
        session::Error::from(error).into()
    }
}

impl From<ConversionError> for Error {
    fn from(error: ConversionError) -> Self {
        session::Error::from(error).into()
    }
}

/// What a memory keeps, and what it gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Tokens that a read gives at most, by [`Utf16`]; from 1, and 4,000 by default.
    pub max_tokens: u64,
    /// Turns that are kept of each session; from 1, and 50 by default.
    pub max_turns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_tokens: 4_000, max_turns: 50 }
    }
}

/// Tags, as keys with their values.
///
/// ```
/// use lookback::compat::agentlib::{Tags, WriteOptions};
///
/// let tags = Tags::from([("project".to_owned(), "observatory".to_owned())]);
/// let to = WriteOptions { tags, ..WriteOptions::session("chat-1") };
/// assert_eq!(to.tags["project"], "observatory");
/// ```
pub type Tags = BTreeMap<String, String>;

/// What is read.
///
/// ```
/// use lookback::compat::agentlib::ReadOptions;
///
/// let newest = ReadOptions { limit: Some(10), ..ReadOptions::session("chat-1") };
/// assert_eq!(ReadOptions::default().session_id, "default");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// The session, by default `default`.
    pub session_id: String,
    /// Messages at most, from 1. An exchange with tools is given whole or not at all, but the newest always.
    pub limit: Option<u64>,
    /// What is looked for. [`read`](SlidingWindowMemory::read) takes it and makes no use of it; [`search`](SlidingWindowMemory::search) finds
    /// messages that hold every word of it.
    pub query: Option<String>,
    /// The tags that messages were written under. [`read`](SlidingWindowMemory::read) takes them and makes no use of them;
    /// [`search`](SlidingWindowMemory::search) finds messages that were written under all of these.
    pub tags: Tags,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions::session(DEFAULT_SESSION)
    }
}

impl ReadOptions {
    /// All of this session that fits.
    pub fn session(id: impl Into<String>) -> Self {
        ReadOptions { session_id: id.into(), limit: None, query: None, tags: Tags::new() }
    }
}

/// How something is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// The session, by default `default`.
    pub session_id: String,
    /// The agent that writes. It takes the place of the name that the session's entry had, and so does none.
    pub agent_name: Option<String>,
    /// Tags, by which the messages can be found. They take the place of those that the session's entry had, and so do none.
    pub tags: Tags,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions::session(DEFAULT_SESSION)
    }
}

impl WriteOptions {
    /// To this session, by nobody in particular.
    pub fn session(id: impl Into<String>) -> Self {
        WriteOptions { session_id: id.into(), agent_name: None, tags: Tags::new() }
    }
}

/// A session as it is kept, for a look at it.
#[derive(Debug, Clone)]
pub struct MemoryEntry {
    /// The session's name. It stays the same as long as the session lives, as the original's random number does.
    pub id: String,
    /// The agent that wrote last, where it gave a name.
    pub agent_name: Option<String>,
    /// The tags of the last write.
    pub tags: Tags,
    /// When the session began, in milliseconds since 1970.
    pub created_at: Option<Millis>,
    /// When it was last written or read.
    pub accessed_at: Option<Millis>,
    /// Tokens of its messages.
    pub token_count: u64,
    /// The messages of the turns that are kept, those that no read has room for too; calls that wait for their results wait here as well.
    pub messages: Vec<Message>,
}

/// What a session amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Turns that are kept.
    pub turns: u64,
    /// Their tokens, by [`Utf16`].
    pub estimated_tokens: u64,
}

/// The original's estimate: a token for each four UTF-16 units of a text or part of four, and four for each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Utf16;

impl TokenCounter for Utf16 {
    fn name(&self) -> &str {
        "utf16/4"
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn text(&self, text: &str) -> u64 {
        estimate_tokens(text)
    }

    fn message_overhead(&self) -> u64 {
        4
    }
}

/// Tokens of a text: one for each four UTF-16 units, or part of four.
///
/// ```
/// use lookback::compat::agentlib::estimate_tokens;
///
/// assert_eq!(estimate_tokens(""), 0);
/// assert_eq!(estimate_tokens("abcde"), 2);
/// assert_eq!(estimate_tokens("🦀🦀🦀"), 2); // each is two units
/// ```
pub fn estimate_tokens(text: &str) -> u64 {
    text.encode_utf16().count().div_ceil(4) as u64
}

/// The newest messages that fit `max_tokens` by [`Utf16`], after all system messages, which come first and are never dropped.
///
/// From the newest to the oldest: the first that does not fit ends it. Calls and their results stand or fall together, and the newest message
/// stands though it does not fit.
///
/// ```
/// use lookback::Message;
/// use lookback::compat::agentlib::trim_to_token_budget;
///
/// let messages = ["old and long, longer than there is room for", "new"].map(Message::user);
/// let kept = trim_to_token_budget(messages.to_vec(), 10)?;
/// assert_eq!(kept.len(), 1);
/// assert_eq!(kept[0].text(), "new");
/// # Ok::<(), lookback::compat::agentlib::Error>(())
/// ```
///
/// # Errors
/// Where a message cannot be said in OpenAI's format.
pub fn trim_to_token_budget(messages: Vec<Message>, max_tokens: u64) -> Result<Vec<Message>, Error> {
    let (system, rest): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.role() == Role::System);
    fit(system.into_iter().chain(rest), within(max_tokens, None))
}

/// AgentLIB's `SlidingWindowMemory`. [The module](self) says where it differs.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::compat::agentlib::{Options, ReadOptions, SlidingWindowMemory, WriteOptions};
///
/// let memory = SlidingWindowMemory::new(Options { max_turns: 1, ..Options::default() })?;
/// let to = WriteOptions::session("chat-1");
/// memory.write(vec![Message::user("Hello"), Message::assistant("Good morning.")], &to).await?;
///
/// // An agent reads, goes on, and writes back all that it has.
/// let mut messages = memory.read(&ReadOptions::session("chat-1")).await?;
/// messages.extend([Message::user("What is it o'clock?"), Message::assistant("Nine.")]);
/// memory.write(messages, &to).await?;
///
/// let kept = memory.read(&ReadOptions::session("chat-1")).await?;
/// assert_eq!(kept.iter().map(Message::text).collect::<Vec<_>>(), ["What is it o'clock?", "Nine."]);
/// # Ok::<(), lookback::compat::agentlib::Error>(())
/// # }).unwrap();
/// ```
pub struct SlidingWindowMemory {
    options: Options,
    store: Arc<dyn Store>,
    open: Mutex<Open>,
}

/// The sessions that are held open.
#[derive(Default)]
struct Open {
    slots: HashMap<LogName, (u64, Arc<Mutex<Slot>>)>,
    /// Counts uses, so that it can be said which slot was used longest ago.
    uses: u64,
}

/// A session that is held open.
#[derive(Default)]
struct Slot {
    session: Option<Session>,
    reads: Reads,
}

/// What the last reads of a session gave, by digests: the newest last.
#[derive(Default)]
struct Reads(VecDeque<Vec<u128>>);

impl SlidingWindowMemory {
    /// The kind of memory that it is, by which the original's agents know it.
    pub const TYPE: &str = "sliding-window";

    /// A memory that is gone with the process.
    ///
    /// # Errors
    /// Where a limit is 0.
    pub fn new(options: Options) -> Result<Self, OptionError> {
        SlidingWindowMemory::over(MemoryStore::new(), options)
    }

    /// A memory in a store, and of what is in it: each session of the store is one of the memory.
    ///
    /// # Errors
    /// Where a limit is 0.
    pub fn over(store: impl IntoStore, options: Options) -> Result<Self, OptionError> {
        at_least_one("maxTokens", options.max_tokens)?;
        at_least_one("maxTurns", options.max_turns)?;
        Ok(SlidingWindowMemory { options, store: store.into_store(), open: Mutex::default() })
    }

    /// The newest of a session that fits the limits; nothing where there is no such session. Says that the session was used.
    ///
    /// Of the options it uses the session and the limit; `query` and `tags` are for memories that search, and for
    /// [`search`](SlidingWindowMemory::search). It costs what is kept.
    ///
    /// # Errors
    /// Where the session's name is none, the limit is 0, or the store fails.
    pub async fn read(&self, options: &ReadOptions) -> Result<Vec<Message>, Error> {
        let (name, policy) = self.asked(options)?;
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, reads) = slot.take_up(&self.store, &name).await?;
        if let Some(time) = now() {
            self.store.touch(&name, time).await?;
        }
        session.set_policy(policy);
        let messages = given(session.window().await?.view())?;
        reads.remember(&messages);
        Ok(messages)
    }

    /// Of all that was ever written in a session, the newest that fits the limits among the messages that hold every word of the query, were
    /// written under all of the tags, and what belongs to them: calls with their results. Without a query and tags, the newest of all.
    /// Says that the session was used. It costs what was ever written.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::Message;
    /// use lookback::compat::agentlib::{Options, ReadOptions, SlidingWindowMemory, WriteOptions};
    ///
    /// let memory = SlidingWindowMemory::new(Options { max_turns: 1, ..Options::default() })?;
    /// let talk = ["The port is 5050.", "Noted.", "And the host?", "It is green."].map(Message::user);
    /// memory.write(talk.to_vec(), &WriteOptions::default()).await?;
    /// let found = memory.search(&ReadOptions { query: Some("port".to_owned()), ..ReadOptions::default() }).await?;
    /// assert_eq!(found[0].text(), "The port is 5050.");
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), lookback::compat::agentlib::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`SlidingWindowMemory::read`].
    pub async fn search(&self, options: &ReadOptions) -> Result<Vec<Message>, Error> {
        let (name, policy) = self.asked(options)?;
        let query = options.query.clone().filter(|query| !query.trim().is_empty());
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, reads) = slot.take_up(&self.store, &name).await?;
        let reading = HistoryQuery { limit: None, tags: labels(&options.tags), query };
        let past = session.read(&reading).await?;
        let messages = fit(past.into_iter().map(|past| past.arrival.message), policy)?;
        reads.remember(&messages);
        Ok(messages)
    }

    /// Which session is read, and what of it there is room for.
    fn asked(&self, options: &ReadOptions) -> Result<(LogName, Policy), Error> {
        let name = options.session_id.parse()?;
        if let Some(limit) = options.limit {
            at_least_one("limit", limit)?;
        }
        Ok((name, within(self.options.max_tokens, options.limit)))
    }

    /// Messages are kept, without the system messages among them, and turns before the newest are given up.
    ///
    /// An agent that reads its history, goes on, and writes back all that it has then writes much that is here already. So a list of two or
    /// more messages that begins with one of these is taken for such a transcript, and only the rest for new; of several the longest counts:
    ///
    /// - what one of the last reads of this session by this memory gave (the very last one, if that was a single message),
    /// - what a read without options would give now, with its stand-ins or without,
    /// - all that was ever written in the session.
    ///
    /// A list that is only a part of one of these is new, and so is a single message: nobody's second "hi" is lost. So is one exchange (a
    /// message of the user's with its answers, and no calls of tools) that nothing follows, though it be all that is here: whoever writes each
    /// exchange as it comes may say the same twice. What cannot be told apart is a conversation that begins as one of these does, word for
    /// word, and is written without what went before: it is taken for a transcript, as is more than one exchange written again.
    ///
    /// It costs what is written and what is kept, whatever was written before.
    ///
    /// # Errors
    /// Where the session's name is none, a message cannot be said in OpenAI's format, or the store fails.
    pub async fn write(&self, messages: Vec<Message>, options: &WriteOptions) -> Result<(), Error> {
        let name = options.session_id.parse()?;
        let mut said = Vec::with_capacity(messages.len());
        for message in messages.iter().filter(|message| message.role() != Role::System) {
            said.extend(DIALECT.convert(message)?);
        }
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, reads) = slot.take_up(&self.store, &name).await?;
        let known = self.known(session, reads, &said).await?;
        let new = said.split_off(known);
        if new.is_empty() && session.view().history_len() == 0 {
            return Ok(());
        }
        let label = Label { agent: options.agent_name.clone(), tags: labels(&options.tags) };
        session.extend_under(&label, new).await?;
        let keeping = self.keeping();
        if !keeping.limits.fits(&session.view().totals())
            && let Err(error) = session.compact(&keeping).await
        {
            // The messages are written, and the next write tries again: whoever is told of an error would write them twice.
            tracing::warn!(session = %name, %error, "turns that are over the limit could not be given up");
        }
        Ok(())
    }

    /// Erases a session; without a name, all that are in the store.
    ///
    /// # Errors
    /// Where the session's name is none (the empty one is not "all"), or the store fails.
    pub async fn clear(&self, session_id: Option<&str>) -> Result<(), Error> {
        if let Some(id) = session_id {
            let name = id.parse()?;
            let slot = self.slot(&name).await;
            let mut slot = slot.lock().await;
            purge(&*self.store, &name).await?;
            *slot = Slot::default();
        } else {
            let mut open = self.open.lock().await;
            self.store.clear().await?;
            open.slots.clear();
        }
        Ok(())
    }

    /// The session as it is kept, or all of them by their names; none where there is no such session.
    ///
    /// # Errors
    /// Where the session's name is none, or the store fails.
    pub async fn entries(&self, session_id: Option<&str>) -> Result<Vec<MemoryEntry>, Error> {
        let names = match session_id {
            Some(id) => vec![id.parse()?],
            None => self.store.list("").await?.into_iter().map(|info| info.name).collect(),
        };
        let mut entries = Vec::new();
        for name in names.iter().filter(|name: &&LogName| !name.is_derived()) {
            let slot = self.slot(name).await;
            let mut slot = slot.lock().await;
            let (session, _) = slot.take_up(&self.store, name).await?;
            let Some(record) = session.record().await? else { continue };
            let kept = self.kept(session).await?;
            entries.push(MemoryEntry {
                id: record.session.to_string(),
                agent_name: record.agent,
                tags: tags(&record.tags),
                created_at: record.created,
                accessed_at: record.used,
                token_count: kept.stats.estimated_tokens,
                messages: encoded(kept.shown())?,
            });
        }
        Ok(entries)
    }

    /// What a session amounts to; `None` where there is no such session. It costs what the kept turns hold.
    ///
    /// # Errors
    /// Where the session's name is none, or the store fails.
    pub async fn stats(&self, session_id: &str) -> Result<Option<Stats>, Error> {
        let name = session_id.parse()?;
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, _) = slot.take_up(&self.store, &name).await?;
        if session.stats().entries == 0 {
            return Ok(None);
        }
        Ok(Some(self.kept(session).await?.stats))
    }

    /// The newest turns, as many as are kept, from the log: the window holds no more of a turn without end than any read has room for.
    async fn kept(&self, session: &mut Session) -> Result<Kept, Error> {
        let (mut past, mut stats) = (Vec::new(), Stats { turns: 0, estimated_tokens: 0 });
        // What stands before the first message of the user's is a turn, too.
        let (mut before, mut begun) = (u64::MAX, false);
        'log: loop {
            let page = session.newest(0..before, PAGE).await?;
            let Some(first) = page.first() else { break };
            before = first.position;
            for message in page.into_iter().rev().filter(|past| past.arrival.size.messages > 0) {
                stats.estimated_tokens = stats.estimated_tokens.saturating_add(message.arrival.size.tokens);
                begun = !message.arrival.message.opens_turn();
                past.push(message);
                if !begun {
                    stats.turns += 1;
                    if stats.turns == self.options.max_turns {
                        break 'log;
                    }
                }
            }
        }
        stats.turns += u64::from(begun);
        past.reverse();
        Ok(Kept { past, stats })
    }

    /// How many of these messages, from the first, are a transcript of what is here already.
    async fn known(&self, session: &mut Session, reads: &Reads, said: &[Message]) -> Result<usize, Error> {
        if said.len() < 2 {
            return Ok(0);
        }
        let digests = digests(said);
        let length = usize::try_from(session.view().history_len()).unwrap_or(usize::MAX);
        let chain = |begin: &[u128]| begin.iter().fold(0, |chain, digest| view::chain(chain, *digest));
        let whole = digests.get(..length).filter(|begin| chain(begin) == session.view().chain()).map_or(0, <[_]>::len);
        session.set_policy(within(self.options.max_tokens, None));
        let window = session.window().await?;
        let shown = given(window.view())?;
        let without = encoded(window.view().messages().filter(|item| !item.is_own()).map(shown_of))?;
        let begins = |known: &[Message]| Some(self::digests(known)).filter(|known| digests.starts_with(known));
        let window = begins(&shown).or_else(|| begins(&without)).map_or(0, |known| known.len());
        let known = whole.max(window).max(reads.longest(&digests));
        // Nothing follows what is here already: an exchange was said again.
        Ok(if known == said.len() && is_exchange(said) { 0 } else { known })
    }

    /// What is kept: the newest turns. A read has room for `max_tokens` of them all, so turns that fit are never more than that many times
    /// `max_turns`, and of a turn without end no more is held.
    fn keeping(&self) -> Policy {
        let Options { max_tokens, max_turns } = self.options;
        let most = max_tokens.saturating_mul(max_turns);
        let limits =
            |tokens| Limits { turns: Some(max_turns), tokens: Some(Tokens::Count(tokens)), ..Limits::default() };
        // Twice as many, so that this happens now and then, and not with each message of such a turn.
        Policy {
            limits: limits(most.saturating_mul(2)),
            target: Some(limits(most)),
            keep: nothing(),
            ..Policy::default()
        }
    }

    async fn slot(&self, name: &LogName) -> Arc<Mutex<Slot>> {
        let mut open = self.open.lock().await;
        open.uses += 1;
        let uses = open.uses;
        if let Some((used, slot)) = open.slots.get_mut(name) {
            *used = uses;
            return slot.clone();
        }
        while open.slots.len() >= OPEN {
            // One that is in use is not given up: its lock keeps the order of its writers.
            let idle = open.slots.iter().filter(|(_, (_, slot))| Arc::strong_count(slot) == 1);
            let Some(oldest) = idle.min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone()) else { break };
            open.slots.remove(&oldest);
        }
        let slot = Arc::<Mutex<Slot>>::default();
        open.slots.insert(name.clone(), (uses, slot.clone()));
        slot
    }
}

impl fmt::Debug for SlidingWindowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.open.try_lock().map(|open| open.slots.len());
        f.debug_struct("SlidingWindowMemory")
            .field("options", &self.options)
            .field("open", &open)
            .finish_non_exhaustive()
    }
}

/// The turns of a session that are kept.
struct Kept {
    past: Vec<HistoryEntry>,
    stats: Stats,
}

impl Kept {
    fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.past.iter().map(|past| Shown { message: &past.arrival.message, edits: &past.arrival.edits })
    }
}

impl Slot {
    /// The session as the store has it now: another process may have written to it, or cleared it.
    async fn take_up(&mut self, store: &Arc<dyn Store>, name: &LogName) -> Result<(&mut Session, &mut Reads), Error> {
        let end = store.head(name, None).await?.map_or(0, |head| head.end);
        let session = match self.session.take().filter(|session| session.stats().entries == end) {
            Some(session) => session,
            None => Session::open(store.clone(), name.as_str(), settings(Policy::default())).await?,
        };
        if end == 0 {
            self.reads = Reads::default();
        }
        Ok((self.session.insert(session), &mut self.reads))
    }
}

impl Reads {
    fn remember(&mut self, messages: &[Message]) {
        let digests = digests(messages);
        self.0.retain(|read| *read != digests);
        self.0.push_back(digests);
        if self.0.len() > READS {
            self.0.pop_front();
        }
    }

    /// The length of the longest read that a list begins with. A single message is soon said again, so only the last read may be one.
    fn longest(&self, digests: &[u128]) -> usize {
        let counts = |(age, read): &(usize, &Vec<u128>)| (*age == 0 || read.len() > 1) && digests.starts_with(read);
        self.0.iter().rev().enumerate().filter(counts).map(|(_, read)| read.len()).max().unwrap_or(0)
    }
}

fn at_least_one(option: &'static str, value: u64) -> Result<(), OptionError> {
    if value > 0 { Ok(()) } else { Err(OptionError { option, expected: "at least 1", value: value.to_string() }) }
}

fn settings(policy: Policy) -> Settings {
    Settings { dialect: DIALECT, policy, counter: Arc::new(Utf16), ..Settings::default() }
}

/// The policy of a read, which records nothing: a larger limit shows more again.
fn within(max_tokens: u64, limit: Option<u64>) -> Policy {
    let limits = Limits { messages: limit, ..Limits::tokens(max_tokens) };
    Policy { limits, keep: nothing(), mode: Mode::OnRead, ..Policy::default() }
}

/// Nothing is kept beside what must be: the original lets go of the task as well.
fn nothing() -> Keep {
    Keep { task: false, ..Keep::default() }
}

/// The newest of these messages that the policy lets through.
fn fit(messages: impl IntoIterator<Item = Message>, policy: Policy) -> Result<Vec<Message>, Error> {
    let mut engine = Engine::new(settings(policy));
    for message in messages {
        engine.push(message)?;
    }
    let outcome = engine.window();
    given(outcome.on_read.as_deref().unwrap_or(engine.view()))
}

/// The messages of a view as they are shown.
fn given(view: &View) -> Result<Vec<Message>, Error> {
    encoded(view.messages().map(shown_of))
}

fn shown_of(item: &Item) -> Shown<'_> {
    Shown { message: item.message(), edits: item.edits() }
}

fn encoded<'a>(shown: impl IntoIterator<Item = Shown<'a>>) -> Result<Vec<Message>, Error> {
    DIALECT.encode(shown)?.into_iter().map(|raw| Ok(DIALECT.decode_raw(&raw)?)).collect()
}

/// Whether it is one exchange at the most: what somebody may say twice. Calls have identifiers of their own each time.
fn is_exchange(said: &[Message]) -> bool {
    let opens = said.iter().filter(|message| message.opens_turn()).count();
    opens <= 1 && said.iter().all(|message| message.tool_calls().next().is_none())
}

/// Tags as a log's labels have them: `key=value`, or the key alone where there is no value. A `%` or `=` in a key is escaped.
fn labels(tags: &Tags) -> Vec<String> {
    let label = |(key, value): (&String, &String)| {
        let key = key.replace('%', "%25").replace('=', "%3D");
        if value.is_empty() { key } else { format!("{key}={value}") }
    };
    tags.iter().map(label).collect()
}

/// The tags that these labels stand for.
fn tags(labels: &[String]) -> Tags {
    let tag = |label: &String| {
        let (key, value) = label.split_once('=').unwrap_or((label, ""));
        (key.replace("%3D", "=").replace("%25", "%"), value.to_owned())
    };
    labels.iter().map(tag).collect()
}

fn digests(messages: &[Message]) -> Vec<u128> {
    let said = messages.iter().filter(|message| message.role() != Role::System);
    said.map(Message::digest).collect()
}
