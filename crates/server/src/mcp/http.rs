//! Serving any number of clients by streamable HTTP, under `/mcp`.
//!
//! Nothing is kept of a client between two requests: all that lasts is in the store. So clients need not notice a restart.

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

/// The most bytes that a request may have.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How long nobody is let in after the system gave no connection, as where the process has as many files open as it may.
const PAUSE: Duration = Duration::from_millis(100);

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
    /// What clients may keep busy.
    pub limits: Limits,
}

/// What the clients of a server may keep busy, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections that are open, at least 1. Whoever comes then waits until another one is closed.
    pub connections: usize,
    /// How long the head of a request may take, and how long a connection may stay open between two requests. It is closed then.
    pub head: Duration,
    /// How long a request may take from its head to its answer. It is answered with 408 then. So long, too, may a client take nothing of
    /// an answer; its connection is closed then. This should be longer than the
    /// [deadline](Server::with_deadline) of a call.
    pub request: Duration,
}

impl Default for Limits {
    /// 128 connections, 30 seconds for a head, a minute for a request.
    fn default() -> Self {
        Limits { connections: 128, head: Duration::from_secs(30), request: Duration::from_secs(60) }
    }
}

/// Serves until the process is asked to stop. `ready` is told the address, with the port that was chosen.
///
/// # Errors
/// Where a token is missing, or the address cannot be had.
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
            // Only browsers send an origin, and no web page has any business here.
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

/// Serves whoever connects until `stop`, then what is under way.
async fn listen(listener: TcpListener, router: Router, limits: Limits, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let room = Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let (ending, ends) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            // Whoever finds no room waits in the system's queue.
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
    // Nobody else may come, and who waits for a request waits no longer.
    drop(listener);
    let _ = ending.send(());
    let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

/// Serves one connection until it is closed; at the end only the request that is under way.
async fn converse(stream: TcpStream, router: Router, limits: Limits, mut ends: watch::Receiver<()>) {
    // A client that takes nothing of an answer for so long has gone, or wants to keep the connection from others.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.request));
    let stream = Box::pin(stream);
    let mut http = http1::Builder::new();
    // Between two requests the wait is for a head, too.
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        // It is no matter how a client went away.
        _ = connection.as_mut() => return,
        _ = ends.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Who is let in, and how long an answer is waited for.
#[derive(Debug, Clone)]
struct Gate {
    token: Option<Token>,
    patience: Duration,
}

/// Lets those in who know the token, where there is one, and say which host they mean.
async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    if gate.token.is_some_and(|token| !token.is_in(request.headers())) {
        let says = "this server wants its token, as `Authorization: Bearer TOKEN`\n";
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], says).into_response();
    }
    if let Err(wrong) = says_host(request.uri(), request.headers()) {
        return (StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response();
    }
    match timeout(gate.patience, next.run(request)).await {
        Ok(response) => response,
        // The rest of what it sends is not waited for either.
        Err(_) => {
            let says = "the request took too long\n";
            (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")], says).into_response()
        }
    }
}
