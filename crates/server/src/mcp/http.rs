//! Serving any number of clients by streamable HTTP, under `/mcp`.
//!
//! Nothing is kept of a client between two requests: all that lasts is in the store. So clients need not notice a restart.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use super::{ServeError, Server, Token, asked_to_stop, runtime};

/// The most bytes that a request may have.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How long requests that are under way are waited for when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Where a server listens, and to whom.
#[derive(Debug, Clone)]
pub struct Door {
    /// Where it listens; with port 0 the system chooses one.
    pub address: SocketAddr,
    /// What each request must carry. An address that other machines can reach must have one.
    pub token: Option<Token>,
    /// The names by which clients may call it, besides `localhost` and the address itself: hosts, or hosts with a port. A request whose
    /// `Host` is another is refused, so that no web page can reach a server of this machine through a name of its own.
    pub hosts: Vec<String>,
}

/// Serves until the process is asked to stop. `ready` is told the address, with the port that was chosen.
///
/// # Errors
/// Where a token is missing, or the address cannot be had.
pub fn serve(server: Server, door: Door, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let Door { address, token, hosts } = door;
    if token.is_none() && !address.ip().is_loopback() {
        return Err(ServeError::NeedsToken { address });
    }
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let fault = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(fault)?;
        let stop = asked_to_stop()?;
        ready(listener.local_addr().map_err(fault)?);

        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), address.ip().to_string()];
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MOST_BYTES)
            .with_allowed_hosts(own.into_iter().chain(hosts))
            // Only browsers send an origin, and no web page has any business here.
            .enforce_origin_validation();
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config);
        let router = Router::new().route_service("/mcp", service).layer(from_fn_with_state(token, admit));

        let (told, stopping) = tokio::sync::oneshot::channel();
        let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
            stop.await;
            // It is listened to as long as anything is served.
            let _ = told.send(());
        });
        let patience = async {
            let _ = stopping.await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            served = serving.into_future() => served.map_err(fault),
            () = patience => Ok(()),
        }
    });
    runtime.shutdown_background();
    served
}

/// Lets those in who know the token, where there is one.
async fn admit(State(token): State<Option<Token>>, request: Request, next: Next) -> Response {
    if token.is_none_or(|token| token.is_in(request.headers())) {
        return next.run(request).await;
    }
    let says = "this server wants its token, as `Authorization: Bearer TOKEN`\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], says).into_response()
}
