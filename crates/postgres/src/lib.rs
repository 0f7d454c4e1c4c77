//! A store in a PostgreSQL database, for many processes on many machines.
//!
//! ```text
//! version  (version)                                                     the version of the tables
//! logs     (id, scope, name, length, bytes, texts, created, used)        one row for each log
//! entries  (log, position, checkpoint, checksum, key, body)              one row for each record
//! texts    (log, number, position, time, terms)                          one row for each record with a text
//! ```
//!
//! Every call is one statement, and so one round trip, except searches, erasures and maintenance. Unless the URL asks
//! for it, statements are not prepared, and the server's sessions have no state, so that a pooler may give each
//! transaction another connection. The keys of `entries` and `texts` begin with the log, so these tables can be
//! partitioned by log.
//!
//! If the answer to an append is lost, a repeated append is recognized by its key.

mod append;
mod check;
mod config;
mod connection;
mod erase;
mod fault;
mod read;
mod schema;
mod search;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lookback_engine::transcript::Millis;

use self::connection::Database;
use lookback_network::PATIENCE;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, LogName, Scope, Store, StoreError, StoreFuture, Tenant, Tombstone};

/// A store in a PostgreSQL database, which many processes on many machines may use at once.
///
/// Its URL is that of `psql`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. In addition to the driver's parameters it
/// may have these:
///
/// - `sslmode`: `disable`, `prefer` (the default), `require`, or `verify-full`. Only `verify-full` checks the
///   certificate of the server.
/// - `sslrootcert`: a file with the certificates to trust instead of the system's.
/// - `schema`: the schema of the tables, by default `lookback`.
/// - `connections`: the most connections that a process opens, by default 8.
/// - `partitions`: the number of partitions by log for new tables, by default none, at most 256.
/// - `prepare`: `yes` if each connection prepares its statements once, by default `no`.
///
/// Missing tables are created, and older ones are migrated.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lookback_postgres::PostgresStore;
/// use lookback_store::{Append, Record, Store};
///
/// let store = PostgresStore::connect("postgres://me:secret@db.example.com/agents?sslmode=verify-full").await?;
/// store.append(&"chat-1".parse()?, Append::new(0, [Record::new(r#"{"said":"Hello"}"#).text("Hello")])).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    database: Arc<Database>,
    scope: Scope,
}

impl PostgresStore {
    /// Connects to a database, and creates or migrates the tables.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, if the server cannot be reached or refuses the user, or if a newer
    /// version of Lookback created the tables.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        PostgresStore::connect_with(url, PATIENCE).await
    }

    /// Connects to a database. `patience` is how long a call tries to reach a server that does not answer; the default
    /// is 5 seconds. A search and an erasure may take longer.
    ///
    /// # Errors
    /// The same as [`PostgresStore::connect`].
    pub async fn connect_with(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let database = Arc::new(Database::new(url, patience)?);
        let store = PostgresStore { database, scope: Scope::default() };
        store.database.remote.run(schema::prepare(store.clone())).await?;
        Ok(store)
    }
}

impl fmt::Debug for PostgresStore {
    /// Prints the URL without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.database.remote.place).finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        self.database.remote.run(append::append(self.clone(), log.clone(), append))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.database.remote.run(append::touch(self.clone(), log.clone(), time))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let bodies = read::spans(self.clone(), log.clone(), vec![span]);
        self.database.remote.run(async { Ok(bodies.await?.pop().unwrap_or_default()) })
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        self.database.remote.run(read::spans(self.clone(), log.clone(), spans.to_vec()))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.database.remote.run(read::head(self.clone(), log.clone(), before))
    }

    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        self.database.remote.run(read::tail(self.clone(), log.clone()))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.database.remote.run(read::info(self.clone(), log.clone()))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.database.remote.run(read::list(self.clone(), prefix.to_owned()))
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.database.remote.run(erase::delete(self.clone(), Some(logs.to_vec())))
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        self.database.remote.run(erase::replace(self.clone(), log.clone(), tombstones))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.database.remote.run(erase::delete(self.clone(), None))
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        if query.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        self.database.remote.run(search::search(self.clone(), log.cloned(), query.clone(), most))
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(PostgresStore { database: self.database.clone(), scope: self.scope.for_tenant(tenant) }))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.database.remote.run(check::check(self.clone()))
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<String>> {
        self.database.remote.run(check::orphans(self.clone()))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        self.database.remote.run(read::probe(self.clone()))
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.database.remote.run(erase::vacuum(self.clone()))
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.database.remote.run(read::tenants(self.clone()))
    }

    fn last_error(&self) -> Option<StoreError> {
        self.database.remote.last_error(self.database.remote.patience)
    }
}

/// The database has only signed numbers.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
