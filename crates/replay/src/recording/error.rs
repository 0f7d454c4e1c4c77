//! The errors of reading recordings.

use lookback_wire::dialect::DecodeError;
use lookback_wire::dialect::{Clue, Contradiction, SyntaxError};

use super::Shape;

/// The errors of reading recordings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A line is not JSON.
    #[error("line {line}: not valid JSON: {}", .fault.reason())]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The fault. Its own line number is relative to the parser's start.
        fault: SyntaxError,
    },
    /// A line is neither a transcript nor a message.
    #[error("line {line}: expected a transcript (with `messages`) or a message (with `role`)")]
    Neither {
        /// The line, from 1.
        line: usize,
    },
    /// The file contains both transcripts and messages.
    #[error("line {line}: the file contains both transcripts and messages; put them into separate files")]
    Mixed {
        /// The first line of the other kind, from 1.
        line: usize,
    },
    /// The format is known, but Lookback does not read it.
    #[error("{}", .0.advice())]
    Foreign(Shape),
    /// The messages of a transcript are in different dialects.
    #[error("{}: {contradiction}; no dialect has both: give the dialect", places(.line, .other))]
    Contradiction {
        /// The line of the first, from 1.
        line: usize,
        /// The line of the other, from 1.
        other: usize,
        /// The contradiction.
        contradiction: Box<Contradiction>,
    },
    /// A message cannot be read.
    #[error("line {line}: messages[{index}]: {fault}{}", why(.clue))]
    Message {
        /// The line, from 1.
        line: usize,
        /// The index of the message in its transcript.
        index: usize,
        /// The fault.
        fault: DecodeError,
        /// The clue by which the dialect was recognized, if it was not given.
        clue: Option<Box<Clue>>,
    },
    /// A message has an invalid time.
    #[error("line {line}: messages[{index}].time must be an RFC 3339 time, or seconds since 1970")]
    Time {
        /// The line, from 1.
        line: usize,
        /// The index of the message in its transcript.
        index: usize,
    },
}

fn places(line: &usize, other: &usize) -> String {
    if line == other { format!("line {line}") } else { format!("lines {line} and {other}") }
}

fn why(clue: &Option<Box<Clue>>) -> String {
    clue.as_ref().map_or_else(String::new, |clue| format!(" ({clue}): if that is wrong, give the dialect"))
}
