//! The shared part of all servers: a runtime, an address to listen on, and connections with limits.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::connections::{Connection, Connections};

/// The pause after the system failed to accept a connection, for example because the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// An error that prevents a server from serving.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ServeError(#[from] ServeFault);

impl ServeError {
    /// Creates the error of a configuration that cannot be used.
    pub(crate) fn config(error: impl Error + Send + Sync + 'static) -> Self {
        ServeFault::Config(Box::new(error)).into()
    }

    /// Creates the error of a server that other machines could reach without a token.
    pub(crate) fn needs_token(address: SocketAddr) -> Self {
        ServeFault::NeedsToken { address }.into()
    }

    /// Creates the error of a client that does not speak the protocol.
    pub(crate) fn handshake() -> Self {
        ServeFault::Handshake.into()
    }
}

/// The reason of a [`ServeError`].
#[derive(Debug, thiserror::Error)]
enum ServeFault {
    /// The system provides no threads or signals.
    #[error("the server could not be started")]
    Start(#[source] io::Error),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// Other machines could reach the server, and no token keeps them out.
    #[error("{address} can be reached from other machines; set a token with --token-env, or listen on 127.0.0.1")]
    NeedsToken { address: SocketAddr },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(Box<dyn Error + Send + Sync>),
    /// The client on standard input does not speak the protocol.
    #[error("the program on standard input is not a client of the Model Context Protocol")]
    Handshake,
}

/// The limits for the connections and requests of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The maximum number of open connections, at least 1. At the maximum, a new client replaces a connection that
    /// waits for a request, or waits if there is none.
    pub connections: usize,
    /// The time limit for the head of a request, and for the pause between two requests. After it, the connection is
    /// closed.
    pub head: Duration,
    /// The time limit from the head of a request to its answer. After it, the request is answered with status 408.
    ///
    /// It is also how long a client may stop reading an answer before its connection is closed. It should be longer
    /// than the time limit of a call to the MCP server, 30 seconds.
    pub request: Duration,
}

impl Default for ConnectionLimits {
    /// Returns 128 connections, 30 seconds for a head, and 60 seconds for a request.
    fn default() -> Self {
        ConnectionLimits { connections: 128, head: Duration::from_secs(30), request: Duration::from_secs(60) }
    }
}

/// Returns an answer to a request whose body may not have been read. It closes the connection, because the rest of the
/// body would be taken for the next request.
pub(crate) fn unread<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn start(error: io::Error) -> ServeError {
    ServeFault::Start(error).into()
}

/// Creates a runtime of one thread. It is enough if slow work waits for the disk on threads of the store.
pub(crate) fn runtime() -> Result<Runtime, ServeError> {
    Builder::new_current_thread().enable_all().build().map_err(start)
}

/// The stack size of a thread, in bytes. Without optimization, each thread that counts tokens builds the tokenizer's
/// table of 1.2 MB on its stack before it goes to the heap.
const STACK: usize = 8 << 20;

/// Creates a runtime with a thread for each processor.
pub(crate) fn wide_runtime() -> Result<Runtime, ServeError> {
    Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build().map_err(start)
}

/// Returns a future that completes when the process is asked to stop, by Ctrl-C or by another process.
///
/// From the call on, these signals no longer end the process by themselves.
pub(crate) fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
    #[cfg(unix)]
    let (mut interrupt, mut terminate) = {
        use tokio::signal::unix::{SignalKind, signal};
        let of = |kind| signal(kind).map_err(start);
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

/// Returns a channel of the signals that ask the process to read its configuration again. Some systems have no such
/// signal.
pub(crate) fn asked_to_reload() -> Result<Receiver<()>, ServeError> {
    let (asked, again) = channel(1);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = signal(SignalKind::hangup()).map_err(start)?;
        tokio::spawn(async move { while hangup.recv().await.is_some() && asked.send(()).await.is_ok() {} });
    }
    #[cfg(not(unix))]
    drop(asked);
    Ok(again)
}

/// Listens on an address. Also returns the address with the port that the system picked for port 0.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let fault = |source| ServeFault::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    Ok((listener, address))
}

/// How long the rest of a request may stall when its connection is to be closed.
const STALLS: Duration = Duration::from_secs(2);
/// How often that is checked.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Serves connections until `stop` completes. Then gives open requests this much time to finish.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ConnectionLimits,
    grace: Duration,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let slots = Connections::new(limits.connections);
    let (ending, ends) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        // Further clients wait in the system's queue.
        let place = tokio::select! {
            () = &mut stop => break,
            place = slots.place() => place,
        };
        let Some(place) = place else { break };
        let _ = stream.set_nodelay(true);
        let (tls, router, mut ends) = (tls.clone(), router.clone(), ends.clone());
        connections.spawn(async move {
            let Some(tls) = tls else { return converse(stream, router, limits, &place.slot, ends).await };
            let shaken = tokio::select! {
                shaken = timeout(limits.head, tls.accept(stream)) => shaken,
                () = place.slot.is_to_leave() => return,
                _ = ends.changed() => return,
            };
            // A failed handshake needs no answer.
            if let Ok(Ok(stream)) = shaken {
                converse(stream, router, limits, &place.slot, ends).await;
            }
        });
    }
    // Accept no more connections, and close the idle ones.
    drop(listener);
    let _ = ending.send(());
    let _ = timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
}

/// Serves one connection until it is closed. When `ends` fires, or the connection has to make room, finishes only the
/// open request.
async fn converse<S: AsyncRead + AsyncWrite + Send + 'static>(
    stream: S,
    router: Router,
    limits: ConnectionLimits,
    slot: &Arc<Connection>,
    mut ends: watch::Receiver<()>,
) {
    // A client that stops reading has disconnected, or occupies the connection on purpose.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.request));
    let stream = Box::pin(stream);
    let mut http = http1::Builder::new();
    // The timeout also covers the pause between two requests.
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    let (router, asking) = (TowerToHyperService::new(router), slot.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let slot = asking.clone();
        let answer = router.call(request.map(|body| asking.clone().asks(body)));
        async move { answer.await.map(|answer| slot.answers(answer)) }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // How a client closes its connection makes no difference.
        _ = connection.as_mut() => return,
        _ = ends.changed() => {}
        () = slot.is_to_leave() => {}
    }
    connection.as_mut().graceful_shutdown();
    // Finishes an answer that has begun, but does not wait for an incomplete request.
    while !slot.may_go(STALLS) {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = sleep(LOOKS_EVERY) => {}
        }
    }
}
