//! Why recordings could not be read.

use lookback_core::DecodeError;
use lookback_core::dialect::{Clue, Contradiction};

use super::Shape;

/// Why recordings could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A line is not JSON.
    #[error("line {line}: not valid JSON: {reason}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// A line is neither a transcript nor a message.
    #[error("line {line}: neither a transcript (`messages`) nor a message (`role`), one a line")]
    Neither {
        /// The line, from 1.
        line: usize,
    },
    /// Transcripts and messages in one file.
    #[error("line {line}: a file holds either transcripts or messages, not both")]
    Mixed {
        /// The first line of the other kind, from 1.
        line: usize,
    },
    /// A format that is known, and not read.
    #[error("{}", .0.advice())]
    Foreign(Shape),
    /// A transcript whose messages are not all in one dialect.
    #[error("{}: {contradiction}; no dialect has both: name the one to read it in with --dialect", places(*.line, *.other))]
    Contradiction {
        /// The line of the first, from 1.
        line: usize,
        /// The line of the other, from 1.
        other: usize,
        /// What was seen.
        contradiction: Box<Contradiction>,
    },
    /// A message that cannot be read.
    #[error("line {line}: messages[{index}]: {fault}{}", why(.clue))]
    Message {
        /// The line, from 1.
        line: usize,
        /// Index of the message in its transcript.
        index: usize,
        /// What is wrong with it.
        fault: DecodeError,
        /// What told the dialect, where it was found out.
        clue: Option<Box<Clue>>,
    },
    /// A time that is none.
    #[error("line {line}: messages[{index}].time must be an RFC 3339 time, or seconds since 1970")]
    Time {
        /// The line, from 1.
        line: usize,
        /// Index of the message in its transcript.
        index: usize,
    },
}

fn places(line: usize, other: usize) -> String {
    if line == other { format!("line {line}") } else { format!("lines {line} and {other}") }
}

fn why(clue: &Option<Box<Clue>>) -> String {
    clue.as_ref().map_or_else(String::new, |clue| format!(" ({clue}; --dialect reads it in another)"))
}
