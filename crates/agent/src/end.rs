//! The ends of runs, and the errors of middleware.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Failure;

/// The reason for the end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The run has used up its tokens.
    Budget {
        /// Tokens used.
        used: u64,
        /// Tokens that may be used.
        limit: u64,
    },
    /// The run, or its whole session, has reached its limit on costs.
    Cost {
        /// The cost so far, in millionths of a US dollar.
        spent: u64,
        /// The limit, in millionths of a US dollar.
        limit: u64,
    },
    /// Too many iterations in a row brought no new evidence.
    Stuck {
        /// Iterations without new evidence.
        iterations: u64,
    },
    /// The run has reached its limit on iterations.
    Iterations {
        /// The limit.
        most: u64,
    },
    /// A reason in words, from the caller or from a middleware of the caller.
    Said(String),
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Budget { used, limit } => write!(f, "{used} of {limit} tokens are used"),
            EndReason::Cost { spent, limit } => write!(f, "{} of {} is spent", dollars(*spent), dollars(*limit)),
            EndReason::Stuck { iterations } => write!(f, "{iterations} iterations brought nothing new"),
            EndReason::Iterations { most } => write!(f, "all {most} iterations are done"),
            EndReason::Said(text) => f.write_str(text),
        }
    }
}

/// Formats an amount in millionths of a US dollar.
pub(super) fn dollars(millionths: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
    let dollars = millionths as f64 / 1e6;
    if dollars < 1.0 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

/// The end of a run. In each case, the session is valid and can continue.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Stopped {
    /// The model answered without calling tools.
    Answered,
    /// The model was asked for its last answer, and gave it.
    LastAnswer(EndReason),
    /// The model was asked for its last answer, and called tools instead. They were not run.
    NoAnswer(EndReason),
    /// The run was cut short, before the model's next answer.
    Cut(EndReason),
    /// A middleware that fails closed has failed.
    Middleware(Arc<MiddlewareError>),
}

impl Stopped {
    /// Returns its name in logs, such as `last_answer`.
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
            Stopped::NoAnswer(reason) => {
                write!(f, "the model called tools instead of giving its last answer: {reason}")
            }
            Stopped::Cut(reason) => write!(f, "the run was cut short: {reason}"),
            Stopped::Middleware(failure) => write!(f, "the run was cut short: {failure}: {}", failure.cause),
        }
    }
}

impl PartialEq for Stopped {
    /// Failures are equal only if they are the same occurrence, because causes cannot be compared.
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

/// A middleware failed.
///
/// [`MiddlewareError::cause`] has the details. It is the source of this error, so the error's own text does not repeat
/// it.
#[derive(Debug, thiserror::Error)]
#[error("middleware `{middleware}` failed at `{event}`")]
#[non_exhaustive]
pub struct MiddlewareError {
    /// The middleware's name.
    pub middleware: String,
    /// The event's name.
    pub event: &'static str,
    /// The cause.
    #[source]
    pub cause: Cause,
}

/// The cause of a middleware's failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// It returned an error.
    #[error("it returned an error")]
    Failed(#[source] Failure),
    /// It panicked. It is not called again.
    #[error("it panicked, and is not asked again")]
    Panicked,
    /// It exceeded its time limit. A reaction that comes later is ignored.
    #[error("it took longer than {limit:?}")]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// It is still busy with an earlier event, for which it exceeded its time limit.
    #[error("it is still busy with an earlier event")]
    Busy,
}
