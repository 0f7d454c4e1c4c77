//! Connections to a server, to the primary that Sentinels name, or to a cluster; and tries that end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_lock::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo,
    Pipeline, RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Script, TlsCertificates, TlsMode, ToRedisArgs,
    Value,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::config::Settings;
use super::fault::{Failure, code, explain};
use super::risk::Risk;
use crate::store::StoreError;
use crate::store::network::{Tries, Unresolved};

/// How long one host may take to accept a connection.
const LONGEST_FOR_A_HOST: Duration = Duration::from_secs(2);
/// How long it may take in any case.
const SHORTEST_FOR_A_HOST: Duration = Duration::from_millis(250);
/// How many commands are sent to a cluster at once.
const AT_ONCE: usize = 100;

/// A server, or several that act as one.
pub(super) struct Server {
    settings: Settings,
    certificates: TlsCertificates,
    links: Links,
    /// Connections for appends that wait for replicas, and hold up what comes behind them.
    waiting: Links,
    is_cluster: bool,
    /// Where it is, without the password.
    pub(super) place: String,
    pub(super) prefix: String,
    pub(super) patience: Duration,
    pub(super) wait: u32,
    pub(super) ttl: Option<Duration>,
    pub(super) risks: Vec<Risk>,
    /// Appends of which it is not known whether they were written.
    pub(super) unresolved: Unresolved,
}

impl Server {
    /// Connects, and asks the server what it is.
    pub(super) async fn connect(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let settings = Settings::parse(url)?;
        let place = settings.place();
        let mut root_cert = None;
        if let Some(tls) = &settings.tls {
            // The driver needs one for the whole process, and does not choose between several.
            let _ = rustls::crypto::ring::default_provider().install_default();
            if let Some(path) = &tls.root_certificates {
                let unreadable = |source| StoreError::Backend { place: place.clone(), source: Box::new(source) };
                root_cert = Some(std::fs::read(path).map_err(unreadable)?);
            }
        }
        let mut server = Server {
            certificates: TlsCertificates { client_tls: None, root_cert },
            links: Links::new(settings.connections),
            waiting: Links::new(settings.connections),
            is_cluster: false,
            prefix: settings.prefix.clone(),
            wait: settings.wait,
            ttl: settings.ttl,
            risks: Vec::new(),
            unresolved: Unresolved::default(),
            settings,
            place,
            patience,
        };
        let info: String = server.ask(redis::cmd("INFO").take()).await?;
        // Who may not ask for it may still use the server.
        let synced = server.ask::<Vec<String>>(redis::cmd("CONFIG").arg("GET").arg("appendfsync").take()).await;
        let synced = synced.ok().and_then(|synced| synced.into_iter().nth(1));
        server.risks = Risk::all(&info, synced.as_deref(), server.ttl.is_some());
        server.is_cluster = info.lines().any(|line| line == "cluster_enabled:1");
        if server.is_cluster {
            // They were made for a server that is by itself.
            server.links = Links::new(server.settings.connections);
        } else if server.settings.hosts.len() > 1 && server.settings.sentinel.is_none() {
            // Each connection might be to another server.
            let reason = "several hosts are nodes of a cluster, or Sentinels, which need the parameter `sentinel`";
            return Err(StoreError::Url { reason });
        }
        Ok(server)
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// How long a session is kept that is not used, in milliseconds.
    pub(super) fn milliseconds_to_live(&self) -> Option<i64> {
        self.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    }

    /// Runs a command that may be run again.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, StoreError> {
        let mut values = self.each(self.patience, vec![command]).await?;
        self.understood(values.pop().unwrap_or(Value::Nil))
    }

