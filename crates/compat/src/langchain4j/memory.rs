//! A chat memory with a limit in messages or in tokens: adding, replacing and reading messages.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_engine as engine;
use lookback_engine::policy::{Keep, Limits, Mode, Policy, SystemRule};
use lookback_engine::view::Item;
use lookback_tokens::TokenCounter;
use lookback_wire::message::Message;

use super::ChatMemoryError;
use crate::OptionError;
use crate::openai::{DIALECT, decoded};
use lookback_session as session;
use lookback_session::Batch;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::{LogName, Store, StoreError, purge};

/// A memory with a limit in messages.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::langchain4j::MessageWindowChatMemory;
///
/// let memory = MessageWindowChatMemory::with_max_messages(3)?;
/// memory.add(Message::system("Answer in one word.")).await?;
/// for text in ["One?", "Two?", "Three?"] {
///     memory.add(Message::user(text)).await?;
/// }
/// let texts: Vec<_> = memory.messages().await?.iter().map(Message::text).collect();
/// assert_eq!(texts, ["Answer in one word.", "Two?", "Three?"]);
/// # Ok::<(), lookback_compat::langchain4j::ChatMemoryError>(())
/// # }).unwrap();
/// ```
pub type MessageWindowChatMemory = ChatMemory<LimitInMessages>;

/// A memory with a limit in tokens.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::langchain4j::{OpenAiTokenCountEstimator, TokenWindowChatMemory};
///
/// let counter = OpenAiTokenCountEstimator::new("gpt-4o")?;
/// let memory = TokenWindowChatMemory::builder().max_tokens(14).token_counter(counter).build()?;
/// memory.add(Message::user("How far is the moon?")).await?;
/// memory.add(Message::user("And the sun?")).await?;
/// assert_eq!(memory.messages().await?.len(), 1);
/// # Ok::<(), lookback_compat::langchain4j::ChatMemoryError>(())
/// # }).unwrap();
/// ```
pub type TokenWindowChatMemory = ChatMemory<LimitInTokens>;

/// A sliding window over one conversation, in a store.
///
/// A clone is the same memory. All methods can be called from any task or thread. Messages that are added in one call
/// stay together.
pub struct ChatMemory<M> {
    inner: Arc<Inner>,
    measured: PhantomData<fn() -> M>,
}

/// A limit in messages.
#[derive(Debug, Clone, Copy)]
pub enum LimitInMessages {}

/// A limit in tokens.
#[derive(Debug, Clone, Copy)]
pub enum LimitInTokens {}

/// Returns the limit of the memory with this identifier.
pub(super) type Most = dyn Fn(&str) -> u64 + Send + Sync;

pub(super) struct Inner {
    pub(super) id: String,
    /// The name of the memory's log.
    pub(super) name: LogName,
    pub(super) most: Box<Most>,
    pub(super) store: Arc<dyn Store>,
    pub(super) first: bool,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) measure: Measure,
    pub(super) session: Mutex<Option<OpenSession>>,
}

/// A session, and the newest record of its log that it knows.
pub(super) struct OpenSession {
    session: Session,
    newest: Option<String>,
}

/// The measure of a limit.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    Messages,
    Tokens { per_request: u64 },
}

impl<M> ChatMemory<M> {
    pub(super) fn from_inner(inner: Inner) -> Self {
        ChatMemory { inner: Arc::new(inner), measured: PhantomData }
    }

    /// Returns the memory's identifier.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Adds a message, and evicts the oldest messages that no longer fit. A system message with the text of the current
    /// one is ignored.
    ///
    /// # Errors
    /// Returns an error if the limit is 0, OpenAI's format cannot express the message, or the store fails.
    pub async fn add(&self, message: Message) -> Result<(), ChatMemoryError> {
        self.add_all(vec![message]).await
    }

    /// Adds messages in order, all or none. No message from another caller comes between them.
    ///
    /// # Errors
    /// Returns an error if the limit is 0, OpenAI's format cannot express a message, or the store fails.
    pub async fn add_all(&self, messages: Vec<Message>) -> Result<(), ChatMemoryError> {
        let policy = self.inner.policy()?;
        let mut slot = self.inner.session.lock().await;
        let open = self.inner.open(&mut slot, policy).await?;
        open.session.append(Batch::from(messages).enforcing_limits()).await?;
        self.inner.note(open).await;
        Ok(())
    }

