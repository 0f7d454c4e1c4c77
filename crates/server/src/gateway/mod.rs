//! A gateway in front of models: clients keep their code, and change one address.
//!
//! A request of a conversation goes into a session of the store. As long as it is within the limits, it is forwarded as
//! the bytes that came. Past them, it is sent with the session's window. Whatever else comes passes through.

mod adds;
mod admission;
mod answers;
mod aside;
mod body;
mod calibrations;
mod caller;
mod client;
mod config;
mod copy;
mod encoding;
mod endpoint;
mod event;
mod exchange;
mod guard;
mod headers;
mod inspect;
mod keys;
mod limits;
mod lines;
mod mcp;
mod metrics;
mod note;
mod payoff;
mod place;
mod ready;
mod rehearsal;
mod relay;
mod rest;
mod summarizer;
#[cfg_attr(not(feature = "otel"), path = "no_telemetry.rs")]
mod telemetry;
mod turn;
mod upstream;
mod window;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
pub use lookback_conversation::Relation;
use lookback_engine::policy::Policy;
use lookback_store::IntoStore;
use lookback_store::Store;
use lookback_wire::dialect::Dialect;

pub use self::adds::{Add, UnknownAdd};
use self::admission::{Admission, Current, EventLog, Shared};
use self::body::Unread;
use self::caller::Caller;
use self::client::Head;
pub use self::config::{Config, ConfigError, Limits, Timeouts, Tls};
use self::endpoint::Endpoint;
pub use self::event::Event;
pub use self::keys::{Key, NoRandom};
pub use self::note::{Compacted, Cut, Note, Passed};
pub use self::summarizer::SummaryModel;
use self::upstream::Route;
pub use self::upstream::{BadUpstream, Upstream};
use crate::serving::{ConnectionLimits, ServeError, asked_to_reload, asked_to_stop, bind, listen, wide_runtime};

/// A gateway, ready to serve.
///
/// ```no_run
/// use lookback_engine::policy::Policy;
/// use lookback_sqlite::SqliteStore;
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
    log: EventLog,
}

/// Reads the configuration again. `None` if it cannot be used.
type Reload = Box<dyn Fn() -> Option<(Config, Policy)> + Send + Sync>;

impl Gateway {
    /// Creates a gateway that keeps its sessions in a store. It has no upstream yet.
    pub fn new(store: impl IntoStore) -> Gateway {
        Gateway {
            store: store.into_store(),
            config: Config::default(),
            policy: Gateway::policy(),
            reload: None,
            log: Arc::new(|_| {}),
        }
    }

