//! The size of the index of names that are no longer in the window.

use serde::{Deserialize, Serialize};

/// An index: a note in the head of the window with names that are no longer in it.
///
/// A name is an [identifier](lookback_content::identifiers). A compaction that removes a name rewrites the index.
/// Frequent and recent names come first, and uses by the model count most. The index helps the model to name things. It
/// does not replace their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Index {
    /// The most tokens of the note, corrected by usage reports. The note never has more than a quarter of the tokens of
    /// the rest of the window. The target reserves no room for it.
    pub budget: u64,
}

impl Default for Index {
    fn default() -> Self {
        Index { budget: 2_500 }
    }
}
