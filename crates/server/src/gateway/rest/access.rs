//! Who may read the sessions of the gateway's store, by REST or as a client of MCP.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use tokio::time::timeout;

use super::Fault;
use crate::gateway::caller::Caller;
use crate::gateway::{Shared, Visit};
use crate::host::is_local;

/// The time limit of a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets a request in that may read what the gateway keeps.
///
/// With keys, a client reaches what its tenant has. Without any, a client has to be on this machine, as the gateway is.
pub(in crate::gateway) async fn admit(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let current = shared.current();
    let refused = |words: &str| Fault::new(StatusCode::FORBIDDEN, words).into_response();
    // Only browsers send an origin, and no web page may use this.
    if request.headers().contains_key(header::ORIGIN) {
        return refused("web pages may not read what the gateway keeps");
    }
    if current.config.keys.is_empty() && !(shared.is_local && is_local(request.headers())) {
        return refused("without keys, what the gateway keeps is read on its own machine only; add [[key]]");
    }
    let query = request.uri().query().map(str::to_owned);
    let caller = match Caller::admit(&shared, &current, request.headers_mut(), query.as_deref()) {
        Ok(caller) => Arc::new(caller),
        Err(refused) => return refused.answer(None),
    };
    request.extensions_mut().insert(Visit { shared, current, caller, adds: Arc::new([]), upstream: "".into() });
    match timeout(PATIENCE, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => Fault::new(StatusCode::GATEWAY_TIMEOUT, "the store did not answer in time").into_response(),
    }
}
