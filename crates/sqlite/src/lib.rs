//! A store in one SQLite file: the embedded default.
//!
//! ```text
//! logs     (id, scope, name, length, bytes, created, used, seal)
//!                                                           one row for each log; times in milliseconds since 1970
//! entries  (log, position, checkpoint, body, checksum)      one row for each record
//! texts    (id, position, time, seal)                       one row for each record with a text
//! words    full-text index over the terms of the texts, without a second copy of them
//! waiting  (id, text, terms)                                one row for each text whose terms are not in `words` yet
//! erasing  (log, stage)                                     one row for each hidden log that is being erased
//! ```
//!
//! Lookback makes the terms (see [`search`](lookback_store::search)), so that every store finds the same records. The
//! index only splits them at spaces. It records which texts have a term, but not how often or where.
//!
//! The identifier of a text is the number of its log times 2^32, plus the text's own number in the log. So the texts of
//! a log are adjacent in the list of each term, and a search in one log does not read those of others.
//!
//! `entries` keeps its rowid. Without it, rows of a kilobyte would overflow the index's pages and take three times the
//! space.

mod check;
mod connections;
mod erase;
mod fault;
mod index;
mod open;
mod read;
mod readers;
mod schema;
mod seal;
mod search;
mod wal;
mod write;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookback_engine::transcript::Millis;

use self::connections::Connections;
use self::erase::Eraser;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, LogName, Scope, Store, StoreError, StoreFuture, Tenant, Tombstone};

/// How long a writer waits for another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of an append that may run on the caller's thread. A longer text may be too long to wait for the
/// index.
const SHORT: usize = 8 << 10;

/// A store in one SQLite file, which several processes may use at once.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_sqlite::SqliteStore;
/// use lookback_store::{Append, Record, Store};
///
/// let folder = tempfile::tempdir()?;
/// let store = SqliteStore::open(folder.path().join("memory.db"))?;
/// store.append(&"chat-1".parse()?, Append::new(0, [Record::new(r#"{"said":"Hello"}"#).text("Hello")])).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    /// The connections, shared by all namespaces.
    file: Arc<Connections>,
    scope: Scope,
}

impl SqliteStore {
    /// Erases some logs of this namespace, or all of them.
    fn delete_some<'a>(&'a self, logs: Option<&'a [LogName]>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let (scope, logs) = (self.scope.clone(), logs.map(<[LogName]>::to_vec));
            let hide = move |connection: &mut _| {
                let hidden = erase::hide(connection, &scope, logs.as_deref())?;
                Ok((hidden, erase::is_pending(connection)?))
            };
            let (hidden, is_pending) = self.file.run(hide).await?;
            if is_pending {
                self.finish_erasing().await?;
            }
            Ok(hidden)
        })
    }

    /// Replaces records with tombstones.
    async fn replace(&self, log: &LogName, mut tombstones: Vec<Tombstone>) -> Result<(), StoreError> {
        while !tombstones.is_empty() {
            let rest = tombstones.split_off(tombstones.len().min(erase::TOMBSTONES));
            let (scope, log, some) = (self.scope.clone(), log.clone(), std::mem::replace(&mut tombstones, rest));
            let begun = Instant::now();
            self.file.run(move |connection| erase::replace(connection, &scope, &log, &some)).await?;
            // Lets others write in the meantime.
            async_io::Timer::after(begun.elapsed()).await;
        }
        self.finish_erasing().await
    }

    /// Removes hidden logs from the file.
    async fn finish_erasing(&self) -> Result<(), StoreError> {
        let (mut eraser, mut more) = (Eraser::default(), true);
        while more {
            let begun = Instant::now();
            let step = move |connection: &mut _| {
                let more = eraser.step(connection)?;
                Ok((eraser, more))
            };
            (eraser, more) = self.file.run(step).await?;
            // Lets others write in the meantime. SQLite has no queue: a waiting writer retries from time to time.
            async_io::Timer::after(begun.elapsed()).await;
        }
        if !self.file.empty_wal().await? {
            tracing::warn!(
                file = %self.path().display(),
                "erased data is still in the file `-wal`, because another process is reading; vacuum the store later"
            );
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        let (scope, log, Append { at, records, time, .. }) = (self.scope.clone(), log.clone(), append);
        let bytes: usize = records.iter().map(|record| record.body.len() + record.text.len()).sum();
        let texts = records.len();
        let append = move |connection: &mut _| write::append(connection, &scope, &log, at, &records, time);
        if bytes > SHORT { self.file.run(append) } else { self.file.append(texts, append) }
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let (scope, log) = (self.scope.clone(), log.clone());
        self.file.run(move |connection| write::touch(connection, &scope, &log, time))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let (scope, log) = (self.scope.clone(), log.clone());
        self.file.read(move |connection| read::span(connection, &scope, &log, &span))
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        let (scope, log, spans) = (self.scope.clone(), log.clone(), spans.to_vec());
        self.file.read(move |connection| read::spans(connection, &scope, &log, &spans))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let (scope, log) = (self.scope.clone(), log.clone());
        self.file.read(move |connection| read::head(connection, &scope, &log, before))
    }

    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        let (scope, log) = (self.scope.clone(), log.clone());
        self.file.read(move |connection| read::tail(connection, &scope, &log))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        let (scope, log) = (self.scope.clone(), log.clone());
        self.file.read(move |connection| read::info(connection, &scope, &log))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        let (scope, prefix) = (self.scope.clone(), prefix.to_owned());
        self.file.read(move |connection| read::list(connection, &scope, &prefix))
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.delete_some(Some(logs))
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        Box::pin(self.replace(log, tombstones))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.delete_some(None)
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        if query.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (scope, log, query) = (self.scope.clone(), log.cloned(), query.clone());
        self.file.read(move |connection| search::search(connection, &scope, log.as_ref(), &query, most))
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(SqliteStore { file: self.file.clone(), scope: self.scope.for_tenant(tenant) }))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.file.read(check::check)
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<String>> {
        self.file.read(|connection| check::orphans(connection))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        let folder = self.file.folder();
        self.file.run(move |connection| write::probe(connection, &folder))
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.finish_erasing().await?;
            self.file.run(|connection| Ok(schema::vacuum(connection)?)).await?;
            // The vacuum has written the whole database to the file `-wal`.
            self.finish_erasing().await
        })
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        let scope = self.scope.clone();
        self.file.read(move |connection| read::tenants(connection, &scope))
    }
}

fn signed(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
