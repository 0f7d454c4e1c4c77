//! The options of a chat memory: its limit in messages or in tokens, its identifier and its store.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_tokens::{Estimate, TokenCounter};

use super::id::name_of;
use super::memory::{Inner, LimitInMessages, LimitInTokens, Measure, Most};
use super::{ChatMemory, ChatMemoryError, MessageWindowChatMemory, SingleSlotChatMemoryStore, TokenWindowChatMemory};
use crate::OptionError;
use lookback_store::{IntoStore, Store};

/// The tokens that OpenAI counts for a request in addition to its messages.
const TOKENS_PER_REQUEST: u64 = 3;

/// The options of a [`ChatMemory`]. A limit is required.
pub struct Builder<M> {
    id: String,
    most: Option<Box<Most>>,
    store: Option<Arc<dyn Store>>,
    first: bool,
    counter: Option<Arc<dyn TokenCounter>>,
    tokens_per_request: u64,
    measured: PhantomData<fn() -> M>,
}

impl MessageWindowChatMemory {
    /// Creates a memory called `default`, in process memory, of at most this many messages, at least 1.
    ///
    /// # Errors
    /// Returns an error if `max_messages` is 0.
    pub fn with_max_messages(max_messages: u64) -> Result<Self, ChatMemoryError> {
        MessageWindowChatMemory::builder().max_messages(max_messages).build()
    }

    /// Starts building a memory with a limit in messages.
    pub fn builder() -> Builder<LimitInMessages> {
        Builder::new()
    }
}

impl TokenWindowChatMemory {
    /// Starts building a memory with a limit in tokens.
    pub fn builder() -> Builder<LimitInTokens> {
        Builder::new()
    }
}

impl Builder<LimitInMessages> {
    /// Sets the most messages to keep, including the system message; at least 1.
    #[must_use]
    pub fn max_messages(self, max_messages: u64) -> Self {
        self.dynamic_max_messages(move |_| max_messages)
    }

    /// Sets a function that returns the most messages to keep, at least 1. It is called with the memory's identifier
    /// each time the memory is used.
    #[must_use]
    pub fn dynamic_max_messages(self, most: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Builder { most: Some(Box::new(most)), ..self }
    }

    /// Creates the memory.
    ///
    /// # Errors
    /// Returns an error if the limit is missing or 0, or if the identifier is empty or too long.
    pub fn build(self) -> Result<MessageWindowChatMemory, ChatMemoryError> {
        self.finish(Measure::Messages, Arc::new(Estimate::default()))
    }
}

impl Builder<LimitInTokens> {
    /// Sets the most tokens to keep, including the system message; at least 1.
    #[must_use]
    pub fn max_tokens(self, max_tokens: u64) -> Self {
        self.dynamic_max_tokens(move |_| max_tokens)
    }

    /// Sets a function that returns the most tokens to keep, at least 1. It is called with the memory's identifier each
    /// time the memory is used.
    #[must_use]
    pub fn dynamic_max_tokens(self, most: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Builder { most: Some(Box::new(most)), ..self }
    }

    /// Sets the token counter, which is required: an [`OpenAiTokenCountEstimator`](super::OpenAiTokenCountEstimator),
    /// as in the original's examples, or any other counter, including an `Arc<dyn TokenCounter>`.
    #[must_use]
    pub fn token_counter(self, counter: impl TokenCounter + 'static) -> Self {
        Builder { counter: Some(Arc::new(counter)), ..self }
    }

    /// Sets the tokens that a request costs in addition to its messages. The limit includes them. The default is 3, as
    /// OpenAI counts.
    #[must_use]
    pub fn tokens_per_request(self, tokens: u64) -> Self {
        Builder { tokens_per_request: tokens, ..self }
    }

    /// Creates the memory.
    ///
    /// # Errors
    /// Returns an error if the limit is missing or 0, if the counter is missing, or if the identifier is empty or too
    /// long.
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

    /// Sets the memory's identifier: any text that is not empty, such as `ada@example.org` or an address. The default
    /// is `default`.
    ///
    /// Two identifiers never share a log. [The module](super) describes the names of the logs.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Builder { id: id.into(), ..self }
    }

    /// Sets the store that keeps the memory. It may also hold other memories and sessions. The default is process
    /// memory for this memory alone.
    #[must_use]
    pub fn chat_memory_store(self, store: impl IntoStore) -> Self {
        Builder { store: Some(store.into_store()), ..self }
    }

    /// Sets whether the system message always comes first. By default it keeps the position at which it was added.
    #[must_use]
    pub fn always_keep_system_message_first(self, first: bool) -> Self {
        Builder { first, ..self }
    }

    fn finish(self, measure: Measure, counter: Arc<dyn TokenCounter>) -> Result<ChatMemory<M>, ChatMemoryError> {
        let name = name_of(&self.id)?;
        let most = self.most.ok_or_else(|| measure.refused("none".to_owned()))?;
        let store = self.store.unwrap_or_else(|| Arc::new(SingleSlotChatMemoryStore::from_name(name.clone())));
        let session = Mutex::new(None);
        let inner = Inner { id: self.id, name, most, store, first: self.first, counter, measure, session };
        inner.policy()?;
        Ok(ChatMemory::from_inner(inner))
    }
}

impl<M> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("id", &self.id).field("store", &self.store).finish_non_exhaustive()
    }
}
