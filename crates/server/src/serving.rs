//! What all servers share: a runtime, an address to listen on, and connections with limits.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

/// The pause after the system failed to accept a connection, for example because the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// An error that keeps a server from serving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system provides no threads or signals.
    #[error("the server could not be started")]
    Start(#[source] io::Error),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Other machines could reach the server, and no token keeps them out.
    #[error("{address} can be reached from other machines; set a token with --token-env, or listen on 127.0.0.1")]
    NeedsToken {
        /// The address.
        address: SocketAddr,
    },
    /// The client on standard input does not speak the protocol.
    #[error("the program on standard input is not a client of the Model Context Protocol")]
    Handshake,
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
    /// than the [time limit of a call](crate::mcp::Server::with_deadline).
    pub request: Duration,
}

impl Default for ConnectionLimits {
    /// Returns 128 connections, 30 seconds for a head, and 60 seconds for a request.
    fn default() -> Self {
        ConnectionLimits { connections: 128, head: Duration::from_secs(30), request: Duration::from_secs(60) }
    }
}

/// Creates a runtime of one thread. It is enough if slow work waits for the disk on threads of the store.
pub(crate) fn runtime() -> Result<Runtime, ServeError> {
    Builder::new_current_thread().enable_all().build().map_err(ServeError::Start)
}

/// Creates a runtime with a thread for each processor.
pub(crate) fn wide_runtime() -> Result<Runtime, ServeError> {
    Builder::new_multi_thread().enable_all().build().map_err(ServeError::Start)
}

/// Returns a future that completes when the process is asked to stop, by Ctrl-C or by another process.
///
/// From the call on, these signals no longer end the process by themselves.
pub(crate) fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
    #[cfg(unix)]
    let (mut interrupt, mut terminate) = {
        use tokio::signal::unix::{SignalKind, signal};
        let of = |kind| signal(kind).map_err(ServeError::Start);
        (of(SignalKind::interrupt())?, of(SignalKind::terminate())?)
    };
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// Listens on an address, and tells which one it is: with port 0, the system picks a port.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let fault = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    Ok((listener, address))
}

/// Serves connections until `stop`, and then gives open requests this much time to finish.
pub(crate) async fn listen(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    grace: Duration,
    stop: impl Future<Output = ()>,
) {
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
                    let _ = stream.set_nodelay(true);
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
    let _ = timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
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
