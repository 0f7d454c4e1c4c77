//! The plan: decides for every group whether to keep, truncate, clear, summarize or drop it, from sizes alone.

mod draft;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::draft::Draft;
use crate::group::{Group, GroupKind, Pin};
use crate::policy::{Limits, Mode, Policy, Stage, Tokens};
use crate::totals::{Excess, Totals};
use lookback_content::text::number;
use lookback_wire::Start;
use lookback_wire::edit::Hidden;
use lookback_wire::size::{Measure, Size};

/// The decisions about all groups of a window.
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
    /// The limits that the window still exceeds after the plan, because the rest is pinned or has to wait.
    pub over: Vec<Excess>,
    /// Why lower limits than usual applied, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occasion: Option<Occasion>,
}

/// Why a window is compacted at lower limits than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Occasion {
    /// A pause was longer than the lifetime of the provider's cache, which no longer has the window. So the cut is free
    /// (see [`Cold`](crate::policy::Cold)).
    Pause {
        /// The time since the last call, in milliseconds.
        millis: u64,
    },
    /// The system prompt or the tools have changed, so the cache does not have the window.
    Preamble,
    /// The last call went to another model, so the cache of this model does not have the window.
    Model,
    /// The caller reported that the cache no longer has the window
    /// ([`Engine::cache_is_cold`](crate::Engine::cache_is_cold)).
    Told,
    /// The cut has paid for itself (see [`Payback`](crate::policy::Payback)).
    Repaid {
        /// The tokens that the calls since the last compaction read beyond the target.
        read: u64,
        /// The cost of the cut, in tokens that are read.
        price: u64,
    },
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Occasion::Pause { millis } => write!(f, "cache cold after {} seconds", number(millis / 1_000)),
            Occasion::Preamble => f.write_str("another system prompt, or other tools"),
            Occasion::Model => f.write_str("another model"),
            Occasion::Told => f.write_str("cache cold"),
            Occasion::Repaid { read, price } => {
                let (read, price) = (number(*read), number(*price));
                write!(f, "calls read {read} tokens more than the target; a cut costs {price}")
            }
        }
    }
}

impl Occasion {
    /// Describes a compaction, with its occasion if there was one, as in `compaction (another model)`.
    #[doc(hidden)]
    pub fn compaction(occasion: Option<Occasion>) -> String {
        occasion.map_or_else(|| "compaction".to_owned(), |occasion| format!("compaction ({occasion})"))
    }
}

/// The outcome of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// The window stays unchanged.
    Keep,
    /// The window is compacted.
    Compact,
    /// The window stays unchanged until a summary of the leaving groups is made.
    Summarize,
    /// The window stays unchanged, because the open tool loop has signed reasoning, and too little follows it.
    Wait,
    /// The window exceeds a hard limit, and no plan helps.
    Refuse,
}

/// The decision about one group, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The number of the policy's stages that were applied to the group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stages: usize,
    /// The reason for the action.
    pub reason: Reason,
    /// The size of the group before.
    pub before: Size,
    /// The size of the group after.
    pub after: Size,
}

impl Decision {
    /// Returns the decision that every compaction makes before the stages of the policy. `spends` is whether notes that
    /// the model has seen leave, and `indexes` is whether the policy has an index.
    pub(crate) fn before_stages(group: &Group, spends: bool, indexes: bool) -> Decision {
        let (action, reason, after) = if group.bound {
            (Action::Keep, Reason::Waits, group.size)
        } else if group.is_stale() {
            (Action::Drop, Reason::Stale, group.kept)
        } else if (spends && group.is_spent()) || (!indexes && group.kind == GroupKind::Index) {
            (Action::Drop, Reason::Spent, Size::default())
        } else {
            (Action::Keep, group.pin.map_or(Reason::Recent, |pin| Reason::Pinned { pin }), group.kept)
        };
        Decision { action, stages: 0, reason, before: group.size, after }
    }

    /// Returns whether the action, stages and reason are the same.
    pub(crate) fn is_like(&self, other: &Decision) -> bool {
        (self.action, self.stages, self.reason) == (other.action, other.stages, other.reason)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The treatment of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// The group stays.
    Keep,
    /// The group's tool results are truncated.
    Truncate,
    /// The group's tool results, or the pictures and files in them, are replaced by a note.
    Clear,
    /// The group leaves the window, and a running summary replaces it.
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

    /// Returns the name of the action.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Keep => "keep",
            Action::Truncate => "truncate",
            Action::Clear => "clear",
            Action::Summarize => "summarize",
            Action::Drop => "drop",
        }
    }
}

