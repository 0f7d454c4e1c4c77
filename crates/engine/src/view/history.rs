//! The history of a branch: counts over all its messages, including those that have left the window.

use std::ops::Range;

use crate::entry::{Arrival, Millis, Origin, Position, Reading};
use lookback_wire::message::Role;

/// Counts over the whole history of a branch.
#[derive(Clone, Default)]
pub(super) struct History {
    /// The number of turns.
    pub(super) turn: u64,
    /// The number of assistant messages.
    pub(super) round: u64,
    /// The number of messages, without Lookback's own.
    pub(super) messages: u64,
    /// The chain of their digests (see [`chain`]).
    pub(super) chain: u128,
    /// The entries of the branch.
    pub(super) path: Vec<Range<Position>>,
    /// When the newest message arrived, if that is known.
    pub(super) newest: Option<Millis>,
    /// The last compaction.
    pub(super) compacted: Option<Position>,
    /// Whether messages have ever been removed or shortened because of a limit, a refusal or an erasure.
    pub(super) cut: bool,
    /// Whether the newest message is the model's.
    pub(super) is_models: bool,
    /// The tokens that calls have read since the last compaction because of a limit.
    pub(super) reading: Reading,
}

impl History {
    /// Adds an entry to the path.
    pub(super) fn extend(&mut self, position: Position) {
        match self.path.last_mut() {
            Some(last) if last.end == position => last.end = position + 1,
            _ => self.path.push(position..position + 1),
        }
    }

    /// Counts a message, unless it is Lookback's own.
    pub(super) fn count(&mut self, arrival: &Arrival) {
        if arrival.origin != Origin::Lookback {
            self.messages = self.messages.saturating_add(1);
            self.chain = chain(self.chain, arrival.digest);
            self.newest = arrival.time;
        }
        self.is_models = arrival.message.role() == Role::Assistant;
    }
}

/// Returns the chain of these digests (see [`chain`]).
pub fn chained(digests: &[u128]) -> u128 {
    digests.iter().fold(0, |before, digest| chain(before, *digest))
}

/// Extends a chain of digests by one message. Histories with equal chains are equal.
pub fn chain(before: u128, digest: u128) -> u128 {
    let mut bytes = [0; 32];
    let (left, right) = bytes.split_at_mut(16);
    left.copy_from_slice(&before.to_le_bytes());
    right.copy_from_slice(&digest.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
