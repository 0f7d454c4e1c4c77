//! A gateway in front of models: clients keep their code, and change one address.
//!
//! A request of a conversation goes into a session of the store. As long as it is within the limits, it is forwarded as
//! the bytes that came. Past them, it is sent with the session's window. Whatever else comes passes through.

mod adds;
mod answers;
mod aside;
mod calibrations;
mod caller;
mod client;
mod config;
mod copy;
mod encoding;
mod endpoint;
mod event;
mod exchange;
mod headers;
mod identity;
mod keys;
mod kind;
mod limits;
mod lines;
mod mcp;
mod metrics;
mod note;
mod payoff;
mod relay;
mod rest;
mod summarizer;
#[cfg_attr(not(feature = "otel"), path = "no_telemetry.rs")]
mod telemetry;
mod upstream;
mod window;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::get;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use lookback::store::{IntoStore, Tenant};
use lookback::{Dialect, Policy, Settings, Store, StoreError};
use serde::Deserialize;
use tokio::time::timeout;

pub use self::adds::{Add, UnknownAdd};
use self::caller::Caller;
use self::client::{Client, Head};
pub use self::config::{BadConfig, Config, Limits, Timeouts, Tls};
use self::endpoint::Endpoint;
pub use self::event::Event;
pub use self::keys::{Key, NoRandom};
use self::limits::Clients;
pub use self::lines::How;
use self::lines::Lines;
use self::metrics::Metrics;
pub use self::note::{Compacted, Cut, Note, Passed};
use self::payoff::Payoff;
pub use self::summarizer::SummaryModel;
use self::upstream::Route;
pub use self::upstream::{BadUpstream, Upstream};
use self::window::Windows;
use crate::host;
use crate::serving::{ConnectionLimits, ServeError, asked_to_reload, asked_to_stop, bind, listen, wide_runtime};

/// A gateway, ready to serve.
///
/// ```no_run
/// use lookback::{Policy, SqliteStore};
/// use lookback_server::gateway::Gateway;
///
/// let gateway = Gateway::new(SqliteStore::open("memory.db")?)
///     .with_upstream("anthropic=https://api.anthropic.com".parse()?)
///     .with_policy(Policy::production());
/// gateway.serve("127.0.0.1:8787".parse()?, |address| println!("listening on http://{address}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gateway {
    store: Arc<dyn Store>,
    config: Config,
    policy: Policy,
    reload: Option<Reload>,
    told: Arc<dyn Fn(&Event) + Send + Sync>,
}

/// Reads the configuration again. `None` if it cannot be used.
type Reload = Box<dyn Fn() -> Option<(Config, Policy)> + Send + Sync>;

/// What all requests share.
struct Shared {
    store: Arc<dyn Store>,
    /// The stores of the tenants, once they were used.
    stores: Mutex<HashMap<Tenant, Arc<dyn Store>>>,
    /// Whether only this machine reaches the gateway.
    is_local: bool,
    /// What may change while the gateway serves.
    current: RwLock<Arc<Current>>,
    lines: Lines,
    clients: Arc<Clients>,
    metrics: Metrics,
    payoff: Payoff,
    told: Arc<dyn Fn(&Event) + Send + Sync>,
}

/// A configuration in use.
struct Current {
    config: Config,
    policy: Policy,
    /// The same, with summaries.
    summarizing: Policy,
    client: Client,
}

/// A request, with all that it needs of the gateway. Whatever changes meanwhile, it is served as it was let in.
#[derive(Clone)]
struct Visit {
    shared: Arc<Shared>,
    current: Arc<Current>,
    caller: Arc<Caller>,
    /// What is added to the request.
    adds: Arc<[Add]>,
    /// The upstream that it goes to.
    upstream: Arc<str>,
}

