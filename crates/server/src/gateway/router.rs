//! The paths of a gateway: its own, and those of the upstreams.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use lookback_wire::dialect::Dialect;

use crate::gateway::admission::caller::Caller;
use crate::gateway::admission::{Admission, Shared};
use crate::gateway::client::Head;
use crate::gateway::config::additions::Additions;
use crate::gateway::config::upstream::{Route, Upstream};
use crate::gateway::exchange;
use crate::gateway::exchange::relay;
use crate::gateway::guard;
use crate::gateway::http::body::{self, Unread};
use crate::gateway::http::endpoint::Endpoint;
use crate::gateway::http::{answers, encoding, headers};
use crate::gateway::inspect;
use crate::gateway::mcp;
use crate::gateway::report::event::Event;
use crate::gateway::rest;

/// Returns the service.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let plain = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    let metrics = move |State(shared): State<Arc<Shared>>| async move {
        (plain, shared.metrics.text(&shared.payoff, shared.shadows.all()))
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(is_ready))
        .route("/metrics", get(metrics))
        .fallback(handle)
        .with_state(shared.clone())
        .merge(rest::router(&shared))
        .merge(mcp::router(&shared))
        .merge(inspect::router(&shared))
        // Around all routes, so that pages of other sites are refused for every path.
        .layer(from_fn_with_state(shared, guard::admit))
}

/// Reports that requests are served, and whether they are recorded. If they cannot be recorded, they pass unchanged.
async fn is_ready(State(shared): State<Arc<Shared>>) -> String {
    let patience = shared.current().config.timeouts.store;
    match shared.readiness.fault(&*shared.store, patience).await {
        None => "ready\n".to_owned(),
        Some(fault) => format!("ready, but {fault}: requests pass as they come\n"),
    }
}

/// Answers a request that is not for the gateway itself.
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
    let caller = match Caller::admit(&current.config, &shared.clients, &parts.uri, &mut parts.headers) {
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
            let body = match body::read(body, current.config.limits.body, current.config.timeouts.body).await {
                Ok(body) => body,
                Err(unread) => return answers::error(unread.status(), &unread.to_string(), Some(dialect)),
            };
            let text = encoding::decoded(&head.headers, &body, current.config.limits.body);
            if let Some(most) = current.config.limits.nesting
                && text.as_ref().is_some_and(|text| body::nesting(text) > most)
            {
                let unread = Unread::Nesting;
                return answers::error(unread.status(), &unread.to_string(), Some(dialect));
            }
            // Reads the body once more for the model, so only if the model matters.
            let named = || if route.needs_model() { text.as_deref().and_then(body::model_of) } else { None };
            let asked = model.clone().or_else(named);
            let Some(upstream) = route.upstream(Some(dialect), asked.as_deref(), &head.headers) else {
                return nowhere();
            };
            let is_let_in = admission.let_in(&parts.uri, &head.headers).is_ok();
            let adds = Additions::new(admission.caller.adds(upstream, &current.config), is_let_in);
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
            error.answer(dialect)
        }
    }
}
