//! Messages that were dropped at a hard limit while a summary was being made: the next summary covers them.

use std::ops::Range;

use lookback_engine::transcript::Position;
use lookback_engine::view::View;
use lookback_engine::{SummaryClaim, SummaryRequest};

/// The most requests to keep. If the summarizer never works again, memory must not fill up.
const MOST: usize = 256;

/// Requests whose messages have left the window and are in no summary.
#[derive(Default)]
pub(super) struct Missed {
    /// The next summary covers these.
    waiting: Vec<SummaryRequest>,
    /// The summary that this session is making covers these. If it fails, they wait again.
    in_work: Vec<SummaryRequest>,
}

impl Missed {
    /// Adds a request. Returns `false` if the oldest one was discarded to make room.
    pub(super) fn push(&mut self, request: SummaryRequest) -> bool {
        let is_full = self.waiting.len() >= MOST;
        if is_full {
            self.waiting.remove(0);
        }
        self.waiting.push(request);
        !is_full
    }

    /// Forgets the messages at these positions, because a summary in the window covers them.
    pub(super) fn forget(&mut self, covers: &[Range<Position>]) {
        let is_new = |position: &Position| !covers.iter().any(|span| span.contains(position));
        for missed in self.waiting.iter_mut().chain(&mut self.in_work) {
            let both = std::mem::take(&mut missed.messages).into_iter().zip(std::mem::take(&mut missed.positions));
            (missed.messages, missed.positions) = both.filter(|(_, position)| is_new(position)).unzip();
        }
        self.waiting.retain(|missed| !missed.messages.is_empty());
        self.in_work.retain(|missed| !missed.messages.is_empty());
    }

    /// Lets the messages of a failed summary wait again.
    pub(super) fn wait_again(&mut self) {
        let later = std::mem::take(&mut self.waiting);
        self.waiting.append(&mut self.in_work);
        self.waiting.extend(later);
    }

    /// Returns the request, extended by all waiting ones, which are in work from now on. Requests with messages that
    /// left the branch or may be erased are discarded.
    pub(super) fn take_into(&mut self, request: SummaryRequest, view: &View) -> SummaryRequest {
        let mut gone = std::mem::take(&mut self.waiting);
        // If the session went back to before them, a summary of them is useless.
        let is_there = |span: &Range<Position>| view.is_on_path(span) && span.start >= view.erased_before();
        gone.retain(|missed| missed.claim.covers.iter().all(is_there));
        let mut all = request.clone();
        for missed in gone.iter().rev() {
            all.messages.splice(..0, missed.messages.iter().cloned());
            all.positions.splice(..0, missed.positions.iter().copied());
            all.claim.covers.splice(..0, missed.claim.covers.iter().cloned());
            all.claim.stands_for = all.claim.stands_for.saturating_add(missed.claim.size.tokens);
        }
        if is_gone(&request.claim, view) {
            gone.push(request);
        }
        self.in_work = gone;
        all
    }
}

/// Whether everything that a claim covers has left the window.
pub(super) fn is_gone(claim: &SummaryClaim, view: &View) -> bool {
    let covered = |position| claim.covers.iter().any(|span| span.contains(&position));
    !view.messages().any(|item| covered(item.position()))
}
