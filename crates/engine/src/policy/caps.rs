//! Caps: how long the texts of tool results may be as they arrive.

use serde::{Deserialize, Serialize};

/// Caps on the texts of tool results, by what they show.
///
/// A text that is longer is cut in whole lines, with three fifths of what is kept from the head and two fifths from the
/// tail. A line that is longer than that is cut inside. The lengths are estimated from the beginning of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// The most tokens of a text that shows a file. It is recognized by its numbered lines, or by a call whose only text
    /// is the path of a file.
    pub file: u64,
    /// The most tokens of any other text.
    pub other: u64,
    /// The most tokens of the list of names that were only in what is cut.
    pub names: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Caps { file: 6_000, other: 1_000, names: 300 }
    }
}
