//! Who may read the sessions of the gateway's store, by REST or as a client of MCP.

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

/// Lets a request in that may read what the gateway keeps.
///
/// With keys, a client reaches what its tenant has. Without any, a client has to be on this machine, as the gateway is.
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
        Err(_) => Fault::new(StatusCode::GATEWAY_TIMEOUT, "the store did not answer in time").into_response(),
    }
}
