//! The minimum length of repeated lines, which are shown only once.

use serde::{Deserialize, Serialize};

/// Repeated lines: lines of a tool result that an earlier result in the window already shows, word for word. A
/// reference to the entry that shows them replaces them. If a compaction removes that entry, the oldest message that
/// refers to it shows the lines itself, and the others refer to that message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repeats {
    /// The fewest lines that are left out together.
    pub lines: u64,
    /// The fewest tokens that are left out together.
    pub tokens: u64,
}

impl Default for Repeats {
    fn default() -> Self {
        Repeats { lines: 4, tokens: 24 }
    }
}
