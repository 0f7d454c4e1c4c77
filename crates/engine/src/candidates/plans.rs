//! Plans that do not come from a limit: removing groups, shortening one, or replacing some by a summary.

use std::ops::Range;

use super::Candidates;
use crate::entry::Position;
use crate::group::{Group, GroupKind};
use crate::plan::{Action, Decision, Demands, Plan, Reason, Verdict, excesses, plan_for};
use crate::policy::Policy;
use crate::totals::Totals;
use crate::view::{Item, View};
use lookback_wire::size::{Measure, Size};

impl Candidates {
    /// Returns the plan that keeps every group, except for reasoning that any compaction makes stale.
    pub(crate) fn keep_all(&self) -> Plan {
        let mut plan = plan_for(&self.groups, &Policy::unlimited(), Demands::default());
        for (decision, group) in plan.decisions.iter_mut().zip(&self.groups) {
            decision.after = group.kept;
            if group.is_stale() {
                (decision.action, decision.reason) = (Action::Drop, Reason::Stale);
            }
        }
        plan.after = Totals::sum(self.groups.iter().filter(|group| !group.is_stale()).map(|group| (group, group.kept)));
        plan
    }

    /// Returns the plan that leaves out signed reasoning because the provider refused it, or `None` if there is no
    /// signed reasoning. It also includes reasoning that was hidden before, if the client may have sent it.
    pub(crate) fn without_reasoning(&self, view: &View) -> Option<Plan> {
        let mut plan = self.keep_all();
        let decisions = plan.decisions.iter_mut().skip(usize::from(self.has_preamble));
        let mut any = false;
        for (group, decision) in view.groups().iter().zip(decisions) {
            let leaves = decision.after != decision.before && group.items.iter().any(Item::shows_signed);
            // If a window was never cut, the client may have sent its own messages, which still have the reasoning.
            if leaves || !view.is_cut() && group.items.iter().any(Item::hides_stale) {
                any = true;
                // A group of only reasoning is already dropped as stale.
                if decision.action == Action::Keep {
                    decision.reason = Reason::Refused;
                }
            }
        }
        any.then_some(plan)
    }

    /// Returns the plan that removes each group of the view for which `leaves` gives a reason, and keeps the rest.
    /// `None` if no group leaves.
    pub(crate) fn without(&self, leaves: impl Fn(usize) -> Option<Reason>) -> Option<Plan> {
        let mut plan = self.keep_all();
        let mut any = false;
        let groups = self.groups.iter().zip(&mut plan.decisions).skip(usize::from(self.has_preamble));
        for (index, (group, decision)) in groups.enumerate() {
            if let Some(reason) = leaves(index) {
                let (before, after) = (group.size, Size::default());
                *decision = Decision { action: Action::Drop, stages: 0, reason, before, after };
                any = true;
            }
        }
        plan.after = self.after(&plan);
        plan.verdict = Verdict::Compact;
        any.then_some(plan)
    }

    /// Updates a plan of the same groups with other sizes to the current sizes. Returns `None` if the plan does not
    /// compact, or if the window would then exceed a limit.
    pub(crate) fn carried_over(&self, mut plan: Plan, policy: &Policy) -> Option<Plan> {
        for (decision, group) in
            plan.decisions.iter_mut().zip(&self.groups).filter(|(decision, _)| !decision.action.is_gone())
        {
            decision.after = group.after(decision.stages);
        }
        plan.after = self.after(&plan);
        plan.over = excesses(policy, &plan.after);
        (plan.verdict == Verdict::Compact && plan.over.is_empty()).then_some(plan)
    }

    /// Returns the totals of the groups that a plan keeps.
    fn after(&self, plan: &Plan) -> Totals {
        let kept = self.groups.iter().zip(&plan.decisions).filter(|(_, decision)| !decision.action.is_gone());
        Totals::sum(kept.map(|(group, decision)| (group, decision.after)))
    }

    /// Returns the plan that applies all of these stages to one round, and keeps the rest. The round is the oldest that
    /// the stages make smaller. Returns `None` if there is no such round.
    pub(crate) fn shorten(&self, stages: usize) -> Option<Plan> {
        let helps = |group: &Group| {
            let (old, new) = (group.kept, group.after(stages));
            group.kind == GroupKind::Round
                && (new.tokens < old.tokens || new.bytes < old.bytes || new.media < old.media)
        };
        let index = self.groups.iter().position(helps)?;
        let mut plan = self.keep_all();
        let (group, decision) = (self.groups.get(index)?, plan.decisions.get_mut(index)?);
        let measure = Measure::Bytes;
        let (actual, limit) = (plan.before.get(measure), plan.before.get(measure).saturating_sub(1));
        let reason = Reason::Exceeded { measure, actual, limit, target: limit };
        let after = group.after(stages);
        *decision = Decision { action: Action::Truncate, stages, reason, before: group.size, after };
        plan.after = self.after(&plan);
        plan.verdict = Verdict::Compact;
        Some(plan)
    }

    /// Returns the plan that replaces the covered groups and the previous summary by a new summary. A group stays if it
    /// has been pinned in the meantime, or has a message that the summary does not cover.
    pub(crate) fn summarize(&self, view: &View, covers: &[Range<Position>], reason: Reason, summary: Size) -> Plan {
        let covered = |position: Position| covers.iter().any(|span| span.contains(&position));
        let has_preamble = usize::from(self.has_preamble);
        let decide = |(index, group): (usize, &Group)| {
            let gone = index.checked_sub(has_preamble).and_then(|index| view.groups().get(index)).is_some_and(|seen| {
                let whole = seen.items.iter().all(|item| covered(item.position));
                group.kind == GroupKind::Summary || (whole && group.pin.is_none())
            });
            if gone {
                let (before, after) = (group.size, Size::default());
                return Decision { action: Action::Summarize, stages: 0, reason, before, after };
            }
            Decision::before_stages(group, true, true)
        };
        let decisions: Vec<_> = self.groups.iter().enumerate().map(decide).collect();
        let before = Totals::sum(self.groups.iter().map(|group| (group, group.size)));
        let kept = self.groups.iter().zip(&decisions).filter(|(_, decision)| !decision.action.is_gone());
        let mut after = Totals::sum(kept.map(|(group, decision)| (group, decision.after)));
        after.size += summary;
        Plan { verdict: Verdict::Compact, decisions, before, after, over: Vec::new(), occasion: None }
    }
}
