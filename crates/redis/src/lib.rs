//! A store in Redis or Valkey: a single server, the primary that Sentinels name, or a cluster.
//!
//! ```text
//! PREFIX{SCOPE|SESSION}              hash: length, bytes, texts, created, used
//! PREFIX{SCOPE|SESSION}:records      list: one element for each record
//! PREFIX{SCOPE|SESSION}:checkpoints  sorted set of positions
//! PREFIX{SCOPE|SESSION}:texts        list: one element for each record with a text
//! PREFIX{SCOPE|SESSION}LOG…          the same four for each log that is derived from the session
//! PREFIX:names:SCOPE                 sorted set of names
//! PREFIX:scopes                      sorted set of namespaces
//! PREFIX:version                     the version of the keys
//! ```
//!
//! An append is one script, and so one round trip. In a cluster, the names are in other slots than the logs, and are
//! written separately: before the first append to a log, and once more after it.
//!
//! If the answer to an append is lost, a repeated append is recognized by its key.

mod append;
mod check;
mod config;
mod connection;
mod dial;
mod erase;
mod fault;
mod keys;
mod packed;
mod read;
mod risk;
mod scripts;
mod search;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lookback_engine::transcript::Millis;

pub use self::risk::Risk;

use self::connection::Server;
use lookback_network::{PATIENCE, Remote};
use lookback_store::search::Query;
use lookback_store::{
    Append, Head, Hit, LogInfo, LogName, Scope, Store, StoreError, StoreFuture, Tenant, Tombstone, without_secrets,
};

/// The version of the keys.
const VERSION: i64 = 1;

/// A store in Redis or Valkey, which many processes on many machines may use at once.
///
/// Its URL is `redis://USER:PASSWORD@HOST:PORT/NUMBER`, or `rediss://…` for TLS. `valkey://` and `valkeys://` mean the
/// same. Several hosts, separated by commas, are nodes of a cluster, or Sentinels. The store detects whether a server
/// is a node of a cluster. It has these parameters:
///
/// - `sentinel`: the name of the primary, if the hosts are Sentinels. `sentinel_user` and `sentinel_password` log in to
///   them.
/// - `wait`: how many replicas must have an append before it is done, by default 0.
/// - `ttl`: how long an unused session is kept, such as `12h` or `30d`, by default forever.
/// - `prefix`: the beginning of the names of all keys, by default `lookback`.
/// - `connections`: how many connections the store opens to a server, by default 4, and as many again for appends that
///   wait for replicas.
/// - `cacert`: a file with the certificates to trust instead of the system's.
/// - `insecure`: if `true`, the certificate of the server is not checked.
///
/// Whether an append is on the disk when it is done depends on the server's settings. See [`RedisStore::risks`].
///
/// With TLS, the store installs ring as the default crypto provider of rustls for the process, if there is none.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lookback_redis::RedisStore;
/// use lookback_store::{Append, Record, Store};
///
/// let store = RedisStore::connect("rediss://me:secret@db.example.com").await?;
/// store.append(&"chat-1".parse()?, Append::new(0, [Record::new(r#"{"said":"Hello"}"#).text("Hello")])).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    server: Arc<Server>,
    scope: Scope,
}

impl RedisStore {
    /// Connects to a server, and logs a warning for each of its [`risks`](RedisStore::risks).
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, if the server cannot be reached or refuses the user, or if a newer
    /// version of Lookback wrote the keys.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        RedisStore::connect_with(url, PATIENCE).await
    }

    /// Connects to a server. `patience` is how long a call tries to reach a server that does not answer; the default is
    /// 5 seconds. A search may take longer.
    ///
    /// # Errors
    /// The same as [`RedisStore::connect`].
    pub async fn connect_with(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let (remote, url) = (Remote::new(without_secrets(url), patience), url.to_owned());
        let server = remote.run(async move {
            let server = Server::connect(&url, patience).await?;
            prepare(&server).await?;
            Ok(server)
        });
        let server = server.await?;
        for risk in &server.risks {
            tracing::warn!(store = %server.remote.place, %risk, "acknowledged entries may be lost");
        }
        Ok(RedisStore { server: Arc::new(server), scope: Scope::default() })
    }

    /// Returns the settings of the server that may lose an acknowledged append. Of a cluster, it asks one node.
    ///
    /// Even without risks, a fail-over may lose appends. The parameter `wait` limits that.
    pub fn risks(&self) -> &[Risk] {
        &self.server.risks
    }
}

/// Writes or compares the version, and loads the scripts.
async fn prepare(server: &Server) -> Result<(), StoreError> {
    let load = |script: &&str| redis::cmd("SCRIPT").arg("LOAD").arg(script).take();
    server.each(server.remote.patience, scripts::ALL.iter().map(load).collect()).await?;
    let key = keys::version(&server.prefix);
    let found: Option<i64> = server.ask(redis::cmd("GET").arg(&key).take()).await?;
    match found {
        Some(found) if found > VERSION => {
            Err(StoreError::Newer { place: server.remote.place.clone(), found, known: VERSION })
        }
        Some(_) => Ok(()),
        None => server.ask(redis::cmd("SET").arg(key).arg(VERSION).arg("NX").take()).await,
    }
}

impl fmt::Debug for RedisStore {
    /// Prints the URL without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("place", &self.server.remote.place).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        self.server.remote.run(append::append(self.clone(), log.clone(), append))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.server.remote.run(append::touch(self.clone(), log.clone(), time))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let bodies = read::spans(self.clone(), log.clone(), vec![span]);
        self.server.remote.run(async { Ok(bodies.await?.pop().unwrap_or_default()) })
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        self.server.remote.run(read::spans(self.clone(), log.clone(), spans.to_vec()))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.server.remote.run(read::head(self.clone(), log.clone(), before))
    }

    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        self.server.remote.run(read::tail(self.clone(), log.clone()))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.server.remote.run(read::info(self.clone(), log.clone()))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.server.remote.run(read::list(self.clone(), prefix.to_owned()))
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.server.remote.run(erase::delete(self.clone(), Some(logs.to_vec())))
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        self.server.remote.run(erase::replace(self.clone(), log.clone(), tombstones))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.server.remote.run(erase::delete(self.clone(), None))
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        if query.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        self.server.remote.run(search::search(self.clone(), log.cloned(), query.clone(), most))
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(RedisStore { server: self.server.clone(), scope: self.scope.for_tenant(tenant) }))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.server.remote.run(check::check(self.clone()))
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<String>> {
        self.server.remote.run(check::orphans(self.clone()))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        let server = self.server.clone();
        self.server.remote.run(async move {
            let key = keys::probe(&server.prefix);
            // The key expires a second later.
            server.ask(redis::cmd("SET").arg(key).arg(1).arg("EX").arg(1).take()).await
        })
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.server.remote.run(erase::vacuum(self.clone()))
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.server.remote.run(read::tenants(self.clone()))
    }

    fn last_error(&self) -> Option<StoreError> {
        self.server.remote.last_error(self.server.remote.patience)
    }
}
