//! The relation of a request to its line of conversation.

use std::fmt;

use serde::Serialize;

/// The relation of a request to its line of conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Relation {
    /// It begins the line.
    New,
    /// It continues the line at its end.
    Continued,
    /// It repeats or changes the end of the line.
    Edited,
    /// It has another history for the same conversation, because the client has compacted it.
    Rewritten,
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::New => "new",
            Relation::Continued => "continued",
            Relation::Edited => "edited",
            Relation::Rewritten => "rewritten",
        })
    }
}
