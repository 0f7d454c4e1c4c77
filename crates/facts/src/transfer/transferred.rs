//! A fact on its way from one log to another.

use lookback_engine::transcript::Millis;

use crate::fact::{Confidence, Source, Statement, Trust};

/// One occasion on which a fact was said: how certainly, by whom, with how much trust, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saying {
    pub(super) confidence: Confidence,
    pub(super) source: Source,
    pub(super) trust: Option<Trust>,
    pub(super) time: Option<Millis>,
}

impl Saying {
    pub(super) fn from_statement(statement: &Statement) -> Self {
        let Statement { confidence, source, trust, time, .. } = statement;
        Saying { confidence: *confidence, source: source.clone(), trust: *trust, time: *time }
    }
}

/// A fact to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transferred {
    // The statement. `supersedes` is empty, because the facts have other identifiers in this log.
    pub statement: Statement,
    // The facts that it replaced in the log that it comes from.
    pub replaces: Vec<Statement>,
    // The occasions on which it was confirmed.
    pub again: Vec<Saying>,
}
