//! The memory itself: writing, reading, searching and clearing sessions.

use std::fmt;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::Label;
use lookback_wire::message::Message;
use lookback_wire::message::Role;

use super::entries::StoredTurns;
use super::options::{labels, tags};
use super::reads::repeated;
use super::slots::{Slot, Slots};
use super::window::{encoded, fit, given, keeping, within};
use super::{Error, MemoryEntry, Options, ReadOptions, Stats, WriteOptions};
use crate::OptionError;
use crate::error::at_least_one;
use crate::openai::DIALECT;
use lookback_session::Batch;
use lookback_session::HistoryQuery;
use lookback_session::adapter;
use lookback_store::now;
use lookback_store::{IntoStore, LogName, MemoryStore, Store, purge};

/// AgentLIB's `SlidingWindowMemory`. [The module](super) lists the differences.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::agentlib::{Options, ReadOptions, SlidingWindowMemory, WriteOptions};
///
/// let memory = SlidingWindowMemory::new(Options::default().max_turns(1))?;
/// let to = WriteOptions::session("chat-1");
/// memory.write(vec![Message::user("Hello"), Message::assistant("Good morning.")], &to).await?;
///
/// // An agent reads, goes on, and writes back all that it has.
/// let mut messages = memory.read(&ReadOptions::session("chat-1")).await?;
/// messages.extend([Message::user("What time is it?"), Message::assistant("Nine.")]);
/// memory.write(messages, &to).await?;
///
/// let kept = memory.read(&ReadOptions::session("chat-1")).await?;
/// assert_eq!(kept.iter().map(Message::text).collect::<Vec<_>>(), ["What time is it?", "Nine."]);
/// # Ok::<(), lookback_compat::agentlib::Error>(())
/// # }).unwrap();
/// ```
pub struct SlidingWindowMemory {
    options: Options,
    store: Arc<dyn Store>,
    open: Mutex<Slots>,
}

impl SlidingWindowMemory {
    /// The type of this memory, as the original's agents name it.
    pub const TYPE: &str = "sliding-window";

    /// Creates a memory in process memory.
    ///
    /// # Errors
    /// Returns an error if a limit is 0.
    pub fn new(options: Options) -> Result<Self, OptionError> {
        SlidingWindowMemory::over(MemoryStore::new(), options)
    }

    /// Creates a memory over a store. Each session in the store is a session of the memory.
    ///
    /// # Errors
    /// Returns an error if a limit is 0.
    pub fn over(store: impl IntoStore, options: Options) -> Result<Self, OptionError> {
        at_least_one("maxTokens", options.max_tokens)?;
        at_least_one("maxTurns", options.max_turns)?;
        Ok(SlidingWindowMemory { options, store: store.into_store(), open: Mutex::default() })
    }

    /// Returns the newest messages of a session that fit the limits, or no messages if there is no such session.
    ///
    /// It records that the session was used. It uses the session and the limit from the options, and ignores `query`
    /// and `tags`, which are for [`search`](SlidingWindowMemory::search). The time is proportional to the size of the
    /// kept turns.
    ///
    /// # Errors
    /// Returns an error if the session's name is invalid, the limit is 0, or the store fails.
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

