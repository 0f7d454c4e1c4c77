//! The log positions of a conversation's messages. They are cached, because a client that resends its history needs
//! them at every call, and reading the log takes longer than recognizing the history.

use futures_lite::future::block_on;
use lookback_engine::transcript::{Origin, Position};
use lookback_session::Session;
use lookback_session::{Synced, adapter::Resent};

use crate::Failure;

/// The messages of a conversation, without Lookback's own messages and without contents.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// The chain of their digests, which shows whether the conversation is still the same.
    chain: u128,
    messages: Vec<(Position, Resent)>,
}

impl Logged {
    pub(crate) fn messages(&self) -> &[(Position, Resent)] {
        &self.messages
    }

    /// Returns whether these are the current messages of the session.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        let view = session.view();
        // Another writer may have begun a branch with the same messages. If the last message is on the path, all are.
        let is_here = self.messages.last().is_none_or(|(last, _)| view.is_on_path(&(*last..*last + 1)));
        self.chain == view.chain() && self.messages.len() as u64 == view.history_len() && is_here
    }

    /// Updates this to the current messages of the session, after it has synced a history. `was_known` says whether
    /// this was current before, and `end` is the end of the log at that time.
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
        // The view does not show a late result yet, and then the log has to be read.
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
