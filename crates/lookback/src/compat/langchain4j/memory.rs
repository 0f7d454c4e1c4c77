//! A chat memory, limited in messages or in tokens: one behavior, two ways to measure.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_core::policy::{Keep, Limits, Mode, Policy, SystemRule};
use lookback_core::tokens::{Estimate, TokenCounter};
use lookback_core::view::Item;
use lookback_core::{DecodeError, Dialect, Message, engine};

use super::SingleSlotChatMemoryStore;
use super::id::name_of;
use crate::compat::OptionError;
use crate::session::{self, Session};
use crate::store::{IntoStore, LogName, Store, StoreError, purge};

/// The newest messages, at most so many.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::{Message, compat::langchain4j::MessageWindowChatMemory};
///
/// let memory = MessageWindowChatMemory::with_max_messages(3)?;
/// memory.add(Message::system("Answer in one word.")).await?;
/// for text in ["One?", "Two?", "Three?"] {
///     memory.add(Message::user(text)).await?;
/// }
/// let texts: Vec<_> = memory.messages().await?.iter().map(Message::text).collect();
/// assert_eq!(texts, ["Answer in one word.", "Two?", "Three?"]);
/// # Ok::<(), lookback::compat::langchain4j::ChatMemoryError>(())
/// # }).unwrap();
/// ```
pub type MessageWindowChatMemory = ChatMemory<Messages>;

/// The newest messages, of at most so many tokens.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::compat::langchain4j::{OpenAiTokenCountEstimator, TokenWindowChatMemory};
///
/// let counter = OpenAiTokenCountEstimator::new("gpt-4o")?;
/// let memory = TokenWindowChatMemory::builder().max_tokens(14).token_counter(counter).build()?;
/// memory.add(Message::user("How far is the moon?")).await?;
/// memory.add(Message::user("And the sun?")).await?;
/// assert_eq!(memory.messages().await?.len(), 1);
/// # Ok::<(), lookback::compat::langchain4j::ChatMemoryError>(())
/// # }).unwrap();
/// ```
pub type TokenWindowChatMemory = ChatMemory<Tokens>;

/// A limit in messages.
#[derive(Debug, Clone, Copy)]
pub enum Messages {}

/// A limit in tokens.
#[derive(Debug, Clone, Copy)]
pub enum Tokens {}

/// A sliding window over one conversation, in a store.
///
/// A clone is the same memory. Every method can be called from any task or thread; what one caller adds in one call stays together.
pub struct ChatMemory<M> {
    inner: Arc<Inner>,
    measured: PhantomData<fn() -> M>,
}

/// What a memory is to be. The limit has to be given.
pub struct Builder<M> {
    id: String,
    most: Option<Box<Most>>,
    store: Option<Arc<dyn Store>>,
    first: bool,
    counter: Option<Arc<dyn TokenCounter>>,
    tokens_per_request: u64,
    measured: PhantomData<fn() -> M>,
}

/// Gives the limit, by the memory's identifier.
type Most = dyn Fn(&str) -> u64 + Send + Sync;

/// Why a memory did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum ChatMemoryError {
    /// An option, or what a method was given.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The session that keeps the memory.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// What was stored cannot be read as messages: none in practice, since it was checked as it came.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The tokens that OpenAI counts for a request beside its messages.
const TOKENS_PER_REQUEST: u64 = 3;

struct Inner {
    id: String,
    /// Its log.
    name: LogName,
    most: Box<Most>,
    store: Arc<dyn Store>,
    first: bool,
    counter: Arc<dyn TokenCounter>,
    measure: Measure,
    session: Mutex<Option<Held>>,
}

/// A session, and the newest record of its log as it knows it.
struct Held {
    session: Session,
    newest: Option<String>,
}

#[derive(Clone, Copy)]
enum Measure {
    Messages,
    Tokens { per_request: u64 },
}

impl MessageWindowChatMemory {
    /// A memory called `default`, in process memory, of at most so many messages, at least 1.
    ///
    /// # Errors
    /// Where there may be no message at all.
    pub fn with_max_messages(max_messages: u64) -> Result<Self, ChatMemoryError> {
        MessageWindowChatMemory::builder().max_messages(max_messages).build()
    }

    /// A memory with options.
    pub fn builder() -> Builder<Messages> {
        Builder::new()
    }
}

impl TokenWindowChatMemory {
    /// A memory with options.
    pub fn builder() -> Builder<Tokens> {
        Builder::new()
    }
}

impl Builder<Messages> {
    /// The most messages that are kept, the system message counted: at least 1.
    #[must_use]
    pub fn max_messages(self, max_messages: u64) -> Self {
        self.dynamic_max_messages(move |_| max_messages)
    }

