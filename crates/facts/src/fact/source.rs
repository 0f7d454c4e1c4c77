//! The confidence of a fact, its source, and the trust in the source.

use std::cmp::Ordering;
use std::fmt;

use lookback_engine::transcript::Position;
use serde::{Deserialize, Deserializer, Serialize};

/// How certain a fact is, from 0 (a guess) to 1.
///
/// ```
/// use lookback_facts::Confidence;
///
/// assert_eq!(Confidence::new(0.9).value(), 0.9);
/// assert_eq!(Confidence::new(7.0), Confidence::CERTAIN);
/// assert_eq!(Confidence::new(f64::NAN).value(), 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Confidence(f64);

impl Confidence {
    /// Full certainty: 1.
    pub const CERTAIN: Confidence = Confidence(1.0);

    /// Creates a confidence. Values outside 0 to 1 are clamped, and NaN becomes 0.
    pub fn new(value: f64) -> Self {
        Confidence(if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) })
    }

    /// Creates a confidence from a value that is known to be between 0 and 1.
    pub(crate) const fn from_valid(value: f64) -> Self {
        Confidence(value)
    }

    /// Returns the value, between 0 and 1.
    pub fn value(self) -> f64 {
        self.0
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Confidence(self.0.max(other.0))
    }
}

impl Eq for Confidence {}

impl PartialOrd for Confidence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Confidence {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Confidence::new)
    }
}

/// How far a fact can be trusted. Its source limits its trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trust {
    /// A tool said it. Anyone may have written the text that a tool reads.
    Low,
    /// The model said it.
    Medium,
    /// A person said it.
    High,
}

impl Trust {
    /// All levels, the lowest first.
    pub const ALL: [Trust; 3] = [Trust::Low, Trust::Medium, Trust::High];
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trust::Low => "low",
            Trust::Medium => "medium",
            Trust::High => "high",
        })
    }
}

/// The speaker of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Speaker {
    /// A person, or the application on behalf of one.
    Person,
    /// The model.
    Model,
    /// A tool, with its name.
    Tool(String),
}

impl Speaker {
    /// Returns the most trust that a statement by this speaker can have.
    pub(crate) fn trust(&self) -> Trust {
        match self {
            Speaker::Person => Trust::High,
            Speaker::Model => Trust::Medium,
            Speaker::Tool(_) => Trust::Low,
        }
    }
}

/// The origin of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// The speaker.
    pub by: Speaker,
    /// The session in which it was said, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The message of that session, as a position in its log, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Position>,
}

impl Source {
    /// Creates a source with only a speaker.
    pub fn new(by: Speaker) -> Self {
        Source { by, session: None, message: None }
    }
}
