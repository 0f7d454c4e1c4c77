//! The log positions of the messages that a caller gives to a session.

use std::collections::HashMap;
use std::ops::Range;

use lookback_engine::transcript::Position;
use lookback_session::adapter::Resent;
use lookback_wire::message::Message;

/// Messages that a caller gives to a session, without their contents.
pub(crate) struct Given {
    messages: Vec<Resent>,
    /// The list elements of each message.
    spans: Vec<Range<usize>>,
}

impl Given {
    pub(crate) fn new(messages: &[Message], spans: Vec<Range<usize>>) -> Given {
        Given { messages: messages.iter().map(Resent::from_message).collect(), spans }
    }

    /// Returns the log position of each list element. `written` are the positions of the messages that were appended,
    /// in order.
    ///
    /// A system message that repeats the current one is not appended again. Its position is that of the earlier
    /// message, which is one of the `standing` or the given messages. `logged` returns the appended messages with their
    /// positions.
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
            // Every message must get a position, so that later ones do not shift.
            let nearest = positions.last().copied().or_else(|| written.peek().copied()).unwrap_or_default();
            positions.push(known.get(&message.digest).copied().unwrap_or(nearest));
        }
        self.element_positions(positions.into_iter())
    }

    fn element_positions(&self, positions: impl Iterator<Item = Position>) -> Vec<Position> {
        self.spans.iter().zip(positions).flat_map(|(span, position)| span.clone().map(move |_| position)).collect()
    }
}
