//! Running totals of a view: the sum of its groups' sizes, and counts of its messages.

use super::{Item, ViewGroup};
use crate::group::Tally;
use crate::totals::Totals;
use lookback_wire::size::Size;

/// The totals of the groups of a view, kept up to date.
#[derive(Clone, Default)]
pub(super) struct Sizes {
    tally: Tally,
    /// The number of messages that a policy may leave uncounted: system messages, the running summary and the index.
    uncounted: u64,
    /// The number of messages that are not part of the client's conversation.
    beside: u64,
}

impl Sizes {
    /// Adds a group.
    pub(super) fn add(&mut self, group: &ViewGroup) {
        if group.kind.may_be_uncounted() {
            self.uncounted += group.items.len() as u64;
        }
        self.beside += beside(&group.items);
        self.tally.add(group.kind, group.turn, group.size);
    }

    /// Removes a group that was added.
    pub(super) fn remove(&mut self, group: &ViewGroup) {
        if group.kind.may_be_uncounted() {
            self.uncounted = self.uncounted.saturating_sub(group.items.len() as u64);
        }
        self.beside = self.beside.saturating_sub(beside(&group.items));
        self.tally.remove(group.kind, group.turn, group.size);
    }

    /// Adds a message to a group that was added.
    pub(super) fn join(&mut self, item: &Item) {
        self.beside += beside(std::slice::from_ref(item));
        self.tally.resize(Size::default(), item.size);
    }

    /// Replaces the size of a group that was added, or a part of that size.
    pub(super) fn resize(&mut self, old: Size, new: Size) {
        self.tally.resize(old, new);
    }

    /// Returns the current totals.
    pub(super) fn totals(&self) -> Totals {
        self.tally.totals()
    }

    /// Returns the number of messages that a policy may leave uncounted.
    pub(super) fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// Returns the number of messages that are not part of the client's conversation.
    pub(super) fn beside(&self) -> u64 {
        self.beside
    }
}

fn beside(items: &[Item]) -> u64 {
    items.iter().filter(|item| item.is_beside()).count() as u64
}
