//! Where a window may begin.

use serde::{Deserialize, Serialize};

/// Where a window may begin, system messages aside. What the provider demands holds in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Anywhere between groups.
    #[default]
    Any,
    /// At a message of a person, or at a tool call with its results.
    UserOrToolPair,
    /// At a message of a person.
    User,
}
