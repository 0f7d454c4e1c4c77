//! The errors of reading recordings.

use lookback_wire::dialect::{Clue, Contradiction, DecodeError, SyntaxError};

/// The errors of reading recordings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct RecordingError(#[from] RecordingFault);

impl RecordingError {
    /// Returns whether the file is a database of no agent that is known.
    #[doc(hidden)]
    pub fn is_foreign(&self) -> bool {
        #[cfg(feature = "sqlite")]
        return matches!(self.0, RecordingFault::NoStore);
        #[cfg(not(feature = "sqlite"))]
        return false;
    }

    /// Returns whether the dialect was recognized from the messages, and the error may be gone if it is given.
    #[doc(hidden)]
    pub fn needs_dialect(&self) -> bool {
        matches!(self.0, RecordingFault::Contradiction { .. } | RecordingFault::Message { clue: Some(_), .. })
    }
}

/// The reason of a [`RecordingError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordingFault {
    /// A line is not JSON.
    #[error("line {line}: not valid JSON: {}", .fault.reason())]
    Syntax {
        line: usize,
        /// The fault. Its own line number is relative to the parser's start.
        fault: SyntaxError,
    },
    /// A line is neither a transcript nor a message.
    #[error("line {line}: expected a transcript (with `messages`) or a message (with `role`)")]
    Neither { line: usize },
    /// The file contains both transcripts and messages.
    #[error("line {line}: the file contains both transcripts and messages; put them into separate files")]
    Mixed { line: usize },
    /// The format is known, but Lookback does not read it.
    #[error("this looks like {what}, which Lookback does not read: {how}")]
    Foreign { what: &'static str, how: &'static str },
    /// The messages of a transcript are in different dialects.
    #[error("{}: {contradiction}; no dialect has both: give the dialect", places(.line, .other))]
    Contradiction { line: usize, other: usize, contradiction: Box<Contradiction> },
    /// A message cannot be read.
    #[error("line {line}: messages[{index}]: {fault}{}", why(.clue))]
    Message {
        line: usize,
        index: usize,
        fault: DecodeError,
        /// The clue by which the dialect was recognized, if it was not given.
        clue: Option<Box<Clue>>,
    },
    /// A database cannot be read.
    #[cfg(feature = "sqlite")]
    #[error("the database cannot be read: {0}")]
    Database(String),
    /// No agent that is known has such a database.
    #[cfg(feature = "sqlite")]
    #[error("this is a database of no agent that Lookback reads: check that it is the right file")]
    NoStore,
    /// A message has an invalid time.
    #[error("line {line}: messages[{index}].time must be an RFC 3339 time, or seconds since 1970")]
    Time { line: usize, index: usize },
}

fn places(line: &usize, other: &usize) -> String {
    if line == other { format!("line {line}") } else { format!("lines {line} and {other}") }
}

fn why(clue: &Option<Box<Clue>>) -> String {
    clue.as_ref().map_or_else(String::new, |clue| format!(" ({clue}): if that is wrong, give the dialect"))
}
