//! The outline of a line: the data by which it is recognized, without opening its session.

use std::mem;

use lookback_session::adapter::Resent;
use lookback_wire::message::Role;

use super::clues::Clues;
use super::path::{Fingerprint, Path};
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
    pub(super) tools: Tools,
    /// The number of requests that are not answered yet.
    in_flight: usize,
    /// Whether the last answer was complete.
    pub(super) is_settled: bool,
    /// The number of the request that used the line last.
    pub(super) used: u64,
}

impl Outline {
    /// Creates the outline of a line with these messages. The model's messages at the end are the answer to the last
    /// request.
    pub(super) fn new(path: Path, tools: Tools) -> Outline {
        let said = path.said();
        let is_models = |at: usize| said.get(at).is_some_and(|message| message.resent.role == Role::Assistant);
        let asked = (0..said.len()).rfind(|at| !is_models(*at)).map_or(0, |last| last + 1);
        let base = (0..asked).rfind(|at| is_models(*at)).map_or(0, |last| last + 1);
        Outline { asked, base, is_settled: said.len() > asked, path, tools, ..Outline::default() }
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

    /// Ends a request, and adds its answer, if it was complete.
    pub(super) fn finish(&mut self, answer: Option<Resent>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // If another request came meanwhile, this answer does not belong to it.
        let is_newest = self.path.len() == self.asked && self.in_flight == 0;
        if let Some(resent) = answer
            && is_newest
        {
            self.path.push(Fingerprint { resent, bytes: None });
            self.is_settled = true;
        }
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

    /// Returns whether a request has all tools of the line. It may have more. With fewer or other tools, it belongs to
    /// another line: for example, one that extracts memories from the conversation.
    pub(super) fn has_tools_of(&self, clues: &Clues) -> bool {
        let has = |tool: &String| clues.tools.names.binary_search(tool).is_ok();
        self.tools.hash == clues.tools.hash || self.tools.names.iter().all(has)
    }

    /// Returns whether a request has the tools of the line, and no others.
    pub(super) fn has_same_tools(&self, clues: &Clues) -> bool {
        self.tools.names == clues.tools.names
    }

    /// Returns whether the last message of a request is the last message of the previous request, with more text.
    pub(super) fn has_grown(&self, clues: &Clues) -> bool {
        !self.last.is_empty() && clues.last.starts_with(&self.last)
    }
}