impl Visit {
    /// Returns the store, as far as the caller sees it.
    ///
    /// # Errors
    /// Returns an error if the store of the tenant cannot be opened.
    fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        let Some(tenant) = &self.caller.tenant else { return Ok(self.shared.store.clone()) };
        let (store, is_new) = self.shared.store_of(tenant)?;
        if is_new {
            self.shared.recall(store.clone());
        }
        Ok(store)
    }

    /// Returns whether the caller may learn what the gateway keeps: with a key, or without keys on the gateway's own machine.
    /// Only browsers send an origin.
    fn is_let_in(&self, headers: &HeaderMap) -> bool {
        let is_local = self.shared.is_local && host::is_local(headers);
        !headers.contains_key(header::ORIGIN) && (self.caller.tenant.is_some() || is_local)
    }

    /// Returns how windows are made for the caller.
    ///
    /// # Errors
    /// Returns an error if the store of the tenant cannot be opened.
    fn windows(&self) -> Result<Windows<'_>, StoreError> {
        let store = self.store()?;
        let Current { config, policy, summarizing, .. } = &*self.current;
        let lines = &self.shared.lines;
        let policy = if self.adds.contains(&Add::Summaries) { summarizing } else { policy };
        let (patience, holdout) = (config.timeouts.store, config.holdout);
        Ok(Windows {
            store,
            lines,
            policy,
            adds: &self.adds,
            tenant: self.caller.tenant.as_ref(),
            upstream: &self.upstream,
            summarizer: config.summarizer.as_ref(),
            patience,
            holdout,
        })
    }
}

impl Gateway {
    /// Creates a gateway that keeps its sessions in a store. It has no upstream yet.
    pub fn new(store: impl IntoStore) -> Gateway {
        Gateway {
            store: store.into_store(),
            config: Config::default(),
            policy: Gateway::policy(),
            reload: None,
            told: Arc::new(|_| {}),
        }
    }

    /// Returns the policy of a gateway: that of production, but the limit is so high that clients do without a window
    /// until the model's own is almost full.
    ///
    /// The limit is a share of the model's context window, below those at which clients compact by themselves. If the
    /// model is unknown, nothing is cut until the upstream refuses a request as too long.
    pub fn policy() -> Policy {
        use lookback::Limits;
        use lookback::policy::Tokens;

        let share = |share| Limits { tokens: Some(Tokens::Share(share)), ..Limits::default() };
        let production = Policy::production();
        Policy { limits: share(0.7), target: Some(share(0.35)), cold: None, ..production }
    }

    /// Sets the configuration. Its `store` and `policy` are texts that whoever calls this has to read; see
    /// [`Gateway::new`] and [`Gateway::with_policy`].
    #[must_use]
    pub fn with_config(self, config: Config) -> Gateway {
        Gateway { config, ..self }
    }

    /// Adds an upstream. A request goes to the first one that takes its dialect.
    #[must_use]
    pub fn with_upstream(mut self, upstream: Upstream) -> Gateway {
        self.config.upstreams.push(upstream);
        self
    }

    /// Sets the policy of all windows. What it does to results as they arrive is left out, because requests are forwarded
    /// as they came.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Gateway {
        Gateway { policy, ..self }
    }

    /// Sets how the configuration is read again when the process gets the signal `SIGHUP`. If `None` is returned, the
    /// gateway goes on with what it has.
    ///
    /// The address, the number of connections and TLS do not change before the next start.
    #[must_use]
    pub fn with_reload(self, reload: impl Fn() -> Option<(Config, Policy)> + Send + Sync + 'static) -> Gateway {
        Gateway { reload: Some(Box::new(reload)), ..self }
    }

    /// Sets what is told of each model call and each failure, for a log.
    #[must_use]
    pub fn with_log(self, told: impl Fn(&Event) + Send + Sync + 'static) -> Gateway {
        Gateway { told: Arc::new(told), ..self }
    }

    /// Serves clients until the process is asked to stop, and then finishes open answers.
    ///
    /// Calls `ready` with the address, including the port that the system picked, when the gateway listens.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be used, if the gateway cannot listen on the address, or if the
    /// system provides no threads or signals.
    pub fn serve(self, address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
        self.config.check()?;
        let tls = self.config.tls.as_ref().map(crate::serving::acceptor).transpose()?;
        let runtime = wide_runtime()?;
        let served = runtime.block_on(async {
            let (listener, bound) = bind(address).await?;
            let (stop, mut again) = (asked_to_stop()?, asked_to_reload()?);
            let (shared, reload, limits, grace) = self.parts(bound.ip().is_loopback());
            shared.recall(shared.store.clone());
            // The tables of the tokenizer are made when they are first used, which takes longer than a call should.
            tokio::task::spawn_blocking(|| Settings::for_model(Dialect::default(), "gpt-5").counter.text("now"));
            ready(bound);
            let reloading = {
                let shared = shared.clone();
                async move {
                    while again.recv().await.is_some() {
                        if let Some((config, policy)) = reload.as_ref().and_then(|reload| reload()) {
                            shared.renew(config, policy);
                        }
                    }
                }
            };
            let reloading = tokio::spawn(reloading);
            listen(listener, tls, router(shared), limits, grace, stop).await;
            reloading.abort();
            Ok(())
        });
        runtime.shutdown_background();
        served
    }

    fn parts(self, is_local: bool) -> (Arc<Shared>, Option<Reload>, ConnectionLimits, Duration) {
        let Gateway { store, config, policy, reload, told } = self;
        let limits = ConnectionLimits {
            connections: config.limits.connections,
            head: config.timeouts.head,
            request: config.timeouts.pause,
        };
        let grace = config.timeouts.stop;
        let shared = Shared {
            store,
            stores: Mutex::default(),
            is_local,
            current: RwLock::new(Arc::new(Current::new(config, policy))),
            lines: Lines::default(),
            clients: Arc::default(),
            metrics: Metrics::default(),
            payoff: Payoff::default(),
            told,
        };
        (Arc::new(shared), reload, limits, grace)
    }
}

