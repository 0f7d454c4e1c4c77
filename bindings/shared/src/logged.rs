//! Where the messages of a conversation are in its log. It is remembered, because a client that sends its whole history asks
//! with each call, and to read the log takes longer than to recognize the history.

use futures_lite::future::block_on;
use lookback_engine::transcript::{Origin, Position};
use lookback_session::Session;
use lookback_session::{Synced, adapter::Resent};

use crate::Failure;

/// The messages of a conversation, without Lookback's own and without their contents.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// The chain of their digests, by which it is known whether the conversation is still the same.
    chain: u128,
    messages: Vec<(Position, Resent)>,
}

impl Logged {
    pub(crate) fn messages(&self) -> &[(Position, Resent)] {
        &self.messages
    }

    /// Returns whether these are the messages of the session now.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        let view = session.view();
        // Another writer may have left the branch, and said the same on another. What comes before the last is where it was.
        let is_here = self.messages.last().is_none_or(|(last, _)| view.is_on_path(&(*last..*last + 1)));
        self.chain == view.chain() && self.messages.len() as u64 == view.history_len() && is_here
    }

    /// Takes over what a session has now. `was_known` says whether it was known before a history was taken over, and `end` is
    /// where the log ended then.
    pub(crate) fn follow(
        &mut self,
        session: &mut Session,
        was_known: bool,
        end: Position,
        synced: Synced,
    ) -> Result<(), Failure> {
        let new = session.view().messages().filter(|item| !item.is_own() && item.position() >= end);
        let mut new: Vec<_> = new.map(|item| (item.position(), Resent::from_message(item.message()))).collect();
        new.sort_by_key(|(position, _)| *position);
        // A result that came too late is not shown yet, and then the log has to be read.
        if was_known && synced.left == 0 && new.len() as u64 == synced.new {
            self.messages.append(&mut new);
        } else {
            let said = block_on(session.history())?.into_iter();
            let said = said.filter(|entry| entry.arrival.origin != Origin::Lookback);
            self.messages = said.map(|entry| (entry.position, Resent::from_message(&entry.arrival.message))).collect();
        }
        self.chain = session.view().chain();
        Ok(())
    }
}
