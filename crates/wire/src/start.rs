//! Where a window may begin.

use serde::{Deserialize, Serialize};

/// Where a window may begin, apart from system messages. The provider's own rule always applies, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Before any group.
    #[default]
    Any,
    /// Before a message from a person, or before tool calls with their results.
    UserOrToolPair,
    /// Before a message from a person.
    User,
}
