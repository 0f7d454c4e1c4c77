//! Which lines of a tool result are shown once.

use serde::{Deserialize, Serialize};

/// Lines of a tool result that the window shows already, word for word, in an earlier result. A reference to the entry
/// that shows them takes their place. If a compaction removes that entry, the oldest message that refers to it shows the
/// lines itself, and the others refer to that one.
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
