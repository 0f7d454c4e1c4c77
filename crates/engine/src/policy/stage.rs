//! Stages: the ways to make a window smaller.

use serde::{Deserialize, Serialize};

use lookback_tokens::cut::Truncation;
use lookback_wire::message::Role;

/// A way to make a window smaller. Each stage goes from the oldest group to the newest, and skips pinned groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Stage {
    /// Truncates long tool results.
    TruncateResults {
        /// How much of each text is kept.
        #[serde(flatten)]
        to: Truncation,
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
    },
    /// Clears tool results: replaces each by a note with the number of removed characters.
    ClearResults {
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
        /// The text of the note. `{cut}` is the number of removed characters, and `{entry}` is the log entry that has
        /// them. If this is `None`, the note is `[tool result cleared: {cut} characters]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String>,
    },
    /// Clears the long texts in the arguments of tool calls, such as the contents of a file that was written: replaces
    /// each by a note with the number of removed characters. The arguments stay a JSON object with the same keys.
    ClearInputs {
        /// The most characters of a text that stays.
        longest: u64,
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
        /// The text of the notes, as for `ClearResults`. If this is `None`, a note is `[{cut} characters cleared]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String>,
    },
    /// Replaces pictures and files in tool results by a note.
    ClearMedia {
        /// The number of newest rounds that are left alone, named `keep` in files.
        #[serde(default, rename = "keep")]
        except_newest: u64,
    },
    /// Merges whole groups into a running summary, which replaces them.
    ///
    /// The caller makes the summary (see [`WindowOutcome::summary_request`](crate::WindowOutcome)). Until it is
    /// accepted, the groups stay, unless a hard limit is exceeded.
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
    /// Returns a budget of 1,000 tokens and the user's role. A summary repeats the words of tools and strangers, so it
    /// should not have the authority of a system message.
    fn default() -> Self {
        let wording = "[Summary of the conversation before this point]\n{summary}".to_owned();
        Summarize { budget: 1_000, role: Role::User, wording }
    }
}
