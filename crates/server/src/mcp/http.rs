//! Serves any number of clients over streamable HTTP, under `/mcp`.
//!
//! The server keeps no state between two requests. Everything that lasts is in the store, so clients do not notice a
//! restart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::timeout;

use super::{GRACE, ServeError, Server, Token};
use crate::host::says_host;
use crate::listen::ListenOptions;
use crate::serving::{runtime, unread};

/// The maximum size of a request in bytes: 4 MiB.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Serves clients until the process is asked to stop.
///
/// Calls `ready` with the address, including the port that the system picked, when the server listens.
///
/// # Errors
/// Returns an error if a token is required and missing, if the server cannot listen on the address, or if the system
/// provides no threads or signals.
pub fn serve(server: Server, options: ListenOptions, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let router = |ListenOptions { address, token, hosts, limits }: ListenOptions| {
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), address.ip().to_string()];
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(own.into_iter().chain(hosts))
            // Only browsers send an origin, and no web page may use this server.
            .enforce_origin_validation();
        let gate = Gate { token, patience: limits.request };
        Router::new().route_service("/mcp", service(server, config)).layer(from_fn_with_state(gate, admit))
    };
    options.serve(runtime, GRACE, router, ready)
}

/// Answers a request. The caller must have checked its sender and its host.
pub(crate) async fn answer(server: Server, request: Request) -> Response {
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    service(server, config).handle(request).await.map(Body::new)
}

/// Returns the service. It keeps no state between two requests.
fn service(server: Server, config: StreamableHttpServerConfig) -> StreamableHttpService<Server, NeverSessionManager> {
    let config =
        config.with_legacy_session_mode(false).with_json_response(true).with_max_request_body_bytes(MOST_BYTES);
    StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config)
}

/// The token that requests must carry, and the time limit of an answer.
#[derive(Debug, Clone)]
struct Gate {
    token: Option<Token>,
    patience: Duration,
}

/// Passes a request on if it carries the token, if there is one, and names one host.
async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    if gate.token.is_some_and(|token| !token.is_in(request.headers())) {
        let says = "send the token of this server as `Authorization: Bearer TOKEN`\n";
        return unread((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], says).into_response());
    }
    if let Err(wrong) = says_host(request.uri(), request.headers()) {
        return unread((StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response());
    }
    match timeout(gate.patience, next.run(request)).await {
        // A page of another site, or another host.
        Ok(response) if response.status() == StatusCode::FORBIDDEN => unread(response),
        Ok(response) => response,
        // Closing the connection avoids waiting for the rest of the request.
        Err(_) => unread((StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response()),
    }
}
