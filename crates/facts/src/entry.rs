//! An entry in a log of facts.

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
        /// The source.
        source: Source,
        /// The trust in the source, if it is lower than the source allows.
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
        /// The source.
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
        /// The source.
        source: Source,
        /// When it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    /// Facts were extracted from messages of the session. These messages are not read again.
    Extracted {
        /// The messages, as positions in the session's log.
        from: Vec<std::ops::Range<Position>>,
    },
}

impl FactEntry {
    /// Returns the source; `None` if the entry has none.
    pub fn source(&self) -> Option<&Source> {
        match self {
            FactEntry::Stated(statement) => Some(&statement.source),
            FactEntry::Confirmed { source, .. }
            | FactEntry::Resolved { source, .. }
            | FactEntry::Forgotten { source, .. } => Some(source),
            FactEntry::Extracted { .. } => None,
        }
    }

    /// Returns the time of the entry, if it is known.
    pub fn time(&self) -> Option<Millis> {
        match self {
            FactEntry::Stated(statement) => statement.time,
            FactEntry::Confirmed { time, .. }
            | FactEntry::Resolved { time, .. }
            | FactEntry::Forgotten { time, .. } => *time,
            FactEntry::Extracted { .. } => None,
        }
    }
}
