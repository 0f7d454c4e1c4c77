//! The settings of truncation: how much of a long text to keep.

use serde::{Deserialize, Serialize};

/// A limit on the length of a text: how much to keep of its head and of its tail.
///
/// ```
/// use lookback_tokens::{Estimate, cut::{Truncation, Unit}};
///
/// let cap = Truncation { head: 20, tail: 5, ..Truncation::default() };
/// let text = "a".repeat(500) + "the end";
/// let cut = cap.cut(&text, &Estimate::default()).unwrap();
/// assert_eq!(cut.apply(&text), "aaaaaaaaaaaaaaaaaaaa\n[... 482 characters cut ...]\ne end");
/// assert_eq!(cap.cut("short", &Estimate::default()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncation {
    /// How much of the beginning to keep, in `unit`s.
    pub head: u64,
    /// How much of the end to keep, in `unit`s.
    #[serde(default)]
    pub tail: u64,
    /// The unit of `head` and `tail`.
    #[serde(default)]
    pub unit: Unit,
    /// The text between head and tail.
    ///
    /// `{cut}` is replaced by the number of removed units, and in a tool result `{entry}` by the position of the log
    /// entry that has them. If absent, the marker is `\n[... {cut} characters cut ...]\n`, or `tokens` if that is the
    /// unit. Only the first 1,000 characters of a marker are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

/// A unit for the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Unicode scalar values.
    #[default]
    Characters,
    /// Tokens, as the session's counter counts them.
    Tokens,
}

impl Unit {
    /// Returns the name of the unit, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Characters => "characters",
            Unit::Tokens => "tokens",
        }
    }
}
