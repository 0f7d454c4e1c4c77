//! The plan: for every group keep, truncate, clear, summarize or drop, and why. Pure and total: sizes in, decisions out.

use serde::{Deserialize, Serialize};

use crate::edit::Hidden;
use crate::group::{Group, GroupKind, Pin, Tally};
use crate::policy::{Limits, Mode, Policy, Stage, Tokens};
use crate::size::{Excess, Measure, Size, Totals};
use crate::start::Start;

/// What to do with every group of a window, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What comes of it.
    pub verdict: Verdict,
    /// One for each group, in their order.
    pub decisions: Vec<Decision>,
    /// The window as it is.
    pub before: Totals,
    /// The window as the plan leaves it.
    pub after: Totals,
    /// Limits that the window exceeds even so, since what is left is pinned.
    pub over: Vec<Excess>,
}

/// What comes of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The window stays as it is.
    Keep,
    /// The window is compacted.
    Compact,
    /// The window stays as it is until there is a summary of what is to leave it.
    Summarize,
    /// The window stays as it is until its tool loop is done, since signed reasoning stands in it.
    Wait,
    /// The window exceeds a hard limit, and no plan helps.
    Refuse,
}

/// What is done with one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What is done.
    pub action: Action,
    /// How many stages of the policy it has gone through.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stages: usize,
    /// Why.
    pub reason: Reason,
    /// Its size before.
    pub before: Size,
    /// Its size after.
    pub after: Size,
}

impl Decision {
    /// What becomes of a group in any compaction, before the policy's stages; `spends` says whether notes leave that were seen.
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

    /// Whether the same was done for the same reason.
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
    /// It stays.
    Keep,
    /// Its tool results are shortened.
    Truncate,
    /// Its tool results, or the media in them, are replaced by a note.
    Clear,
    /// It leaves the window, and a running summary takes its place.
    Summarize,
    /// It leaves the window.
    Drop,
}