    /// The most messages that are kept, by the memory's identifier, asked each time that the memory is used: at least 1.
    #[must_use]
    pub fn dynamic_max_messages(self, most: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Builder { most: Some(Box::new(most)), ..self }
    }

    /// The memory.
    ///
    /// # Errors
    /// Where the limit is missing or 0, or the identifier is empty or too long.
    pub fn build(self) -> Result<MessageWindowChatMemory, ChatMemoryError> {
        self.finish(Measure::Messages, Arc::new(Estimate::default()))
    }
}

impl Builder<Tokens> {
    /// The most tokens that are kept, the system message counted: at least 1.
    #[must_use]
    pub fn max_tokens(self, max_tokens: u64) -> Self {
        self.dynamic_max_tokens(move |_| max_tokens)
    }

    /// The most tokens that are kept, by the memory's identifier, asked each time that the memory is used: at least 1.
    #[must_use]
    pub fn dynamic_max_tokens(self, most: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Builder { most: Some(Box::new(most)), ..self }
    }

    /// Counts the tokens: an [`OpenAiTokenCountEstimator`](super::OpenAiTokenCountEstimator) as the original's examples do, or any other
    /// counter, an `Arc<dyn TokenCounter>` too. It has to be given.
    #[must_use]
    pub fn token_counter(self, counter: impl TokenCounter + 'static) -> Self {
        Builder { counter: Some(Arc::new(counter)), ..self }
    }

    /// Tokens that a request costs beside its messages, which the limit includes: 3 unless it is said, as OpenAI counts.
    #[must_use]
    pub fn tokens_per_request(self, tokens: u64) -> Self {
        Builder { tokens_per_request: tokens, ..self }
    }

    /// The memory.
    ///
    /// # Errors
    /// Where the limit is missing or 0, there is no counter, or the identifier is empty or too long.
    pub fn build(self) -> Result<TokenWindowChatMemory, ChatMemoryError> {
        let missing = OptionError { option: "tokenCountEstimator", expected: "given", value: "none".to_owned() };
        let counter = self.counter.clone().ok_or(missing)?;
        let per_request = self.tokens_per_request;
        self.finish(Measure::Tokens { per_request }, counter)
    }
}

impl<M> Builder<M> {
    fn new() -> Self {
        Builder {
            id: "default".to_owned(),
            most: None,
            store: None,
            first: false,
            counter: None,
            tokens_per_request: TOKENS_PER_REQUEST,
            measured: PhantomData,
        }
    }

    /// The memory's identifier, `default` unless it is said: any text but an empty one, such as `ada@example.org` or an address. No two
    /// identifiers share a log; [the module](super) says what the log is called.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Builder { id: id.into(), ..self }
    }

    /// Where the memory is kept: any store, which may hold other memories and sessions too. Otherwise it is process memory, for this
    /// memory alone.
    #[must_use]
    pub fn chat_memory_store(self, store: impl IntoStore) -> Self {
        Builder { store: Some(store.into_store()), ..self }
    }

    /// The system message stands first, whenever it came; otherwise it stands where it came. Off unless it is said.
    #[must_use]
    pub fn always_keep_system_message_first(self, first: bool) -> Self {
        Builder { first, ..self }
    }

    fn finish(self, measure: Measure, counter: Arc<dyn TokenCounter>) -> Result<ChatMemory<M>, ChatMemoryError> {
        let name = name_of(&self.id)?;
        let most = self.most.ok_or_else(|| measure.refused("none".to_owned()))?;
        let store = self.store.unwrap_or_else(|| Arc::new(SingleSlotChatMemoryStore::of(name.clone())));
        let session = Mutex::new(None);
        let inner = Inner { id: self.id, name, most, store, first: self.first, counter, measure, session };
        inner.policy()?;
        Ok(ChatMemory { inner: Arc::new(inner), measured: PhantomData })
    }
}

impl<M> ChatMemory<M> {
    /// The memory's identifier.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Adds a message, and evicts the oldest that no longer fit. A system message that says what the present one says is ignored.
    ///
    /// # Errors
    /// Where the limit is 0, the message cannot be said in OpenAI's format, or the store fails.
    pub async fn add(&self, message: Message) -> Result<(), ChatMemoryError> {
        self.add_all(vec![message]).await
    }

    /// Adds messages one after another, all or none, with nothing of other callers between them.
    ///
    /// # Errors
    /// As [`ChatMemory::add`].
    pub async fn add_all(&self, messages: Vec<Message>) -> Result<(), ChatMemoryError> {
        let policy = self.inner.policy()?;
        let mut slot = self.inner.session.lock().await;
        let held = self.inner.open(&mut slot, policy).await?;
        held.session.extend_managed(messages).await?;
        self.inner.note(held).await;
        Ok(())
    }

