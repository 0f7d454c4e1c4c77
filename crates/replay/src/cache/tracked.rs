//! A view that is sent at each call, and changes entry by entry. Most entries only add a message at its end, so a call
//! takes time for the new messages only.

use std::collections::HashSet;

use lookback_engine::transcript::{Entry, Millis, Position};
use lookback_engine::view::{Item, View};
use lookback_wire::message::Role;
use lookback_wire::size::Size;

use super::{Block, Cache, Charge, blocks, shown_as};

/// The view as it was after the last entry that was read.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// The tokens of a system prompt and tools that the view does not have.
    unrecorded: u64,
    blocks: Vec<Block>,
    /// The messages that are shown whole.
    whole: HashSet<Position>,
    size: Size,
    /// The number of blocks at the beginning that are those of the last call.
    same: usize,
    /// Whether the view has changed in another way than by new messages at its end.
    has_changed: bool,
    /// The number of messages at the end that are new since the last call.
    new: usize,
}

impl Tracked {
    /// Creates an empty view, before which a system prompt and tools with this many tokens are sent.
    pub(crate) fn after(unrecorded: u64) -> Tracked {
        Tracked { unrecorded, has_changed: unrecorded > 0, ..Tracked::default() }
    }

    /// Reads an entry that the view already has.
    pub(crate) fn read(&mut self, position: Position, entry: &Entry, view: &View) {
        match entry {
            Entry::Usage(_) | Entry::Label(_) | Entry::Checkpoint(_) => {}
            Entry::Message(_) => self.receive(position, view),
            _ => self.has_changed = true,
        }
    }

    /// Marks all of the view as changed.
    pub(crate) fn change(&mut self) {
        self.has_changed = true;
    }

    /// Adds what arrived from a position on, if the rest of the view is as before.
    pub(crate) fn receive(&mut self, position: Position, view: &View) {
        if self.has_changed {
            return;
        }
        let new: Vec<&Item> = view.messages().rev().take_while(|item| item.position() >= position).collect();
        let size = view.totals().size;
        self.has_changed = size != self.size + new.iter().map(|item| item.size()).sum();
        self.size = size;
        new.into_iter().rev().for_each(|item| self.add(item));
    }

    fn add(&mut self, item: &Item) {
        let leads = self.blocks.last().is_none_or(|last| last.fixed) && item.message().role() == Role::System;
        self.blocks.push(Block::new(shown_as(item)).tokens(item.size().tokens).fixed(leads));
        self.new += 1;
        if is_whole(item) {
            self.whole.insert(item.position());
        }
    }

    /// Updates what is tracked, after changes other than new messages at the end.
    fn update(&mut self, view: &View) {
        if !self.has_changed {
            return;
        }
        let unrecorded = Block::new(u128::MAX - 1).tokens(self.unrecorded).fixed(true);
        let unrecorded = (self.unrecorded > 0).then_some(unrecorded);
        let changed: Vec<Block> = unrecorded.into_iter().chain(blocks(view)).collect();
        let same = self.blocks.iter().zip(&changed).take_while(|(one, other)| one == other).count();
        self.same = self.same.min(same);
        self.blocks = changed;
        self.whole = view.messages().filter(|item| is_whole(item)).map(Item::position).collect();
        self.size = view.totals().size;
    }

    /// Returns the messages that are shown whole.
    pub(crate) fn whole(&mut self, view: &View) -> &HashSet<Position> {
        self.update(view);
        &self.whole
    }

    /// Returns the number of messages at the end that are new since the last call. `None` if the rest has changed, too.
    pub(crate) fn new_messages(&self) -> Option<usize> {
        (!self.has_changed).then_some(self.new)
    }

    /// Simulates a call with this view.
    pub(crate) fn call(&mut self, view: &View, cache: &mut Cache, time: Option<Millis>) -> Charge {
        self.update(view);
        let charge = cache.call_after(&self.blocks, self.same, time);
        (self.same, self.new, self.has_changed) = (self.blocks.len(), 0, false);
        charge
    }
}

/// Returns whether a message of the conversation is shown as it arrived.
fn is_whole(item: &Item) -> bool {
    item.edits().is_empty() && !item.is_own()
}