/// Returns the service.
fn router(shared: Arc<Shared>) -> Router {
    let plain = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    let metrics = move |State(shared): State<Arc<Shared>>| async move { (plain, shared.metrics.text(&shared.payoff)) };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(is_ready))
        .route("/metrics", get(metrics))
        .fallback(handle)
        .with_state(shared.clone())
        .merge(rest::router(&shared))
        .merge(mcp::router(&shared))
}

/// Tells that requests are served, and whether they are recorded: with the store down, they pass.
async fn is_ready(State(shared): State<Arc<Shared>>) -> &'static str {
    let patience = shared.current().config.timeouts.store;
    // A name that no session has.
    let asked = async { shared.store.list("\u{1}").await };
    match timeout(patience, asked).await {
        Ok(Ok(_)) => "ready\n",
        Ok(Err(_)) | Err(_) => "ready, but the store does not answer: requests pass as they come\n",
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Current {
    fn new(config: Config, policy: Policy) -> Current {
        let client = Client::new(&config.timeouts);
        // What comes is sent as it came until the window is cut, so nothing may be done to it as it arrives.
        let policy = Policy { arrival: None, caps: None, repeats: None, ..policy };
        let summarizing = summarizer::summarizing(&policy);
        Current { config, policy, summarizing, client }
    }
}

impl Shared {
    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses another configuration from now on.
    fn renew(&self, config: Config, policy: Policy) {
        match config.check() {
            Ok(()) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Current::new(config, policy));
                self.tell(&Event::Reloaded);
            }
            Err(error) => self.tell(&Event::failure(format!("the changed configuration is not used: {error}"))),
        }
    }

    /// Returns the store of a tenant, and whether it is used for the first time.
    fn store_of(&self, tenant: &Tenant) -> Result<(Arc<dyn Store>, bool), StoreError> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(tenant) {
            return Ok((store.clone(), false));
        }
        let store = self.store.scoped(tenant)?;
        stores.insert(tenant.clone(), store.clone());
        Ok((store, true))
    }

    /// Reads in the background what the sessions of a store have learned of the models' tokens.
    fn recall(self: &Arc<Self>, store: Arc<dyn Store>) {
        let shared = self.clone();
        tokio::spawn(async move { shared.lines.calibrations.recall(&store).await });
    }

    fn tell(&self, event: &Event) {
        (self.told)(event);
    }
}

