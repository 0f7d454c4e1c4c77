//! A fact: what is known, how certain it is, and who said so.

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

/// A fact that is known now: nothing has superseded, resolved or forgotten it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fact {
    /// The identifier.
    pub id: FactId,
    /// The first statement of it.
    pub statement: Statement,
    /// The highest confidence of all who said it.
    pub confidence: Confidence,
    /// The highest trust of all who said it.
    pub trust: Trust,
    /// How often it was said again.
    pub confirmations: u64,
    /// Another current fact about the same thing, if neither may replace the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disputes: Option<FactId>,
    /// When it was last said, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Millis>,
}
