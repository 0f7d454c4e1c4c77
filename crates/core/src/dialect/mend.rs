//! What is done to a message as it is sent, so that a provider takes it.

use serde::{Deserialize, Serialize};

/// What is done to a message as it is sent, beyond its edits, so that the provider takes the request.
///
/// Nothing of it is in the log: it follows from the messages that are shown, and is found anew at each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mend {
    /// It is sent before messages that came before it, as a tool result is that did not come right behind its call.
    Moved,
    /// It is sent as one message with the one before it, which has the same role.
    MergedWithPrevious,
    /// Its tool results are sent before other content that stood before them.
    ResultsFirst,
    /// A system message that may not stand where it does is sent as the user's.
    SentAsUser,
    /// A system message that may not stand where it does is sent behind the user's message that follows it.
    SentBehindNext,
    /// Cache markers are taken out of it, since later messages have as many as a request may have.
    MarkersRemoved {
        /// How many.
        count: usize,
    },
}
