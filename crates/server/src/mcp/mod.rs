//! A server of the Model Context Protocol: the tools of a session's memory, and sessions as resources.

mod access;
mod handler;
pub mod http;
mod place;
mod resources;
pub mod stdio;
mod tools;
mod transcript;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use lookback::{LogName, Store};

pub use access::{BadToken, Token};

/// What is served: the memory of one session in a store, or of all of them.
///
/// A clone serves the same. Any number of clients may use it at once.
///
/// ```
/// use std::sync::Arc;
/// use lookback::MemoryStore;
/// use lookback_server::mcp::Server;
///
/// let server = Server::new(Arc::new(MemoryStore::new()), "assistant".parse()?).in_workspace("team".parse()?);
/// # let _ = server;
/// # Ok::<(), lookback::store::BadName>(())
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    store: Arc<dyn Store>,
    session: LogName,
    workspace: Option<LogName>,
    any_session: bool,
}

impl Server {
    /// Serves the facts and the messages of this session, and no other's.
    pub fn new(store: Arc<dyn Store>, session: LogName) -> Self {
        Server { store, session, workspace: None, any_session: false }
    }

    /// The session shares facts with the others of this workspace.
    #[must_use]
    pub fn in_workspace(mut self, workspace: LogName) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Clients may read every session of the store, and name another one in any call.
    #[must_use]
    pub fn with_any_session(mut self) -> Self {
        self.any_session = true;
        self
    }

    /// Whether clients may see this session.
    fn shows(&self, session: &LogName) -> bool {
        self.any_session || *session == self.session
    }
}

/// Why a server did not start, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The machine gives no threads or signals.
    #[error("the server could not be started")]
    Start(#[source] io::Error),
    /// The address cannot be had.
    #[error("{address} cannot be listened on")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Other machines could reach it, and nothing would keep them out.
    #[error("{address} can be reached from other machines; give a token, or listen on 127.0.0.1")]
    NeedsToken {
        /// The address.
        address: SocketAddr,
    },
    /// The connection on standard input was no client's of this protocol.
    #[error("what came on standard input is not the beginning of a connection of the Model Context Protocol")]
    Handshake,
}

/// One thread is enough: what takes time waits for the disk, on threads of the store's own.
fn runtime() -> Result<tokio::runtime::Runtime, ServeError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Start)
}

/// Ends when the process is asked to stop, by Ctrl-C or by another process. From now on these do nothing else.
fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
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
