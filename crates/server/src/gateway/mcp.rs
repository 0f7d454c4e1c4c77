//! The memory of the gateway's store for MCP clients, under `/mcp`.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use lookback_facts::Memory;

use crate::gateway::admission::Admission;
use crate::gateway::admission::Shared;
use crate::gateway::rest::{Fault, admit};
use crate::mcp::{Server, http};

/// The session of the tools, if a call names no other.
const SESSION: &str = "mcp";

/// Returns the service.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/mcp", any(answer))
        .route("/mcp/", any(answer))
        .layer(from_fn_with_state(shared.clone(), admit))
}

async fn answer(Extension(admission): Extension<Admission>, request: Request) -> Response {
    match memory(&admission).await {
        Ok(memory) => http::answer(Server::new(memory).with_any_session(), request).await,
        Err(fault) => fault.into_response(),
    }
}

async fn memory(admission: &Admission) -> Result<Memory, Fault> {
    Ok(Memory::open(admission.store()?, SESSION).await?)
}
