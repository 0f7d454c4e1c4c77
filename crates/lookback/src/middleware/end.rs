//! How a run ends, and how a stage fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Failure;

/// Why a run was brought to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// Its tokens are used up.
    Budget {
        /// Tokens used.
        used: u64,
        /// Tokens that may be used.
        limit: u64,
    },
    /// So many iterations brought nothing new.
    Stuck {
        /// Iterations without new evidence.
        iterations: u64,
    },
    /// It has had all its iterations.
    Iterations {
        /// How many it may have.
        most: u64,
    },
    /// The caller, or a stage of its own, says so, in its own words.
    Said(String),
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Budget { used, limit } => write!(f, "{used} of {limit} tokens are used"),
            EndReason::Stuck { iterations } => write!(f, "{iterations} iterations brought nothing new"),
            EndReason::Iterations { most } => write!(f, "all {most} iterations are done"),
            EndReason::Said(text) => f.write_str(text),
        }
    }
}

/// How a run ended. Its session is valid in each case, and may go on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Stopped {
    /// The model answered, and asked for no tools.
    Answered,
    /// The model was made to give its last answer, and did.
    LastAnswer(EndReason),
    /// The model was made to give its last answer, and called tools instead. They were not run.
    NoAnswer(EndReason),
    /// It was cut short, before the model's next answer.
    Cut(EndReason),
    /// A stage failed that is set to fail closed.
    Middleware(Arc<MiddlewareError>),
}

impl Stopped {
    /// Its name, as logs have it.
    pub fn name(&self) -> &'static str {
        match self {
            Stopped::Answered => "answered",
            Stopped::LastAnswer(_) => "last_answer",
            Stopped::NoAnswer(_) => "no_answer",
            Stopped::Cut(_) => "cut",
            Stopped::Middleware(_) => "middleware",
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Answered => f.write_str("the model answered"),
            Stopped::LastAnswer(reason) => write!(f, "the model gave its last answer: {reason}"),
            Stopped::NoAnswer(reason) => write!(f, "the model called tools, and was to give its last answer: {reason}"),
            Stopped::Cut(reason) => write!(f, "the run was cut short: {reason}"),
            Stopped::Middleware(failure) => write!(f, "the run was cut short: {failure}"),
        }
    }
}

impl PartialEq for Stopped {
    /// Failures are the same where they are the same occurrence.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Stopped::Answered, Stopped::Answered) => true,
            (Stopped::LastAnswer(one), Stopped::LastAnswer(other))
            | (Stopped::NoAnswer(one), Stopped::NoAnswer(other))
            | (Stopped::Cut(one), Stopped::Cut(other)) => one == other,
            (Stopped::Middleware(one), Stopped::Middleware(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A stage failed.
#[derive(Debug, thiserror::Error)]
#[error("middleware `{middleware}` at `{event}`: {cause}")]
#[non_exhaustive]
pub struct MiddlewareError {
    /// The stage's name.
    pub middleware: String,
    /// The event's name.
    pub event: &'static str,
    /// What happened.
    #[source]
    pub cause: Cause,
}

/// In which way a stage failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// With an error of its own.
    #[error("it failed")]
    Failed(#[source] Failure),
    /// It panicked, and is not asked again.
    #[error("it panicked, and is not asked again")]
    Panicked,
    /// It took longer than it may. What it says later is not heard.
    #[error("it took longer than {limit:?}")]
    TimedOut {
        /// The longest that it may take.
        limit: Duration,
    },
    /// It is not back yet from an event that it took too long over.
    #[error("it is still busy with an earlier event")]
    Busy,
}
