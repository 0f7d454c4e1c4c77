//! A fact: a current assertion, with its confidence and its source.

mod id;
mod kind;
mod source;
mod statement;

use lookback_engine::transcript::Millis;
use serde::Serialize;

pub use id::{BadFactId, FactId, Scope};
pub use kind::{FactKind, UnknownKind};
pub use source::{Confidence, Source, Speaker, Trust};
pub use statement::Statement;

/// A current fact: it was not superseded, resolved or forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fact {
    /// The identifier.
    pub id: FactId,
    /// Its first statement.
    pub statement: Statement,
    /// The highest confidence of all statements of it.
    pub confidence: Confidence,
    /// The highest trust of all statements of it.
    pub trust: Trust,
    /// How often it was confirmed.
    pub confirmations: u64,
    /// Another current fact about the same thing, if neither may replace the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disputes: Option<FactId>,
    /// The time of its newest statement or confirmation, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Millis>,
}
