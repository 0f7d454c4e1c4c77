//! Serves any number of clients over streamable HTTP, under `/mcp`.
//!
//! The server keeps no state between two requests. Everything that lasts is in the store, so clients do not notice a
//! restart.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use super::access::says_host;
use super::{GRACE, ServeError, Server, Token, asked_to_stop, runtime};

/// The maximum size of a request in bytes: 4 MiB.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The pause after the system failed to accept a connection, for example because the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The address of a server, and who may use it.
#[derive(Debug, Clone)]
pub struct Door {
    /// The address to listen on. With port 0, the system picks a free port.
    pub address: SocketAddr,
    /// The token that each request must carry. Required if other machines can reach the address.
    pub token: Option<Token>,
    /// The host names that clients may use, with or without a port, besides `localhost` and the address itself.
    ///
    /// A request with any other `Host` is refused, so that no web page can reach the server through a host name of its
    /// own.
    pub hosts: Vec<String>,
    /// The limits for connections and requests.
    pub limits: ConnectionLimits,
}

/// The limits for the connections and requests of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The maximum number of open connections, at least 1. Further clients wait until a connection is closed.
    pub connections: usize,
    /// The time limit for the head of a request, and for the pause between two requests. Then the connection is closed.
    pub head: Duration,
    /// The time limit from the head of a request to its answer. Then the request is answered with status 408.
    ///
    /// It is also how long a client may stop reading an answer before its connection is closed. It should be longer
    /// than the [time limit of a call](Server::with_deadline).
    pub request: Duration,
}

impl Default for ConnectionLimits {
    /// Returns 128 connections, 30 seconds for a head, and 60 seconds for a request.
    fn default() -> Self {
        ConnectionLimits { connections: 128, head: Duration::from_secs(30), request: Duration::from_secs(60) }
    }
}

/// Serves clients until the process is asked to stop.
///
/// Calls `ready` with the address, including the port that the system picked, when the server listens.
///
/// # Errors
/// Returns an error if a token is required and missing, if the server cannot listen on the address, or if the system
/// provides no threads or signals.
pub fn serve(server: Server, door: Door, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let Door { address, token, hosts, limits } = door;
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
            // Only browsers send an origin, and no web page may use this server.
            .enforce_origin_validation();
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config);
        let gate = Gate { token, patience: limits.request };
        let router = Router::new().route_service("/mcp", service).layer(from_fn_with_state(gate, admit));
        listen(listener, router, limits, stop).await;
        Ok::<(), ServeError>(())
    });
    runtime.shutdown_background();
    served
}

/// Serves connections until `stop`, and then finishes the open requests.
async fn listen(listener: TcpListener, router: Router, limits: ConnectionLimits, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let room = Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let (ending, ends) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            // Without room, further clients wait in the queue of the system.
            let place = room.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            () = &mut stop => break,
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let served = converse(stream, router.clone(), limits, ends.clone());
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    // Accept no more connections, and close the idle ones.
    drop(listener);
    let _ = ending.send(());
    let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

/// Serves one connection until it is closed. When `ends` fires, finishes the open request only.
async fn converse(stream: TcpStream, router: Router, limits: ConnectionLimits, mut ends: watch::Receiver<()>) {
    // A client that stops reading an answer has gone, or occupies the connection on purpose.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.request));
    let stream = Box::pin(stream);
    let mut http = http1::Builder::new();
    // The pause between two requests is a wait for a head too.
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        // How a client closes its connection makes no difference.
        _ = connection.as_mut() => return,
        _ = ends.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
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
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], says).into_response();
    }
    if let Err(wrong) = says_host(request.uri(), request.headers()) {
        return (StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response();
    }
    match timeout(gate.patience, next.run(request)).await {
        Ok(response) => response,
        // Closing the connection avoids waiting for the rest of the request.
        Err(_) => {
            let says = "the request took too long\n";
            (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")], says).into_response()
        }
    }
}
