//! Access to a gateway without keys: for programs on its machine, and for hosts and web pages that the configuration
//! names.
//!
//! Anyone who can reach such a gateway may use it, and a browser on its machine can reach it for any page that it
//! shows. So a request must use a host name of the gateway, and must not come from a page of another site.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;
use lookback_wire::dialect::Dialect;

use crate::gateway::admission::Shared;
use crate::gateway::config::Config;
use crate::gateway::http::answers;
use crate::gateway::http::endpoint::Endpoint;
use crate::gateway::http::headers;
use crate::host::{is_at, is_local, is_one_of, says_host};
use crate::page::{is_foreign, named};
use crate::serving::unread;

/// The reason that a request may not use the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Barred {
    #[error("{0}")]
    NoHost(&'static str),
    #[error("the request names an unknown host; allow it with --allow-host or `hosts`, or give clients keys ([[key]])")]
    Host,
    #[error("the request comes from a page of another site; allow its origin with --allow-origin or `origins`")]
    Page,
}

impl Barred {
    /// Returns the answer for the client.
    fn answer(self, dialect: Option<Dialect>) -> Response<Body> {
        let status = match self {
            Barred::NoHost(_) => StatusCode::BAD_REQUEST,
            Barred::Host | Barred::Page => StatusCode::FORBIDDEN,
        };
        unread(answers::error(status, &self.to_string(), dialect))
    }
}

/// Passes a request on if it may use the gateway, with any path.
pub(super) async fn admit(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response<Body> {
    let current = shared.current();
    let origin = named(request.headers(), &current.config.origins).cloned();
    // A page cannot have a key of the gateway unless its user gave it one, so keys need no further check.
    if current.config.keys.is_empty()
        && let Err(barred) = check(&shared, &current.config, &request, origin.is_some())
    {
        let dialect = Endpoint::from_path(request.method(), request.uri().path()).dialect();
        let answer = barred.answer(dialect.or_else(|| headers::dialect(request.headers())));
        shared.metrics.answered(answer.status());
        return answer;
    }
    let Some(origin) = origin else { return next.run(request).await };
    let answer = match permission(request.method(), request.headers()) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    readable(answer, origin)
}

/// Checks that a request uses a host name of the gateway, and comes from no page of another site except one that is
/// allowed.
fn check(shared: &Shared, config: &Config, request: &Request, is_named: bool) -> Result<(), Barred> {
    let (target, headers) = (request.uri(), request.headers());
    says_host(target, headers).map_err(Barred::NoHost)?;
    let is_ours = is_local(target, headers)
        || is_one_of(target, headers, &config.hosts)
        || is_at(target, headers, shared.listens.ip());
    if !is_ours {
        return Err(Barred::Host);
    }
    // Only the pages of the inspector may be opened by links from other sites.
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let may_follow = is_read && target.path().starts_with("/inspect");
    if !is_named && is_foreign(headers, may_follow) { Err(Barred::Page) } else { Ok(()) }
}

/// Answers a preflight request of a browser. `None` if the request is not one.
fn permission(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    if *method != Method::OPTIONS {
        return None;
    }
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let allowed = answer.headers_mut();
    allowed.insert(header::ACCESS_CONTROL_ALLOW_METHODS, asked.clone());
    if let Some(names) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    allowed.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    Some(answer)
}

/// Lets pages of an origin read an answer. The upstream knows nothing of the page.
fn readable(mut answer: Response<Body>, origin: HeaderValue) -> Response<Body> {
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    answer
}
