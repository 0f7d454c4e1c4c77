//! A gateway in front of models: clients keep their code, and change one address.
//!
//! A request of a conversation goes into a session of the store. As long as it is within the limits, it is forwarded as
//! the bytes that came. Past them, it is sent with the session's window. Whatever else comes passes through.

mod answers;
mod client;
mod copy;
mod endpoint;
mod exchange;
mod headers;
mod identity;
mod kind;
mod lines;
mod metrics;
mod note;
mod relay;
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
use axum::routing::get;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use lookback::store::IntoStore;
use lookback::{Dialect, Policy, Store};
use ring::hmac;

use self::client::{Client, Head};
use self::endpoint::Endpoint;
use self::lines::Lines;
use self::metrics::Metrics;
use self::upstream::Upstreams;
pub use self::upstream::{BadUpstream, Upstream};
use self::window::Windows;
use crate::serving::{ConnectionLimits, ServeError, asked_to_stop, bind, listen, wide_runtime};

/// The most bytes of a request's body: 64 MiB.
const MOST_BYTES: usize = 64 << 20;
/// The time limit until an upstream begins to answer. Models may think for long before that.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time that open answers have to finish when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(30);

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
    upstreams: Upstreams,
    store: Arc<dyn Store>,
    policy: Policy,
    told: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What all requests share.
struct Shared {
    upstreams: Upstreams,
    client: Client,
    windows: Windows,
    lines: Lines,
    metrics: Metrics,
    told: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Gateway {
    /// Creates a gateway that keeps its sessions in a store. It has no upstream yet.
    pub fn new(store: impl IntoStore) -> Gateway {
        Gateway {
            upstreams: Upstreams::default(),
            store: store.into_store(),
            policy: Gateway::policy(),
            told: Arc::new(|_| {}),
        }
    }

    /// Returns the policy of a gateway: that of production, but what arrives is not shortened, and the limit is so high
    /// that clients do without a window until the model's own is almost full.
    ///
    /// The limit is a share of the model's context window, below those at which clients compact by themselves. If the
    /// model is unknown, nothing is cut until the upstream refuses a request as too long.
    pub fn policy() -> Policy {
        use lookback::Limits;
        use lookback::policy::Tokens;

        let share = |share| Limits { tokens: Some(Tokens::Share(share)), ..Limits::default() };
        let production = Policy::production();
        Policy {
            limits: share(0.7),
            target: Some(share(0.35)),
            cold: None,
            arrival: None,
            caps: None,
            repeats: None,
            ..production
        }
    }

    /// Adds an upstream. A request goes to the first one that takes its dialect.
    #[must_use]
    pub fn with_upstream(mut self, upstream: Upstream) -> Gateway {
        self.upstreams.0.push(upstream);
        self
    }

    /// Sets the policy of all windows.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Gateway {
        Gateway { policy, ..self }
    }

    /// Sets what is told in words, for a log: failures that do not keep a request from passing. No contents are told.
    #[must_use]
    pub fn with_log(self, told: impl Fn(&str) + Send + Sync + 'static) -> Gateway {
        Gateway { told: Arc::new(told), ..self }
    }

    /// Serves clients until the process is asked to stop, and then finishes open answers.
    ///
    /// Calls `ready` with the address, including the port that the system picked, when the gateway listens.
    ///
    /// # Errors
    /// Returns an error if the gateway cannot listen on the address, or if the system provides no threads or signals.
    pub fn serve(self, address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
        let runtime = wide_runtime()?;
        let served = runtime.block_on(async {
            let (listener, bound) = bind(address).await?;
            let stop = asked_to_stop()?;
            let router = self.router();
            ready(bound);
            let limits = ConnectionLimits { connections: 4096, head: Duration::from_secs(75), request: PATIENCE };
            listen(listener, router, limits, GRACE, stop).await;
            Ok(())
        });
        runtime.shutdown_background();
        served
    }

    /// Returns the service, to serve it in another way.
    fn router(self) -> Router {
        let Gateway { upstreams, store, policy, told } = self;
        let windows = Windows { store, policy };
        let (lines, metrics) = (Lines::default(), Metrics::default());
        let shared = Arc::new(Shared { upstreams, client: Client::new(PATIENCE), windows, lines, metrics, told });
        let plain = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
        let metrics = move |State(shared): State<Arc<Shared>>| async move { (plain, shared.metrics.text()) };
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(|| async { "ok\n" }))
            .route("/metrics", get(metrics))
            .fallback(handle)
            .with_state(shared)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("upstreams", &self.upstreams).finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns a name for the account that a credential belongs to; `None` if there is no credential. The credential
    /// cannot be found from it.
    fn account(&self, credential: &[u8]) -> Option<String> {
        if credential.is_empty() {
            return None;
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"lookback gateway account");
        let tag = hmac::sign(&key, credential);
        let (begin, _) = tag.as_ref().split_at_checked(4)?;
        Some(begin.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn tell(&self, words: &str) {
        (self.told)(words);
    }
}

/// Answers a request: makes a model call, or passes it through.
async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path_and_query = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if headers::is_upgrade(&parts.headers) {
        let mut response = answers::error(StatusCode::UPGRADE_REQUIRED, "this gateway speaks HTTP only", None);
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
        return response;
    }
    if parts.method == Method::HEAD && parts.uri.path() == "/" {
        return Response::new(Body::empty());
    }
    let endpoint = Endpoint::of(&parts.method, parts.uri.path());
    let dialect = match &endpoint {
        Endpoint::Call { dialect, .. } => Some(*dialect),
        Endpoint::Other(dialect) => *dialect,
    };
    let Some(upstream) = shared.upstreams.of(dialect, &parts.headers).cloned() else {
        let asked = dialect.map_or("this path", Dialect::name);
        return answers::error(StatusCode::NOT_FOUND, &format!("the gateway has no upstream for {asked}"), dialect);
    };
    let head = Head { method: parts.method, path_and_query, headers: parts.headers };
    match endpoint {
        Endpoint::Call { dialect, model } => match read(body).await {
            Ok(body) => exchange::make(shared, upstream, exchange::Call { head, body, dialect, model }).await,
            Err(status) => answers::error(status, "the body could not be read", Some(dialect)),
        },
        Endpoint::Other(dialect) => pass(&shared, &upstream, &head, body, dialect).await,
    }
}

/// Reads the body of a request.
async fn read(body: Body) -> Result<bytes::Bytes, StatusCode> {
    let read = Limited::new(body, MOST_BYTES).collect().await;
    let fault = |error: Box<dyn std::error::Error + Send + Sync>| match error.is::<LengthLimitError>() {
        true => StatusCode::INSUFFICIENT_STORAGE,
        false => StatusCode::BAD_REQUEST,
    };
    Ok(read.map_err(fault)?.to_bytes())
}

/// Passes a request through that is not a model call.
async fn pass(
    shared: &Shared,
    upstream: &Upstream,
    head: &Head,
    body: Body,
    dialect: Option<Dialect>,
) -> Response<Body> {
    match shared.client.send(upstream, head, body).await {
        Ok(answer) => {
            let (mut parts, incoming) = answer.into_parts();
            exchange::to_pass_back(&mut parts.headers);
            shared.metrics.answered(parts.status);
            Response::from_parts(parts, Body::new(incoming))
        }
        Err(error) => answers::unanswered(&error, dialect),
    }
}