impl Action {
    /// Whether the group is no longer in the window.
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
pub enum Reason {
    /// No limit is exceeded.
    Fits,
    /// It may not be dropped.
    Pinned {
        /// Why not.
        pin: Pin,
    },
    /// The target was met before its turn came.
    Recent,
    /// A limit was exceeded, and it was the oldest that the stage could take.
    Exceeded {
        /// In which measure.
        measure: Measure,
        /// What there was.
        actual: u64,
        /// What there may be.
        limit: u64,
        /// What the compaction aims at.
        target: u64,
    },
    /// A window may not begin here; or a session went on, which had the question or the answer of this turn alone.
    Start {
        /// Where it may begin.
        rule: Start,
    },
    /// Nothing of it is left: it was all signed reasoning, which any compaction makes stale.
    Stale,
    /// It is a note of Lookback's that the model has seen, and any compaction takes those; or the run that it was said in is over.
    Spent,
    /// Signed reasoning of the open tool loop forbids a change.
    Waits,
    /// Its tool results were cut as it arrived. (No plan says so: it happened before.)
    Capped,
    /// It could not be sent as it arrived. (No plan says so: it happened before.)
    Repaired {
        /// What was wrong with it.
        why: Hidden,
    },
}

/// The part of a limit that a compaction leaves free above what is pinned, as a divisor: with an eighth, a window of
/// which half is pinned comes to its next compaction no sooner than after an eighth of its size.
const SLACK: u64 = 8;

/// Tokens of a summary's message beside the summary, at the least.
const SUMMARY_OVERHEAD: u64 = 32;
/// Bytes of a token of prose, generously.
const BYTES_A_TOKEN: u64 = 6;

/// Plans a window. `policy` is one whose shares are resolved (see [`Policy::for_window`]).
///
/// It never fails: where the limits cannot be met it comes as near as what is pinned lets it, and says by how much it misses.
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
/// let plan = plan(&groups, &Policy { limits: Limits::tokens(200), ..Policy::default() });
/// assert_eq!(plan.verdict, Verdict::Compact);
/// assert_eq!(plan.decisions[0].action, Action::Drop);
/// assert_eq!(plan.after.size.tokens, 200);
/// ```
pub fn plan(groups: &[Group], policy: &Policy) -> Plan {
    plan_for(groups, policy, Demands::default())
}

/// What holds whatever the policy says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demands {
    /// Where the provider lets a request begin.
    pub(crate) start: Start,
    /// The provider has refused the window as too long, so what is pinned is shortened too.
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
        // There is nowhere to keep a summary, or no time to wait for it.
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
    // Progress: what does not come out smaller in a measure that was exceeded is not worth a broken cache.
    let no_smaller = |excess: Excess| after.get(excess.measure) >= before.get(excess.measure);
    let futile = policy.limits.excesses(&before).chain(hard.excesses(&before)).all(no_smaller);
    if draft.summarized && (futile || !hard.fits(&after)) {
        // A summary at its maximum would take up more than it frees, or than there is.
        return plan_for(groups, &without_summary(policy, &[]), demands);
    }
    if !hard.fits(&after) {
        return Plan { verdict: Verdict::Refuse, decisions: draft.decisions, before, after, over };
    }
    if !changes || futile {
        let over = policy.limits.excesses(&before).chain(hard.excesses(&before)).collect();
        let mut plan = unchanged(groups, before, Verdict::Keep, over, Reason::Recent);
        if let Some(index) = draft.brought_back
            && let (Some(held), Some(drafted)) = (plan.decisions.get_mut(index), draft.decisions.get(index))
        {
            held.reason = drafted.reason;
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

/// What a compaction aims at: the policy's target, raised to what is pinned plus some slack, but never above the limit.
fn target(groups: &[Group], policy: &Policy) -> Limits {
    let mut pinned = Totals::of(groups.iter().filter(|group| group.pin.is_some()).map(|group| (group, group.kept)));
    if policy.summary().is_some() {
        pinned.size = pinned.size - standing_summary(groups) + planned(policy);
    }
    let wanted = policy.target.unwrap_or(policy.limits);
    let hard = policy.hard.unwrap_or_default();
    let aim = |measure| {
        let limit = match (policy.limits.get(measure), hard.get(measure)) {
            // Where the model takes less than the policy allows, the target comes down in the same proportion.
            (Some(limit), Some(hard)) if hard < limit => {
                let scaled =
                    wanted.get(measure).map(|wanted| u128::from(wanted) * u128::from(hard) / u128::from(limit));
                let scaled = scaled.and_then(|scaled| u64::try_from(scaled).ok());
                return Some(raised(scaled.unwrap_or(hard), hard, pinned.get(measure)));
            }
            (limit, hard) => limit.or(hard),
        };
        let wanted = wanted.get(measure).or(limit)?;
        Some(raised(wanted, limit.unwrap_or(wanted), pinned.get(measure)))
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

/// A policy with `instead` in the place of each summary.
fn without_summary(policy: &Policy, instead: &[Stage]) -> Policy {
    let stages = policy.stages.iter().flat_map(|stage| match stage {
        Stage::Summarize(_) => instead,
        stage => std::slice::from_ref(stage),
    });
    Policy { stages: stages.cloned().collect(), ..policy.clone() }
}

/// The size of the policy's running summary at its maximum.
fn planned(policy: &Policy) -> Size {
    let Some(summary) = policy.summary() else { return Size::default() };
    // Two bytes a token, generously: the planner does not read the words around a summary, and they may be many.
    let around = SUMMARY_OVERHEAD.max(summary.wording.len() as u64 / 2);
    let tokens = summary.budget.saturating_add(around);
    let messages = u64::from(policy.system.counted);
    Size { tokens, bytes: tokens.saturating_mul(BYTES_A_TOKEN), messages, media: 0 }
}

/// The size of the running summary that stands in the window.
fn standing_summary(groups: &[Group]) -> Size {
    groups.iter().filter(|group| group.kind == GroupKind::Summary).map(|group| group.kept).sum()
}

/// A target, raised to what is pinned plus the slack, but never above the limit.
fn raised(wanted: u64, limit: u64, pinned: u64) -> u64 {
    wanted.max(pinned.saturating_add(limit / SLACK)).min(limit)
}

/// A plan in the making.
struct Draft<'a> {
    groups: &'a [Group],
    policy: &'a Policy,
    decisions: Vec<Decision>,
    target: Limits,
    excess: Excess,
    demands: Demands,
    /// What is kept so far.
    tally: Tally,
    /// What was dropped and brought back, since the window must begin with it.
    brought_back: Option<usize>,
    /// Something is summarized, so the summary at its maximum is counted in.
    summarized: bool,
}

impl<'a> Draft<'a> {
    fn new(groups: &'a [Group], policy: &'a Policy, excess: Excess, target: Limits, demands: Demands) -> Self {
        // What is planned anew at each read would lose its notes after one call.
        let spends = policy.mode == Mode::Recorded;
        let decisions: Vec<_> = groups.iter().map(|group| Decision::before_stages(group, spends)).collect();
        let mut tally = Tally::default();
        for (group, decision) in groups.iter().zip(&decisions) {
            // Of a group that is all stale reasoning nothing is left to count.
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

    /// The first measure in which the target is missed.
    fn missed(&self) -> Option<Excess> {
        self.target.excesses(&self.totals()).next()
    }

    fn reason(&self, missed: Excess) -> Reason {
        // The limit is what the user set; the target alone may be what is missed by now.
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
                Stage::TruncateResults { keep, .. } => self.shrink(index, *keep, Action::Truncate),
                Stage::ClearResults { keep, .. } | Stage::ClearMedia { keep } => {
                    self.shrink(index, *keep, Action::Clear);
                }
                Stage::Summarize(_) => self.summarize(),
                Stage::Drop => self.drop_oldest(),
            }
        }
    }

    /// Takes groups through a stage, the oldest first, as long as the target is missed in a measure that this helps.
    fn shrink(&mut self, stage: usize, keep: u64, action: Action) {
        let newest = self.groups.iter().map(|group| group.round).max().unwrap_or(0);
        for (index, group) in self.groups.iter().enumerate() {
            let Some(missed) = self.missed() else { return };
            let Some(decision) = self.decisions.get(index) else { return };
            let (old, new) = (decision.after, group.after(stage + 1));
            let pinned = group.pin.is_some() && !self.demands.overflow;
            let spared = pinned || group.round.saturating_add(keep) > newest;
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

    /// The summary that stands becomes part of the new one, which is counted at its maximum.
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

    /// Drops on until the window begins where the policy wants it, or else where the provider does. Where something pinned
    /// stands in the provider's way, the nearest group before it that may begin a window stays, and what is between them
    /// can go in its place: then it is true that the stages have something to do again.
    fn move_start(&mut self) -> bool {
        // Where a provider demands a user's message, a summary is one.
        let opened = self.summarized || self.groups.iter().any(|group| group.kind == GroupKind::Summary);
        let provider = if opened { Start::Any } else { self.demands.start };
        let wanted = self.policy.start.max(provider);
        let gone = if self.summarized { Action::Summarize } else { Action::Drop };
        let body = |group: &Group| group.kind.is_said();
        let kept = |decision: &Decision| !decision.action.is_gone();
        let first = self.groups.iter().zip(&self.decisions).position(|(group, decision)| body(group) && kept(decision));
        let dropped = self.decisions.iter().any(|decision| decision.action.is_gone());
        let Some(first) = first.filter(|_| dropped) else { return false };
        for rule in [wanted, provider] {
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

    /// Lets a group leave the window, by `action`.
    fn leave(&mut self, index: usize, action: Action, reason: Reason) {
        let (Some(group), Some(decision)) = (self.groups.get(index), self.decisions.get_mut(index)) else { return };
        if group.pin.is_some() || self.brought_back == Some(index) || decision.action.is_gone() {
            return;
        }
        self.tally.remove(group.kind, group.turn, decision.after);
        *decision = Decision { action, stages: 0, reason, before: group.size, after: Size::default() };
    }
}
