//! Caps: how long the texts of tool results may be as they arrive.

use serde::{Deserialize, Serialize};

/// Caps on the texts of tool results: one for files, one for other output.
///
/// A longer text is cut to whole lines. Three fifths of the kept text come from its head and two fifths from its tail.
/// A line that is too long for its share is cut inside. Lengths are estimated from the beginning of the text. Of a text
/// that is not a file, up to a quarter is for lines of the cut part that say how something ended, such as errors.
///
/// ```
/// use lookback_engine::policy::{Caps, Policy};
///
/// // This agent has a tool of its own that reads the log.
/// let caps = Policy::production().caps.map(|caps| Caps { without_recall: 1, ..caps });
/// let policy = Policy { caps, ..Policy::production() };
/// assert!(policy.faults().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// The most tokens of a text that shows a file. A file is recognized by its numbered lines, or by a call whose only
    /// text is a path or a shell command that reads a file. Prose counts as a file, such as the report of another agent.
    pub file: u64,
    /// The most tokens of any other text.
    pub other: u64,
    /// The most tokens of the list of names that occur only in the cut part.
    pub names: u64,
    /// Whether every line of a file shows its number, as it arrived. If not, the first line and every tenth do.
    pub numbers: bool,
    /// How many times as large `file` and `other` are if the model has no tool with which it can read what was cut: no
    /// tool whose name ends in `recall`.
    pub without_recall: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Caps { file: 6_000, other: 1_000, names: 300, numbers: true, without_recall: 1 }
    }
}