    /// Runs a script that may be run again.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &'static Script,
        keys: &[String],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys).arg(args);
        let mut values = self.again(self.patience, &Call::Script { pipeline, script, waits: false }).await?;
        self.understood(values.pop().unwrap_or(Value::Nil))
    }

    /// Runs commands that may be run again, each by itself, and returns the answer to each.
    pub(super) async fn each(&self, patience: Duration, commands: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.again(patience, &Call::Each(commands)).await
    }

    /// Runs a command on each primary, and returns their answers.
    pub(super) async fn everywhere(&self, command: Cmd) -> Result<Vec<Value>, StoreError> {
        self.again(self.patience, &Call::Everywhere(command)).await
    }

    /// Tries until it is done, or until there is no time left.
    async fn again(&self, patience: Duration, call: &Call) -> Result<Vec<Value>, StoreError> {
        let mut tries = Tries::new(patience);
        loop {
            match self.once(&tries, call).await {
                Err(failure) if failure.may_pass() && tries.again().await => {}
                done => return done.map_err(|failure| explain(&self.place, patience, failure)),
            }
        }
    }

    /// Tries once.
    pub(super) async fn once(&self, tries: &Tries, call: &Call) -> Result<Vec<Value>, Failure> {
        let begun = Instant::now();
        let links = if matches!(call, Call::Script { waits: true, .. }) { &self.waiting } else { &self.links };
        let linked = timeout_at(tries.deadline, self.link(links)).await.map_err(|_| Failure::Late)?;
        let mut link = linked?;
        let done = match timeout_at(tries.deadline, call.send(&mut link)).await {
            Ok(done) => done.map_err(Failure::Driver),
            Err(_) => Err(Failure::Late),
        };
        if done.as_ref().is_err_and(Failure::ends_connection) {
            self.links.drop_older(begun);
            self.waiting.drop_older(begun);
        }
        done
    }

    async fn link(&self, links: &Links) -> Result<Link, Failure> {
        let at = links.next.fetch_add(1, Ordering::Relaxed) % links.kept.len().max(1);
        let Some(kept) = links.kept.get(at) else { return Err(Failure::Late) };
        let mut kept = kept.lock().await;
        if let Some(kept) = &*kept {
            return Ok(kept.link.clone());
        }
        // The futures of the driver are deep. A box keeps the compiler from looking into them.
        let new: RedisFuture<'_, Link> = Box::pin(self.new_link());
        let link = new.await?;
        *kept = Some(Kept { link: link.clone(), made: Instant::now() });
        Ok(link)
    }

    /// How long one host may take, so that there is time for another one.
    fn patience_for_a_host(&self) -> Duration {
        (self.patience / 4).clamp(SHORTEST_FOR_A_HOST, LONGEST_FOR_A_HOST)
    }

    async fn new_link(&self) -> RedisResult<Link> {
        let settings = &self.settings;
        if self.is_cluster {
            let nodes = settings.hosts.iter().map(|host| self.info(host)).collect::<RedisResult<Vec<_>>>()?;
            let mut builder = ClusterClientBuilder::new(nodes)
                .retries(3)
                .connection_timeout(self.patience_for_a_host())
                .response_timeout(self.patience)
                .overall_response_timeout(None);
            if let Some(tls) = &settings.tls {
                let mode = if tls.insecure { TlsMode::Insecure } else { TlsMode::Secure };
                builder = builder.tls(mode).certs(self.certificates.clone());
            }
            return Ok(Link::Cluster(builder.build()?.get_async_connection().await?));
        }
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(self.patience_for_a_host()));
        if settings.sentinel.is_some() {
            return self.primary(&config).await;
        }
        let mut failed = RedisError::from((ErrorKind::InvalidClientConfig, "there is no host"));
        for host in &settings.hosts {
            let info = self.info(host)?;
            let client = match settings.tls {
                Some(_) => Client::build_with_tls(info, self.certificates.clone())?,
                None => Client::open(info)?,
            };
            match client.get_multiplexed_async_connection_with_config(&config).await {
                Ok(link) => return Ok(Link::One(link)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Connects to the primary that Sentinels name.
    async fn primary(&self, config: &AsyncConnectionConfig) -> RedisResult<Link> {
        let Some(sentinel) = &self.settings.sentinel else {
            return Err((ErrorKind::EmptySentinelList, "there is no Sentinel").into());
        };
        let addresses = self.settings.hosts.iter().map(|host| self.address(host));
        let mut builder = SentinelClientBuilder::new(addresses, &sentinel.name, SentinelServerType::Master)?
            .set_client_to_redis_db(self.settings.database);
        for (user, set) in [(&self.settings.user, true), (&sentinel.user, false)] {
            builder = match user {
                Some(user) if set => builder.set_client_to_redis_username(user),
                Some(user) => builder.set_client_to_sentinel_username(user),
                None => builder,
            };
        }
        if let Some(password) = &self.settings.password {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(password) = &sentinel.password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(tls) = &self.settings.tls {
            let mode = || if tls.insecure { TlsMode::Insecure } else { TlsMode::Secure };
            builder = builder
                .set_client_to_redis_tls_mode(mode())
                .set_client_to_sentinel_tls_mode(mode())
                .set_client_to_redis_certificates(self.certificates.clone())
                .set_client_to_sentinel_certificates(self.certificates.clone());
        }
        let link = builder.build()?.get_async_connection_with_config(config).await?;
        Ok(Link::One(link))
    }

    fn address(&self, (host, port): &(String, u16)) -> ConnectionAddr {
        match &self.settings.tls {
            None => ConnectionAddr::Tcp(host.clone(), *port),
            Some(tls) => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: tls.insecure, tls_params: None }
            }
        }
    }

    fn info(&self, host: &(String, u16)) -> RedisResult<ConnectionInfo> {
        let mut login = RedisConnectionInfo::default();
        if !self.is_cluster {
            login = login.set_db(self.settings.database);
        }
        if let Some(user) = &self.settings.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.settings.password {
            login = login.set_password(password);
        }
        Ok(self.address(host).into_connection_info()?.set_redis_settings(login))
    }

    /// What a value of the server means.
    pub(super) fn understood<T: FromRedisValue>(&self, value: Value) -> Result<T, StoreError> {
        T::from_redis_value(value)
            .map_err(|error| explain(&self.place, self.patience, Failure::Driver(RedisError::from(error))))
    }
}

/// Connections that take turns.
struct Links {
    kept: Vec<Mutex<Option<Kept>>>,
    /// The one that is used next.
    next: AtomicUsize,
}

struct Kept {
    link: Link,
    made: Instant,
}

impl Links {
    fn new(count: usize) -> Self {
        Links { kept: (0..count).map(|_| Mutex::default()).collect(), next: AtomicUsize::new(0) }
    }

    /// Drops the connections that were there before a call began that found one dead: the others may be dead, too.
    fn drop_older(&self, begun: Instant) {
        for kept in &self.kept {
            // One that is locked is being made.
            if let Some(mut kept) = kept.try_lock() {
                kept.take_if(|kept| kept.made <= begun);
            }
        }
    }
}

/// For a script that takes keys alone.
pub(super) const NO_ARGUMENTS: &[String] = &[];

/// What is sent to a server.
pub(super) enum Call {
    /// Commands that have nothing to do with each other.
    Each(Vec<Cmd>),
    /// A script, and whether there is something behind it that waits.
    Script { pipeline: Pipeline, script: &'static Script, waits: bool },
    /// A command that each primary of a cluster gets.
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

/// Sends commands to a cluster, which takes them together only if they are about one slot.
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

/// A connection, which many calls share.
#[derive(Clone)]
pub(super) enum Link {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Link::One(link) => link.req_packed_command(command),
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
            Link::One(link) => link.req_packed_commands(pipeline, offset, count),
            Link::Cluster(link) => link.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Link::One(link) => link.get_db(),
            Link::Cluster(link) => link.get_db(),
        }
    }
}
