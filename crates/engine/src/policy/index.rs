//! How much the index of what has left the window may list.

use serde::{Deserialize, Serialize};

/// An index of what has left the window: a note behind the head of the window, with names that are no longer in it.
///
/// A name is an [identifier](lookback_content::identifiers). Each compaction from which a name leaves makes the index anew. What
/// was said often comes first, above all by the model itself, and what was said lately. The index helps the model to
/// name things. It does not replace their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Index {
    /// The most tokens of the note, corrected by usage reports. It never has more than a quarter of the tokens of the
    /// rest of the window. The target keeps no room for it.
    pub budget: u64,
}

impl Default for Index {
    fn default() -> Self {
        Index { budget: 2_500 }
    }
}
