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

/// A server for the memory and the messages of one session, or of several sessions in its store.
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
    reach: Reach,
    deadline: Duration,
}

impl Server {
    /// The default time limit of a call: 30 seconds.
    pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

    /// Creates a server for this memory. Clients cannot reach other sessions.
    pub fn new(memory: Memory) -> Self {
        Server { memory, reach: Reach::Own, deadline: Server::DEADLINE }
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
        self.reach = Reach::All;
        self
    }

    /// Lets clients read the sessions whose names begin with `prefix`, and name one of them in any call. Searches find
    /// the messages of all of them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_sessions_below(mut self, prefix: impl Into<String>) -> Self {
        self.reach = Reach::Below(prefix.into());
        self
    }

    /// Returns whether clients may see this session.
    fn shows(&self, session: &LogName) -> bool {
        session == self.memory.session() || self.reach.has(session)
    }

    /// Returns whether clients may name another session.
    fn takes_session(&self) -> bool {
        self.reach != Reach::Own
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

/// The sessions that clients reach, in addition to the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    Own,
    /// Those whose names begin like this.
    Below(String),
    All,
}

impl Reach {
    fn has(&self, session: &LogName) -> bool {
        match self {
            Reach::Own => false,
            Reach::Below(prefix) => session.as_str().starts_with(prefix),
            Reach::All => true,
        }
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
