//! The options of a memory, of its reads and of its writes.

use lookback_content::Redacted;
use std::collections::BTreeMap;

/// The name of the session if the caller gives none.
const DEFAULT_SESSION: &str = "default";

/// The limits of a [`SlidingWindowMemory`](super::SlidingWindowMemory).
///
/// ```
/// use lookback_compat::agentlib::{Options, SlidingWindowMemory};
///
/// assert!(SlidingWindowMemory::new(Options::default().max_turns(10)).is_ok());
/// assert!(SlidingWindowMemory::new(Options::default().max_turns(0)).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The most tokens that a read returns, counted by [`Utf16`](super::Utf16). At least 1; 4,000 by default.
    pub(crate) max_tokens: u64,
    /// The number of turns to keep in each session. At least 1; 50 by default.
    pub(crate) max_turns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_tokens: 4_000, max_turns: 50 }
    }
}

impl Options {
    /// Sets the most tokens that a read returns, at least 1.
    #[must_use]
    pub fn max_tokens(self, max_tokens: u64) -> Self {
        Options { max_tokens, ..self }
    }

    /// Sets the number of turns to keep in each session, at least 1.
    #[must_use]
    pub fn max_turns(self, max_turns: u64) -> Self {
        Options { max_turns, ..self }
    }
}

/// Tags, as keys with their values.
///
/// ```
/// use lookback_compat::agentlib::{Tags, WriteOptions};
///
/// let tags = Tags::from([("project".to_owned(), "observatory".to_owned())]);
/// let to = WriteOptions::session("chat-1").tags(tags);
/// # let _ = to;
/// ```
pub type Tags = BTreeMap<String, String>;

/// The session to read or search, the limit, and the words and tags of a search.
///
/// ```
/// use lookback_compat::agentlib::ReadOptions;
///
/// let newest = ReadOptions::session("chat-1").limit(10);
/// # let _ = newest;
/// ```
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The session, `default` by default.
    pub(crate) session_id: String,
    /// The most messages to return, at least 1. An exchange with tools is returned whole or not at all. The newest is
    /// always returned.
    pub(crate) limit: Option<u64>,
    /// Words to look for. [`search`](super::SlidingWindowMemory::search) returns messages that contain every word.
    /// [`read`](super::SlidingWindowMemory::read) ignores this field.
    #[debug("{:?}", Redacted(query))]
    pub(crate) query: Option<String>,
    /// The tags that messages were written under. [`search`](super::SlidingWindowMemory::search) returns messages that
    /// have all of them. [`read`](super::SlidingWindowMemory::read) ignores this field.
    pub(crate) tags: Tags,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions::session(DEFAULT_SESSION)
    }
}

impl ReadOptions {
    /// Creates options that read everything in this session that fits the memory's limits.
    pub fn session(id: impl Into<String>) -> Self {
        ReadOptions { session_id: id.into(), limit: None, query: None, tags: Tags::new() }
    }

    /// Sets the most messages to return, at least 1.
    #[must_use]
    pub fn limit(self, messages: u64) -> Self {
        ReadOptions { limit: Some(messages), ..self }
    }

    /// Sets the words to look for.
    #[must_use]
    pub fn query(self, words: impl Into<String>) -> Self {
        ReadOptions { query: Some(words.into()), ..self }
    }

    /// Sets the tags that messages must have been written under.
    #[must_use]
    pub fn tags(self, tags: Tags) -> Self {
        ReadOptions { tags, ..self }
    }
}

/// The session to write to, and the agent's name and tags.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The session, `default` by default.
    pub(crate) session_id: String,
    /// The agent that writes. It replaces the name in the session's entry; `None` removes that name.
    pub(crate) agent_name: Option<String>,
    /// Tags for finding the messages. They replace the tags in the session's entry; an empty map removes them.
    pub(crate) tags: Tags,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions::session(DEFAULT_SESSION)
    }
}

impl WriteOptions {
    /// Creates options that write to this session, without an agent's name and without tags.
    pub fn session(id: impl Into<String>) -> Self {
        WriteOptions { session_id: id.into(), agent_name: None, tags: Tags::new() }
    }

    /// Sets the agent that writes.
    #[must_use]
    pub fn agent_name(self, name: impl Into<String>) -> Self {
        WriteOptions { agent_name: Some(name.into()), ..self }
    }

    /// Sets the tags for finding the messages.
    #[must_use]
    pub fn tags(self, tags: Tags) -> Self {
        WriteOptions { tags, ..self }
    }
}

/// Converts tags to a log's labels: `key=value`, or the key alone if the value is empty. A `%` or `=` in a key is
/// escaped.
pub(super) fn labels(tags: &Tags) -> Vec<String> {
    let label = |(key, value): (&String, &String)| {
        let key = key.replace('%', "%25").replace('=', "%3D");
        if value.is_empty() { key } else { format!("{key}={value}") }
    };
    tags.iter().map(label).collect()
}

/// Converts a log's labels back to tags.
pub(super) fn tags(labels: &[String]) -> Tags {
    let tag = |label: &String| {
        let (key, value) = label.split_once('=').unwrap_or((label, ""));
        (key.replace("%3D", "=").replace("%25", "%"), value.to_owned())
    };
    labels.iter().map(tag).collect()
}
