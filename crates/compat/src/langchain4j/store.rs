//! The original's kind of store, which keeps a list of messages for each memory, and an adapter to a [`Store`].

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_engine::transcript::Millis;
use lookback_engine::{Engine, Settings, policy::Policy};
use lookback_tokens::TokenCounter;
use lookback_wire::{dialect::ConversionError, message::Message};

use super::id::id_of;
use lookback_session::adapter::load;
use lookback_store::search::Query;
use lookback_store::{
    Append, Head, Hit, LogInfo, LogName, MemoryStore, Record, Store, StoreError, StoreFuture, Tombstone,
};

/// `ChatMemoryStore`: a store that keeps a list of messages for each memory, by its identifier.
///
/// Implement it if you already have such a store. [`FromChatMemoryStore`] adapts it to a [`Store`].
///
/// The messages are in OpenAI's format. [`Dialect::convert`](lookback_wire::dialect::Dialect::convert) adds the JSON to
/// a message that was built in Rust. A store must return messages with the same meaning as those it was given.
pub trait ChatMemoryStore: fmt::Debug + Send + Sync {
    /// Returns the messages of a memory in their order, or no messages if there is no such memory.
    fn get_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, Vec<Message>>;

    /// Replaces the messages of a memory.
    fn update_messages<'a>(&'a self, memory_id: &'a str, messages: Vec<Message>) -> StoreFuture<'a, ()>;

    /// Deletes a memory, if it exists.
    fn delete_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, ()>;
}

impl<S: ChatMemoryStore + ?Sized> ChatMemoryStore for Arc<S> {
    fn get_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, Vec<Message>> {
        (**self).get_messages(memory_id)
    }

    fn update_messages<'a>(&'a self, memory_id: &'a str, messages: Vec<Message>) -> StoreFuture<'a, ()> {
        (**self).update_messages(memory_id, messages)
    }

    fn delete_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, ()> {
        (**self).delete_messages(memory_id)
    }
}

/// A [`Store`] over a [`ChatMemoryStore`].
///
/// Each write passes the messages that the memory shows to the inner store, as in the original. So evicted messages
/// disappear from it. The inner store is read before each use, to see changes by others. If two processes write to one
/// memory at once, the messages of one may be lost, because such a store cannot detect concurrent changes. Within one
/// process, no message is lost.
///
/// Everything else in a log stays in process memory. Lists and searches cover only the memories that this process has
/// used.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
///
/// use lookback_wire::message::Message;
/// use lookback_compat::langchain4j::{ChatMemoryStore, FromChatMemoryStore, MessageWindowChatMemory};
/// use lookback_store::StoreFuture;
///
/// /// In a real program, this is your database.
/// #[derive(Debug, Default)]
/// struct Lists(Mutex<HashMap<String, Vec<Message>>>);
///
/// impl ChatMemoryStore for Lists {
///     fn get_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, Vec<Message>> {
///         Box::pin(async move { Ok(self.0.lock().unwrap().get(memory_id).cloned().unwrap_or_default()) })
///     }
///     fn update_messages<'a>(&'a self, memory_id: &'a str, messages: Vec<Message>) -> StoreFuture<'a, ()> {
///         Box::pin(async move {
///             self.0.lock().unwrap().insert(memory_id.to_owned(), messages);
///             Ok(())
///         })
///     }
///     fn delete_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, ()> {
///         Box::pin(async move {
///             self.0.lock().unwrap().remove(memory_id);
///             Ok(())
///         })
///     }
/// }
///
/// let lists = Arc::new(Lists::default());
/// let store = FromChatMemoryStore::new(lists.clone());
/// let builder = MessageWindowChatMemory::builder().id("ada@example.org").max_messages(2);
/// let memory = builder.chat_memory_store(store).build()?;
/// for text in ["One?", "Two?", "Three?"] {
///     memory.add(Message::user(text)).await?;
/// }
/// let kept: Vec<_> = lists.get_messages("ada@example.org").await?.iter().map(Message::text).collect();
/// assert_eq!(kept, ["Two?", "Three?"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct FromChatMemoryStore<S> {
    store: S,
    /// The log of each memory that was used, and its derived logs.
    logs: MemoryStore,
    /// The messages of each memory in the inner store at the last read or write, as digests. Its log shows the same.
    known: Mutex<Known>,
    settings: Settings,
}

type Known = HashMap<LogName, Vec<u128>>;

