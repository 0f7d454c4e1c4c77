//! Summaries by clients: which line goes on after its client has compacted it, and does not say which one it is.
//!
//! The call that compacts passes through the gateway, so what the model answers to it is known. A request whose history
//! begins with this text goes on with the line that was summarized: the one whose history the call had, or the only one
//! whose newest messages follow the summary.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lookback::{RawRequest, Role};

use super::{Line, Scope};

/// The most summaries that are remembered.
const MOST: usize = 256;
/// The bytes of a summary that is remembered. A shorter text could stand in any message.
const BYTES: std::ops::RangeInclusive<usize> = 40..=32_768;
/// The number of messages at the beginning of a history that may have a summary. Some clients tell of their surroundings
/// first.
const FIRST: usize = 3;

/// The summaries that clients have asked for lately.
#[derive(Default)]
pub(super) struct Summaries(Mutex<VecDeque<Summary>>);

struct Summary {
    /// Where it was asked for.
    scope: Scope,
    text: String,
    /// The line that it summarizes; `None` if the call did not have the line's messages as they were.
    line: Option<Weak<Line>>,
}

impl Summaries {
    /// Remembers what the model answered when a client compacted its history.
    pub(super) fn remember(&self, scope: Scope, text: &str, line: Option<&Arc<Line>>) {
        let text = text.trim();
        if !BYTES.contains(&text.len()) {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(Summary { scope, text: text.to_owned(), line: line.map(Arc::downgrade) });
    }

    /// Returns the line that a request goes on with, if its history begins with a summary that its account has asked for.
    /// `which` says what it is, and is given the line if it is known. One summary is for one line, once.
    pub(super) fn take(
        &self,
        scope: &Scope,
        request: &RawRequest<'_>,
        which: impl FnOnce(Option<Arc<Line>>) -> Option<Arc<Line>>,
    ) -> Option<Arc<Line>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return None;
        }
        let said = (0..request.len()).filter_map(|index| request.message(index).ok());
        let first = said.filter(|message| message.role() != Role::System).take(FIRST);
        let texts: Vec<String> = first.map(|message| message.text()).collect();
        let is_in = |summary: &Summary| {
            scope.has_account_of(&summary.scope) && texts.iter().any(|text| text.contains(&summary.text))
        };
        let newest = all.iter().rposition(is_in)?;
        let line = which(all.get(newest)?.line.as_ref().and_then(Weak::upgrade))?;
        all.remove(newest);
        Some(line)
    }
}