/// The reason for the treatment of a group.
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
    /// The window may not begin with this group, or the session was resumed and the window had only the question or
    /// only the answer of this turn.
    Start {
        /// Where the window may begin.
        rule: Start,
    },
    /// The group consisted of signed reasoning, which every compaction makes stale.
    Stale,
    /// The group is a note by Lookback. The model has seen it, and every compaction removes such notes, or its run is
    /// over.
    Spent,
    /// The index has no names anymore: they came back, or there is no room for it.
    Unlisted,
    /// Signed reasoning of the open tool loop forbids a change.
    Waits,
    /// The group's tool results were truncated as they arrived. Plans never give this reason, because it happens
    /// earlier.
    Capped {
        /// How many characters of the truncated results are shown.
        shown: u64,
        /// How many characters they have in full.
        of: u64,
    },
    /// Lines of the group's tool results are left out, because the window shows them in an earlier result. Plans never
    /// give this reason, because it happens earlier.
    Repeated {
        /// How many lines are left out.
        lines: u64,
    },
    /// The lines of a file are shown without most of their numbers. Plans never give this reason, because it happens
    /// earlier.
    Unnumbered,
    /// The provider refused the group's signed reasoning, so it is left out. Only
    /// [`Engine::leave_out_reasoning`](crate::Engine::leave_out_reasoning) gives this reason.
    Refused,
    /// The contents of the group are erased on request. Only [`Engine::leave_out`](crate::Engine::leave_out) gives this
    /// reason.
    Erased,
    /// The message could not be sent as it arrived, and was repaired. Plans never give this reason, because it happens
    /// earlier.
    Repaired {
        /// The fault of the message.
        why: Hidden,
    },
}

impl fmt::Display for Reason {
    /// Writes the reason with its numbers, as in `32,411 tokens exceed the limit of 32,000; the target is 10,000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Fits => f.write_str("no limit is exceeded"),
            Reason::Pinned { pin } => write!(f, "pinned: {pin}"),
            Reason::Recent => f.write_str("recent enough"),
            Reason::Exceeded { measure, actual, limit, target } => {
                let (actual, limit, target) = (number(*actual), number(*limit), number(*target));
                write!(f, "{actual} {measure} exceed the limit of {limit}; the target is {target}")
            }
            Reason::Start { rule } => match rule {
                Start::Any => f.write_str("a window may begin anywhere"),
                Start::User => f.write_str("a window must begin with a message from a person"),
                Start::UserOrToolPair => {
                    f.write_str("a window must begin with a message from a person or with a tool call")
                }
            },
            Reason::Waits => f.write_str("waits for the end of the tool loop, which contains signed reasoning"),
            Reason::Stale => f.write_str("contained only signed reasoning, which a compaction invalidates"),
            Reason::Spent => f.write_str("a note from Lookback that the model has already seen"),
            Reason::Unlisted => f.write_str("an index without names: they came back, or it had no room"),
            Reason::Capped { shown, of } => {
                let (shown, of) = (number(*shown), number(*of));
                write!(f, "long output truncated to {shown} of {of} characters as it arrived")
            }
            Reason::Unnumbered => f.write_str("most numbers of lines are left out"),
            Reason::Repeated { lines: 1 } => f.write_str("a line that is shown above is left out"),
            Reason::Repeated { lines } => write!(f, "{} lines that are shown above are left out", number(*lines)),
            Reason::Refused => f.write_str("the provider refused its signed reasoning, which is left out"),
            Reason::Erased => f.write_str("its contents were erased"),
            Reason::Repaired { why } => write!(f, "could not be sent: {why}"),
        }
    }
}

/// A compaction leaves a part of the limit free above the pinned groups. This is the divisor of that part. With an
/// eighth, a window that is half pinned is compacted again only after it has grown by at least an eighth of the limit.
const SLACK: u64 = 8;

/// While signed reasoning binds the beginning of a window, the rest leaves only once it exceeds one in this many of the
/// limit.
pub(crate) const LOOSE: u64 = 4;

/// The minimum number of tokens in the message of a summary that are not the summary itself.
const SUMMARY_OVERHEAD: u64 = 32;
/// Bytes per token of prose, estimated generously.
const BYTES_A_TOKEN: u64 = 6;

