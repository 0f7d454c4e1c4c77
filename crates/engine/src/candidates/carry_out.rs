//! Carrying out a plan: makes the entry that records it.

use super::Candidates;
use crate::entry::{CompactedGroups, Compaction, ShownItem, join, spans};
use crate::plan::Plan;
use crate::view::{Item, View};

impl Candidates {
    /// Returns the entry that records a plan for these groups. Neighboring groups with the same outcome share one
    /// record.
    pub(crate) fn carry_out(self, view: &View, plan: &Plan) -> Compaction {
        let decisions = plan.decisions.iter().skip(usize::from(self.has_preamble));
        let mut outcomes: Vec<CompactedGroups> = Vec::new();
        for ((group, changes), decision) in view.groups().iter().zip(self.changes).zip(decisions) {
            let change = changes.into_iter().rev().find(|(after, _)| *after <= decision.stages);
            let save = |item: &Item| ShownItem { position: item.position, edits: item.edits.to_vec(), size: item.size };
            let shown = match change {
                Some((_, items)) if !decision.action.is_gone() => Some(items.iter().map(save).collect()),
                _ => None,
            };
            let positions = group.items.iter().map(|item| item.position);
            match outcomes
                .last_mut()
                .filter(|last| shown.is_none() && last.shown.is_none() && last.decision.is_like(decision))
            {
                Some(last) => {
                    last.count += 1;
                    last.decision.before += decision.before;
                    last.decision.after += decision.after;
                    positions.for_each(|position| join(&mut last.spans, position));
                }
                None => outcomes.push(CompactedGroups {
                    count: 1,
                    spans: spans(positions),
                    decision: decision.clone(),
                    shown,
                }),
            }
        }
        Compaction {
            groups: outcomes,
            summary: None,
            index: None,
            occasion: plan.occasion,
            before: plan.before,
            after: plan.after,
        }
    }
}
