//! A server of the Model Context Protocol: the tools of a session's memory, its fact sheets as prompts, and sessions as resources.

mod access;
mod handler;
pub mod http;
mod lines;
mod messages;
mod place;
mod prompts;
mod resources;
mod sheets;
pub mod stdio;
mod tools;
mod transcript;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lookback::memory::{Memory, MemoryError};
use lookback::{LogName, StoreError};

pub use access::{BadToken, Token};

/// What is served: the memory of one session, or of all sessions of its store, and what was said in them.
///
/// A clone serves the same. Any number of clients may use it at once.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::MemoryStore;
/// use lookback::memory::Memory;
/// use lookback_server::mcp::Server;
///
/// let memory = Memory::open_in(MemoryStore::new(), "assistant", "team").await?;
/// let server = Server::new(memory);
/// # let _ = server;
/// # Ok::<(), lookback::memory::MemoryError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    memory: Memory,
    any_session: bool,
    deadline: Duration,
}

impl Server {
    /// How long a call may take, unless [`Server::with_deadline`] says otherwise.
    pub const DEADLINE: Duration = Duration::from_secs(30);

    /// Serves this memory, and no other session's.
    pub fn new(memory: Memory) -> Self {
        Server { memory, any_session: false, deadline: Server::DEADLINE }
    }

    /// A call that takes longer is answered with an error that says so. What the store does for it may still go on, but nothing waits for it.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Clients may read every session of the store, and name another one in any call. All share the facts of one workspace.
    #[must_use]
    pub fn with_any_session(mut self) -> Self {
        self.any_session = true;
        self
    }

    /// Whether clients may see this session.
    fn shows(&self, session: &LogName) -> bool {
        self.any_session || session == self.memory.session()
    }

    /// The memory of a session that clients may see.
    async fn memory_of(&self, session: &LogName) -> Result<Memory, MemoryError> {
        if session == self.memory.session() {
            return Ok(self.memory.clone());
        }
        let workspace = self.memory.workspace().as_str();
        Memory::open_in(self.memory.store().clone(), session.as_str(), workspace).await
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

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Session(#[from] lookback::Error),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How long requests that are under way are waited for when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

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
