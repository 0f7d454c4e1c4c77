//! Access to the sessions of the gateway's store, for the REST API and for MCP clients.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use tokio::time::timeout;

use super::Fault;
use crate::gateway::admission::caller::Caller;
use crate::gateway::admission::{Admission, Shared};
use crate::serving::unread;

/// The time limit of a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// Admits a request that may read the gateway's store.
///
/// With keys, a client may read the data of its tenant. Without keys, a client must be on the gateway's own machine.
pub(crate) async fn admit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response<Body> {
    let current = shared.current();
    let target = request.uri().clone();
    let caller = match Caller::admit(&current.config, &shared.clients, &target, request.headers_mut()) {
        Ok(caller) => Arc::new(caller),
        Err(refused) => return unread(refused.answer(None)),
    };
    let admission = Admission { shared, current, caller };
    if let Err(why) = admission.let_in(&target, request.headers()) {
        return unread(Fault::new(StatusCode::FORBIDDEN, why.to_string()).into_response());
    }
    request.extensions_mut().insert(admission);
    match timeout(PATIENCE, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => Fault::new(StatusCode::GATEWAY_TIMEOUT, "the gateway did not answer in time").into_response(),
    }
}
