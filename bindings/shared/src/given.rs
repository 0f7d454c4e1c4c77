//! Where the messages that Python gives are in the log of their session.

use std::collections::HashMap;
use std::ops::Range;

use lookback::session::Resent;
use lookback::transcript::Position;
use lookback::{Message, Role};

/// Messages that are given to a session, without their contents.
pub(crate) struct Given {
    messages: Vec<Resent>,
    /// The elements that each of them is made of.
    spans: Vec<Range<usize>>,
}

impl Given {
    pub(crate) fn new(messages: &[Message], spans: Vec<Range<usize>>) -> Given {
        Given { messages: messages.iter().map(Resent::of).collect(), spans }
    }

    /// Returns the position of each element, from those of the messages that are in the log.
    ///
    /// A system message that repeats the standing one is not written again: its position is that of the one before.
    pub(crate) fn positions(&self, logged: &[(Position, Resent)], standing: &[(Position, Resent)]) -> Vec<Position> {
        let mut system: HashMap<u128, Position> = HashMap::new();
        system.extend(standing.iter().map(|(position, resent)| (resent.digest, *position)));
        let mut logged = logged.iter().peekable();
        let mut positions = Vec::new();
        for (message, span) in self.messages.iter().zip(&self.spans) {
            let found = match logged.next_if(|(_, resent)| resent.digest == message.digest) {
                Some((position, resent)) => {
                    if resent.role == Role::System {
                        system.insert(resent.digest, *position);
                    }
                    Some(*position)
                }
                None => system.get(&message.digest).copied(),
            };
            positions.extend(found.into_iter().flat_map(|position| span.clone().map(move |_| position)));
        }
        positions
    }
}
