//! Caps: how long the texts of tool results may be as they arrive.

use serde::{Deserialize, Serialize};

/// Caps on the texts of tool results: one for files, one for other output.
///
/// A longer text is cut to whole lines. Three fifths of the kept text come from its head and two fifths from its tail.
/// A line that is too long for its share is cut inside. Lengths are estimated from the beginning of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// The most tokens of a text that shows a file. A file is recognized by its numbered lines, or by a call whose only
    /// text is a path.
    pub file: u64,
    /// The most tokens of any other text.
    pub other: u64,
    /// The most tokens of the list of names that occur only in the cut part.
    pub names: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Caps { file: 6_000, other: 1_000, names: 300 }
    }
}
