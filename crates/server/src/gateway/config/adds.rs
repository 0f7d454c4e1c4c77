//! What a gateway adds to the requests of conversations, if it is asked to.

use std::str::FromStr;

use lookback_facts::tools;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as DeError, StrDeserializer};

/// Something that a gateway adds to the requests of conversations.
///
/// ```
/// use lookback_server::gateway::Add;
///
/// assert_eq!("fact-sheet".parse::<Add>()?, Add::FactSheet);
/// assert!("facts".parse::<Add>().is_err());
/// # Ok::<(), lookback_server::gateway::UnknownAdd>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Add {
    /// A note with what is known, and notes with what changes.
    FactSheet,
    /// The tools with which a model writes facts and finds them. The gateway answers their calls.
    MemoryTools,
    /// The tool with which a model reads what has left its window. The gateway answers its calls.
    Recall,
    /// Notes, if the model's calls bring nothing new.
    Progress,
    /// The member by which Anthropic caches a conversation as far as it goes, if the client marks nothing itself.
    CacheMarkers,
    /// A summary of what leaves the window.
    Summaries,
}

/// A text that names nothing that can be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a gateway can add fact-sheet, memory-tools, recall, progress, cache-markers and summaries, but not `{name}`")]
pub struct UnknownAdd {
    /// The text.
    pub(crate) name: String,
}

impl FromStr for Add {
    type Err = UnknownAdd;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let text: StrDeserializer<'_, DeError> = name.into_deserializer();
        Add::deserialize(text).map_err(|_| UnknownAdd { name: name.to_owned() })
    }
}

impl Add {
    /// Returns whether a model learns by it what the gateway keeps.
    pub(crate) fn shows_memory(self) -> bool {
        match self {
            Add::FactSheet | Add::MemoryTools | Add::Recall => true,
            Add::Progress | Add::CacheMarkers | Add::Summaries => false,
        }
    }

    /// Returns whether the gateway answers calls of a tool with this name.
    pub(crate) fn answers(self, tool: &str) -> bool {
        match self {
            Add::MemoryTools => tool != tools::RECALL,
            Add::Recall => tool == tools::RECALL,
            Add::FactSheet | Add::Progress | Add::CacheMarkers | Add::Summaries => false,
        }
    }
}
