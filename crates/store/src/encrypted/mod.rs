//! A store that encrypts all contents before it passes them to another store.
//!
//! Each opened store makes a data key and encrypts the bodies of records with it (XChaCha20-Poly1305). Next to each
//! body it keeps the data key, encrypted with the caller's newest key. The caller's key therefore never encrypts
//! contents, and a new one takes effect at once without rewriting anything. The name of the log and the position are
//! authenticated with each body.

mod key;
mod seal;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookback_engine::transcript::{Label, Millis};

use self::seal::Ring;
use super::{
    Append, Head, Hit, IntoStore, LogInfo, LogName, Record, Scope, Store, StoreError, StoreFuture, Tenant, Tombstone,
    checksum,
};
use crate::search::{Query, Texts};

pub use self::key::{BadKey, Key};

/// How many records a search reads at once, and how long it may take.
const CHUNK: u64 = 1_000;
const LONGEST: Duration = Duration::from_secs(10);
/// How many records an erasure reads at once.
const TOMBSTONES: usize = 500;

/// A store that encrypts all contents with the caller's key before it passes them to another store.
///
/// - Encrypted: the entries of all logs. Not encrypted: the names of sessions and tenants, times, the number of entries
///   and their sizes.
/// - A record that was altered, or swapped with another, is an error. Missing records at the end of a log are not
///   detected, and neither is an older copy of a log, nor erased contents that are put back in their place.
/// - A search reads and decrypts everything in its range, and finds only the messages of sessions: the other store has
///   no index of them.
/// - To change the key, give a new one as the newest, and the previous one as an older one. To give up an old key, copy
///   the store into a new one (see [`copy`](super::copy())).
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::{Append, EncryptedStore, Key, MemoryStore, Record, Store};
///
/// let key = || Key::new("2026", [7; 32]); // from a generator of random numbers
/// let plain = std::sync::Arc::new(MemoryStore::new());
/// let store = EncryptedStore::new(plain.clone(), key()?, [])?;
/// let log = "chat-1".parse()?;
/// store.append(&log, Append::new(0, [Record::new(r#"{"said":"my secret"}"#)])).await?;
/// assert!(!plain.read(&log, 0..1).await?[0].contains("secret"));
///
/// let again = EncryptedStore::new(plain, Key::new("2027", [8; 32])?, [key()?])?;
/// assert!(again.read(&log, 0..1).await?[0].contains("my secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct EncryptedStore {
    inner: Arc<dyn Store>,
    ring: Arc<Ring>,
    scope: Scope,
}

impl EncryptedStore {
    /// Creates a store that encrypts into another one. `newest` is the key for new records, and `older` are the keys of
    /// existing ones.
    ///
    /// # Errors
    /// Returns an error if two keys have the same name, or if the system has no random numbers.
    pub fn new(store: impl IntoStore, newest: Key, older: impl IntoIterator<Item = Key>) -> Result<Self, StoreError> {
        let older: Vec<Key> = older.into_iter().collect();
        let names: BTreeSet<&str> = [&newest].into_iter().chain(&older).map(Key::name).collect();
        if names.len() <= older.len() {
            return Err(failed(BadKey::TWICE));
        }
        let ring = Ring::new(&newest, older).map_err(failed)?;
        Ok(EncryptedStore { inner: store.into_store(), ring: Arc::new(ring), scope: Scope::default() })
    }

    /// Decrypts the bodies that were read from position `first` on.
    fn opened(&self, log: &LogName, first: u64, sealed: &[String]) -> Result<Vec<String>, StoreError> {
        let bodies = positions(first).zip(sealed).map(|(at, sealed)| {
            self.ring.open(&self.scope, log, at, sealed).map_err(|damage| StoreError::damaged(log, at, damage))
        });
        bodies.collect()
    }

    /// Encrypts the records of an append.
    fn sealed(&self, log: &LogName, append: Append) -> Result<Append, StoreError> {
        let Append { at, records, time, key } = append;
        let sealed = positions(at).zip(records).map(|(at, record)| {
            let body = self.ring.seal(&self.scope, log, at, &record.body).map_err(failed)?;
            // The other store sees only whether a reader can start at the record.
            Ok(Record::new(body).checkpoint(record.checkpoint))
        });
        Ok(Append::new(at, sealed.collect::<Result<Vec<_>, _>>()?).time(time).key(key))
    }

