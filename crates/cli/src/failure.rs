//! What ends a command early, what is said of it, and the exit code: the one place where these stand together.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use lookback::memory::{BadLine, FactId, KbError, MemoryError, Refused};
use lookback::presets::PolicyError;
use lookback::prices::PricesError;
use lookback::recording::{RecordingError, TextError};
use lookback::{Error, RequestError, StoreError};

#[cfg(feature = "mcp")]
use crate::store::NoHome;
use crate::{output, words};

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{place}: {source}")]
    Unreadable { place: String, source: io::Error },
    #[error("{place}: {fault}")]
    Text { place: String, fault: TextError },
    #[error("{place}: {fault}")]
    Request { place: String, fault: RequestError },
    #[error("{place}: {fault}")]
    Recording { place: String, fault: RecordingError },
    #[error("{place} holds {} transcripts; name the one to take with --transcript: {}", .names.len(), words::names(.names))]
    Several { place: String, names: Vec<String> },
    #[error("{place} holds no transcript {}{}", words::short(.name), known(.names))]
    NoTranscript { place: String, name: String, names: Vec<String> },
    #[error("{place}: {fault}")]
    Prices { place: String, fault: PricesError },
    #[error("there are no prices `{name}`; there are {known}, and a file's name ends in .toml")]
    NoPrices { name: String, known: String },
    #[error("{0} holds no prices")]
    NoPricesIn(String),
    #[error("--policy {policy}: {fault}")]
    Policy { policy: String, fault: PolicyError },
    #[error("{0} holds no transcript")]
    Empty(String),
    #[error("Ctrl-C could not be listened for: {0}")]
    Handler(ctrlc::Error),
    #[error("{transcript}, --policy {policy}: {error}")]
    Replay { transcript: String, policy: String, error: Error },
    #[error(transparent)]
    Session(#[from] Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "there is no store at {0}; it looks like a memory folder of KB Labs: `lookback facts import {0}` takes it over"
    )]
    KbFolder(String),
    #[error("there is no session `{name}` in {store}")]
    NoSession { name: String, store: String },
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("{place}: {fault}")]
    Export { place: String, fault: BadLine },
    #[error(transparent)]
    Kb(#[from] KbError),
    #[error("{id} is a fact of a session; say of which with --session NAME")]
    WhoseFact { id: FactId },
    #[error("there is no fact {id} in {store}")]
    NoFact { id: FactId, store: String },
    #[error("{0} is an export of facts; say with --session NAME or --shared whose they are to be")]
    WhoseFacts(String),
    #[error("{0} holds no facts")]
    NoFacts(String),
    #[error("{0} is a folder, and brings its sessions; leave out --session and --shared")]
    FolderOfSessions(String),
    #[error("{} is a store of lookback: export from it with --store {}/", .0.display(), .0.display().to_string().trim_end_matches('/'))]
    OwnStore(PathBuf),
    #[error("the output could not be written: {0}")]
    Output(#[from] io::Error),
    #[error("{place} could not be made: {source}")]
    Folder { place: String, source: io::Error },
    #[cfg(feature = "mcp")]
    #[error("LOOKBACK_STORE: {0}")]
    StoreVariable(NoHome),
    #[cfg(feature = "mcp")]
    #[error("the system names no folder for this user's data; name the store with --store PATH")]
    NoDataFolder,
    #[cfg(feature = "mcp")]
    #[error("--token-env {variable}: there is no such environment variable, or it is no text")]
    NoToken { variable: String },
    #[cfg(feature = "mcp")]
    #[error("--token-env {variable}: {fault}")]
    Token { variable: String, fault: lookback_server::mcp::BadToken },
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    Serve(#[from] lookback_server::mcp::ServeError),
}

/// The transcripts that there are instead.
fn known(names: &[String]) -> String {
    if names.is_empty() { ": it is no recording".to_owned() } else { format!("; it has {}", words::names(names)) }
}

impl Failure {
    /// 1: the answer is no. 2: the question could not be read, or the machine failed.
    fn code(&self) -> u8 {
        match self {
            Failure::Session(Error::HardLimitExceeded(_) | Error::Irreducible(_))
            | Failure::Replay { error: Error::HardLimitExceeded(_), .. }
            | Failure::Memory(MemoryError::Refused(
                Refused::Gone { .. } | Refused::Private { .. } | Refused::NoBlocker { .. } | Refused::Trusted { .. },
            ))
            | Failure::NoFact { .. }
            | Failure::NoSession { .. } => 1,
            Failure::Unreadable { .. }
            | Failure::Text { .. }
            | Failure::Request { .. }
            | Failure::Recording { .. }
            | Failure::Several { .. }
            | Failure::NoTranscript { .. }
            | Failure::Prices { .. }
            | Failure::NoPrices { .. }
            | Failure::NoPricesIn(_)
            | Failure::Policy { .. }
            | Failure::Empty(_)
            | Failure::Handler(_)
            | Failure::Replay { .. }
            | Failure::Session(_)
            | Failure::Store(_)
            | Failure::KbFolder(_)
            | Failure::Memory(_)
            | Failure::Export { .. }
            | Failure::Kb(_)
            | Failure::WhoseFact { .. }
            | Failure::WhoseFacts(_)
            | Failure::NoFacts(_)
            | Failure::FolderOfSessions(_)
            | Failure::OwnStore(_)
            | Failure::Folder { .. }
            | Failure::Output(_) => 2,
            #[cfg(feature = "mcp")]
            Failure::StoreVariable(_)
            | Failure::NoDataFolder
            | Failure::NoToken { .. }
            | Failure::Token { .. }
            | Failure::Serve(_) => 2,
        }
    }

    /// Whether it shows a place in a file on lines of its own, as TOML's errors do.
    fn has_lines(&self) -> bool {
        matches!(self, Failure::Policy { .. } | Failure::Prices { .. })
    }

    /// Whether the reader of the output has gone away, which is no failure.
    fn is_gone_reader(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit code that a command has found, where its output was written or nobody waits for it any more.
    pub(crate) fn code_after(written: Result<(), Failure>, code: u8) -> Result<ExitCode, Failure> {
        match written {
            Err(failure) if !failure.is_gone_reader() => Err(failure),
            Ok(()) | Err(_) => Ok(ExitCode::from(code)),
        }
    }

    /// Says it on standard error.
    pub(crate) fn report(self) -> ExitCode {
        if self.is_gone_reader() {
            return ExitCode::SUCCESS;
        }
        if self.has_lines() {
            output::error_with_lines(&self);
        } else {
            output::error(&self);
        }
        let mut said = self.to_string();
        let mut source = std::error::Error::source(&self);
        while let Some(cause) = source {
            let why = cause.to_string();
            // Some sentences end with their cause.
            if !said.ends_with(&why) {
                output::note(&format!("because: {why}"));
            }
            said = why;
            source = cause.source();
        }
        ExitCode::from(self.code())
    }
}
