//! An entry of the log of facts.

use lookback_content::Redacted;
use lookback_engine::transcript::{Millis, Position};
use serde::{Deserialize, Serialize};

use super::fact::{Confidence, FactId, Source, Statement, Trust};

/// One event in the log of a scope's facts.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FactEntry {
    /// A fact was stated. The position of this entry is part of the fact's identifier.
    Stated(Statement),
    /// A fact was said again.
    Confirmed {
        /// The fact.
        id: FactId,
        /// How certain the speaker is.
        confidence: Confidence,
        /// Who said it.
        source: Source,
        /// How far that can be trusted, if less than the source allows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trust: Option<Trust>,
        /// When it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// A blocker was resolved.
    Resolved {
        /// The blocker.
        id: FactId,
        /// What resolved it.
        #[debug("{:?}", Redacted(with))]
        with: String,
        /// Who said so.
        source: Source,
        /// When it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// A fact was forgotten: it is no longer shown.
    Forgotten {
        /// The fact.
        id: FactId,
        /// The reason, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[debug("{:?}", Redacted(why))]
        why: Option<String>,
        /// Who said so.
        source: Source,
        /// When it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// Facts were drawn from messages of the session, which need not be looked at again.
    Drawn {
        /// The messages, as positions in the session's log.
        from: Vec<std::ops::Range<Position>>,
    },
}

impl FactEntry {
    /// Returns who said it. `None` for what nobody says.
    pub fn source(&self) -> Option<&Source> {
        match self {
            FactEntry::Stated(statement) => Some(&statement.source),
            FactEntry::Confirmed { source, .. }
            | FactEntry::Resolved { source, .. }
            | FactEntry::Forgotten { source, .. } => Some(source),
            FactEntry::Drawn { .. } => None,
        }
    }

    /// Returns when it was said, if that is known.
    pub fn time(&self) -> Option<Millis> {
        match self {
            FactEntry::Stated(statement) => statement.time,
            FactEntry::Confirmed { time, .. }
            | FactEntry::Resolved { time, .. }
            | FactEntry::Forgotten { time, .. } => *time,
            FactEntry::Drawn { .. } => None,
        }
    }
}