    /// Encrypts the tombstones whose checksums match, and passes them on.
    async fn replace(&self, log: &LogName, tombstones: Vec<Tombstone>) -> Result<(), StoreError> {
        let mut sealed = Vec::with_capacity(tombstones.len());
        for tombstones in tombstones.chunks(TOMBSTONES) {
            let spans: Vec<Range<u64>> =
                tombstones.iter().map(|wanted| wanted.position..wanted.position.saturating_add(1)).collect();
            let found = self.inner.read_many(log, &spans).await?;
            for (wanted, found) in tombstones.iter().zip(found) {
                let at = wanted.position;
                let Some(there) = found.first() else { continue };
                let opened = self.opened(log, at, &found)?;
                if opened.first().is_some_and(|body| checksum(log, at, body) == wanted.checksum) {
                    let body = self.ring.seal(&self.scope, log, at, &wanted.body).map_err(failed)?;
                    sealed.push(Tombstone::new(at, checksum(log, at, there), body));
                }
            }
        }
        self.inner.erase(log, sealed).await
    }

    async fn find(&self, log: Option<&LogName>, query: &Query, most: usize) -> Result<Vec<Hit>, StoreError> {
        let deadline = Instant::now() + LONGEST;
        let logs = match log {
            Some(log) => self.inner.info(log).await?.into_iter().collect(),
            None => self.inner.list("").await?,
        };
        let mut texts = Texts::for_query(query);
        for (number, info) in (0..).zip(&logs) {
            if info.name.is_derived() {
                continue;
            }
            match self.add(&mut texts, number, info, deadline).await {
                // A search in all logs skips those that cannot be read.
                Err(StoreError::Damaged { .. }) if log.is_none() => {}
                added => added?,
            }
        }
        let found = texts.search(None, query, most);
        let hit = |(log, at): (u32, u64)| Some(Hit::new(logs.get(log as usize)?.name.clone(), at));
        Ok(found.into_iter().filter_map(hit).collect())
    }

    /// Adds the texts of a log to an index.
    async fn add(&self, texts: &mut Texts, number: u32, info: &LogInfo, deadline: Instant) -> Result<(), StoreError> {
        let mut label = Label::default();
        let mut first = 0;
        while first < info.records {
            if Instant::now() >= deadline {
                return Err(StoreError::Slow { place: "the encrypted store".to_owned(), limit: LONGEST });
            }
            let bodies = self.read(&info.name, first..info.records.min(first + CHUNK)).await?;
            for (at, body) in (first..).zip(bodies) {
                texts.add(number, at, &Record::from_body(&info.name, body, &mut label));
            }
            first += CHUNK;
        }
        Ok(())
    }
}

/// Returns the positions from `first` on, up to the largest number.
fn positions(first: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |index: u64| first.saturating_add(index))
}

fn failed(source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Backend { place: "with encrypted contents".to_owned(), source: Box::new(source) }
}

impl fmt::Debug for EncryptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Store for EncryptedStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.inner.append(log, self.sealed(log, append)?).await })
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.inner.touch(log, time)
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move { self.opened(log, span.start, &self.inner.read(log, span).await?) })
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        Box::pin(async move {
            let sealed = self.inner.read_many(log, spans).await?;
            spans.iter().zip(sealed).map(|(span, sealed)| self.opened(log, span.start, &sealed)).collect()
        })
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.inner.head(log, before)
    }

    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        Box::pin(async move {
            let Some((head, sealed)) = self.inner.tail(log).await? else { return Ok(None) };
            Ok(Some((head, self.opened(log, head.checkpoint.unwrap_or(0), &sealed)?)))
        })
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.inner.info(log)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.inner.list(prefix)
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.inner.delete(logs)
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        Box::pin(self.replace(log, tombstones))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.inner.clear()
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        if query.is_empty() || log.is_some_and(LogName::is_derived) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        Box::pin(self.find(log, query, most))
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        let (inner, scope) = (self.inner.scoped(tenant)?, self.scope.for_tenant(tenant));
        Ok(Arc::new(EncryptedStore { inner, scope, ..self.clone() }))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.inner.check()
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        self.inner.probe()
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<String>> {
        self.inner.orphans()
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.inner.vacuum()
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.inner.tenants()
    }

    fn last_error(&self) -> Option<StoreError> {
        self.inner.last_error()
    }
}