    /// These messages take the place of all, at once, and the oldest that do not fit are evicted. For a compaction of one's own: nothing
    /// here calls it.
    ///
    /// What [`messages`](ChatMemory::messages) gave can be set while calls wait for their results: these come as they would have.
    ///
    /// # Errors
    /// Where there is none, and as [`ChatMemory::add`]. What was there stays then.
    pub async fn set(&self, mut messages: Vec<Message>) -> Result<(), ChatMemoryError> {
        // A stand-in that was read is no result: what is real may still come.
        messages.retain(|message| !engine::is_stand_in(message));
        if messages.is_empty() {
            let value = "none".to_owned();
            return Err(OptionError { option: "messages", expected: "one message or more", value }.into());
        }
        let policy = self.inner.policy()?;
        let mut slot = self.inner.session.lock().await;
        let held = self.inner.open(&mut slot, policy).await?;
        held.session.replace_managed(messages).await?;
        self.inner.note(held).await;
        Ok(())
    }

    /// The messages of the next model call: those that fit the limit as it is now, in a form that a provider accepts once the calls of the
    /// newest message are answered. It changes nothing.
    ///
    /// # Errors
    /// Where the limit is 0, or the store fails.
    pub async fn messages(&self) -> Result<Vec<Message>, ChatMemoryError> {
        let policy = Policy { mode: Mode::OnRead, ..self.inner.policy()? };
        let mut slot = self.inner.session.lock().await;
        let held = self.inner.open(&mut slot, policy).await?;
        let view = held.session.glance();
        if view.messages().all(Item::is_own) {
            // Nothing of the conversation can be sent yet, and an opening of ours alone would be a question that nobody asked.
            return Ok(Vec::new());
        }
        let shown = view.encode(Dialect::OpenAiChat).map_err(session::Error::from)?;
        Ok(shown.iter().map(|message| Dialect::OpenAiChat.decode(message.get())).collect::<Result<_, _>>()?)
    }

    /// Erases the memory, and all that was ever evicted from it. Where there is nothing, nothing happens.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn clear(&self) -> Result<(), ChatMemoryError> {
        let mut slot = self.inner.session.lock().await;
        *slot = None;
        purge(&*self.inner.store, &self.inner.name).await.map_err(session::Error::from)?;
        Ok(())
    }
}

impl Inner {
    /// The policy by the limit as it is now.
    fn policy(&self) -> Result<Policy, OptionError> {
        let most = (self.most)(&self.id);
        if most == 0 {
            return Err(self.measure.refused(most.to_string()));
        }
        let limits = match self.measure {
            Measure::Messages => Limits::messages(most),
            Measure::Tokens { per_request } => Limits::tokens(most.saturating_sub(per_request)),
        };
        let system = SystemRule { one: true, first: self.first, counted: true };
        Ok(Policy { limits, keep: Keep { task: false, ..Keep::default() }, system, ..Policy::default() })
    }

    /// The session, under this policy, with what other memories of this identifier have written.
    async fn open<'a>(&self, slot: &'a mut Option<Held>, policy: Policy) -> Result<&'a mut Held, session::Error> {
        let held = match slot.take() {
            Some(mut held) if self.is_current(&held).await? => {
                held.session.set_policy(policy);
                held
            }
            _ => {
                let counter = self.counter.clone();
                let dialect = Dialect::OpenAiChat;
                let settings = engine::Settings { dialect, policy, counter, ..engine::Settings::default() };
                let session = Session::open(self.store.clone(), self.name.as_str(), settings).await?;
                let newest = self.newest_of(&session).await?.into_iter().next();
                Held { session, newest }
            }
        };
        Ok(slot.insert(held))
    }

    /// Whether the log is what the session knows: it ends there, and with the same record, so that it was not erased and begun anew.
    async fn is_current(&self, held: &Held) -> Result<bool, StoreError> {
        Ok(self.newest_of(&held.session).await?.iter().eq(&held.newest))
    }

    /// The newest record that the session knows, and one that came after it.
    async fn newest_of(&self, session: &Session) -> Result<Vec<String>, StoreError> {
        let end = session.stats().entries;
        self.store.read(&self.name, end.saturating_sub(1)..end + 1).await
    }

    /// The session has written. It must not look as if it had not where that cannot be noted: it is opened anew then.
    async fn note(&self, held: &mut Held) {
        held.newest = self.newest_of(&held.session).await.unwrap_or_default().into_iter().next();
    }
}

impl Measure {
    fn refused(self, value: String) -> OptionError {
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

impl<M> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("id", &self.id).field("store", &self.store).finish_non_exhaustive()
    }
}
