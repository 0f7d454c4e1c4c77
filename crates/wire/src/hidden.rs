//! The reasons why a part of a message is hidden.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a part is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// It is a tool result without a call before it.
    Orphan,
    /// It is a second result of the same call.
    Duplicate,
    /// It is a result that arrived after a stand-in was sent. It replaces the stand-in at the next compaction.
    Late,
    /// It is empty text or white space, which the provider refuses.
    Blank,
    /// It is reasoning without a signature, which the provider refuses.
    Unsigned,
    /// It is a part that a message of this role may not have.
    WrongRole,
    /// It is signed reasoning whose prefix was changed by a compaction.
    Stale,
    /// It is a part that an answer before it shows. The client has both as one answer.
    Shown,
}

impl fmt::Display for Hidden {
    /// Describes the hidden part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hidden::Orphan => "a tool result without a call before it",
            Hidden::Duplicate => "a second result for the same call",
            Hidden::Late => "a result that arrived after its stand-in was sent",
            Hidden::Blank => "a blank text",
            Hidden::Unsigned => "reasoning without a signature",
            Hidden::WrongRole => "a part that a message of its role may not have",
            Hidden::Stale => "signed reasoning whose prefix has changed",
            Hidden::Shown => "a part that an answer before it shows",
        })
    }
}
