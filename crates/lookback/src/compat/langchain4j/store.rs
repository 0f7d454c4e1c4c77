//! The system's own kind of store, a list of messages for each memory, as a store of logs.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_core::tokens::TokenCounter;
use lookback_core::transcript::Millis;
use lookback_core::{ConversionError, Engine, Message, Settings};

use super::id::id_of;
use crate::session::log::{load, record};
use crate::store::{Head, Hit, LogInfo, LogName, MemoryStore, Record, Store, StoreError, StoreFuture};

/// `ChatMemoryStore`: keeps a list of messages for each memory, by its identifier. For those who have such a store already;
/// [`FromChatMemoryStore`] makes a [`Store`] of it.
///
/// Messages are OpenAI's; one that was built in Rust has its JSON by [`Dialect::convert`](crate::Dialect::convert). What a store gives back
/// must say the same as what it was given.
pub trait ChatMemoryStore: fmt::Debug + Send + Sync {
    /// The messages of a memory, in their order; none where there is no such memory.
    fn get_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, Vec<Message>>;

    /// These are the messages of a memory from now on.
    fn update_messages<'a>(&'a self, memory_id: &'a str, messages: Vec<Message>) -> StoreFuture<'a, ()>;

    /// Forgets a memory, if there is one.
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
/// With each write the store under it is given the messages that the memory shows then, as the original does: what was evicted is gone from
/// there. It is read before each use, so what others have put there counts. Two processes that write to one memory at once may lose what
/// one of them wrote, since such a store has no way to say that it was changed meanwhile; within this process nothing is lost.
///
/// Whatever else a log holds stays in this process's memory. Lists and searches know the memories that this process has used.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
///
/// use lookback::Message;
/// use lookback::compat::langchain4j::{ChatMemoryStore, FromChatMemoryStore, MessageWindowChatMemory};
/// use lookback::store::StoreFuture;
///
/// /// A database of yours, in earnest.
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
/// let memory = MessageWindowChatMemory::builder().id("ada@example.org").max_messages(2).chat_memory_store(store).build()?;
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
    /// The log of each memory that was used, and what derives from it.
    logs: MemoryStore,
    /// What the store held of each when it was last read or written, by digests: its log is as good as that.
    known: Mutex<Known>,
    settings: Settings,
}

type Known = HashMap<LogName, Vec<u128>>;

impl<S: ChatMemoryStore> FromChatMemoryStore<S> {
    /// A store of logs over this one.
    pub fn new(store: S) -> Self {
        FromChatMemoryStore { store, logs: MemoryStore::new(), known: Mutex::default(), settings: Settings::default() }
    }

    /// Counts the tokens of what is found in the store: for a memory in tokens, with its own counter. An estimate unless it is said.
    #[must_use]
    pub fn token_counter(self, counter: impl TokenCounter + 'static) -> Self {
        FromChatMemoryStore { settings: Settings { counter: Arc::new(counter), ..self.settings }, ..self }
    }

    /// Has the log say what the store holds now: where that is not what it held, as if its messages had come one after another.
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
        self.logs.delete(log).await?;
        if !messages.is_empty() {
            let mut engine = Engine::new(self.settings.clone());
            let mut entries = Vec::new();
            for message in messages {
                let backend = |loss: ConversionError| StoreError::Backend {
                    place: format!("of `{log}`"),
                    source: Box::new(loss),
                };
                entries.extend(engine.push(message).map_err(backend)?);
            }
            // It has the digest of all that came before, so who knows another log's end knows that this is not it.
            engine.checkpoint(&mut entries);
            let records = (0..).zip(&entries).map(|(at, entry)| record(log, at, entry));
            self.logs.append(log, 0, records.collect::<Result<_, _>>()?, None).await?;
        }
        known.insert(log.clone(), digests);
        Ok(())
    }

    /// Gives the store what the log shows.
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
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        at: u64,
        records: Vec<Record>,
        time: Option<Millis>,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut known = self.known.lock().await;
            self.follow(&mut known, log).await?;
            let before = known.remove(log);
            if let Err(error) = self.logs.append(log, at, records, time).await {
                known.extend(before.map(|before| (log.clone(), before)));
                return Err(error);
            }
            if !log.is_derived() {
                // Where this fails, or its future is dropped, the log is made anew of what the store has.
                let digests = self.write(log).await?;
                known.insert(log.clone(), digests);
            }
            Ok(())
        })
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            self.follow(&mut *self.known.lock().await, log).await?;
            self.logs.touch(log, time).await
        })
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            self.follow(&mut *self.known.lock().await, log).await?;
            self.logs.read(log, span).await
        })
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        Box::pin(async move {
            self.follow(&mut *self.known.lock().await, log).await?;
            self.logs.head(log, before).await
        })
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        Box::pin(async move {
            self.follow(&mut *self.known.lock().await, log).await?;
            self.logs.info(log).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.logs.list(prefix)
    }

    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut known = self.known.lock().await;
            self.follow(&mut known, log).await?;
            if !log.is_derived() {
                known.remove(log);
                self.store.delete_messages(&id_of(log)).await?;
            }
            self.logs.delete(log).await
        })
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

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        Box::pin(async move {
            if let Some(log) = log {
                self.follow(&mut *self.known.lock().await, log).await?;
            }
            self.logs.search(log, query, most).await
        })
    }
}
