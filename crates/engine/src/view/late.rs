//! Late results: results that arrived after their stand-in was sent, and wait for the next compaction.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::View;
use super::groups::ViewGroup;
use super::item::{Author, Item};
use crate::entry::Position;
use lookback_wire::edit::Hidden;
use lookback_wire::edit::{self, Change, Edit};

/// The late results, in the order in which they arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct Late {
    items: Vec<Item>,
    /// For each name of a call, the indexes of the items that answer it.
    by_name: HashMap<String, Vec<usize>>,
}

impl Late {
    /// Adds a late result.
    pub(super) fn push(&mut self, item: Item) {
        for (_, _, name) in item.answers() {
            self.by_name.entry(name.to_owned()).or_default().push(self.items.len());
        }
        self.items.push(item);
    }

    /// Returns the late results.
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns whether a result waits to replace the stand-in with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the late results that belong to a group: the item that replaces the stand-ins, and the positions of
    /// these stand-ins. If a message answers calls of several groups, the item shows only the parts for this group.
    pub(super) fn of_group(&self, group: &ViewGroup) -> Vec<(Item, Vec<Position>)> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let mut stand_ins: HashMap<&str, Position> = HashMap::new();
        for own in group.items.iter().filter(|item| item.by == Author::Mend) {
            for (_, _, name) in own.answers() {
                stand_ins.entry(name).or_insert(own.position);
            }
        }
        let waiting: BTreeSet<usize> =
            stand_ins.keys().filter_map(|name| self.by_name.get(*name)).flatten().copied().collect();
        let mut taken: HashSet<Position> = HashSet::new();
        let mut found = Vec::new();
        for item in waiting.into_iter().filter_map(|index| self.items.get(index)) {
            let mut edits = item.edits.to_vec();
            let mut places = Vec::new();
            for (part, _, name) in item.answers() {
                match stand_ins.get(name).filter(|position| taken.insert(**position)) {
                    Some(position) => places.push(*position),
                    None => edits.push(Edit { part, change: Change::Hide(Hidden::Late) }),
                }
            }
            if !places.is_empty() {
                found.push((item.edited(edit::in_order(edits), item.size), places));
            }
        }
        found
    }
}

impl View {
    /// Adds a late result. Its call already has a stand-in.
    pub(super) fn await_result(&mut self, item: Item) {
        for (_, result, name) in item.answers() {
            if let Some(group) = self.home_of(result, name).and_then(|index| self.groups.get_mut(index)) {
                group.calls.await_result(name);
            }
        }
        self.late.push(item);
    }

    /// Replaces all late results.
    pub(super) fn await_all(&mut self, items: Vec<Item>) {
        self.late = Late::default();
        items.into_iter().for_each(|item| self.await_result(item));
    }

    /// Returns the late results that belong to a group: the item that replaces the stand-ins, and the positions of
    /// these stand-ins.
    pub(crate) fn late_for(&self, group: &ViewGroup) -> Vec<(Item, Vec<Position>)> {
        self.late.of_group(group)
    }
}
