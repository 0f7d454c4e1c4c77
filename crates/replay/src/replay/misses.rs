//! The misses of windows that another program made.

use std::collections::HashSet;

use lookback_engine::transcript::Position;
use lookback_wire::message::Message;

use super::comparable::said;
use super::identifiers::Seen;
use super::spans::Stretches;

/// A history with which windows are compared.
#[derive(Default)]
#[allow(missing_debug_implementations, reason = "it is only for measurements")]
pub struct Misses {
    seen: Seen,
    stretches: Stretches,
}

/// The texts that the model used again in one message, and those that its window did not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uses {
    /// Identifiers of the history.
    pub identifiers: u64,
    /// Those that the window did not contain.
    pub missed_identifiers: u64,
    /// Spans of the history.
    pub spans: u64,
    /// Those that the window did not contain.
    pub missed_spans: u64,
}

impl Misses {
    /// Adds a message to the history.
    pub fn push(&mut self, position: Position, message: &Message) {
        let text = said(message);
        self.seen.push(position, &text);
        self.stretches.push(position, &text);
    }

    /// Returns the stretches of the model's next message that the history contains, of 30 or more bytes within a line.
    pub fn copied<'a>(&self, next: &'a str) -> Vec<&'a str> {
        let spans = self.stretches.copied(next).into_iter();
        spans.filter_map(|span| std::str::from_utf8(span).ok()).collect()
    }

    /// Compares the model's next message with a window. `whole` has the positions of the window's unchanged messages.
    pub fn compare<'a>(
        &self,
        next: &Message,
        whole: &HashSet<Position>,
        window: impl IntoIterator<Item = &'a Message>,
    ) -> Uses {
        let (next, texts) = (said(next), window.into_iter().map(said).collect::<Vec<String>>());
        let reused = self.seen.compare_texts(&next, whole, &texts);
        let copied = self.stretches.compare_texts(&next, whole, texts.into_iter());
        Uses {
            identifiers: reused.identifiers,
            missed_identifiers: reused.missed.len() as u64,
            spans: copied.spans,
            missed_spans: copied.missed.len() as u64,
        }
    }
}
