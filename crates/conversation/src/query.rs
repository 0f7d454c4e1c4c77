//! The query for the line of a request.

use std::sync::Arc;

use lookback_wire::dialect::{Preamble, RawRequest, RequestError};
use lookback_wire::message::{PartRef, Role};
use xxhash_rust::xxh3::xxh3_64;

use super::clues::Clues;
use super::line::Line;
use super::path::{Fingerprint, Path, beginning, opening, words};
use super::scope::Scope;
use super::summary_words::asks_for_summary;
use super::tools::{Tools, has_tools};

/// A query for the line of a request.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a, 'b> {
    pub(super) request: &'a RawRequest<'b>,
    preamble: &'a Preamble,
    is_retry: bool,
}

impl<'a, 'b> Query<'a, 'b> {
    /// Creates a query for the line of a request. The preamble must be the request's own. It is a parameter so that it
    /// is extracted only once.
    pub fn new(request: &'a RawRequest<'b>, preamble: &'a Preamble) -> Query<'a, 'b> {
        Query { request, preamble, is_retry: false }
    }

    /// Sets whether the client marks the request as a retry. If so, it belongs to the line of an equal request.
    #[must_use]
    pub fn retry(self, is_retry: bool) -> Query<'a, 'b> {
        Query { is_retry, ..self }
    }

    /// Returns whether the client may be compacting its history with this request, by its form alone: it asks for a summary
    /// of the conversation, or the model may call none of its tools.
    #[doc(hidden)]
    pub fn may_compact(self) -> bool {
        let Query { request, preamble, .. } = self;
        let message = |index: usize| request.message(index).ok();
        let has_answers = (0..request.len()).filter_map(message).any(|message| message.role() == Role::Assistant);
        let is_silent = has_tools(preamble) && request.forbids_calls();
        self.is_from_person() && has_answers && (is_silent || self.asks_for_summary())
    }

    /// Returns whether the newest message asks for a summary of the conversation.
    fn asks_for_summary(self) -> bool {
        let newest = self.request.len().checked_sub(1).and_then(|last| self.request.message(last).ok());
        newest.is_some_and(|newest| {
            newest.parts().any(|part| matches!(part, PartRef::Text(text) if asks_for_summary(text)))
        })
    }

    /// Returns whether the last message is from a person.
    pub(super) fn is_from_person(self) -> bool {
        let last = self.request.len().checked_sub(1).and_then(|last| self.request.message(last).ok());
        let is_result = |part: PartRef<'_>| matches!(part, PartRef::ToolResult(_));
        last.is_some_and(|last| last.role() == Role::User && !last.parts().any(is_result))
    }

    /// Reads the clues. Messages whose bytes a line remembers are not parsed again.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read.
    pub(super) fn clues<S>(self, scope: &Scope, lines: &[Arc<Line<S>>]) -> Result<Clues, RequestError> {
        let Query { request, preamble, is_retry } = self;
        let hash = |index: usize| xxh3_64(request.bytes(index).unwrap_or_default().as_bytes());
        let hashes: Vec<u64> = (0..request.len()).map(hash).collect();
        let tools_hash = Tools::hash(preamble);
        let mut known: Vec<Option<Fingerprint>> = vec![None; hashes.len()];
        let (mut begun, mut tools) = (None, None);
        for line in lines {
            let outline = line.outline();
            for (index, (known, bytes)) in known.iter_mut().zip(&hashes).enumerate() {
                *known = known.or_else(|| outline.path.at(index, *bytes));
            }
            begun = begun.or_else(|| outline.path.opening_of(&hashes));
            if tools.is_none() && outline.tools.hash == tools_hash {
                tools = Some(outline.tools.clone());
            }
        }
        let messages = known.into_iter().zip(&hashes).enumerate().map(|(index, (known, bytes))| match known {
            Some(known) => Ok(known),
            None => Ok(Fingerprint::new(request.message(index)?, Some(*bytes))),
        });
        let path = Path::new(messages.collect::<Result<_, RequestError>>()?);
        let opening = match begun {
            Some((first, opening)) if first == path.first() => Some(opening),
            _ => request.message(path.first()).ok().map(|first| opening(first)),
        };
        let last = match request.len().checked_sub(1) {
            Some(last) => beginning(&request.message(last)?.text()),
            None => String::new(),
        };
        let tools = tools.unwrap_or_else(|| Tools::from_preamble(preamble));
        let said = |index: usize| request.message(path.first() + index).ok();
        let base = path.base();
        let answer = base.checked_sub(1).and_then(said).map(|answer| words(answer)).unwrap_or_default();
        let question =
            base.checked_sub(2).and_then(said).map(|question| beginning(&question.text())).unwrap_or_default();
        let may_call = has_tools(preamble) && !request.forbids_calls();
        let is_from_person = self.is_from_person();
        let asks_for_summary = is_from_person && self.asks_for_summary();
        let path = path.with_opening(opening);
        Ok(Clues {
            path,
            last,
            answer,
            has_recorded_answer: false,
            question,
            tools,
            may_call,
            is_from_person,
            asks_for_summary,
            is_retry,
            is_named: scope.is_named(),
        })
    }
}
