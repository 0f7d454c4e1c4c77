//! Summaries by clients: recognizing a line after its client has compacted it without identifying it.
//!
//! The owner of the lines sees the compacting call and the model's answer. A later request with this answer at the
//! beginning of its history continues the summarized line: the only line whose newest messages follow the summary, or
//! else the line whose history the call had.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lookback_wire::dialect::{Dialect, RawRequest};
use lookback_wire::message::Role;

use super::line::Line;
use super::scope::Scope;

/// The most summaries that are remembered.
const MOST: usize = 1024;
/// The most summaries of one account that are remembered.
const MOST_OF_ACCOUNT: usize = 32;
/// The range of bytes of a summary that is remembered. A shorter text could occur in any message.
const BYTES: std::ops::RangeInclusive<usize> = 40..=32_768;
/// The number of messages at the beginning of a history that may contain the summary. Some clients describe their
/// environment first.
const FIRST: usize = 3;

/// The summaries that clients have recently asked for, the oldest first.
#[derive(Default)]
pub(super) struct Summaries<S>(Mutex<VecDeque<Arc<Summary<S>>>>);

/// The model's answer when a client compacted its history.
pub(super) struct Summary<S> {
    /// The scope of the compacting call.
    scope: Scope,
    dialect: Dialect,
    text: String,
    /// The line that it summarizes; `None` if the call did not have the line's messages unchanged.
    line: Option<Weak<Line<S>>>,
}

impl<S> Summary<S> {
    pub(super) fn new(scope: Scope, dialect: Dialect, text: &str, line: Option<&Arc<Line<S>>>) -> Summary<S> {
        Summary { scope, dialect, text: text.trim().to_owned(), line: line.map(Arc::downgrade) }
    }

    /// Returns the line that it summarizes, if it is known.
    pub(super) fn line(&self) -> Option<&Weak<Line<S>>> {
        self.line.as_ref()
    }

    /// Returns whether both summarize the same line, or neither has a known line.
    fn has_line_of(&self, other: &Summary<S>) -> bool {
        match (&self.line, &other.line) {
            (Some(line), Some(other)) => line.ptr_eq(other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl<S> Summaries<S> {
    /// Remembers a summary.
    pub(super) fn remember(&self, summary: Summary<S>) {
        if !BYTES.contains(&summary.text.len()) {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_account =
            all.iter().enumerate().filter(|(_, other)| summary.scope.has_account_of(&other.scope)).map(|(at, _)| at);
        let oldest = of_account.next();
        if of_account.count() + 1 >= MOST_OF_ACCOUNT
            && let Some(oldest) = oldest
        {
            all.remove(oldest);
        }
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(Arc::new(summary));
    }

    /// Returns the summary with which a request's history begins. `None` if the account has none that matches, or if
    /// the matching ones are of different lines.
    pub(super) fn find(&self, scope: &Scope, request: &RawRequest<'_>) -> Option<Arc<Summary<S>>> {
        let is_near =
            |summary: &&Arc<Summary<S>>| summary.dialect == request.dialect() && scope.has_account_of(&summary.scope);
        let near: Vec<Arc<Summary<S>>> = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().rev().filter(is_near).cloned().collect()
        };
        if near.is_empty() {
            return None;
        }
        let said = (0..request.len()).filter_map(|index| request.message(index).ok());
        let first = said.filter(|message| message.role() != Role::System).take(FIRST);
        let texts: Vec<String> = first.map(|message| message.text()).collect();
        let mut found = near.into_iter().filter(|summary| texts.iter().any(|text| text.contains(&summary.text)));
        let newest = found.next()?;
        found.all(|other| other.has_line_of(&newest)).then_some(newest)
    }

    /// Forgets a summary after a request has continued a line with it. A summary is used once.
    pub(super) fn forget(&self, used: &Arc<Summary<S>>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|summary| !Arc::ptr_eq(summary, used));
    }
}