/// Plans a window.
///
/// The shares in `policy` must be resolved (see [`Policy::for_window`]); unresolved ones do not apply. Planning never
/// fails: if the limits cannot be met, the plan comes as close as the pinned groups allow, and reports by how much the
/// limits are exceeded.
///
/// ```
/// use lookback_engine::{plan::plan, group::Group, policy::{Limits, Policy}};
/// use lookback_engine::plan::{Action, Verdict};
/// use lookback_wire::size::Size;
/// use lookback_engine::group::{GroupKind, Pin};
///
/// let group = |turn, pin| {
///     let size = Size { tokens: 100, messages: 1, ..Size::default() };
///     Group { kind: GroupKind::User, turn, round: 0, pin, size, kept: size, staged: vec![size], bound: false }
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

/// Demands on a plan that do not come from the policy.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demands {
    /// Where the provider allows a request to begin.
    pub(crate) start: Start,
    /// Whether the provider has refused the window as too long. If so, pinned groups are shortened, too.
    pub(crate) overflow: bool,
    /// Why lower limits than usual apply, if they do.
    pub(crate) occasion: Option<Occasion>,
    /// Whether groups are dropped instead of summarized, because there is no time to wait for a summary.
    pub(crate) drops: bool,
}

/// Plans a window under the demands of a provider.
pub(crate) fn plan_for(groups: &[Group], policy: &Policy, demands: Demands) -> Plan {
    let before = Totals::sum(groups.iter().map(|group| (group, group.size)));
    let hard = policy.hard.unwrap_or_default();
    let exceeded = excesses(policy, &before);
    let Some(excess) = exceeded.first().copied() else {
        return unchanged(groups, before, demands, Verdict::Keep, Vec::new(), Reason::Fits);
    };
    if is_bound(groups, policy) {
        return plan_after_bound(groups, policy, demands, before, exceeded);
    }
    if policy.summary().is_some() && (policy.mode == Mode::OnRead || demands.drops || !hard.fits(&before)) {
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
    let over = excesses(policy, &after);
    // If no exceeded measure gets smaller, a compaction is not worth a prefix break.
    let no_smaller = |excess: &Excess| after.get(excess.measure) >= before.get(excess.measure);
    let futile = exceeded.iter().all(no_smaller);
    if draft.summarized && (futile || !hard.fits(&after)) {
        // A summary of maximum size would take up more than it frees, or more than the hard limit leaves.
        return plan_for(groups, &without_summary(policy, &[]), demands);
    }
    if !hard.fits(&after) && policy.index.is_some() {
        // The index leaves first, and the window may fit without it.
        return plan_for(groups, &Policy { index: None, ..policy.clone() }, demands);
    }
    if !hard.fits(&after) && hard.fits(&before) {
        // Kept messages that now show repeated lines themselves can get larger. Then the window stays unchanged.
        return unchanged(groups, before, demands, Verdict::Keep, exceeded, Reason::Recent);
    }
    if !hard.fits(&after) {
        let (verdict, decisions) = (Verdict::Refuse, draft.decisions);
        return Plan { verdict, decisions, before, after, over, occasion: demands.occasion };
    }
    if !changes || futile {
        let mut plan = unchanged(groups, before, demands, Verdict::Keep, exceeded, Reason::Recent);
        if let Some(index) = draft.brought_back
            && let (Some(decision), Some(drafted)) = (plan.decisions.get_mut(index), draft.decisions.get(index))
        {
            decision.reason = drafted.reason;
        }
        return plan;
    }
    let verdict = if draft.summarized { Verdict::Summarize } else { Verdict::Compact };
    Plan { verdict, decisions: draft.decisions, before, after, over, occasion: demands.occasion }
}

/// Plans a window whose first groups may not change, because of signed reasoning in the open tool loop. The groups after
/// them may leave.
fn plan_after_bound(
    groups: &[Group],
    policy: &Policy,
    demands: Demands,
    before: Totals,
    exceeded: Vec<Excess>,
) -> Plan {
    let hard = policy.hard.unwrap_or_default();
    // A summary would stand before the reasoning.
    let instead: &[Stage] = if hard.fits(&before) { &[] } else { &[Stage::Drop] };
    let around = without_summary(policy, instead);
    let around = if demands.overflow { around } else { loosened(groups, &around) };
    let mut changed = None;
    if let Some(excess) = excesses(&around, &before).first().copied() {
        let mut draft = Draft::new(groups, &around, excess, target(groups, &around), demands);
        draft.go_through(&around.stages);
        let after = draft.totals();
        let is_smaller = |excess: &Excess| after.get(excess.measure) < before.get(excess.measure);
        changed = (exceeded.iter().any(is_smaller) && hard.fits(&after)).then_some((draft.decisions, after));
    }
    match changed {
        Some((decisions, after)) => {
            let (verdict, over) = (Verdict::Compact, excesses(policy, &after));
            Plan { verdict, decisions, before, after, over, occasion: demands.occasion }
        }
        None => {
            let verdict = if hard.fits(&before) { Verdict::Wait } else { Verdict::Refuse };
            unchanged(groups, before, demands, verdict, exceeded, Reason::Waits)
        }
    }
}

/// Raises the limits of a policy to the groups that stay and a quarter of the limit, so that a compaction is worth its
/// prefix break.
fn loosened(groups: &[Group], policy: &Policy) -> Policy {
    let fixed = Totals::sum(groups.iter().filter(|group| group.is_fixed()).map(|group| (group, group.kept)));
    let raised = |measure| {
        let limit = policy.limits.get(measure)?;
        Some(limit.max(fixed.get(measure).saturating_add(limit / LOOSE)))
    };
    let limits = Limits {
        tokens: raised(Measure::Tokens).map(Tokens::Count),
        body: raised(Measure::Body),
        messages: raised(Measure::Messages),
        turns: raised(Measure::Turns),
        rounds: raised(Measure::Rounds),
        bytes: raised(Measure::Bytes),
        media: raised(Measure::Media),
    };
    Policy { limits, target: policy.target.or(Some(policy.limits)), ..policy.clone() }
}

/// Returns the limits of a policy that are exceeded, including hard ones.
pub(crate) fn excesses(policy: &Policy, totals: &Totals) -> Vec<Excess> {
    let hard = policy.hard.unwrap_or_default();
    policy.limits.exceeded_by(totals).chain(hard.exceeded_by(totals)).collect()
}

/// Returns whether signed reasoning of the open tool loop forbids a change of some groups, and the request does not ask
/// the provider to drop it.
pub(crate) fn is_bound(groups: &[Group], policy: &Policy) -> bool {
    !policy.drop_block && groups.iter().any(|group| group.bound)
}

fn unchanged(
    groups: &[Group],
    before: Totals,
    demands: Demands,
    verdict: Verdict,
    over: Vec<Excess>,
    reason: Reason,
) -> Plan {
    let keep = |group: &Group| {
        let reason = match group.pin {
            Some(pin) if reason == Reason::Recent => Reason::Pinned { pin },
            _ => reason,
        };
        Decision { action: Action::Keep, stages: 0, reason, before: group.size, after: group.size }
    };
    Plan {
        verdict,
        decisions: groups.iter().map(keep).collect(),
        before,
        after: before,
        over,
        occasion: demands.occasion,
    }
}

/// Returns the target of a compaction: the policy's target, raised to the pinned groups plus some slack, but never
/// above the limit.
fn target(groups: &[Group], policy: &Policy) -> Limits {
    let mut pinned = Totals::sum(groups.iter().filter(|group| group.is_fixed()).map(|group| (group, group.kept)));
    if policy.summary().is_some() {
        pinned.size = pinned.size - standing_summary(groups) + planned(policy);
    }
    let target = policy.target.unwrap_or(policy.limits);
    let hard = policy.hard.unwrap_or_default();
    // If the policy limits the body, a hard limit in tokens also limits the body, to the limit less the head.
    let head = pinned.size.tokens.saturating_sub(pinned.body);
    let room = if policy.limits.body.is_some() { hard.get(Measure::Tokens) } else { None };
    let room = room.map(|tokens| tokens.saturating_sub(head));
    let hard = Limits { body: [hard.body, room].into_iter().flatten().min(), ..hard };
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
        body: aim(Measure::Body),
    }
}

/// Returns a policy with each stage that summarizes replaced by `instead`.
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
    // The planner does not count the words around a summary, which may be many. Half a token per byte is a generous
    // estimate.
    let around = SUMMARY_OVERHEAD.max(summary.wording.len() as u64 / 2);
    let tokens = summary.budget.saturating_add(around);
    let messages = u64::from(policy.system.counted);
    Size { tokens, bytes: tokens.saturating_mul(BYTES_A_TOKEN), messages, media: 0, passing: 0 }
}

/// Returns the size of the window's present running summary.
fn standing_summary(groups: &[Group]) -> Size {
    groups.iter().filter(|group| group.kind == GroupKind::Summary).map(|group| group.kept).sum()
}

/// Raises a target to the pinned amount plus the slack, but never above the limit.
fn raised(target: u64, limit: u64, pinned: u64) -> u64 {
    target.max(pinned.saturating_add(limit / SLACK)).min(limit)
}
