//! The outline of a line: the data by which it is recognized, without opening its session.

use std::mem;

use lookback_session::adapter::Resent;
use lookback_wire::message::{Message, Role};

use super::clues::Clues;
use super::path::{Fingerprint, Path, words};
use super::relation::Relation;
use super::scope::Scope;
use super::tools::Tools;

/// The fewest common messages by which a line with another beginning is recognized.
const FEWEST_ALIKE: usize = 3;

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
    /// The digest of the answer before the last request, if it was read from the store and the model wrote it.
    pub(super) replied: Option<u128>,
    /// Whether a call with the history of the line was apart.
    pub(super) put_aside: bool,
    /// Whether the client had the answer to such a call in its history. It keeps calls that only look like compactions.
    keeps_all: bool,
    pub(super) tools: Tools,
    /// Whether the model could call tools in the last request.
    may_call: bool,
    /// The scope that the line entered last, because its client left out the beginning.
    pub(super) moved_to: Option<Scope>,
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
    /// request. `answer` has the [`words`] of the last of them, and `replied` is the digest of the answer before it.
    pub(super) fn new(path: Path, tools: Tools, answer: String, replied: Option<u128>) -> Outline {
        let said = path.said();
        let is_models = |at: usize| said.get(at).is_some_and(|message| message.resent.role == Role::Assistant);
        let asked = (0..said.len()).rfind(|at| !is_models(*at)).map_or(0, |last| last + 1);
        let base = (0..asked).rfind(|at| is_models(*at)).map_or(0, |last| last + 1);
        let may_call = !tools.names.is_empty();
        Outline {
            may_call,
            asked,
            base,
            is_settled: said.len() > asked,
            path,
            tools,
            answer,
            replied,
            ..Outline::default()
        }
    }

    /// Begins a request that belongs to the line.
    pub(super) fn begin(&mut self, clues: Clues, relation: Relation, now: u64) {
        self.keeps_all |= self.keeps_all(&clues);
        self.put_aside = false;
        let Clues { path, last, tools, may_call, .. } = clues;
        self.may_call = may_call;
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

    /// Returns whether the client of a request that continues this line has kept the answer to a call that was apart.
    pub(super) fn keeps_all(&self, clues: &Clues) -> bool {
        let is_here = !self.path.is_empty() && self.path.common(&clues.path) == self.path.len();
        is_here && (self.keeps_all || self.put_aside && clues.path.base() > self.path.len())
    }

    /// Returns whether this line has all answers in a request's history.
    pub(super) fn has_history_of(&self, clues: &Clues) -> bool {
        self.knows(clues) >= clues.path.base()
    }

    /// Returns whether the model could call tools in the last request.
    pub(super) fn has_tools(&self) -> bool {
        self.may_call
    }

    /// Returns whether a request has all tools of this line, and may have more.
    pub(super) fn has_all_tools(&self, clues: &Clues) -> bool {
        self.tools.is_part_of(&clues.tools)
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

    /// Returns whether a request is the last request again, after an answer that the model wrote or after a summary. Other
    /// conversations could begin with the same messages that an application wrote.
    pub(super) fn asked_again(&self, clues: &Clues) -> bool {
        clues.path.len() == self.asked && (clues.has_recorded_answer || !self.before.is_empty())
    }

    /// Returns whether a request's history has only answers of this line, up to the newest, although other messages have
    /// changed. Others may get the same answer, so more must be common: the first message, or several messages, or most
    /// of the message before the answer.
    pub(super) fn answered(&self, clues: &Clues) -> bool {
        /// The fewest bytes of a message that says enough.
        const LEAST: usize = 8;
        if !self.is_settled
            || self.is_busy()
            || !self.has_tools_of(clues)
            || !self.path.ends_with_answers_of(&clues.path)
        {
            return false;
        }
        let (one, other) = (&self.last, &clues.question);
        let is_long = one.len().min(other.len()) >= LEAST;
        let is_part = is_long && (one.contains(&**other) || other.contains(&**one));
        is_part || self.path.common(&clues.path) > 0 || self.path.shares(&clues.path) >= FEWEST_ALIKE
    }
}
