//! Connections to a server, to the primary that Sentinels name, or to a cluster, with a limited number of tries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_lock::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisError, RedisFuture, RedisResult, Script, TlsCertificates, TlsMode, ToRedisArgs, Value,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::config::{Sentinel, Settings};
use super::dial::{Driver, dial, late};
use super::fault::{code, ends_connection, failure, may_pass};
use super::risk::Risk;
use lookback_network::{Failure, Limit, Remote, retry};
use lookback_store::StoreError;

/// How many commands are sent to a cluster at once.
const AT_ONCE: usize = 100;

/// A server, or several servers that act as one.
pub(super) struct Server {
    settings: Settings,
    tls: Option<TlsConnector>,
    /// The trusted certificates, for the driver, which connects to the nodes of a cluster by itself.
    certificates: TlsCertificates,
    links: Links,
    /// Connections for appends that wait for replicas, and would delay later commands.
    waiting: Links,
    is_cluster: bool,
    pub(super) remote: Remote,
    pub(super) prefix: String,
    pub(super) wait: u32,
    pub(super) ttl: Option<Duration>,
    pub(super) risks: Vec<Risk>,
}

impl Server {
    /// Connects, and detects the kind and the settings of the server.
    pub(super) async fn connect(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let settings = Settings::parse(url)?;
        let remote = Remote::new(settings.place(), patience);
        let (mut connector, mut root_cert) = (None, None);
        if let Some(tls) = &settings.tls {
            // The driver uses the provider of the process, and cannot choose between several.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let roots = tls.root_certificates.as_deref();
            if let Some(path) = roots {
                root_cert = Some(std::fs::read(path).map_err(|error| remote.broken(error))?);
            }
            connector = Some(TlsConnector::from(Arc::new(remote.tls(!tls.insecure, roots)?)));
        }
        let mut server = Server {
            tls: connector,
            certificates: TlsCertificates { client_tls: None, root_cert },
            links: Links::new(settings.connections),
            waiting: Links::new(settings.connections),
            is_cluster: false,
            prefix: settings.prefix.clone(),
            wait: settings.wait,
            ttl: settings.ttl,
            risks: Vec::new(),
            settings,
            remote,
        };
        let info: String = server.ask(redis::cmd("INFO").take()).await?;
        // A user without the right to read this setting may still use the server.
        let synced = server.ask::<Vec<String>>(redis::cmd("CONFIG").arg("GET").arg("appendfsync").take()).await;
        let synced = synced.ok().and_then(|synced| synced.into_iter().nth(1));
        server.risks = Risk::all(&info, synced.as_deref(), server.ttl.is_some());
        server.is_cluster = info.lines().any(|line| line == "cluster_enabled:1");
        if server.is_cluster {
            // The existing connections are those of a single server.
            server.links = Links::new(server.settings.connections);
        } else if server.settings.hosts.len() > 1 && server.settings.sentinel.is_none() {
            // Each connection might lead to another server.
            let reason = "several hosts must be nodes of a cluster, or Sentinels with the parameter `sentinel`";
            return Err(StoreError::Url { reason });
        }
        Ok(server)
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// Returns how long an unused session is kept, in milliseconds.
    pub(super) fn milliseconds_to_live(&self) -> Option<i64> {
        self.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    }

    /// Runs a command that may be repeated.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, StoreError> {
        let mut values = self.each(self.remote.patience, vec![command]).await?;
        self.understood(values.pop().unwrap_or(Value::Nil))
    }

