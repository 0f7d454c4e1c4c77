//! The ways to make a window smaller.

use serde::{Deserialize, Serialize};

use lookback_tokens::cut::Truncation;
use lookback_wire::message::Role;

/// A way to make a window smaller. Each stage goes from the oldest group to the newest, and does not touch what is
/// pinned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Stage {
    /// Truncates long tool results.
    TruncateResults {
        /// What is kept of each text.
        #[serde(flatten)]
        to: Truncation,
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
    },
    /// Clears tool results: replaces each by a note that says how much is gone.
    ClearResults {
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
        /// The text of the note. `{cut}` is the number of characters that are gone, and `{entry}` is the entry of the
        /// log that has them. If this is `None`, the note is `[tool result cleared: {cut} characters]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String>,
    },
    /// Replaces pictures and files in tool results by a note.
    ClearMedia {
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
    },
    /// Merges whole groups into a running summary, which takes their place.
    ///
    /// The caller decides who makes it, and when (see [`WindowOutcome::summary_request`](crate::WindowOutcome)). Until
    /// then the groups stay, unless a hard limit is exceeded.
    Summarize(Summarize),
    /// Drops whole groups.
    Drop,
}

/// The length of a running summary, and how it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarize {
    /// The most tokens that the summary may have. A longer one is cut.
    pub budget: u64,
    /// The role of the message that shows the summary. If the provider demands that a request begin with a user's
    /// message, the role is always the user's.
    pub role: Role,
    /// The text of the message. `{summary}` is replaced by the summary.
    pub wording: String,
}

impl Default for Summarize {
    /// Returns a budget of 1,000 tokens, and a message of the user: a summary repeats what tools and strangers said, so
    /// it should not have the authority of a system message.
    fn default() -> Self {
        let wording = "[Summary of the conversation before this point]\n{summary}".to_owned();
        Summarize { budget: 1_000, role: Role::User, wording }
    }
}
