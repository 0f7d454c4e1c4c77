//! A plan in the making: the stages of a policy, carried out on sizes.

use super::{Action, Decision, Demands, Reason, planned, standing_summary};
use crate::group::{Group, GroupKind, Tally};
use crate::policy::{Limits, Mode, Policy, Stage};
use crate::totals::{Excess, Totals};
use lookback_wire::Start;
use lookback_wire::size::Size;

/// A plan in the making.
pub(super) struct Draft<'a> {
    groups: &'a [Group],
    policy: &'a Policy,
    pub(super) decisions: Vec<Decision>,
    target: Limits,
    excess: Excess,
    demands: Demands,
    /// The totals of the groups that are kept so far.
    tally: Tally,
    /// The tokens of the head, which the tally includes.
    head: u64,
    /// The group that was dropped and then brought back, because the window must begin with it.
    pub(super) brought_back: Option<usize>,
    /// Whether groups are summarized. If so, the summary is counted at its maximum size.
    pub(super) summarized: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        groups: &'a [Group],
        policy: &'a Policy,
        excess: Excess,
        target: Limits,
        demands: Demands,
    ) -> Self {
        // A window that is planned again at each read would lose its notes after one call.
        let spends = policy.mode == Mode::Recorded;
        let has_index = policy.index.is_some();
        let decide = |group| Decision::before_stages(group, spends, has_index);
        let decisions: Vec<_> = groups.iter().map(decide).collect();
        let mut tally = Tally::with_room(groups.len());
        let mut head = 0;
        for (group, decision) in groups.iter().zip(&decisions) {
            // A group of only stale reasoning has no messages left to count.
            if group.is_stale() {
                tally.resize(Size::default(), decision.after);
            } else {
                tally.add(group.kind, group.turn, decision.after);
            }
            head = if group.is_head() { decision.after.tokens.saturating_add(head) } else { head };
        }
        Draft { policy, target, excess, demands, summarized: false, tally, head, decisions, brought_back: None, groups }
    }

    pub(super) fn totals(&self) -> Totals {
        self.tally.totals().behind(self.head)
    }

    /// Returns a measure in which the window exceeds the target: that of the exceeded limit, if it is one of them.
    fn missed(&self) -> Option<Excess> {
        let totals = self.totals();
        let is_cause = |missed: &Excess| missed.measure == self.excess.measure;
        self.target.exceeded_by(&totals).find(is_cause).or_else(|| self.target.exceeded_by(&totals).next())
    }

    fn reason(&self, missed: Excess) -> Reason {
        // The reason names the limit that the user set. If only the target is exceeded in this measure, it names the
        // target.
        let (actual, limit) = if self.excess.measure == missed.measure {
            (self.excess.actual, self.excess.limit)
        } else {
            (missed.actual, missed.limit)
        };
        Reason::Exceeded { measure: missed.measure, actual, limit, target: missed.limit }
    }

    pub(super) fn go_through(&mut self, stages: &[Stage]) {
        for (index, stage) in stages.iter().enumerate() {
            match stage {
                Stage::TruncateResults { except_newest, .. } => self.shrink(index, *except_newest, Action::Truncate),
                Stage::ClearResults { except_newest, .. }
                | Stage::ClearInputs { except_newest, .. }
                | Stage::ClearMedia { except_newest } => {
                    self.shrink(index, *except_newest, Action::Clear);
                }
                Stage::Summarize(_) => self.summarize(),
                Stage::Drop => self.drop_oldest(),
            }
        }
    }

    /// Applies a stage to groups, the oldest first, until the target is met. Skips groups that the stage does not make
    /// smaller.
    fn shrink(&mut self, stage: usize, except_newest: u64, action: Action) {
        let newest = self.groups.iter().map(|group| group.round).max().unwrap_or(0);
        for (index, group) in self.groups.iter().enumerate() {
            let Some(missed) = self.missed() else { return };
            let Some(decision) = self.decisions.get(index) else { return };
            let (old, new) = (decision.after, group.after(stage + 1));
            let pinned = group.pin.is_some_and(|pin| !pin.may_be_shortened()) && !self.demands.overflow;
            let spared = pinned || group.bound || group.round.saturating_add(except_newest) > newest;
            let helps = new.tokens < old.tokens || new.bytes < old.bytes || new.media < old.media;
            if group.kind != GroupKind::Round || spared || decision.action.is_gone() || !helps {
                continue;
            }
            let reason = if self.brought_back == Some(index) { decision.reason } else { self.reason(missed) };
            if let Some(decision) = self.decisions.get_mut(index) {
                *decision = Decision { action, stages: stage + 1, reason, before: group.size, after: new };
            }
            self.resize(old, new, group.is_head());
        }
    }

    /// Replaces the size of a group that is kept.
    fn resize(&mut self, old: Size, new: Size, head: bool) {
        self.tally.resize(old, new);
        if head {
            self.head = self.head.saturating_sub(old.tokens).saturating_add(new.tokens);
        }
    }

    /// Merges groups into the running summary, the oldest first, until the target is met.
    fn summarize(&mut self) {
        let Some(missed) = self.missed() else { return };
        let may = |(group, decision): (&Group, &Decision)| !group.is_fixed() && !decision.action.is_gone();
        if !self.groups.iter().zip(&self.decisions).any(may) {
            return;
        }
        if !self.summarized {
            self.begin_summary(self.reason(missed));
        }
        for index in 0..self.groups.len() {
            let Some(missed) = self.missed() else { return };
            self.leave(index, Action::Summarize, self.reason(missed));
        }
    }

    /// Merges the present summary into the new one, which is counted at its maximum size.
    fn begin_summary(&mut self, reason: Reason) {
        self.summarized = true;
        self.resize(standing_summary(self.groups), planned(self.policy), true);
        for (group, decision) in self.groups.iter().zip(&mut self.decisions) {
            if group.kind == GroupKind::Summary {
                let (action, before, after) = (Action::Summarize, group.size, Size::default());
                *decision = Decision { action, stages: 0, reason, before, after };
            }
        }
    }

    /// Drops groups, the oldest first, until the target is met.
    fn drop_oldest(&mut self) {
        for index in 0..self.groups.len() {
            let Some(missed) = self.missed() else { return };
            self.leave(index, Action::Drop, self.reason(missed));
        }
    }

    /// Drops more groups until the window begins where the policy wants, or at least where the provider allows it.
    ///
    /// If a pinned group prevents that, the nearest earlier group that may begin a window is brought back. Other groups
    /// can leave instead, so the stages have to run again, and this returns `true`.
    pub(super) fn move_start(&mut self) -> bool {
        // If the provider demands a user's message, the summary is a user's message.
        let opened = self.summarized || self.groups.iter().any(|group| group.kind == GroupKind::Summary);
        let provider = if opened { Start::Any } else { self.demands.start };
        let wanted = self.policy.start.max(provider);
        let gone = if self.summarized { Action::Summarize } else { Action::Drop };
        let body = |group: &Group| group.kind.is_said();
        let kept = |decision: &Decision| !decision.action.is_gone();
        let first = self.groups.iter().zip(&self.decisions).position(|(group, decision)| body(group) && kept(decision));
        let Some(first) = first else { return false };
        if !self.decisions.iter().any(|decision| decision.action.is_gone()) {
            return false;
        }
        for rule in [wanted, provider] {
            let mut rest =
                self.groups.iter().zip(&self.decisions).enumerate().skip(first).filter(|(_, (_, d))| kept(d));
            let start = rest.find(|(_, (group, _))| group.may_start(rule)).map(|(index, _)| index);
            let unpinned = |start: &usize| {
                let between = self.groups.get(first..*start).unwrap_or_default();
                !between.iter().any(Group::is_fixed)
            };
            if let Some(start) = start.filter(unpinned) {
                (first..start).for_each(|index| self.leave(index, gone, Reason::Start { rule }));
                return false;
            }
        }
        let before = self.groups.get(..first).unwrap_or_default();
        let may = |group: &Group| body(group) && group.may_start(provider) && !group.is_stale();
        let Some(index) = before.iter().rposition(may) else { return false };
        self.bring_back(index, Reason::Start { rule: provider });
        true
    }

    fn bring_back(&mut self, index: usize, reason: Reason) {
        let (Some(group), Some(decision)) = (self.groups.get(index), self.decisions.get_mut(index)) else { return };
        *decision = Decision { action: Action::Keep, stages: 0, reason, before: group.size, after: group.kept };
        self.brought_back = Some(index);
        self.tally.add(group.kind, group.turn, group.kept);
    }

    /// Removes a group from the window, by `action`.
    fn leave(&mut self, index: usize, action: Action, reason: Reason) {
        let (Some(group), Some(decision)) = (self.groups.get(index), self.decisions.get_mut(index)) else { return };
        if group.is_fixed() || self.brought_back == Some(index) || decision.action.is_gone() {
            return;
        }
        self.tally.remove(group.kind, group.turn, decision.after);
        *decision = Decision { action, stages: 0, reason, before: group.size, after: Size::default() };
    }
}
