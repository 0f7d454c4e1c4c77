//! The default store of a memory: process memory for one identifier.

use std::ops::Range;

use lookback_engine::transcript::Millis;

use super::id::name_of;
use crate::OptionError;
use lookback_store::search::Query;
use lookback_store::{
    Append, Derived, Head, Hit, LogInfo, LogName, MemoryStore, Store, StoreError, StoreFuture, Tombstone,
};

/// A store for a single memory, in process memory.
///
/// A call for another memory fails, because the caller must have confused two memories.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::{LogName, Store};
/// use lookback_compat::langchain4j::SingleSlotChatMemoryStore;
///
/// let store = SingleSlotChatMemoryStore::new("chat-1")?;
/// assert!(store.head(&"chat-1".parse()?, None).await?.is_none());
/// let another: LogName = "chat-2".parse()?;
/// assert!(store.head(&another, None).await.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SingleSlotChatMemoryStore {
    id: LogName,
    slot: MemoryStore,
}

/// A store for one memory was asked for another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store is for the memory `{id}` only, and was asked for `{asked}`")]
#[non_exhaustive]
pub struct AnotherId {
    /// The memory of the store.
    pub(crate) id: LogName,
    /// The memory in the call.
    pub(crate) asked: LogName,
}

impl SingleSlotChatMemoryStore {
    /// Creates an empty store for the memory with this identifier.
    ///
    /// # Errors
    /// Returns an error if the identifier is empty or too long.
    pub fn new(id: &str) -> Result<Self, OptionError> {
        Ok(SingleSlotChatMemoryStore::from_name(name_of(id)?))
    }

    pub(super) fn from_name(id: LogName) -> Self {
        SingleSlotChatMemoryStore { id, slot: MemoryStore::new() }
    }

    /// Returns the inner store if the log belongs to the memory.
    fn slot(&self, log: &LogName) -> Result<&MemoryStore, StoreError> {
        let derived = Derived::ALL.into_iter().filter(|derived| derived.is_of_session());
        let mut own = derived.map(|derived| self.id.derive(derived));
        if *log == self.id || own.any(|own| own == *log) {
            return Ok(&self.slot);
        }
        let source = Box::new(AnotherId { id: self.id.clone(), asked: log.clone() });
        Err(StoreError::Backend { place: format!("of `{}`", self.id), source })
    }
}

fn refuse<'a, T: Send + 'a>(error: StoreError) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Store for SingleSlotChatMemoryStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        self.slot(log).map_or_else(refuse, |slot| slot.append(log, append))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.slot(log).map_or_else(refuse, |slot| slot.touch(log, time))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.slot(log).map_or_else(refuse, |slot| slot.read(log, span))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.slot(log).map_or_else(refuse, |slot| slot.head(log, before))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.slot(log).map_or_else(refuse, |slot| slot.info(log))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.slot.list(prefix)
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        match logs.iter().find_map(|log| self.slot(log).err()) {
            Some(error) => refuse(error),
            None => self.slot.delete(logs),
        }
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        self.slot(log).map_or_else(refuse, |slot| slot.erase(log, tombstones))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.slot.clear()
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        match log {
            Some(asked) => self.slot(asked).map_or_else(refuse, |slot| slot.search(log, query, most)),
            None => self.slot.search(None, query, most),
        }
    }
}
