//! Applying a compaction to the view: which groups leave, how the others are shown, and where the running summary and
//! the index go.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::View;
use super::calls::Calls;
use super::groups::ViewGroup;
use super::item::{Author, Item};
use super::sizes::Sizes;
use crate::entry::{CompactedGroups, Compaction, NameIndex, Position, Reading, RunningSummary, ShownItem};
use crate::group::GroupKind;
use crate::plan::{Action, Reason};
use lookback_wire::edit;
use lookback_wire::message::Message;
use lookback_wire::size::Size;

impl View {
    /// Applies a compaction.
    pub(super) fn compact(&mut self, position: Position, compaction: &Compaction) {
        self.history.compacted = Some(position);
        let exceeds = |outcome: &CompactedGroups| matches!(outcome.decision.reason, Reason::Exceeded { .. });
        let is_cut = |outcome: &CompactedGroups| matches!(outcome.decision.reason, Reason::Refused | Reason::Erased);
        if compaction.summary.is_some() || compaction.groups.iter().any(exceeds) {
            self.history.reading = Reading::default();
            self.history.cut = true;
        }
        self.history.cut |= compaction.groups.iter().any(is_cut);
        let late = std::mem::take(&mut self.late);
        let waiting: HashMap<Position, &Item> = late.items().iter().map(|item| (item.position, item)).collect();
        let groups = std::mem::take(&mut self.groups);
        let mut outcomes = compaction.groups.iter().flat_map(|outcome| std::iter::repeat_n(outcome, outcome.count));
        let mut used = HashSet::new();
        let mut kept: Vec<ViewGroup> = Vec::new();
        let (mut place, mut place_of_index) = (None, None);
        // The index goes behind the groups that may not change.
        let mut bound = 0;
        for group in groups {
            let outcome = outcomes.next();
            if outcome.is_some_and(|outcome| outcome.decision.reason == Reason::Waits) {
                bound = kept.len() + 1;
            }
            if let Some(action) = outcome.map(|outcome| outcome.decision.action).filter(|action| action.is_gone()) {
                if action == Action::Summarize {
                    place.get_or_insert(kept.len());
                }
                place_of_index.get_or_insert(kept.len());
                continue;
            }
            if group.kind == GroupKind::Index && compaction.index.is_some() {
                place_of_index.get_or_insert(kept.len());
                continue;
            }
            let Some(shown) = outcome.and_then(|outcome| outcome.shown.as_ref()) else {
                kept.push(group);
                continue;
            };
            let items = items_as_shown(&group, shown, &waiting);
            used.extend(items.iter().filter(|item| item.by != Author::Mend).map(|item| item.position));
            // A message of only stale reasoning disappears. Only the other messages of its group, if any, remain.
            if let Some(mut left) = ViewGroup::from_items(items, group.turn, group.round) {
                left.refresh();
                kept.push(left);
            }
        }
        number(&mut kept);
        let mut left: Vec<Item> = late.items().iter().filter(|item| !used.contains(&item.position)).cloned().collect();
        let leading = kept.iter().take_while(|group| group.kind == GroupKind::System).count();
        if let Some(index) = &compaction.index {
            let behind = place_of_index.unwrap_or(leading.max(bound)).min(kept.len());
            let number = kept.get(behind).map_or(position, |next| next.number);
            kept.insert(behind, index_group(number, position, index));
            // The summary goes before the index, or stays after the same groups as before.
            place = place.map(|place| if place > behind { place + 1 } else { place });
            self.index = Some(index.clone());
        } else if !kept.iter().any(|group| group.kind == GroupKind::Index) {
            self.index = None;
        }
        if let Some(summary) = &compaction.summary {
            self.summary = Some((position, summary.clone()));
            // If no group is summarized now, the covered groups left earlier, at a hard limit.
            let place = place.unwrap_or(leading);
            let number = kept.get(place).map_or(position, |next| next.number);
            kept.insert(place, summary_group(number, position, summary));
        }
        self.sizes = Sizes::default();
        self.calls.clear();
        for group in kept {
            self.add_group(group, None);
        }
        // A late result is of no use once its call has left the window.
        left.retain(|item| item.answers().any(|(_, result, name)| self.home_of(result, name).is_some()));
        self.await_all(left);
        self.is_parted = self.is_now_parted();
        self.outdated = self.is_outdated();
    }
}

/// Numbers groups in ascending order. A group that was inserted before another gets the number of that one.
pub(super) fn number(groups: &mut [ViewGroup]) {
    let mut next = Position::MAX;
    for group in groups.iter_mut().rev() {
        next = next.min(group.number);
        group.number = next;
    }
}

/// Returns the items of a group as a compaction shows them. They may include late results that waited.
fn items_as_shown(group: &ViewGroup, shown: &[ShownItem], waiting: &HashMap<Position, &Item>) -> Vec<Item> {
    let own: HashMap<Position, &Item> = group.items.iter().map(|item| (item.position, item)).collect();
    let find = |saved: &ShownItem| {
        let item = *own.get(&saved.position).or_else(|| waiting.get(&saved.position))?;
        Some(item.edited(edit::in_order(saved.edits.clone()), saved.size))
    };
    shown.iter().filter_map(find).collect()
}

/// Returns the group of a running summary.
pub(super) fn summary_group(number: Position, position: Position, summary: &RunningSummary) -> ViewGroup {
    own_group(GroupKind::Summary, number, position, &summary.message, summary.size)
}

/// Returns the group of an index.
pub(super) fn index_group(number: Position, position: Position, index: &NameIndex) -> ViewGroup {
    own_group(GroupKind::Index, number, position, &index.message, index.size)
}

/// Returns the group of a message that a compaction added.
fn own_group(kind: GroupKind, number: Position, position: Position, message: &Arc<Message>, size: Size) -> ViewGroup {
    let items = vec![Item::new(position, message, [], size, Author::Compaction)];
    ViewGroup { number, kind, turn: 0, round: 0, items, size, calls: Calls::default() }
}
