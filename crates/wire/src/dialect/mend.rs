//! Mends: the changes that encoding makes to a request, so that the provider accepts it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A change of a message, beyond its edits, that the provider demands.
///
/// Mends are not in the log. They follow from the messages of a window, and are computed for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mend {
    /// It is sent before messages that came earlier, because it is a tool result that did not directly follow its call.
    Moved,
    /// It is merged with the previous message, which has the same role.
    MergedWithPrevious,
    /// Its tool results are sent before its other content.
    ResultsFirst,
    /// It is a system message at a place where none is allowed, and is sent as a user message.
    SentAsUser,
    /// It is a system message at a place where none is allowed, and is sent after the next user message.
    SentAfterNext,
    /// The message, or some of its items, blocks or parts, are left out because the provider refuses them at this
    /// place. An example is reasoning without a following item of the model.
    Removed {
        /// The number of items, blocks or parts that are left out.
        elements: usize,
    },
    /// Members that the provider refuses are removed or replaced, or members that it demands are added.
    MembersMended,
    /// Half of a surrogate pair, which is not a character, is sent as U+FFFD.
    HalvesReplaced,
    /// Its tool calls have no signature, although the model signs its calls. They are marked, so that the provider does
    /// not check them.
    Signed,
    /// Cache markers are removed from it, because later messages already have the maximum.
    MarkersRemoved {
        /// The number of markers removed.
        count: usize,
    },
}

impl fmt::Display for Mend {
    /// Describes the change and its reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mend::Moved => f.write_str("the tool result does not directly follow its call: it is moved there"),
            Mend::MergedWithPrevious => f.write_str("it is merged with the message before it, which has the same role"),
            Mend::ResultsFirst => f.write_str("its tool results are moved before its other content"),
            Mend::SentAsUser => f.write_str("a system message is not allowed here: it is sent as a user message"),
            Mend::SentAfterNext => {
                f.write_str("a system message is not allowed here: it is moved after the next user message")
            }
            Mend::Removed { .. } => f.write_str("the provider refuses it at this place: it is left out"),
            Mend::MembersMended => {
                f.write_str("it has members that the provider refuses, or lacks one: they are mended")
            }
            Mend::HalvesReplaced => f.write_str("it has half of a surrogate pair: this is sent as U+FFFD"),
            Mend::Signed => {
                f.write_str("its call has no signature: it is marked so that the provider does not check it")
            }
            Mend::MarkersRemoved { count: 1 } => f.write_str("one cache marker too many: it is removed"),
            Mend::MarkersRemoved { count } => write!(f, "{count} cache markers too many: they are removed"),
        }
    }
}

impl Mend {
    /// Returns one verb for the change.
    pub fn verb(self) -> &'static str {
        match self {
            Mend::Moved | Mend::ResultsFirst | Mend::SentAfterNext => "move",
            Mend::MergedWithPrevious => "merge",
            Mend::SentAsUser => "relabel",
            Mend::MarkersRemoved { .. } => "unmark",
            Mend::Removed { .. } => "remove",
            Mend::Signed => "sign",
            Mend::MembersMended | Mend::HalvesReplaced => "change",
        }
    }

    /// Returns this change to the message with this index.
    pub fn at(self, message: usize) -> Mended {
        Mended { message, mend: self }
    }
}

/// A message that is changed when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Mended {
    /// The index of the message among the shown messages.
    pub message: usize,
    /// The change.
    pub mend: Mend,
}