    /// Runs a script that may be repeated.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &'static Script,
        keys: &[String],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys).arg(args);
        let mut values = self.retry(self.remote.patience, &Call::Script { pipeline, script, waits: false }).await?;
        self.understood(values.pop().unwrap_or(Value::Nil))
    }

    /// Runs independent commands that may be repeated, and returns the answer to each.
    pub(super) async fn each(&self, patience: Duration, commands: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.retry(patience, &Call::Each(commands)).await
    }

    /// Runs a command on each primary, and returns their answers.
    pub(super) async fn everywhere(&self, command: Cmd) -> Result<Vec<Value>, StoreError> {
        self.retry(self.remote.patience, &Call::Everywhere(command)).await
    }

    /// Tries a call until it succeeds, or until there is no time left.
    async fn retry(&self, patience: Duration, call: &Call) -> Result<Vec<Value>, StoreError> {
        Ok(retry(patience, |limit| self.once(limit, call)).await?)
    }

    /// Tries a call once.
    pub(super) async fn once(&self, limit: Limit, call: &Call) -> Result<Vec<Value>, Failure> {
        let begun = Instant::now();
        let failure = |error| failure(&self.remote, limit.patience, error);
        let links = if matches!(call, Call::Script { waits: true, .. }) { &self.waiting } else { &self.links };
        let Ok(linked) = timeout_at(limit.deadline, self.link(links)).await else {
            // No request was sent yet. The reason why the previous connection failed is more useful than a timeout.
            let source = Box::new(late(limit.patience));
            let silent = || StoreError::Unreachable { place: self.remote.place.clone(), source };
            return Err(self.remote.last_error(limit.patience).unwrap_or_else(silent).into());
        };
        let mut link = linked.map_err(failure)?;
        let done = timeout_at(limit.deadline, call.send(&mut link)).await;
        match &done {
            Ok(Ok(_)) => self.remote.record(None),
            Ok(Err(error)) if !ends_connection(error) => {}
            Ok(Err(_)) | Err(_) => {
                self.links.drop_older(begun);
                self.waiting.drop_older(begun);
            }
        }
        let late = || StoreError::Late { place: self.remote.place.clone(), limit: limit.patience };
        done.map_err(|_| Failure::new(late(), false, true))?.map_err(failure)
    }

    async fn link(&self, links: &Links) -> RedisResult<Link> {
        let at = links.next.fetch_add(1, Ordering::Relaxed) % links.kept.len().max(1);
        let Some(kept) = links.kept.get(at) else { return Err(late(self.remote.patience).into()) };
        let mut kept = kept.lock().await;
        if let Some(kept) = &*kept {
            return Ok(kept.link.clone());
        }
        // The futures of the driver are deeply nested. A box hides their type from the compiler.
        let new: RedisFuture<'_, Link> = Box::pin(self.new_link());
        let link = new.await.inspect_err(|error| self.remote.record(Some(error)))?;
        self.remote.record(None);
        *kept = Some(PooledLink { link: link.clone(), made: Instant::now() });
        Ok(link)
    }

    async fn new_link(&self) -> RedisResult<Link> {
        let settings = &self.settings;
        if self.is_cluster {
            let nodes = settings.hosts.iter().map(|host| self.info(host)).collect::<RedisResult<Vec<_>>>()?;
            let mut builder = ClusterClientBuilder::new(nodes)
                .retries(3)
                .connection_timeout(self.remote.patience_for_a_host())
                .response_timeout(self.remote.patience)
                .overall_response_timeout(None);
            if let Some(tls) = &settings.tls {
                let mode = if tls.insecure { TlsMode::Insecure } else { TlsMode::Secure };
                builder = builder.tls(mode).certs(self.certificates.clone());
            }
            return Ok(Link::Cluster(builder.build()?.get_async_connection().await?));
        }
        let mut failed: Option<RedisError> = None;
        for host in &settings.hosts {
            let linked = match &settings.sentinel {
                Some(sentinel) => self.primary(host, sentinel).await,
                None => self.dial(host, &self.login()).await,
            };
            match linked {
                Ok(link) => return Ok(link),
                // A permanent error is more useful than a temporary one.
                Err(error) if failed.as_ref().is_none_or(may_pass) => failed = Some(error),
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(|| (ErrorKind::InvalidClientConfig, "there is no host").into()))
    }

    async fn dial(&self, host: &(String, u16), login: &RedisConnectionInfo) -> RedisResult<Link> {
        let (link, driver) = dial(host, self.tls.as_ref(), login, self.remote.patience_for_a_host()).await?;
        Ok(Link::One { link, _driver: driver })
    }

    /// Connects to the primary that a Sentinel names.
    async fn primary(&self, host: &(String, u16), sentinel: &Sentinel) -> RedisResult<Link> {
        let login = login(sentinel.user.as_deref(), sentinel.password.as_deref());
        let mut asked = self.dial(host, &login).await?;
        let ask = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&sentinel.name).take();
        let Some(named) = self.soon::<Option<(String, u16)>>(&ask, &mut asked).await? else {
            return Err((ErrorKind::MasterNameNotFoundBySentinel, "no primary has this name").into());
        };
        let mut link = self.dial(&named, &self.login()).await?;
        let info: String = self.soon(redis::cmd("INFO").arg("replication"), &mut link).await?;
        // During a fail-over, it may still be a replica.
        if info.lines().any(|line| line == "role:master") {
            Ok(link)
        } else {
            Err((ErrorKind::Io, "the server that Sentinel names is not the primary").into())
        }
    }

    /// Runs a command on a new connection, within the time limit of its host.
    async fn soon<T: FromRedisValue>(&self, command: &Cmd, link: &mut Link) -> RedisResult<T> {
        let limit = self.remote.patience_for_a_host();
        timeout(limit, command.query_async(link)).await.map_err(|_| RedisError::from(late(limit)))?
    }

    fn login(&self) -> RedisConnectionInfo {
        let login = login(self.settings.user.as_deref(), self.settings.password.as_deref());
        if self.is_cluster { login } else { login.set_db(self.settings.database) }
    }

    fn info(&self, (host, port): &(String, u16)) -> RedisResult<ConnectionInfo> {
        let address = match &self.settings.tls {
            None => ConnectionAddr::Tcp(host.clone(), *port),
            Some(tls) => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: tls.insecure, tls_params: None }
            }
        };
        Ok(address.into_connection_info()?.set_redis_settings(self.login()))
    }

    /// Converts a value of the server.
    pub(super) fn understood<T: FromRedisValue>(&self, value: Value) -> Result<T, StoreError> {
        T::from_redis_value(value).map_err(|error| failure(&self.remote, self.remote.patience, error.into()).into())
    }
}

