//! The scope of a fact, and its permanent identifier.

use std::fmt;
use std::str::FromStr;

use lookback_engine::transcript::Position;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The sessions that know a fact: one session, or all sessions of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// One session.
    Session,
    /// All sessions of a workspace.
    Shared,
}

/// The permanent identifier of a fact: `f12` was stated by entry 12 of the session's facts, `s3` by entry 3 of the
/// workspace's.
///
/// ```
/// use lookback_facts::{FactId, Scope};
///
/// let id: FactId = "f12".parse()?;
/// assert_eq!(id, FactId { scope: Scope::Session, position: 12 });
/// assert_eq!(id.to_string(), "f12");
/// # Ok::<(), lookback_facts::BadFactId>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactId {
    /// The scope of the fact.
    pub scope: Scope,
    /// The entry that stated the fact.
    pub position: Position,
}

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.scope {
            Scope::Session => 'f',
            Scope::Shared => 's',
        };
        write!(f, "{letter}{}", self.position)
    }
}

/// The error for a text that is not a fact's identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a fact's identifier, which looks like `f12`, or `s3` for a shared fact")]
pub struct BadFactId {
    /// The text that was given.
    pub(crate) given: String,
}

impl FromStr for FactId {
    type Err = BadFactId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scope = match text.as_bytes().first() {
            Some(b'f') => Scope::Session,
            Some(b's') => Scope::Shared,
            _ => return Err(BadFactId { given: text.to_owned() }),
        };
        let digits = text.get(1..).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let position = digits.and_then(|digits| digits.parse().ok());
        position.map(|position| FactId { scope, position }).ok_or_else(|| BadFactId { given: text.to_owned() })
    }
}

impl Serialize for FactId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FactId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
