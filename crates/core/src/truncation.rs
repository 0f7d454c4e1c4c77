//! How much of a long text to keep.

use serde::{Deserialize, Serialize};

/// A limit on the length of a text: how much to keep of its head and of its tail.
///
/// ```
/// use lookback_core::{Truncation, Unit, tokens::Estimate};
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
    /// `{cut}` is replaced by the number of units removed, and in a tool result `{entry}` by the log entry that holds
    /// them. If absent, the marker is `\n[... {cut} characters cut ...]\n`, or `tokens` if that is the unit. Only the
    /// first 1,000 characters of a marker are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

/// Caps on the texts of tool results, by what they show.
///
/// A text that is longer is cut in whole lines, with three fifths of what is kept from the head and two fifths from the
/// tail. A line that is longer than that is cut inside. The lengths are estimated from the beginning of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// The most tokens of a text that shows a file. It is recognized by its numbered lines, or by a call whose only text
    /// is the path of a file.
    pub file: u64,
    /// The most tokens of any other text.
    pub other: u64,
    /// The most tokens of the list of names that were only in what is cut.
    pub names: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Caps { file: 6_000, other: 1_000, names: 300 }
    }
}

/// A unit for the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