    /// Searches everything that was ever written in a session.
    ///
    /// A message is found if it contains every word of the query and was written under all of the tags. Calls are
    /// returned with their results. The search returns the newest of the found messages that fit the limits. Without a
    /// query and tags, it finds all messages. It records that the session was used. The time is proportional to
    /// everything that was ever written.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_wire::message::Message;
    /// use lookback_compat::agentlib::{Options, ReadOptions, SlidingWindowMemory, WriteOptions};
    ///
    /// let memory = SlidingWindowMemory::new(Options::default().max_turns(1))?;
    /// let talk = ["The port is 5050.", "Noted.", "And the host?", "It is green."].map(Message::user);
    /// memory.write(talk.to_vec(), &WriteOptions::default()).await?;
    /// let found = memory.search(&ReadOptions::default().query("port")).await?;
    /// assert_eq!(found[0].text(), "The port is 5050.");
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), lookback_compat::agentlib::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Returns an error if the session's name is invalid, the limit is 0, or the store fails.
    pub async fn search(&self, options: &ReadOptions) -> Result<Vec<Message>, Error> {
        let (name, policy) = self.asked(options)?;
        let query = options.query.clone().filter(|query| !query.trim().is_empty());
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, reads) = slot.take_up(&self.store, &name).await?;
        let mut selection = HistoryQuery::default();
        (selection.tags, selection.query) = (labels(&options.tags), query);
        let found = session.read(&selection).await?;
        let messages = fit(found.into_iter().map(|entry| Arc::unwrap_or_clone(entry.arrival.message)), policy)?;
        reads.remember(&messages);
        Ok(messages)
    }

    /// Returns the session that the options name, and the policy of the read.
    fn asked(&self, options: &ReadOptions) -> Result<(LogName, Policy), Error> {
        let name = options.session_id.parse()?;
        if let Some(limit) = options.limit {
            at_least_one("limit", limit)?;
        }
        Ok((name, within(self.options.max_tokens, options.limit)))
    }

    /// Appends messages, except for system messages, and drops turns beyond the limit.
    ///
    /// An agent that reads its history, continues it, and writes everything back repeats messages that are already
    /// stored. So if a list of two or more messages begins with one of the following, that beginning is recognized as a
    /// transcript, and only the rest is appended. If several match, the longest is used:
    ///
    /// - the result of one of the last reads of this session by this memory (if that was a single message, only the
    ///   very last read),
    /// - the current result of a read without options, with or without its stand-ins,
    /// - everything that was ever written in the session.
    ///
    /// A list that is only a part of one of these is new, and so is a single message. So a second "hi" is never lost. A
    /// single exchange (a user message with its answers, without tool calls) is also new if nothing follows it, even if
    /// the memory holds nothing else: a caller that writes each exchange as it happens may write the same one twice.
    ///
    /// Two cases cannot be distinguished from a transcript, and are treated as one: a new conversation that begins with
    /// exactly the same messages as one of the above, and a repetition of more than one exchange.
    ///
    /// The time is proportional to the size of the written messages and the kept turns, and does not depend on earlier
    /// ones.
    ///
    /// # Errors
    /// Returns an error if the session's name is invalid, OpenAI's format cannot express a message, or the store fails.
    pub async fn write(&self, messages: Vec<Message>, options: &WriteOptions) -> Result<(), Error> {
        let name = options.session_id.parse()?;
        let mut said = Vec::with_capacity(messages.len());
        for message in messages.iter().filter(|message| message.role() != Role::System) {
            said.extend(DIALECT.convert(message)?);
        }
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, reads) = slot.take_up(&self.store, &name).await?;
        let repeated = repeated(session, reads, &said, self.options.max_tokens).await?;
        let new = said.split_off(repeated);
        if new.is_empty() && session.view().history_len() == 0 {
            return Ok(());
        }
        let mut label = Label::default().tags(labels(&options.tags));
        label.agent = options.agent_name.clone();
        session.append(Batch::from(new).label(label)).await?;
        let keeping = keeping(self.options);
        if !keeping.limits.fits(&session.view().totals())
            && let Err(error) = adapter::compact(session, &keeping).await
        {
            // The messages are written, and the next write tries again. On an error, the caller would write them twice.
            tracing::warn!(session = %name, %error, "turns over the limit could not be dropped");
        }
        Ok(())
    }

    /// Erases a session, or all sessions in the store if no name is given.
    ///
    /// # Errors
    /// Returns an error if the session's name is invalid (an empty name does not mean "all"), or the store fails.
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
            open.clear();
        }
        Ok(())
    }

    /// Returns a session with its kept messages, or all sessions, in the order of their names, if none is given. The
    /// list is empty if there is no such session.
    ///
    /// # Errors
    /// Returns an error if the session's name is invalid, or the store fails.
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
            let Some(info) = session.info().await? else { continue };
            let kept = StoredTurns::load(session, self.options.max_turns).await?;
            entries.push(MemoryEntry {
                id: info.session.to_string(),
                agent_name: info.agent,
                tags: tags(&info.tags),
                created_at: info.created,
                accessed_at: info.used,
                token_count: kept.stats.estimated_tokens,
                messages: encoded(kept.shown())?,
            });
        }
        Ok(entries)
    }

    /// Returns the size of a session, or `None` if there is no such session. The time is proportional to the size of
    /// the kept turns.
    ///
    /// # Errors
    /// Returns an error if the session's name is invalid, or the store fails.
    pub async fn stats(&self, session_id: &str) -> Result<Option<Stats>, Error> {
        let name = session_id.parse()?;
        let slot = self.slot(&name).await;
        let mut slot = slot.lock().await;
        let (session, _) = slot.take_up(&self.store, &name).await?;
        if session.stats().entries == 0 {
            return Ok(None);
        }
        Ok(Some(StoredTurns::load(session, self.options.max_turns).await?.stats))
    }

    async fn slot(&self, name: &LogName) -> Arc<Mutex<Slot>> {
        self.open.lock().await.slot(name)
    }
}

impl fmt::Debug for SlidingWindowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.open.try_lock().map(|open| open.count());
        f.debug_struct("SlidingWindowMemory")
            .field("options", &self.options)
            .field("open", &open)
            .finish_non_exhaustive()
    }
}
