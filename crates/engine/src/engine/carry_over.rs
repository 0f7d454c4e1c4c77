//! Carrying compactions over to a branch that begins before them, because only later messages have changed.

use std::collections::HashMap;

use super::Engine;
use crate::candidates::pins_task_or_round;
use crate::entry::{CompactedGroups, Compaction, Entry, Position, spans};
use crate::view::ViewGroup;
use lookback_wire::size::Size;

impl Engine {
    /// Repeats the compactions of another branch, each with its position there, so that the window begins with the same
    /// bytes. `asks` is whether messages of a person follow.
    ///
    /// It stops at the first compaction that also changed groups which this branch does not have, or that removes what
    /// the model needs for the messages that follow.
    #[doc(hidden)]
    pub fn carry_over(&mut self, compactions: &[(Position, Compaction)], asks: bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        // The positions on the other branch of the messages that the carried compactions add, by those on this one.
        let mut own = HashMap::new();
        for (position, compaction) in compactions {
            let Some(groups) = self.in_common(compaction, &own) else { break };
            let each = groups.iter().flat_map(|outcome| std::iter::repeat_n(outcome, outcome.count)).enumerate();
            let gone = each.filter(|(_, outcome)| outcome.decision.action.is_gone()).map(|(index, _)| index).collect();
            if !asks && pins_task_or_round(&self.view, self.sizing(), gone) {
                break;
            }
            let before = self.view.totals();
            let mut carried = Compaction { groups, before, ..compaction.clone() };
            let mut after = self.view.clone();
            after.apply(self.end, &Entry::Compaction(carried.clone()));
            carried.after = after.totals();
            own.insert(self.end, *position);
            self.record(Entry::Compaction(carried), &mut entries);
            self.checkpoint_if_due(&mut entries);
        }
        entries
    }

    /// Returns the outcomes of a compaction for the groups of this view. `None` if it changed other groups, too, or none.
    fn in_common(&self, compaction: &Compaction, own: &HashMap<Position, Position>) -> Option<Vec<CompactedGroups>> {
        let changes = |outcome: &CompactedGroups| outcome.decision.action.is_gone() || outcome.shown.is_some();
        let mut groups = self.view.groups().iter();
        let mut outcomes = Vec::new();
        for outcome in &compaction.groups {
            let common: Vec<&ViewGroup> = groups.by_ref().take(outcome.count).collect();
            if common.len() < outcome.count && changes(outcome) {
                return None;
            }
            if common.is_empty() {
                continue;
            }
            let positions = || common.iter().flat_map(|group| &group.items).map(|item| item.position);
            let there = |position: Position| own.get(&position).copied().unwrap_or(position);
            let is_of = |position: Position| outcome.spans.iter().any(|span| span.contains(&there(position)));
            if !positions().all(is_of) {
                return None;
            }
            let mut of_common = CompactedGroups { spans: spans(positions()), ..outcome.clone() };
            if common.len() < outcome.count {
                let size: Size = common.iter().map(|group| self.sizing().counted(group.kind, group.size)).sum();
                of_common.count = common.len();
                (of_common.decision.before, of_common.decision.after) = (size, size);
            }
            outcomes.push(of_common);
        }
        outcomes.iter().any(changes).then_some(outcomes)
    }
}
