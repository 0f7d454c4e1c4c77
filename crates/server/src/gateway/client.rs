//! The HTTP client for upstreams: sends requests unchanged, and returns answers unchanged.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::uri::InvalidUri;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lookback_wire::dialect::Dialect;
use tokio::time::timeout;
use tower_service::Service;

use crate::gateway::config::Timeouts;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::http::answers;
use crate::gateway::http::headers;

/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// A request without its body.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) path_and_query: String,
    pub(crate) headers: HeaderMap,
}

impl Head {
    /// Returns the head for a body that Lookback wrote. The body is not compressed, and the answer must be readable,
    /// because it may call tools that the client does not have.
    pub(crate) fn own(&self) -> Head {
        let mut own = self.clone();
        own.headers.remove(CONTENT_ENCODING);
        headers::to_read_the_answer(&mut own.headers);
        own
    }
}

/// The reason that an upstream did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("the address of the request is not valid")]
    Address(#[from] InvalidUri),
    #[error("the request is not valid")]
    Request(#[from] axum::http::Error),
    #[error("the upstream cannot be reached")]
    Unreachable(#[from] hyper_util::client::legacy::Error),
    /// No connection could be made within the time limit.
    #[error("the upstream cannot be reached: there was no connection within {0:?}")]
    NoConnection(Duration),
    #[error("the upstream did not answer in time")]
    Late,
    #[error(
        "without a key of the provider, only model calls go to this upstream; `paths` in its configuration names others"
    )]
    Closed,
}

impl Unanswered {
    /// Returns whether the upstream may answer the same request later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Unanswered::Unreachable(_) | Unanswered::NoConnection(_))
    }

    /// Returns the answer that the client gets.
    pub(crate) fn answer(&self, dialect: Option<Dialect>) -> Response<Body> {
        let status = match self {
            Unanswered::Address(_) | Unanswered::Request(_) => StatusCode::BAD_REQUEST,
            Unanswered::Unreachable(_) | Unanswered::NoConnection(_) => StatusCode::BAD_GATEWAY,
            Unanswered::Late => StatusCode::GATEWAY_TIMEOUT,
            Unanswered::Closed => StatusCode::FORBIDDEN,
        };
        answers::error(status, &format!("Lookback's gateway: {self}"), dialect)
    }
}

/// Makes connections, including the TLS handshake, within a time limit.
#[derive(Clone)]
struct Connector {
    https: HttpsConnector<HttpConnector>,
    patience: Duration,
}

impl Service<Uri> for Connector {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let (connecting, patience) = (self.https.call(address), self.patience);
        Box::pin(async move {
            let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {patience:?}"));
            timeout(patience, connecting).await.unwrap_or_else(|_| Err(late().into()))
        })
    }
}

/// The connections to the upstreams.
#[derive(Clone)]
pub(crate) struct Client {
    hyper: Hyper<Connector, Body>,
    /// The time limit until an answer begins.
    patience: Duration,
}

impl Client {
    pub(crate) fn new(timeouts: &Timeouts) -> Client {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(timeouts.connect));
        http.set_nodelay(true);
        http.enforce_http(false);
        let provider = rustls::crypto::ring::default_provider();
        let roots = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider.clone());
        // Falls back to Mozilla's certificates if the system has none.
        let with_roots = match roots {
            Ok(with_roots) => with_roots,
            Err(_) => match HttpsConnectorBuilder::new().with_provider_and_webpki_roots(provider) {
                Ok(with_roots) => with_roots,
                Err(_) => HttpsConnectorBuilder::new().with_webpki_roots(),
            },
        };
        let https = with_roots.https_or_http().enable_http1().enable_http2().wrap_connector(http);
        let hyper = Hyper::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .set_host(true)
            .build(Connector { https, patience: timeouts.connect });
        Client { hyper, patience: timeouts.answer }
    }

    /// Sends a request to an upstream, and returns its answer with any status. Does not follow redirects, because a key
    /// must not be sent elsewhere.
    pub(crate) async fn send(
        &self,
        upstream: &Upstream,
        dialect: Option<Dialect>,
        head: &Head,
        body: Body,
    ) -> Result<Response<Incoming>, Unanswered> {
        let mut request = Request::builder().method(head.method.clone()).uri(upstream.address(&head.path_and_query)?);
        request = request.version(Version::HTTP_11);
        let mut request = request.body(body)?;
        let length = request.body().size_hint().exact();
        *request.headers_mut() = head.headers.clone();
        headers::to_pass_on(request.headers_mut());
        // A request without a key gets the upstream's.
        if headers::credential(request.headers(), request.uri().query()).is_empty()
            && let Some((name, key)) = upstream.credential(dialect)
        {
            if !upstream.opens(&head.method, &head.path_and_query) {
                return Err(Unanswered::Closed);
            }
            request.headers_mut().insert(name, key);
        }
        // A shortened body has another length than the one that arrived.
        if let Some(length) = length
            && request.headers().contains_key(CONTENT_LENGTH)
        {
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        let connection = capture_connection(&mut request);
        match timeout(self.patience, self.hyper.request(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) if connection.connection_metadata().is_none() => Err(Unanswered::NoConnection(self.patience)),
            Err(_) => Err(Unanswered::Late),
        }
    }
}
