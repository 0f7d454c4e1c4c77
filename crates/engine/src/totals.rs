//! The totals of a window, and by how much it exceeds a limit.

use std::fmt;

use lookback_content::text::number;
use lookback_wire::size::{Measure, Size};
use serde::{Deserialize, Serialize};

/// The totals of a window, in every measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// The measures that are sums over the groups.
    pub size: Size,
    /// The number of different turns.
    pub turns: u64,
    /// The number of rounds.
    pub rounds: u64,
    /// Tokens of the body: the window without its head, which never leaves. The head is the system prompt, the tools,
    /// the first messages that a policy keeps, the current task, the running summary and the index.
    ///
    /// A view does not know its policy. There, these are all tokens except those of the preamble.
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
    /// Creates an excess.
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
