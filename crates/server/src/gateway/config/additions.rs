//! The optional additions of a gateway to the requests of conversations.

use std::str::FromStr;

use lookback_facts::tools;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as DeError, StrDeserializer};

/// An addition of a gateway to the requests of conversations.
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
    /// A note with the fact sheet, and notes about its changes.
    FactSheet,
    /// The tools with which a model writes and finds facts. The gateway answers their calls.
    MemoryTools,
    /// The tool with which a model reads messages that have left its window. The gateway answers its calls.
    Recall,
    /// Notes to the model if its tool calls bring nothing new.
    Progress,
    /// The member that makes Anthropic cache the whole conversation, if the client sets no cache markers itself.
    CacheMarkers,
    /// A summary of the messages that leave the window.
    Summaries,
}

/// The additions to a request.
#[derive(Debug, Clone)]
pub(crate) struct Additions {
    /// The configured list, without the additions that this client may not have.
    listed: Option<Vec<Add>>,
    is_let_in: bool,
}

impl Additions {
    /// Creates the additions of a list, if there is one. Only a client that is let in may read the store.
    pub(crate) fn new(list: Option<&[Add]>, is_let_in: bool) -> Additions {
        let allowed = |list: &[Add]| list.iter().copied().filter(|add| is_let_in || !add.shows_memory()).collect();
        Additions { listed: list.map(allowed), is_let_in }
    }

    /// Returns the additions to a request. Without a list, it is [`Add::Recall`] if the request `lacks_recall`: it has
    /// tools, but none to read back what was cut.
    pub(crate) fn to(&self, lacks_recall: bool) -> Vec<Add> {
        let default = || if lacks_recall && self.is_let_in { vec![Add::Recall] } else { Vec::new() };
        self.listed.clone().unwrap_or_else(default)
    }
}

/// A text that names no addition.
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
    /// Returns whether it shows the model something from the gateway's store.
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
