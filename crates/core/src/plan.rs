//! The plan: for every group keep, truncate, clear, summarize or drop, and why. It is computed from sizes alone.

use serde::{Deserialize, Serialize};

use crate::group::{Group, GroupKind, Pin, Tally};
use crate::hidden::Hidden;
use crate::policy::{Limits, Mode, Policy, Stage, Tokens};
use crate::size::{Excess, Measure, Size, Totals};
use crate::start::Start;

/// What is done with every group of a window, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The outcome of the plan.
    pub verdict: Verdict,
    /// One decision for each group, in order.
    pub decisions: Vec<Decision>,
    /// The totals of the window before the plan.
    pub before: Totals,
    /// The totals of the window after the plan.
    pub after: Totals,
    /// The limits that the window exceeds even so, because what is left is pinned or has to wait.
    pub over: Vec<Excess>,
}

/// The outcome of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The window stays as it is.
    Keep,
    /// The window is compacted.
    Compact,
    /// The window stays as it is until a summary is made of what is to leave.
    Summarize,
    /// The window stays as it is until its tool loop ends, because the loop has signed reasoning.
    Wait,
    /// The window exceeds a hard limit, and no plan helps.
    Refuse,
}

/// What is done with one group, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What is done.
    pub action: Action,
    /// The number of the policy's stages that the group has gone through.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stages: usize,
    /// Why it is done.
    pub reason: Reason,
    /// The size of the group before.
    pub before: Size,
    /// The size of the group after.
    pub after: Size,
}

impl Decision {
    /// Returns what happens to a group in every compaction, before the stages of the policy. `spends` says whether
    /// notes leave that the model has seen.
    pub(crate) fn before_stages(group: &Group, spends: bool) -> Decision {
        let (action, reason, after) = if group.is_stale() {
            (Action::Drop, Reason::Stale, group.kept)
        } else if spends && group.is_spent() {
            (Action::Drop, Reason::Spent, Size::default())
        } else {
            (Action::Keep, group.pin.map_or(Reason::Recent, |pin| Reason::Pinned { pin }), group.kept)
        };
        Decision { action, stages: 0, reason, before: group.size, after }
    }

    /// Returns whether the same is done for the same reason.
    pub(crate) fn is_like(&self, other: &Decision) -> bool {
        (self.action, self.stages, self.reason) == (other.action, other.stages, other.reason)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// What is done with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The group stays.
    Keep,
    /// The group's tool results are truncated.
    Truncate,
    /// The group's tool results, or the pictures and files in them, are replaced by a note.
    Clear,
    /// The group leaves the window, and a running summary takes its place.
    Summarize,
    /// The group leaves the window.
    Drop,
}

impl Action {
    /// Returns whether the group leaves the window.
    pub fn is_gone(self) -> bool {
        match self {
            Action::Keep | Action::Truncate | Action::Clear => false,
            Action::Summarize | Action::Drop => true,
        }
    }
}

/// Why something is done with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// No limit is exceeded.
    Fits,
    /// The group is pinned, so it may not be dropped.
    Pinned {
        /// Why it is pinned.
        pin: Pin,
    },
    /// The target was met before the stages reached this group.
    Recent,
    /// A limit was exceeded, and this was the oldest group that the stage could change.
    Exceeded {
        /// The measure of the limit.
        measure: Measure,
        /// The amount in the window.
        actual: u64,
        /// The limit.
        limit: u64,
        /// The target of the compaction.
        target: u64,
    },
    /// The window may not begin with this group. Or the session was resumed, and the window had only the question or
    /// only the answer of this turn.
    Start {
        /// Where the window may begin.
        rule: Start,
    },
    /// Nothing of the group is left: it was all signed reasoning, which every compaction makes stale.
    Stale,
    /// The group is a note by Lookback that the model has seen, and every compaction removes such notes. Or it is a
    /// note of a run that is over.
    Spent,
    /// Signed reasoning of the open tool loop forbids a change.
    Waits,
    /// The group's tool results were truncated as they arrived. No plan gives this reason, because it happened earlier.
    Capped,
    /// The message could not be sent as it arrived, and was repaired. No plan gives this reason, because it happened
    /// earlier.
    Repaired {
        /// What was wrong with it.
        why: Hidden,
    },
}

/// The part of a limit that a compaction leaves free above what is pinned, as a divisor. With an eighth, a window that
/// is half pinned is compacted again only after it has grown by at least an eighth of the limit.
const SLACK: u64 = 8;

