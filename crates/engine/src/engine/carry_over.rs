//! Carrying compactions over to a branch that begins before them, because only later messages have changed.

use super::Engine;
use crate::entry::{CompactedGroups, Compaction, Entry, Position};
use crate::view::ViewGroup;
use lookback_wire::size::Size;

impl Engine {
    /// Repeats a compaction of another branch for the groups that this branch has in common with it, so that the window
    /// begins with the same bytes. Returns no entries if the compaction changed none of them, or was not made for them.
    #[doc(hidden)]
    pub fn carry_over(&mut self, compaction: &Compaction) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut groups = self.view.groups().iter();
        let mut outcomes = Vec::new();
        for outcome in &compaction.groups {
            let common: Vec<&ViewGroup> = groups.by_ref().take(outcome.count).collect();
            if common.is_empty() {
                break;
            }
            let Some(common) = self.of_common(outcome, &common) else { return entries };
            outcomes.push(common);
        }
        let changes = |outcome: &CompactedGroups| outcome.decision.action.is_gone() || outcome.shown.is_some();
        if !outcomes.iter().any(changes) {
            return entries;
        }
        let before = self.view.totals();
        let mut carried = Compaction { groups: outcomes, before, ..compaction.clone() };
        let mut after = self.view.clone();
        after.apply(self.end, &Entry::Compaction(carried.clone()));
        carried.after = after.totals();
        self.record(Entry::Compaction(carried), &mut entries);
        self.checkpoint_if_due(&mut entries);
        entries
    }

    /// Returns the outcome for the groups that are common. `None` if it is the outcome of other groups.
    fn of_common(&self, outcome: &CompactedGroups, common: &[&ViewGroup]) -> Option<CompactedGroups> {
        let is_of = |position: Position| outcome.spans.iter().any(|span| span.contains(&position));
        let positions = || common.iter().flat_map(|group| &group.items).map(|item| item.position);
        if !positions().all(is_of) {
            return None;
        }
        let mut of_common = outcome.clone();
        if common.len() < outcome.count {
            let before: Size = common.iter().map(|group| self.sizing().counted(group.kind, group.size)).sum();
            of_common.count = common.len();
            of_common.spans = crate::entry::spans(positions());
            of_common.decision.before = before;
            of_common.decision.after = if of_common.decision.action.is_gone() { Size::default() } else { before };
        }
        Some(of_common)
    }
}