impl<S: ChatMemoryStore> FromChatMemoryStore<S> {
    /// Creates a store of logs over this store.
    pub fn new(store: S) -> Self {
        // The memory enforces the limits. Here, messages are neither dropped nor shortened.
        let settings = Settings::default().policy(Policy::unlimited());
        FromChatMemoryStore { store, logs: MemoryStore::new(), known: Mutex::default(), settings }
    }

    /// Sets the counter for messages that are found in the inner store. A memory with a limit in tokens needs its own
    /// counter here. The default is an estimate.
    #[must_use]
    pub fn token_counter(self, counter: impl TokenCounter + 'static) -> Self {
        FromChatMemoryStore { settings: self.settings.counter(counter), ..self }
    }

    /// Updates the log from the inner store. If the messages there have changed, the log is written again, as if they
    /// had arrived one after another.
    async fn follow(&self, known: &mut Known, log: &LogName) -> Result<(), StoreError> {
        if log.is_derived() {
            return Ok(());
        }
        let messages = self.store.get_messages(&id_of(log)).await?;
        let digests = digests(&messages);
        if known.get(log) == Some(&digests) {
            return Ok(());
        }
        known.remove(log);
        self.logs.delete(slice::from_ref(log)).await?;
        if !messages.is_empty() {
            let mut engine = Engine::new(self.settings.clone());
            let mut entries = Vec::new();
            for message in messages {
                let backend = |error: ConversionError| StoreError::Backend {
                    place: format!("of `{log}`"),
                    source: Box::new(error),
                };
                entries.extend(engine.push(message).map_err(backend)?);
            }
            // The checkpoint has the digest of everything before it. By that, a session with the old log detects the
            // new one.
            engine.checkpoint(&mut entries);
            let records = (0..).zip(&entries).map(|(at, entry)| Record::from_entry(log, at, entry, None));
            self.logs.append(log, Append::new(0, records.collect::<Result<Vec<_>, _>>()?)).await?;
        }
        known.insert(log.clone(), digests);
        Ok(())
    }

    /// Updates a log, and returns the logs.
    async fn current(&self, log: &LogName) -> Result<&MemoryStore, StoreError> {
        self.follow(&mut *self.known.lock().await, log).await?;
        Ok(&self.logs)
    }

    /// Writes the messages that the log shows to the inner store, and returns their digests.
    async fn write(&self, log: &LogName) -> Result<Vec<u128>, StoreError> {
        let engine = load(&self.logs, log, self.settings.clone()).await?;
        let shown = engine.view().messages().filter(|item| !item.is_own());
        let messages: Vec<_> = shown.map(|item| item.message().clone()).collect();
        let digests = digests(&messages);
        self.store.update_messages(&id_of(log), messages).await?;
        Ok(digests)
    }
}

fn digests(messages: &[Message]) -> Vec<u128> {
    messages.iter().map(Message::digest).collect()
}

impl<S: ChatMemoryStore> Store for FromChatMemoryStore<S> {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut known = self.known.lock().await;
            self.follow(&mut known, log).await?;
            let before = known.remove(log);
            if let Err(error) = self.logs.append(log, append).await {
                known.extend(before.map(|before| (log.clone(), before)));
                return Err(error);
            }
            if !log.is_derived() {
                // If this fails, or its future is dropped, the log is written again from the inner store.
                let digests = self.write(log).await?;
                known.insert(log.clone(), digests);
            }
            Ok(())
        })
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.current(log).await?.touch(log, time).await })
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move { self.current(log).await?.read(log, span).await })
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        Box::pin(async move { self.current(log).await?.head(log, before).await })
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        Box::pin(async move { self.current(log).await?.info(log).await })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.logs.list(prefix)
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let mut known = self.known.lock().await;
            for log in logs {
                self.follow(&mut known, log).await?;
                if !log.is_derived() {
                    known.remove(log);
                    self.store.delete_messages(&id_of(log)).await?;
                }
            }
            self.logs.delete(logs).await
        })
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        // The inner store has only the messages that the memory shows, so there is nothing to erase in it.
        Box::pin(async move { self.current(log).await?.erase(log, tombstones).await })
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let mut known = self.known.lock().await;
            for info in self.logs.list("").await?.into_iter().filter(|info| !info.name.is_derived()) {
                known.remove(&info.name);
                self.store.delete_messages(&id_of(&info.name)).await?;
            }
            self.logs.clear().await
        })
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        Box::pin(async move {
            if let Some(log) = log {
                self.follow(&mut *self.known.lock().await, log).await?;
            }
            self.logs.search(log, query, most).await
        })
    }
}