/// The minimum number of tokens in the message of a summary besides the summary itself.
const SUMMARY_OVERHEAD: u64 = 32;
/// Bytes per token of prose, estimated generously.
const BYTES_A_TOKEN: u64 = 6;

/// Plans a window.
///
/// The shares in `policy` must be resolved (see [`Policy::for_window`]); unresolved ones do not apply. Planning never
/// fails: if the limits cannot be met, the plan comes as close as the pinned groups allow, and says by how much the
/// limits are exceeded.
///
/// ```
/// use lookback_core::{Group, Limits, Policy, plan};
/// use lookback_core::plan::{Action, Verdict};
/// use lookback_core::tokens::Size;
/// use lookback_core::group::{GroupKind, Pin};
///
/// let group = |turn, pin| {
///     let size = Size { tokens: 100, messages: 1, ..Size::default() };
///     Group { kind: GroupKind::User, turn, round: 0, pin, size, kept: size, staged: vec![size], binds: false }
/// };
/// let groups = [group(1, None), group(2, None), group(3, Some(Pin::Newest))];
/// let plan = plan(&groups, &Policy { limits: Limits::tokens(200), ..Policy::unlimited() });
/// assert_eq!(plan.verdict, Verdict::Compact);
/// assert_eq!(plan.decisions[0].action, Action::Drop);
/// assert_eq!(plan.after.size.tokens, 200);
/// ```
pub fn plan(groups: &[Group], policy: &Policy) -> Plan {
    plan_for(groups, policy, Demands::default())
}

/// What applies whatever the policy says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demands {
    /// Where the provider allows a request to begin.
    pub(crate) start: Start,
    /// Whether the provider has refused the window as too long. If so, pinned groups are shortened, too.
    pub(crate) overflow: bool,
}

/// Plans a window under the demands of a provider.
pub(crate) fn plan_for(groups: &[Group], policy: &Policy, demands: Demands) -> Plan {
    let before = Totals::of(groups.iter().map(|group| (group, group.size)));
    let hard = policy.hard.unwrap_or_default();
    let Some(excess) = policy.limits.excesses(&before).chain(hard.excesses(&before)).next() else {
        return unchanged(groups, before, Verdict::Keep, Vec::new(), Reason::Fits);
    };
    if !policy.drop_block && groups.iter().any(|group| group.binds) {
        let verdict = if hard.fits(&before) { Verdict::Wait } else { Verdict::Refuse };
        let over = policy.limits.excesses(&before).chain(hard.excesses(&before)).collect();
        return unchanged(groups, before, verdict, over, Reason::Waits);
    }
    if policy.summary().is_some() && (policy.mode == Mode::OnRead || !hard.fits(&before)) {
        // A summary could not be recorded, or there is no time to wait for it.
        return plan_for(groups, &without_summary(policy, &[Stage::Drop]), demands);
    }
    let target = target(groups, policy);
    let mut draft = Draft::new(groups, policy, excess, target, demands);
    draft.go_through(&policy.stages);
    if draft.move_start() {
        draft.go_through(&policy.stages);
    }
    let after = draft.totals();
    let changes = draft.decisions.iter().any(|decision| decision.after != decision.before);
    let over: Vec<_> = policy.limits.excesses(&after).chain(hard.excesses(&after)).collect();
    // Progress: if no exceeded measure gets smaller, a compaction is not worth a prefix break.
    let no_smaller = |excess: Excess| after.get(excess.measure) >= before.get(excess.measure);
    let futile = policy.limits.excesses(&before).chain(hard.excesses(&before)).all(no_smaller);
    if draft.summarized && (futile || !hard.fits(&after)) {
        // A summary of maximum size would take up more than it frees, or more than the hard limit leaves.
        return plan_for(groups, &without_summary(policy, &[]), demands);
    }
    if !hard.fits(&after) {
        return Plan { verdict: Verdict::Refuse, decisions: draft.decisions, before, after, over };
    }
    if !changes || futile {
        let over = policy.limits.excesses(&before).chain(hard.excesses(&before)).collect();
        let mut plan = unchanged(groups, before, Verdict::Keep, over, Reason::Recent);
        if let Some(index) = draft.brought_back
            && let (Some(decision), Some(drafted)) = (plan.decisions.get_mut(index), draft.decisions.get(index))
        {
            decision.reason = drafted.reason;
        }
        return plan;
    }
    let verdict = if draft.summarized { Verdict::Summarize } else { Verdict::Compact };
    Plan { verdict, decisions: draft.decisions, before, after, over }
}

