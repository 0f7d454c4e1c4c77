//! Where the messages that are given to a session are in its log.

use std::collections::HashMap;
use std::ops::Range;

use lookback_engine::transcript::Position;
use lookback_session::adapter::Resent;
use lookback_wire::message::Message;

/// Messages that are given to a session, without their contents.
pub(crate) struct Given {
    messages: Vec<Resent>,
    /// The elements that each of them is made of.
    spans: Vec<Range<usize>>,
}

impl Given {
    pub(crate) fn new(messages: &[Message], spans: Vec<Range<usize>>) -> Given {
        Given { messages: messages.iter().map(Resent::from_message).collect(), spans }
    }

    /// Returns the position of each element. `written` are those of the messages that are in the log, in order.
    ///
    /// A system message that repeats the standing one is not written again: its position is that of the one before, which
    /// is among the `standing` messages or the given ones. `logged` returns what is in the log at which position.
    pub(crate) fn positions(
        &self,
        written: &[Position],
        standing: &[(Position, Resent)],
        logged: impl FnOnce() -> Vec<(Position, Resent)>,
    ) -> Vec<Position> {
        if written.len() == self.messages.len() {
            return self.element_positions(written.iter().copied());
        }
        let digests: HashMap<Position, u128> =
            logged().into_iter().map(|(position, resent)| (position, resent.digest)).collect();
        let mut known: HashMap<u128, Position> =
            standing.iter().map(|(position, resent)| (resent.digest, *position)).collect();
        let mut written = written.iter().copied().peekable();
        let mut positions = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            if let Some(position) = written.next_if(|position| digests.get(position) == Some(&message.digest)) {
                known.insert(message.digest, position);
            }
            // Each message has a position, so that none takes that of another.
            let nearest = positions.last().copied().or_else(|| written.peek().copied()).unwrap_or_default();
            positions.push(known.get(&message.digest).copied().unwrap_or(nearest));
        }
        self.element_positions(positions.into_iter())
    }

    fn element_positions(&self, positions: impl Iterator<Item = Position>) -> Vec<Position> {
        self.spans.iter().zip(positions).flat_map(|(span, position)| span.clone().map(move |_| position)).collect()
    }
}
