//! Sizes: the measures in which a window is counted, and by how much it exceeds a limit.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

use crate::text::number;

/// The size of something, in every measure that adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Size {
    /// Tokens, as the session's counter counts them.
    pub tokens: u64,
    /// Bytes of JSON.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Pictures and files.
    pub media: u64,
    /// How many of the tokens count only until the turn is over, because the provider leaves reasoning out then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passing: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Size {
    /// Returns the size once the turn is over.
    #[must_use]
    pub fn after_turn(self) -> Size {
        Size { tokens: self.tokens.saturating_sub(self.passing), passing: 0, ..self }
    }
}

impl Add for Size {
    type Output = Size;
    fn add(self, other: Size) -> Size {
        Size {
            tokens: self.tokens.saturating_add(other.tokens),
            bytes: self.bytes.saturating_add(other.bytes),
            messages: self.messages.saturating_add(other.messages),
            media: self.media.saturating_add(other.media),
            passing: self.passing.saturating_add(other.passing),
        }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Size) {
        *self = *self + other;
    }
}

impl Sub for Size {
    type Output = Size;
    fn sub(self, other: Size) -> Size {
        Size {
            tokens: self.tokens.saturating_sub(other.tokens),
            bytes: self.bytes.saturating_sub(other.bytes),
            messages: self.messages.saturating_sub(other.messages),
            media: self.media.saturating_sub(other.media),
            passing: self.passing.saturating_sub(other.passing),
        }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), Size::add)
    }
}

/// A measure that a limit can be set in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Measure {
    /// Tokens.
    Tokens,
    /// Messages.
    Messages,
    /// Turns.
    Turns,
    /// Rounds.
    Rounds,
    /// Bytes of JSON.
    Bytes,
    /// Pictures and files.
    Media,
    /// Tokens of the body: the window without its head (see [`Totals::body`]).
    Body,
}

impl Measure {
    /// All measures, in the order in which they are reported.
    pub const ALL: [Measure; 7] = [
        Measure::Tokens,
        Measure::Body,
        Measure::Messages,
        Measure::Turns,
        Measure::Rounds,
        Measure::Bytes,
        Measure::Media,
    ];
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Tokens => "tokens",
            Measure::Messages => "messages",
            Measure::Turns => "turns",
            Measure::Rounds => "rounds",
            Measure::Bytes => "bytes",
            Measure::Media => "pictures and files",
            Measure::Body => "body tokens",
        })
    }
}

/// The totals of a window, in every measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// The measures that add up.
    pub size: Size,
    /// The number of different turns.
    pub turns: u64,
    /// The number of rounds.
    pub rounds: u64,
    /// Tokens of the body: the window without its head, which cannot leave. The head is the system prompt, the tools,
    /// the first messages that a policy keeps, the current task, the running summary and the index.
    ///
    /// A view alone does not know what its policy keeps. There, it is all tokens but those of the preamble.
    #[serde(default)]
    pub body: u64,
}

impl Totals {
    /// Returns the total in one measure.
    pub fn get(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Tokens => self.size.tokens,
            Measure::Messages => self.size.messages,
            Measure::Turns => self.turns,
            Measure::Rounds => self.rounds,
            Measure::Bytes => self.size.bytes,
            Measure::Media => self.size.media,
            Measure::Body => self.body,
        }
    }
}

/// A limit that is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Excess {
    /// The measure of the limit.
    pub measure: Measure,
    /// The amount in the window.
    pub actual: u64,
    /// The limit.
    pub limit: u64,
}

impl Excess {
    /// Creates an excess: this amount where the limit is that one.
    pub fn new(measure: Measure, actual: u64, limit: u64) -> Excess {
        Excess { measure, actual, limit }
    }
}

impl fmt::Display for Excess {
    /// Writes the amount and the limit, as in `32,411 tokens (limit 32,000)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (limit {})", number(self.actual), self.measure, number(self.limit))
    }
}
