//! A turn: the line of a request, until the request is over.

use std::fmt;
use std::sync::Arc;

use lookback_session::adapter::Resent;
use lookback_wire::dialect::Dialect;

use super::line::Line;
use super::query::Query;
use super::relation::Relation;
use super::scope::Scope;

/// The line of a request, until the request is over. Its end is when this is dropped.
pub struct Turn<S = ()> {
    /// The line. A call with which a client compacts its history has one of its own, which nothing goes on with.
    pub line: Arc<Line<S>>,
    /// How the request relates to the line.
    pub relation: Relation,
    /// The messages of the request.
    pub resent: Vec<Resent>,
    /// Whether the last message is from a person, and not the result of a tool.
    pub is_from_person: bool,
    /// What the model answered, if the answer came whole.
    answer: Option<Resent>,
    /// The compaction that it is, if it is beside a line.
    compaction: Option<Compaction<S>>,
}

/// A call with which a client compacts its history. It is part of no line.
pub(super) struct Compaction<S> {
    pub(super) scope: Scope,
    pub(super) dialect: Dialect,
    /// The line whose history it has, if one is known.
    pub(super) line: Option<Arc<Line<S>>>,
}

impl<S> Turn<S> {
    pub(super) fn new(line: Arc<Line<S>>, relation: Relation, resent: Vec<Resent>, query: Query<'_, '_>) -> Turn<S> {
        Turn { line, relation, resent, is_from_person: query.is_from_person(), answer: None, compaction: None }
    }

    /// Makes it a call with which a client compacts its history.
    pub(super) fn with_compaction(mut self, compaction: Compaction<S>) -> Turn<S> {
        self.compaction = Some(compaction);
        self
    }

    /// Returns the compaction that it is.
    pub(super) fn compaction(&self) -> Option<&Compaction<S>> {
        self.compaction.as_ref()
    }

    /// Returns whether it is part of no line, because its client compacts its history with it.
    pub fn is_apart(&self) -> bool {
        self.compaction.is_some()
    }

    /// Returns the line whose conversation the request is about: its own, or the one that is compacted, if that is known.
    pub fn about(&self) -> Option<&Arc<Line<S>>> {
        match &self.compaction {
            Some(compaction) => compaction.line.as_ref(),
            None => Some(&self.line),
        }
    }

    /// Takes note of what the model answered, so that a request with the answer is known to go on with the line.
    pub fn answered(&mut self, answer: Resent) {
        self.answer = Some(answer);
    }
}

impl<S> Drop for Turn<S> {
    fn drop(&mut self) {
        self.line.outline().finish(self.answer);
    }
}

impl<S> fmt::Debug for Turn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turn { line, relation, .. } = self;
        f.debug_struct("Turn").field("line", line).field("relation", relation).finish_non_exhaustive()
    }
}