    /// Replaces all messages at once, and evicts the oldest that do not fit. Use it for your own compaction; the memory
    /// never calls it.
    ///
    /// It accepts the result of [`messages`](ChatMemory::messages), even while calls wait for their results. The
    /// results can still be added afterward.
    ///
    /// # Errors
    /// Returns an error if there are no messages, if the limit is 0, if OpenAI's format cannot express a message, or if
    /// the store fails. In all cases, the memory is unchanged.
    pub async fn set(&self, mut messages: Vec<Message>) -> Result<(), ChatMemoryError> {
        // A stand-in from a read is not a result, and the real result may still come.
        messages.retain(|message| !engine::is_stand_in(message));
        if messages.is_empty() {
            let value = "none".to_owned();
            return Err(OptionError { option: "messages", expected: "one message or more", value }.into());
        }
        let policy = self.inner.policy()?;
        let mut slot = self.inner.session.lock().await;
        let open = self.inner.open(&mut slot, policy).await?;
        open.session.replace(Batch::from(messages).enforcing_limits()).await?;
        self.inner.note(open).await;
        Ok(())
    }

    /// Returns the messages of the next model call: those that fit the current limit.
    ///
    /// A provider accepts these messages once the calls of the newest one are answered. The method changes nothing.
    ///
    /// # Errors
    /// Returns an error if the limit is 0, or the store fails.
    pub async fn messages(&self) -> Result<Vec<Message>, ChatMemoryError> {
        let policy = Policy { mode: Mode::OnRead, ..self.inner.policy()? };
        let mut slot = self.inner.session.lock().await;
        let open = self.inner.open(&mut slot, policy).await?;
        let view = adapter::engine(&open.session).glance();
        if view.messages().all(Item::is_own) {
            // No message of the conversation can be sent yet. Lookback's opening alone would be a question that the
            // user did not ask.
            return Ok(Vec::new());
        }
        Ok(decoded(&view.encode(DIALECT)?)?)
    }

    /// Erases the memory, including everything that was ever evicted from it. Does nothing if the memory is empty.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn clear(&self) -> Result<(), ChatMemoryError> {
        let mut slot = self.inner.session.lock().await;
        *slot = None;
        purge(&*self.inner.store, &self.inner.name).await?;
        Ok(())
    }
}

impl Inner {
    /// Returns the policy of the current limit.
    pub(super) fn policy(&self) -> Result<Policy, OptionError> {
        let most = (self.most)(&self.id);
        if most == 0 {
            return Err(self.measure.refused(most.to_string()));
        }
        let limits = match self.measure {
            Measure::Messages => Limits::messages(most),
            Measure::Tokens { per_request } => Limits::tokens(most.saturating_sub(per_request)),
        };
        let system = SystemRule { one: true, first: self.first, counted: true };
        Ok(Policy { limits, keep: Keep { task: false, ..Keep::default() }, system, ..Policy::unlimited() })
    }

    /// Returns the session under this policy, including entries that other memories with this identifier have written.
    async fn open<'a>(
        &self,
        slot: &'a mut Option<OpenSession>,
        policy: Policy,
    ) -> Result<&'a mut OpenSession, session::Error> {
        let open = match slot.take() {
            Some(mut open) if self.is_current(&open).await? => {
                open.session.set_policy(policy);
                open
            }
            _ => {
                let counter = self.counter.clone();
                let settings = engine::Settings::default().dialect(DIALECT).policy(policy).counter(counter);
                let session = Session::open(self.store.clone(), self.name.as_str(), settings).await?;
                let newest = self.newest_of(&session).await?.into_iter().next();
                OpenSession { session, newest }
            }
        };
        Ok(slot.insert(open))
    }

    /// Returns whether the session knows the whole log. The log must end where the session ends, with the same record.
    /// Otherwise another memory has written to it, or has cleared it.
    async fn is_current(&self, open: &OpenSession) -> Result<bool, StoreError> {
        Ok(self.newest_of(&open.session).await?.iter().eq(&open.newest))
    }

    /// Returns the newest record that the session knows, and the one after it, if there is one.
    async fn newest_of(&self, session: &Session) -> Result<Vec<String>, StoreError> {
        let end = session.stats().entries;
        self.store.read(&self.name, end.saturating_sub(1)..end + 1).await
    }

    /// Remembers the newest record after a write by the session. If the store fails, the record stays unknown, and the
    /// next call opens the session again. No error is returned, because the write itself succeeded.
    async fn note(&self, open: &mut OpenSession) {
        open.newest = self.newest_of(&open.session).await.unwrap_or_default().into_iter().next();
    }
}

impl Measure {
    pub(super) fn refused(self, value: String) -> OptionError {
        let option = match self {
            Measure::Messages => "maxMessages",
            Measure::Tokens { .. } => "maxTokens",
        };
        OptionError { option, expected: "greater than zero", value }
    }
}

impl<M> Clone for ChatMemory<M> {
    fn clone(&self) -> Self {
        ChatMemory { inner: self.inner.clone(), measured: PhantomData }
    }
}

impl<M> fmt::Debug for ChatMemory<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatMemory")
            .field("id", &self.inner.id)
            .field("store", &self.inner.store)
            .finish_non_exhaustive()
    }
}