fn unchanged(groups: &[Group], before: Totals, verdict: Verdict, over: Vec<Excess>, reason: Reason) -> Plan {
    let keep = |group: &Group| {
        let reason = match group.pin {
            Some(pin) if reason == Reason::Recent => Reason::Pinned { pin },
            _ => reason,
        };
        Decision { action: Action::Keep, stages: 0, reason, before: group.size, after: group.size }
    };
    Plan { verdict, decisions: groups.iter().map(keep).collect(), before, after: before, over }
}

/// Returns the target of a compaction: that of the policy, raised to what is pinned plus some slack, but never above
/// the limit.
fn target(groups: &[Group], policy: &Policy) -> Limits {
    let mut pinned = Totals::of(groups.iter().filter(|group| group.pin.is_some()).map(|group| (group, group.kept)));
    if policy.summary().is_some() {
        pinned.size = pinned.size - standing_summary(groups) + planned(policy);
    }
    let target = policy.target.unwrap_or(policy.limits);
    let hard = policy.hard.unwrap_or_default();
    let aim = |measure| {
        let limit = match (policy.limits.get(measure), hard.get(measure)) {
            // If the hard limit is below the policy's limit, the target is lowered in proportion.
            (Some(limit), Some(hard)) if hard < limit => {
                let scaled =
                    target.get(measure).map(|target| u128::from(target) * u128::from(hard) / u128::from(limit));
                let scaled = scaled.and_then(|scaled| u64::try_from(scaled).ok());
                return Some(raised(scaled.unwrap_or(hard), hard, pinned.get(measure)));
            }
            (limit, hard) => limit.or(hard),
        };
        let target = target.get(measure).or(limit)?;
        Some(raised(target, limit.unwrap_or(target), pinned.get(measure)))
    };
    Limits {
        tokens: aim(Measure::Tokens).map(Tokens::Count),
        messages: aim(Measure::Messages),
        turns: aim(Measure::Turns),
        rounds: aim(Measure::Rounds),
        bytes: aim(Measure::Bytes),
        media: aim(Measure::Media),
    }
}

/// Returns a policy with `instead` in place of each stage that summarizes.
fn without_summary(policy: &Policy, instead: &[Stage]) -> Policy {
    let stages = policy.stages.iter().flat_map(|stage| match stage {
        Stage::Summarize(_) => instead,
        stage => std::slice::from_ref(stage),
    });
    Policy { stages: stages.cloned().collect(), ..policy.clone() }
}

/// Returns the maximum size of the policy's running summary.
fn planned(policy: &Policy) -> Size {
    let Some(summary) = policy.summary() else { return Size::default() };
    // Half a token per byte is generous. The planner does not read the words around a summary, which may be many.
    let around = SUMMARY_OVERHEAD.max(summary.wording.len() as u64 / 2);
    let tokens = summary.budget.saturating_add(around);
    let messages = u64::from(policy.system.counted);
    Size { tokens, bytes: tokens.saturating_mul(BYTES_A_TOKEN), messages, media: 0 }
}

/// Returns the size of the running summary that is in the window.
fn standing_summary(groups: &[Group]) -> Size {
    groups.iter().filter(|group| group.kind == GroupKind::Summary).map(|group| group.kept).sum()
}

/// Raises a target to what is pinned plus the slack, but never above the limit.
fn raised(target: u64, limit: u64, pinned: u64) -> u64 {
    target.max(pinned.saturating_add(limit / SLACK)).min(limit)
}

/// A plan in the making.
struct Draft<'a> {
    groups: &'a [Group],
    policy: &'a Policy,
    decisions: Vec<Decision>,
    target: Limits,
    excess: Excess,
    demands: Demands,
    /// The totals of what is kept so far.
    tally: Tally,
    /// The group that was dropped and then kept after all, because the window must begin with it.
    brought_back: Option<usize>,
    /// Whether something is summarized. If so, the summary is counted at its maximum size.
    summarized: bool,
}

impl<'a> Draft<'a> {
    fn new(groups: &'a [Group], policy: &'a Policy, excess: Excess, target: Limits, demands: Demands) -> Self {
        // A window that is planned anew at each read would lose its notes after one call.
        let spends = policy.mode == Mode::Recorded;
        let decisions: Vec<_> = groups.iter().map(|group| Decision::before_stages(group, spends)).collect();
        let mut tally = Tally::default();
        for (group, decision) in groups.iter().zip(&decisions) {
            // Nothing is left to count of a group that is all stale reasoning.
            if group.is_stale() {
                tally.resize(Size::default(), decision.after);
            } else {
                tally.add(group.kind, group.turn, decision.after);
            }
        }
        Draft { policy, target, excess, demands, summarized: false, tally, decisions, brought_back: None, groups }
    }