    /// Returns the policy of a gateway: that of production, but the limit is so high that most conversations are never cut.
    ///
    /// The limit is 45 % of the model's context window. Gemini CLI, the first of the known clients, compacts at half of it;
    /// Codex does so at 61 % (of 400,000 tokens, it keeps 128,000 for the answer, and compacts at nine tenths of the rest),
    /// and Qwen Code at 70 %. If the model is unknown, nothing is cut until the upstream refuses a request as too long.
    pub fn policy() -> Policy {
        use lookback_engine::policy::Limits;
        use lookback_engine::policy::Tokens;

        let share = |share| Limits { tokens: Some(Tokens::Share(share)), ..Limits::default() };
        let production = Policy::production();
        Policy { limits: share(0.45), target: Some(share(0.225)), cold: None, ..production }
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

    /// Sets a log for model calls and failures.
    #[must_use]
    pub fn with_log(self, log: impl Fn(&Event) + Send + Sync + 'static) -> Gateway {
        Gateway { log: Arc::new(log), ..self }
    }

    /// Serves clients until the process is asked to stop, and then finishes open answers.
    ///
    /// Calls `ready` with the address, including the port that the system picked, when the gateway listens. Before that, it
    /// loads what calls need and makes some calls to itself, on ports of the loopback interface, so that its first answer
    /// is as quick as the next ones.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be used, if the gateway cannot listen on the address, or if the
    /// system provides no threads or signals.
    pub fn serve(self, address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
        self.config.check()?;
        self.config.check_address(address)?;
        let tls = self.config.tls.as_ref().map(crate::serving::acceptor).transpose()?;
        let runtime = wide_runtime()?;
        let served = runtime.block_on(async {
            let loading = tokio::task::spawn_blocking(rehearsal::load);
            let (shared, reload, limits, grace) = self.parts(address);
            // If it failed, the first call that needs it would tell.
            let _ = loading.await;
            rehearsal::rehearse(&shared).await;
            let (listener, bound) = bind(address).await?;
            let (stop, mut again) = (asked_to_stop()?, asked_to_reload()?);
            shared.recall(shared.store.clone());
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

    fn parts(self, listens: SocketAddr) -> (Arc<Shared>, Option<Reload>, ConnectionLimits, Duration) {
        let Gateway { store, config, policy, reload, log } = self;
        let limits = ConnectionLimits {
            connections: config.limits.connections,
            head: config.timeouts.head,
            request: config.timeouts.pause,
        };
        let grace = config.timeouts.stop;
        let shared = Shared::new(store, Current::new(config, policy), Some(log), listens);
        (shared, reload, limits, grace)
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
        .merge(inspect::router(&shared))
        // Around all of them: what a page of another site may not ask for, it may ask for under no path.
        .layer(from_fn_with_state(shared, guard::admit))
}

/// Tells that requests are served, and whether they are recorded: if they cannot be, they pass.
async fn is_ready(State(shared): State<Arc<Shared>>) -> String {
    let patience = shared.current().config.timeouts.store;
    match shared.readiness.fault(&*shared.store, patience).await {
        None => "ready\n".to_owned(),
        Some(fault) => format!("ready, but {fault}: requests pass as they come\n"),
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Answers a request that is not one about the gateway itself.
async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let answer = answer(shared.clone(), request).await;
    shared.metrics.answered(answer.status());
    answer
}

/// Makes a model call, or passes a request through.
async fn answer(shared: Arc<Shared>, request: Request) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    if headers::is_websocket(&parts.headers) {
        let mut response = answers::error(StatusCode::UPGRADE_REQUIRED, "this gateway speaks HTTP only", None);
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
        return response;
    }
    if parts.method == Method::HEAD && parts.uri.path() == "/" {
        return Response::new(Body::empty());
    }
    let current = shared.current();
    let path_and_query = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let caller = match Caller::admit(&shared, &current, &parts.uri, &mut parts.headers) {
        Ok(caller) => Arc::new(caller),
        Err(refused) => {
            let dialect = Endpoint::from_path(&parts.method, parts.uri.path()).dialect();
            return refused.answer(dialect.or_else(|| headers::dialect(&parts.headers)));
        }
    };
    let admission = Admission { shared, current, caller };
    let current = admission.current.clone();
    let Some(route) = Route::find(&current.config.upstreams, &path_and_query, &parts.headers) else {
        return answers::error(StatusCode::NOT_FOUND, "the gateway has no upstream of this name", None);
    };
    let path = route.path_and_query.split('?').next().unwrap_or_default();
    let endpoint = Endpoint::from_path(&parts.method, path);
    let head = Head { method: parts.method, path_and_query: route.path_and_query.to_owned(), headers: parts.headers };
    let dialect = endpoint.dialect();
    let nowhere = || {
        let asked = dialect.map_or("this path", |dialect| dialect.name());
        answers::error(StatusCode::NOT_FOUND, &format!("the gateway has no upstream for {asked}"), dialect)
    };
    match endpoint {
        Endpoint::Call { dialect, model } => {
            let body = match body::read(body, &current.config).await {
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
            // It is read once more for that, so only if it matters.
            let named = || if route.needs_model() { text.as_deref().and_then(body::model_of) } else { None };
            let asked = model.clone().or_else(named);
            let Some(upstream) = route.upstream(Some(dialect), asked.as_deref(), &head.headers) else {
                return nowhere();
            };
            let is_let_in = admission.let_in(&parts.uri, &head.headers).is_ok();
            let adds = admission.caller.adds(upstream, &current.config).iter().copied();
            let adds = adds.filter(|add| is_let_in || !add.shows_memory()).collect();
            exchange::make(admission, upstream, exchange::Call { head, body, text, dialect, model, adds }).await
        }
        Endpoint::Other(dialect) => match route.upstream(dialect, None, &head.headers) {
            Some(upstream) => pass(admission, upstream, &head, body, dialect).await,
            None => nowhere(),
        },
    }
}

/// Passes a request through that is not a model call.
async fn pass(
    admission: Admission,
    upstream: &Upstream,
    head: &Head,
    body: Body,
    dialect: Option<Dialect>,
) -> Response<Body> {
    let body = body::patient(body, admission.current.config.timeouts.body);
    match admission.current.client.send(upstream, dialect, head, body).await {
        Ok(answer) => {
            let (mut parts, incoming) = answer.into_parts();
            exchange::to_pass_back(&mut parts.headers);
            let answer = relay::Answer::new(incoming, None, admission.current.config.timeouts.pause);
            Response::from_parts(parts, relay::relay(admission, answer, None, None).await)
        }
        Err(error) => {
            admission.shared.emit(&Event::unanswered(upstream, &error));
            answers::unanswered(&error, dialect)
        }
    }
}
