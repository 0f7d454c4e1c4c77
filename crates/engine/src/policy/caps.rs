//! Caps: how long the texts of tool results may be as they arrive.

use serde::{Deserialize, Serialize};

/// Caps on the texts of tool results: one for files, one for other output.
///
/// A longer text is cut to whole lines. Three fifths of the kept text come from its head and two fifths from its tail.
/// A line that is too long for its share is cut inside. Lengths are estimated from the beginning of the text. Of a text
/// that is not a file, up to a quarter is for lines of the cut part that say how something ended, such as errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// The most tokens of a text that shows a file. A file is recognized by its numbered lines, or by a call whose only
    /// text is a path or a shell command that reads a file.
    pub file: u64,
    /// The most tokens of any other text.
    pub other: u64,
    /// The most tokens of the list of names that occur only in the cut part.
    pub names: u64,
    /// Whether every line of a file shows its number, as it arrived. If not, the first line and every tenth do.
    pub numbers: bool,
}

impl Default for Caps {
    fn default() -> Self {
        Caps { file: 6_000, other: 1_000, names: 300, numbers: true }
    }
}