/// Returns the login of a user.
fn login(user: Option<&str>, password: Option<&str>) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default();
    if let Some(user) = user {
        login = login.set_username(user);
    }
    if let Some(password) = password {
        login = login.set_password(password);
    }
    login
}

/// Connections that are used in turns.
struct Links {
    kept: Vec<Mutex<Option<PooledLink>>>,
    /// The index of the next one.
    next: AtomicUsize,
}

struct PooledLink {
    link: Link,
    made: Instant,
}

impl Links {
    fn new(count: usize) -> Self {
        Links { kept: (0..count).map(|_| Mutex::default()).collect(), next: AtomicUsize::new(0) }
    }

    /// Drops the connections that are older than a call that found a dead one: they may be dead, too.
    fn drop_older(&self, begun: Instant) {
        for kept in &self.kept {
            // A locked connection is still being opened.
            if let Some(mut kept) = kept.try_lock() {
                kept.take_if(|kept| kept.made <= begun);
            }
        }
    }
}

/// The arguments of a script that takes only keys.
pub(super) const NO_ARGUMENTS: &[String] = &[];

/// A request to a server.
pub(super) enum Call {
    /// Independent commands.
    Each(Vec<Cmd>),
    /// A script, and whether a command that waits follows it.
    Script { pipeline: Pipeline, script: &'static Script, waits: bool },
    /// A command for each primary of a cluster.
    Everywhere(Cmd),
}

impl Call {
    fn send<'a>(&'a self, link: &'a mut Link) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.sent(link))
    }

    async fn sent(&self, link: &mut Link) -> RedisResult<Vec<Value>> {
        match (self, link) {
            (Call::Each(commands), Link::Cluster(link)) => apart(link, commands).await,
            (Call::Each(commands), link) => {
                let mut pipeline = redis::pipe();
                for command in commands {
                    pipeline.add_command(command.clone());
                }
                pipeline.query_async(link).await
            }
            (Call::Everywhere(command), Link::Cluster(link)) => {
                let route = (MultipleNodeRoutingInfo::AllMasters, None);
                let answers = link.clone().route_command(command.clone(), RoutingInfo::MultiNode(route)).await?;
                Ok(match answers {
                    Value::Map(answers) => answers.into_iter().map(|(_, answer)| answer).collect(),
                    Value::Array(answers) => answers,
                    answer => vec![answer],
                })
            }
            (Call::Everywhere(command), link) => Ok(vec![link.req_packed_command(command).await?]),
            (Call::Script { pipeline, script, .. }, link) => match pipeline.query_async(link).await {
                Err(error) if code(&error).as_deref() == Some("NOSCRIPT") => {
                    script.load_async(link).await?;
                    pipeline.query_async(link).await
                }
                done => done,
            },
        }
    }
}

/// Sends commands to a cluster, which accepts them together only if they are for the same slot.
async fn apart(link: &ClusterConnection, commands: &[Cmd]) -> RedisResult<Vec<Value>> {
    let mut values = vec![Value::Nil; commands.len()];
    for (places, commands) in values.chunks_mut(AT_ONCE).zip(commands.chunks(AT_ONCE)) {
        let mut running = JoinSet::new();
        for (at, command) in commands.iter().cloned().enumerate() {
            let mut link = link.clone();
            running.spawn(async move { (at, link.req_packed_command(&command).await) });
        }
        while let Some(done) = running.join_next().await {
            let (at, value) = done.map_err(std::io::Error::other)?;
            if let Some(place) = places.get_mut(at) {
                *place = value?;
            }
        }
    }
    Ok(values)
}

/// A connection that many calls share.
#[derive(Clone)]
pub(super) enum Link {
    One { link: MultiplexedConnection, _driver: Arc<Driver> },
    Cluster(ClusterConnection),
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Link::One { link, .. } => link.req_packed_command(command),
            Link::Cluster(link) => link.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Link::One { link, .. } => link.req_packed_commands(pipeline, offset, count),
            Link::Cluster(link) => link.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Link::One { link, .. } => link.get_db(),
            Link::Cluster(link) => link.get_db(),
        }
    }
}
