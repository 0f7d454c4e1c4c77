//! A server for the Model Context Protocol: memory tools, fact sheets as prompts, and sessions as resources.

mod fault;
mod handler;
pub mod http;
mod lines;
mod messages;
mod prompts;
mod resources;
mod sheets;
pub mod stdio;
mod tools;
mod transcript;
mod uri;

use std::time::Duration;

use lookback_facts::{Memory, MemoryError};
use lookback_store::{LogName, StoreError};

use crate::serving::ServeError;
use crate::token::Token;

/// A server for the memory and the messages of one session, or of all sessions in its store.
///
/// Any number of clients may use a server at once. Cloning it is cheap, and the clones serve the same memory.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_facts::Memory;
/// use lookback_server::mcp::Server;
///
/// let memory = Memory::open_in(MemoryStore::new(), "assistant", "team").await?;
/// let server = Server::new(memory);
/// # let _ = server;
/// # Ok::<(), lookback_facts::MemoryError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    memory: Memory,
    any_session: bool,
    deadline: Duration,
}

impl Server {
    /// The default time limit of a call: 30 seconds.
    pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

    /// Creates a server for this memory. Clients cannot reach other sessions.
    pub fn new(memory: Memory) -> Self {
        Server { memory, any_session: false, deadline: Server::DEADLINE }
    }

    /// Sets the time limit of a call.
    ///
    /// A call that takes longer is answered with an error. The store may still finish the work, but nothing waits for
    /// it.
    #[must_use]
    #[doc(hidden)]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Lets clients read every session in the store, and name another session in any call.
    ///
    /// All sessions share the facts of one workspace.
    #[must_use]
    pub fn with_any_session(mut self) -> Self {
        self.any_session = true;
        self
    }

    /// Returns whether clients may see this session.
    fn shows(&self, session: &LogName) -> bool {
        self.any_session || session == self.memory.session()
    }

    /// Opens the memory of a session. The caller checks whether clients may see it.
    async fn memory_of(&self, session: &LogName) -> Result<Memory, MemoryError> {
        if session == self.memory.session() {
            return Ok(self.memory.clone());
        }
        let workspace = self.memory.workspace().as_str();
        Memory::open_in(self.memory.store().clone(), session.as_str(), workspace).await
    }
}

/// An error while a resource is read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Session(#[from] lookback_session::Error),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The time that open requests have to finish when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(5);