/// Answers a request: makes a model call, or passes it through.
async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    if headers::is_upgrade(&parts.headers) {
        let mut response = answers::error(StatusCode::UPGRADE_REQUIRED, "this gateway speaks HTTP only", None);
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
        return response;
    }
    if parts.method == Method::HEAD && parts.uri.path() == "/" {
        return Response::new(Body::empty());
    }
    let current = shared.current();
    let path_and_query = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let caller = match Caller::admit(&shared, &current, &mut parts.headers, parts.uri.query()) {
        Ok(caller) => Arc::new(caller),
        Err(refused) => {
            let dialect = Endpoint::of(&parts.method, parts.uri.path()).dialect();
            return refused.answer(dialect.or_else(|| headers::dialect(&parts.headers)));
        }
    };
    let mut visit = Visit { shared, current, caller, adds: Arc::new([]), upstream: "".into() };
    let current = visit.current.clone();
    let Some(route) = Route::of(&current.config.upstreams, &path_and_query, &parts.headers) else {
        return answers::error(StatusCode::NOT_FOUND, "the gateway has no upstream of this name", None);
    };
    let path = route.path_and_query.split('?').next().unwrap_or_default();
    let endpoint = Endpoint::of(&parts.method, path);
    let head = Head { method: parts.method, path_and_query: route.path_and_query.to_owned(), headers: parts.headers };
    let dialect = endpoint.dialect();
    let nowhere = || {
        let asked = dialect.map_or("this path", |dialect| dialect.name());
        answers::error(StatusCode::NOT_FOUND, &format!("the gateway has no upstream for {asked}"), dialect)
    };
    match endpoint {
        Endpoint::Call { dialect, model } => {
            let body = match read(body, &current.config).await {
                Ok(body) => body,
                Err(unread) => return answers::error(unread.status(), &unread.to_string(), Some(dialect)),
            };
            let text = encoding::decoded(&head.headers, &body, current.config.limits.body);
            if let Some(most) = current.config.limits.nesting
                && text.as_ref().is_some_and(|text| limits::nesting(text) > most)
            {
                let unread = Unread::Nesting;
                return answers::error(unread.status(), &unread.to_string(), Some(dialect));
            }
            let named = || model_of(text.as_deref()?).filter(|_| route.needs_model());
            let asked = model.clone().or_else(named);
            let Some(upstream) = route.upstream(Some(dialect), asked.as_deref(), &head.headers) else {
                return nowhere();
            };
            let is_let_in = visit.is_let_in(&head.headers);
            let adds = visit.caller.adds(upstream, &current.config).iter().copied();
            visit.adds = adds.filter(|add| is_let_in || !add.tells()).collect();
            visit.upstream = upstream.to_string().into();
            exchange::make(visit, upstream, exchange::Call { head, body, text, dialect, model }).await
        }
        Endpoint::Other(dialect) => match route.upstream(dialect, None, &head.headers) {
            Some(upstream) => pass(visit, upstream, &head, body, dialect).await,
            None => nowhere(),
        },
    }
}

/// Why the body of a request was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Unread {
    #[error("the body of the request has more bytes than this gateway takes")]
    Length,
    #[error("the JSON of the request is nested deeper than this gateway takes")]
    Nesting,
    #[error("the body of the request did not come in time")]
    Late,
    #[error("the body of the request did not come whole")]
    Cut,
}

impl Unread {
    /// Returns the status of the answer. Clients take 413 for a conversation that is too long, and compact it.
    fn status(self) -> StatusCode {
        match self {
            Unread::Length | Unread::Nesting | Unread::Cut => StatusCode::BAD_REQUEST,
            Unread::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// Reads the body of a request.
async fn read(mut body: Body, config: &Config) -> Result<Bytes, Unread> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = timeout(config.timeouts.body, body.frame()).await.map_err(|_| Unread::Late)? {
        let Ok(data) = frame.map_err(|_| Unread::Cut)?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > config.limits.body {
            return Err(Unread::Length);
        }
        pieces.push(data);
    }
    let body = match pieces.len() {
        1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    };
    Ok(body)
}

/// Returns the model that a body names.
fn model_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        model: Option<String>,
    }
    serde_json::from_slice::<Asked>(body).ok()?.model
}

/// Passes a request through that is not a model call.
async fn pass(visit: Visit, upstream: &Upstream, head: &Head, body: Body, dialect: Option<Dialect>) -> Response<Body> {
    let body = Body::new(Limited::new(body, visit.current.config.limits.body));
    match visit.current.client.send(upstream, dialect, head, body).await {
        Ok(answer) => {
            let (mut parts, incoming) = answer.into_parts();
            exchange::to_pass_back(&mut parts.headers);
            visit.shared.metrics.answered(parts.status);
            Response::from_parts(parts, relay::relay(visit, relay::Answer::new(incoming), None, None))
        }
        Err(error) => answers::unanswered(&error, dialect),
    }
}