    fn totals(&self) -> Totals {
        self.tally.totals()
    }

    /// Returns the first measure in which the target is missed.
    fn missed(&self) -> Option<Excess> {
        self.target.excesses(&self.totals()).next()
    }

    fn reason(&self, missed: Excess) -> Reason {
        // The reason names the limit that the user set. If only the target is missed in this measure, it names that.
        let (actual, limit) = if self.excess.measure == missed.measure {
            (self.excess.actual, self.excess.limit)
        } else {
            (missed.actual, missed.limit)
        };
        Reason::Exceeded { measure: missed.measure, actual, limit, target: missed.limit }
    }

    fn go_through(&mut self, stages: &[Stage]) {
        for (index, stage) in stages.iter().enumerate() {
            match stage {
                Stage::TruncateResults { except_newest, .. } => self.shrink(index, *except_newest, Action::Truncate),
                Stage::ClearResults { except_newest, .. } | Stage::ClearMedia { except_newest } => {
                    self.shrink(index, *except_newest, Action::Clear);
                }
                Stage::Summarize(_) => self.summarize(),
                Stage::Drop => self.drop_oldest(),
            }
        }
    }

    /// Takes groups through a stage, the oldest first, as long as the target is missed and the stage makes a group
    /// smaller.
    fn shrink(&mut self, stage: usize, except_newest: u64, action: Action) {
        let newest = self.groups.iter().map(|group| group.round).max().unwrap_or(0);
        for (index, group) in self.groups.iter().enumerate() {
            let Some(missed) = self.missed() else { return };
            let Some(decision) = self.decisions.get(index) else { return };
            let (old, new) = (decision.after, group.after(stage + 1));
            let pinned = group.pin.is_some() && !self.demands.overflow;
            let spared = pinned || group.round.saturating_add(except_newest) > newest;
            let helps = new.tokens < old.tokens || new.bytes < old.bytes || new.media < old.media;
            if group.kind != GroupKind::Round || spared || decision.action.is_gone() || !helps {
                continue;
            }
            let reason = if self.brought_back == Some(index) { decision.reason } else { self.reason(missed) };
            if let Some(decision) = self.decisions.get_mut(index) {
                *decision = Decision { action, stages: stage + 1, reason, before: group.size, after: new };
            }
            self.tally.resize(old, new);
        }
    }

    /// Merges groups into the running summary, the oldest first, until the target is met.
    fn summarize(&mut self) {
        let Some(missed) = self.missed() else { return };
        let may = |(group, decision): (&Group, &Decision)| group.pin.is_none() && !decision.action.is_gone();
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

    /// Makes the summary that is in the window a part of the new one, which is counted at its maximum size.
    fn begin_summary(&mut self, reason: Reason) {
        self.summarized = true;
        self.tally.resize(standing_summary(self.groups), planned(self.policy));
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

    /// Drops more groups until the window begins where the policy wants it to, or at least where the provider allows
    /// it.
    ///
    /// If something pinned prevents that, the nearest earlier group that may begin a window is kept after all. Groups
    /// between the two can leave instead, so this returns `true`: the stages have to run again.
    fn move_start(&mut self) -> bool {
        // If the provider demands a user's message, a summary is one.
        let opened = self.summarized || self.groups.iter().any(|group| group.kind == GroupKind::Summary);
        let provider = if opened { Start::Any } else { self.demands.start };
        let strictest = self.policy.start.max(provider);
        let gone = if self.summarized { Action::Summarize } else { Action::Drop };
        let body = |group: &Group| group.kind.is_said();
        let kept = |decision: &Decision| !decision.action.is_gone();
        let first = self.groups.iter().zip(&self.decisions).position(|(group, decision)| body(group) && kept(decision));
        let dropped = self.decisions.iter().any(|decision| decision.action.is_gone());
        let Some(first) = first.filter(|_| dropped) else { return false };
        for rule in [strictest, provider] {
            let mut rest =
                self.groups.iter().zip(&self.decisions).enumerate().skip(first).filter(|(_, (_, d))| kept(d));
            let start = rest.find(|(_, (group, _))| group.may_start(rule)).map(|(index, _)| index);
            let unpinned = |start: &usize| {
                let between = self.groups.get(first..*start).unwrap_or_default();
                between.iter().all(|group| group.pin.is_none())
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
        if group.pin.is_some() || self.brought_back == Some(index) || decision.action.is_gone() {
            return;
        }
        self.tally.remove(group.kind, group.turn, decision.after);
        *decision = Decision { action, stages: 0, reason, before: group.size, after: Size::default() };
    }
}
