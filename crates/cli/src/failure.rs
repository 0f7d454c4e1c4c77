//! The errors that end a command, with their messages and exit codes.

use crate::exit::ExitCode;
use std::io;
use std::path::PathBuf;

use lookback_content::text;
use lookback_facts::{BadLine, FactId, KbError, MemoryError, Refused};
use lookback_presets::PolicyError;
use lookback_recordings::{RecordingError, TextError};
use lookback_replay::prices::PricesError;
use lookback_session::Error;
use lookback_store::{CopyError, LogName, StoreError};
use lookback_wire::dialect::RequestError;

use crate::location::NoLocation;

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{place}: {error}")]
    Unreadable { place: String, error: io::Error },
    #[error("{place}: {fault}")]
    Text { place: String, fault: TextError },
    #[error("{place}: {fault}")]
    Request { place: String, fault: RequestError },
    #[error("{place}: {fault}{}", flag(.fault))]
    Recording { place: String, fault: RecordingError },
    #[error("{place} contains {} transcripts; choose one with --transcript: {}", .names.len(), text::names(.names))]
    Several { place: String, names: Vec<String> },
    #[error("{place} contains no transcript {}{}", text::short(.name), known(.names))]
    NoTranscript { place: String, name: String, names: Vec<String> },
    #[error("{place}: {fault}")]
    Prices { place: String, fault: PricesError },
    #[error("there are no prices named `{name}`; use {known}, or a file whose name ends in .toml")]
    NoPrices { name: String, known: String },
    #[error("{0} contains no prices")]
    NoPricesIn(String),
    #[error("--policy {policy}: {fault}")]
    Policy { policy: String, fault: PolicyError },
    #[cfg(feature = "server")]
    #[error("--upstream: {0}")]
    Upstream(lookback_server::gateway::BadUpstream),
    #[cfg(feature = "server")]
    #[error("{place}: policy {policy}: {fault}")]
    ConfigPolicy { place: String, policy: String, fault: Box<PolicyError> },
    #[error("{0} contains no transcript")]
    Empty(String),
    #[error("no conversation was found{}", .0)]
    NoneChosen(&'static str),
    #[error("no conversation is named {}; `lookback replay --list --json` has the names", text::short(.0))]
    NoConversation(String),
    #[error("the system has no home folder for this user; name the files")]
    NoHome,
    #[error("Lookback cannot handle Ctrl-C: {0}")]
    Handler(ctrlc::Error),
    #[error("{transcript}, --policy {policy}: {error}")]
    Replay { transcript: String, policy: String, error: Error },
    #[error(transparent)]
    Session(#[from] Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "there is no store at {0}; it looks like a memory folder of KB Labs: `lookback facts import {0}` imports it"
    )]
    KbFolder(String),
    #[error("there is no session `{name}` in {store}{}", meant(.similar))]
    NoSession { name: String, store: String, similar: Vec<LogName> },
    #[error("--entry names entries of one session, and there are {count} sessions; name one of them")]
    SeveralErased { count: usize },
    #[error("--html shows one session, and there are {count}; name one of them")]
    SeveralPages { count: usize },
    #[error("session `{session}` has {calls} calls, and no call {call}; `lookback sessions calls` lists them")]
    NoCall { session: String, call: u64, calls: u64 },
    #[error("session `{session}`: {error}")]
    Import { session: String, error: Error },
    #[error("there is another session `{session}` in {store}; delete it, or give the transcript another `id`")]
    OtherSession { session: String, store: String },
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("{place}: {fault}")]
    Export { place: String, fault: BadLine },
    #[error(transparent)]
    Kb(#[from] KbError),
    #[error("{id} is a fact of a session; name the session with --session NAME")]
    WhoseFact { id: FactId },
    #[error("there is no fact {id} in {store}")]
    NoFact { id: FactId, store: String },
    #[error("{0} is an export of facts; choose where to import them with --session NAME or --shared")]
    WhoseFacts(String),
    #[error("{0} contains no facts")]
    NoFacts(String),
    #[error("{0} is a folder, which contains its own sessions; leave out --session and --shared")]
    FolderOfSessions(String),
    #[error("{} is a store of Lookback; run `lookback facts export` with --store {}/", .0.display(), .0.display().to_string().trim_end_matches('/'))]
    OwnStore(PathBuf),
    #[error("{0} exists, and is not overwritten; name another file")]
    Exists(String),
    #[error("{place} could not be written: {error}")]
    Unwritable { place: String, error: io::Error },
    #[error("there is nothing to compare: no recording with a model call was replayed under every policy")]
    NoCalls,
    #[error("the output could not be written: {0}")]
    Output(io::Error),
    #[error("the output could not be written as JSON: {0}")]
    Json(serde_json::Error),
    #[error("the folder {place} could not be created: {error}")]
    Folder { place: String, error: io::Error },
    #[error("{left} logs of the project were written again; end its agents, and repeat the command")]
    NotForgotten { left: usize },
    #[error(transparent)]
    Location(#[from] NoLocation),
    #[error(
        "{variable} is not set; set it to NAME:BASE64, with 32 random bytes such as `openssl rand -base64 32` writes"
    )]
    NoKeys { variable: &'static str },
    #[cfg(feature = "encryption")]
    #[error("{variable}: {fault}")]
    Key { variable: &'static str, fault: lookback_store::BadKey },
    #[cfg(not(feature = "encryption"))]
    #[error("{variable} is set, but this build of Lookback cannot encrypt; build it with the feature `encryption`")]
    NoEncryption { variable: &'static str },
    #[cfg(any(test, not(all(feature = "postgres", feature = "redis", feature = "server"))))]
    #[error("this build of Lookback has no servers; install it with `cargo install --path crates/cli --features full`")]
    NoServers,
    #[error("the system has no data folder for this user; name the store with --store")]
    NoDataFolder,
    #[cfg(feature = "server")]
    #[error("--token-env {variable}: this environment variable is not set, or is not valid UTF-8")]
    NoToken { variable: String },
    #[cfg(feature = "server")]
    #[error("--token-env {variable}: {fault}")]
    Token { variable: String, fault: lookback_server::BadToken },
    #[cfg(feature = "server")]
    #[error("{place}: {fault}")]
    Config { place: String, fault: lookback_server::gateway::ConfigError },
    #[cfg(feature = "server")]
    #[error(transparent)]
    NoRandom(#[from] lookback_server::gateway::NoRandom),
    #[cfg(feature = "server")]
    #[error(transparent)]
    Serve(#[from] lookback_server::ServeError),
    #[cfg(feature = "otel")]
    #[error("the OpenTelemetry collector cannot be used: {0}")]
    Telemetry(opentelemetry_otlp::ExporterBuildError),
}

/// Returns the end of the error about a missing transcript: the transcripts to choose from.
fn known(names: &[String]) -> String {
    if names.is_empty() { ": it is not a recording".to_owned() } else { format!("; choose {}", text::names(names)) }
}

/// Returns the end of an error that asks for the dialect: the option to use.
fn flag(fault: &RecordingError) -> &'static str {
    if fault.needs_dialect() { " with --dialect" } else { "" }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// Returns the names that may be meant, as the end of an error.
fn meant(similar: &[LogName]) -> String {
    let names: Vec<String> = similar.iter().map(ToString::to_string).collect();
    if names.is_empty() { String::new() } else { format!("; choose {}", text::names(&names)) }
}

impl Failure {
    /// Returns the exit code: 1 if the answer is no, 2 if the input is invalid or the system failed.
    pub(crate) fn code(&self) -> u8 {
        let is_no = matches!(
            self,
            Failure::Session(Error::HardLimitExceeded(_) | Error::Irreducible(_))
                | Failure::Replay { error: Error::HardLimitExceeded(_), .. }
                | Failure::Memory(MemoryError::Refused(
                    Refused::Gone { .. }
                        | Refused::Private { .. }
                        | Refused::NoBlocker { .. }
                        | Refused::Trusted { .. },
                ))
                | Failure::NoFact { .. }
                | Failure::NoCall { .. }
                | Failure::OtherSession { .. }
                | Failure::NoSession { .. }
        );
        if is_no { 1 } else { 2 }
    }

    /// Returns whether the message has several lines, like errors of the TOML parser, which quote the file.
    pub(crate) fn has_lines(&self) -> bool {
        matches!(self, Failure::Policy { .. } | Failure::Prices { .. })
    }

    /// Returns whether the reader of the output has closed it, which is not an error.
    pub(crate) fn is_gone_reader(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the exit code of a command whose output was written, or whose reader has closed it.
    pub(crate) fn code_after(written: Result<(), Failure>, code: u8) -> Result<ExitCode, Failure> {
        match written {
            Err(failure) if !failure.is_gone_reader() => Err(failure),
            Ok(()) | Err(_) => Ok(ExitCode::from(code)),
        }
    }
}
