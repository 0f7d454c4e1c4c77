//! The events of a gateway, for a log. They contain no contents and no keys.

use std::fmt;

use lookback_wire::dialect::Dialect;
use serde::Serialize;

use crate::causes::chained;
use crate::gateway::client::Unanswered;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::report::habits::Habit;
use crate::gateway::report::note::Note;

/// An event of a gateway.
///
/// Its `Display` text is for people. As JSON, it is an object with a member `event`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A model call was answered, or the answer began.
    #[non_exhaustive]
    Call {
        /// The dialect of the request.
        dialect: Dialect,
        /// The address of the upstream.
        upstream: String,
        /// The status of the answer.
        status: u16,
        /// The time until the answer began, in milliseconds.
        milliseconds: u64,
        /// What was done with the request.
        #[serde(flatten)]
        note: Note,
    },
    /// Something failed. Requests pass anyway.
    #[non_exhaustive]
    Failure {
        /// What failed.
        what: String,
    },
    /// A client has a habit that costs money.
    #[doc(hidden)]
    #[non_exhaustive]
    Advice {
        /// The session that shows it.
        session: String,
        /// The habit.
        habit: Habit,
    },
    /// A changed configuration is used from now on.
    Reloaded,
}

impl Event {
    /// Creates a failure.
    pub(crate) fn failure(what: String) -> Event {
        Event::Failure { what }
    }

    /// Creates a failure about an upstream that did not answer. The system's error distinguishes causes such as a wrong
    /// address or a wrong certificate.
    pub(crate) fn unanswered(upstream: &Upstream, error: &Unanswered) -> Event {
        Event::failure(format!("{upstream}: {}", chained(error)))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Call { dialect, upstream, status, milliseconds, note } => {
                write!(f, "{status} {dialect} {upstream} {milliseconds} ms{note}")
            }
            Event::Failure { what } => f.write_str(what),
            Event::Advice { session, habit } => write!(f, "{}: {habit:?}", session.escape_default()),
            Event::Reloaded => f.write_str("the changed configuration is used from now on"),
        }
    }
}
