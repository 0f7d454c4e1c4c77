//! A compaction in the view: which groups leave, how others are shown from now on, and where the running summary stands.

use std::sync::Arc;

use super::{Author, Item, View, ViewGroup};
use crate::group::Kind;
use crate::plan::Action;
use crate::policy::Totals;
use crate::transcript::{Compaction, Position, ShownItem, Summary};

impl View {
    pub(super) fn compact(&mut self, position: Position, compaction: &Compaction) {
        let late = std::mem::take(&mut self.late);
        let groups = std::mem::take(&mut self.groups);
        let mut outcomes = compaction.groups.iter().flat_map(|outcome| std::iter::repeat_n(outcome, outcome.count));
        let mut used = Vec::new();
        let mut kept: Vec<ViewGroup> = Vec::new();
        let mut place = None;
        for mut group in groups {
            let outcome = outcomes.next();
            if let Some(action) = outcome.map(|outcome| outcome.decision.action).filter(|action| action.is_gone()) {
                if action == Action::Summarize {
                    place.get_or_insert(kept.len());
                }
                self.forget(&group);
                continue;
            }
            if let Some(shown) = outcome.and_then(|outcome| outcome.shown.as_ref()) {
                let find = |saved: &ShownItem| {
                    let item = group.items.iter().chain(&late).find(|item| item.position == saved.position)?;
                    Some(Item { edits: saved.edits.as_slice().into(), size: saved.size, ..item.clone() })
                };
                let items: Vec<Item> = shown.iter().filter_map(find).collect();
                used.extend(items.iter().filter(|item| item.by != Author::Mend).map(|item| item.position));
                // Nothing is left of a message that was all reasoning, once that is stale: the group is then what lived with it.
                let Some(left) = ViewGroup::of(items, group.turn, group.round) else {
                    self.forget(&group);
                    continue;
                };
                self.forget(&group);
                group = ViewGroup { number: group.number, ..left };
                group.settle();
            }
            kept.push(group);
        }
        self.late = late.into_iter().filter(|item| !used.contains(&item.position)).collect();
        if let Some(summary) = &compaction.summary {
            self.summary = Some((position, Arc::new(summary.clone())));
            // What it stands for may have left before, at a hard limit.
            let place = place.unwrap_or_else(|| kept.iter().take_while(|group| group.kind == Kind::System).count());
            kept.insert(place, self.summary_group(position, summary));
        }
        self.totals = Totals::default();
        self.open = 0;
        self.unsaid = 0;
        for group in kept {
            self.add_group(group, None);
        }
        // A late result whose call has left the window has nothing to answer.
        let calls = &self.calls;
        self.late.retain(|item| item.message.tool_results().any(|(_, result)| calls.contains_key(&result.call_id)));
        self.outdated = self.is_outdated();
    }

    pub(super) fn summary_group(&mut self, position: Position, summary: &Summary) -> ViewGroup {
        self.next_group += 1;
        let (message, size) = (Arc::new(summary.message.clone()), summary.size);
        let items = vec![Item { position, message, edits: Arc::new([]), size, by: Author::Mend }];
        let (number, turn, round) = (self.next_group - 1, 0, 0);
        ViewGroup { number, kind: Kind::Summary, turn, round, items, size, calls: Vec::new() }
    }
}
