//! Sizes: the measures in which messages are counted.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// The size of messages, in every measure that is a sum over messages.
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
    /// The part of the tokens that counts only until the turn is over, because the provider then drops reasoning.
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

/// A measure for limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Tokens of the body: the window without its head (see `Totals::body`).
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
