//! A match: a request and the line that it continues, until the request is over.

use std::fmt;
use std::sync::Arc;

use lookback_session::adapter::Resent;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::Message;

use super::answers::Answers;
use super::line::Line;
use super::outline::Answer;
use super::query::Query;
use super::relation::Relation;
use super::scope::{Account, Scope};

/// A request, and the line that it continues. Dropping the match ends the request.
pub struct Match<S = ()> {
    /// The line. A call with which a client compacts its history has a separate line, which no request continues.
    pub line: Arc<Line<S>>,
    /// The relation of the request to the line.
    pub relation: Relation,
    /// The messages of the request.
    pub resent: Vec<Resent>,
    /// Whether the last message is from a person, and not the result of a tool.
    pub is_from_person: bool,
    /// The model's answer, if it was complete.
    answer: Option<Answer>,
    /// The owner's newest answers, with the account of the request.
    answers: Option<(Arc<Answers<S>>, Account)>,
    /// The compaction, if the request is one.
    compaction: Option<Compaction<S>>,
}

/// A call with which a client compacts its history. It belongs to no line.
pub(super) struct Compaction<S> {
    pub(super) scope: Scope,
    pub(super) dialect: Dialect,
    /// The line whose history it has, if it is known.
    pub(super) line: Option<Arc<Line<S>>>,
}

impl<S> Match<S> {
    pub(super) fn new(line: Arc<Line<S>>, relation: Relation, resent: Vec<Resent>, query: Query<'_, '_>) -> Match<S> {
        let is_from_person = query.is_from_person();
        Match { line, relation, resent, is_from_person, answer: None, answers: None, compaction: None }
    }

    /// Sets where the line's answer is remembered.
    pub(super) fn with_answers(mut self, answers: Arc<Answers<S>>, account: Account) -> Match<S> {
        self.answers = Some((answers, account));
        self
    }

    /// Marks the request as a call with which a client compacts its history.
    pub(super) fn with_compaction(mut self, compaction: Compaction<S>) -> Match<S> {
        self.compaction = Some(compaction);
        self
    }

    /// Returns the compaction, if the request is one.
    pub(super) fn compaction(&self) -> Option<&Compaction<S>> {
        self.compaction.as_ref()
    }

    /// Returns whether the request belongs to no line, because the client compacts its history with it.
    pub fn is_apart(&self) -> bool {
        self.compaction.is_some()
    }

    /// Returns the line of the request's conversation: its own line, or the line that it compacts, if that is known.
    pub fn about(&self) -> Option<&Arc<Line<S>>> {
        match &self.compaction {
            Some(compaction) => compaction.line.as_ref(),
            None => Some(&self.line),
        }
    }

    /// Records the model's complete answer, so that a request with this answer is recognized as continuing the line.
    pub fn answered(&mut self, answer: &Message) {
        self.answer = Some(Answer::from_message(answer));
    }
}

impl<S> Drop for Match<S> {
    fn drop(&mut self) {
        let newest = self.line.outline().finish(self.answer.take());
        if let (Some(newest), Some((answers, account))) = (newest, &self.answers) {
            answers.remember(account, newest, &self.line);
        }
    }
}

impl<S> fmt::Debug for Match<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Match { line, relation, .. } = self;
        f.debug_struct("Match").field("line", line).field("relation", relation).finish_non_exhaustive()
    }
}
