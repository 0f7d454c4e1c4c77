//! Results that came after a stand-in had taken their place: they wait beside the view for the next compaction.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Author, Item, ViewGroup};
use crate::edit::{self, Change, Edit, Hidden};
use crate::entry::Position;

/// The results that wait, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Late {
    items: Vec<Item>,
    /// Which of them answers the stand-in of a name.
    by_name: HashMap<String, Vec<usize>>,
}

impl Late {
    pub(super) fn push(&mut self, item: Item) {
        for (_, _, name) in item.answers() {
            self.by_name.entry(name.to_owned()).or_default().push(self.items.len());
        }
        self.items.push(item);
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Whether a result waits for the stand-in of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The results whose stand-ins stand in a group: the item that takes their place, and the stand-ins' positions. Of a message
    /// that answers calls of several groups, each has its own part.
    pub(super) fn of_group(&self, group: &ViewGroup) -> Vec<(Item, Vec<Position>)> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let mut stand_ins: HashMap<&str, Position> = HashMap::new();
        for own in group.items.iter().filter(|item| item.by == Author::Mend) {
            for (_, result) in own.message.tool_results() {
                stand_ins.entry(&result.call_id).or_insert(own.position);
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
                found.push((Item { edits: edit::in_order(edits).into(), ..item.clone() }, places));
            }
        }
        found
    }
}
