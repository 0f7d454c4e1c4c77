//! The outline of a line: the data by which it is recognized, without opening its session.

use std::mem;

use lookback_session::adapter::Resent;
use lookback_wire::message::{Message, Role};

use super::clues::Clues;
use super::path::{Fingerprint, Path, words};
use super::relation::Relation;
use super::tools::Tools;

/// The data by which a line is recognized, without opening its session.
#[derive(Clone, Default)]
pub(super) struct Outline {
    /// The messages of the last request, and its answer.
    pub(super) path: Path,
    /// The messages before the client compacted its history. Another line may have a copy of them.
    before: Path,
    /// The number of messages of the last request.
    pub(super) asked: usize,
    /// The index of the first message of the last request that was new to the model.
    pub(super) base: usize,
    /// The text of the last message of the last request.
    last: String,
    /// The last answer, as [`words`].
    answer: String,
    pub(super) tools: Tools,
    /// The number of requests that are not answered yet.
    in_flight: usize,
    /// Whether the last answer was complete.
    pub(super) is_settled: bool,
    /// The number of the request that used the line last.
    pub(super) used: u64,
}

/// The model's complete answer, as far as it is remembered.
pub(super) struct Answer {
    pub(super) resent: Resent,
    pub(super) words: String,
}

impl Answer {
    pub(super) fn from_message(answer: &Message) -> Answer {
        Answer { resent: Resent::from_message(answer), words: words(answer) }
    }
}

impl Outline {
    /// Creates the outline of a line with these messages. The model's messages at the end are the answer to the last
    /// request. `answer` has the [`words`] of the last of them.
    pub(super) fn new(path: Path, tools: Tools, answer: String) -> Outline {
        let said = path.said();
        let is_models = |at: usize| said.get(at).is_some_and(|message| message.resent.role == Role::Assistant);
        let asked = (0..said.len()).rfind(|at| !is_models(*at)).map_or(0, |last| last + 1);
        let base = (0..asked).rfind(|at| is_models(*at)).map_or(0, |last| last + 1);
        Outline { asked, base, is_settled: said.len() > asked, path, tools, answer, ..Outline::default() }
    }

    /// Begins a request that belongs to the line.
    pub(super) fn begin(&mut self, clues: Clues, relation: Relation, now: u64) {
        let Clues { path, last, tools, .. } = clues;
        (self.asked, self.base, self.last, self.tools) = (path.len(), path.base(), last, tools);
        let before = mem::replace(&mut self.path, path);
        if relation == Relation::Rewritten {
            self.before = before;
        }
        self.in_flight += 1;
        self.is_settled = false;
        self.used = now;
    }

    /// Ends a request, and adds its answer, if it was complete. Returns the answer's digest, if it is the newest.
    pub(super) fn finish(&mut self, answer: Option<Answer>) -> Option<u128> {
        self.in_flight = self.in_flight.saturating_sub(1);
        // If another request came meanwhile, this answer does not belong to it.
        let is_newest = self.path.len() == self.asked && self.in_flight == 0;
        let Answer { resent, words } = answer.filter(|_| is_newest)?;
        self.path.push(Fingerprint { resent, bytes: None });
        (self.is_settled, self.answer) = (true, words);
        Some(resent.digest)
    }

    /// Returns the digest of the newest answer, if the last request has one.
    pub(super) fn newest_answer(&self) -> Option<u128> {
        self.path.answer().filter(|_| self.is_settled)
    }

    /// Returns whether a request of the line is not answered yet.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Returns the number of messages that a request has in common with this line, before or after its compaction.
    pub(super) fn knows(&self, clues: &Clues) -> usize {
        self.path.common(&clues.path).max(self.before.common(&clues.path))
    }

    /// Returns whether a request has the newest messages of this line after a summary.
    pub(super) fn is_kept_in(&self, clues: &Clues) -> bool {
        let is_kept = |end: usize| self.path.is_kept_in(&clues.path, end);
        self.has_same_tools(clues) && (is_kept(self.path.len()) || is_kept(self.asked))
    }

    /// Returns whether a request for a summary has the history of this line. The client may leave out the last answer,
    /// and append its instruction to the message before.
    pub(super) fn is_summarized(&self, clues: &Clues, common: usize) -> bool {
        common > 0 && (common >= self.asked || common + 1 == self.asked && self.has_grown(clues))
    }

    /// Returns whether this line has tools, or has none, as `tools` says, and all answers in a request's history.
    pub(super) fn has_history_of(&self, clues: &Clues, tools: bool) -> bool {
        self.tools.names.is_empty() != tools && self.knows(clues) >= clues.path.base()
    }

    /// Returns whether a request could have the tools of this line. With other tools, it belongs to another line: for
    /// example, one that extracts memories from the conversation.
    pub(super) fn has_tools_of(&self, clues: &Clues) -> bool {
        self.tools.are_alike(&clues.tools)
    }

    /// Returns whether a request has the tools of the line, and no others.
    pub(super) fn has_same_tools(&self, clues: &Clues) -> bool {
        self.tools.names == clues.tools.names
    }

    /// Returns whether the last message of a request is the last message of the previous request, with more text.
    pub(super) fn has_grown(&self, clues: &Clues) -> bool {
        !self.last.is_empty() && clues.last.starts_with(&self.last)
    }

    /// Returns whether the newest answer in a request is the client's version of the newest answer here.
    pub(super) fn has_answer_of(&self, clues: &Clues) -> bool {
        let (one, other) = (&self.answer, &clues.answer);
        one == other || !one.is_empty() && !other.is_empty() && (one.contains(&**other) || other.contains(&**one))
    }

    /// Returns whether a request's history has only answers of this line, up to the newest, although other messages have
    /// changed. A second message must be common to both, or the message before the answer must be a part of the one here,
    /// or the reverse: others may get the same answer.
    pub(super) fn answered(&self, clues: &Clues) -> bool {
        let is_free = self.is_settled && (!self.is_busy() || clues.is_retry);
        let (has_answers, shares) = self.path.has_answers_of(&clues.path);
        let (one, other) = (&self.last, &clues.question);
        let is_part = !one.is_empty() && !other.is_empty() && (one.contains(&**other) || other.contains(&**one));
        is_free && self.has_tools_of(clues) && has_answers && (shares || is_part)
    }
}
