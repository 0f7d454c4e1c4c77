//! Return values of an engine: the outcome of making a window, a hard limit that cannot be met, and an explained plan.

use std::ops::Range;

use super::SummaryRequest;
use crate::entry::{Entry, Position};
use crate::group::Pinned;
use crate::plan::{Decision, Occasion, Plan, Verdict};
use crate::totals::{Excess, Totals};
use crate::view::View;

/// The result of [`Engine::window`](super::Engine::window), and of the other methods that make a window smaller.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WindowOutcome {
    /// The entries that the log must keep: repairs, a compaction, a checkpoint.
    pub entries: Vec<Entry>,
    /// The plan, if a limit was exceeded.
    pub plan: Option<Plan>,
    /// The hard limit that the window exceeds. If this is present, do not send the window.
    pub exceeded: Option<HardLimitExceeded>,
    /// The summary to make, if the policy makes summaries and a limit is exceeded. The covered messages stay in the
    /// window until [`Engine::accept_summary`](super::Engine::accept_summary) replaces them, unless a hard limit forces
    /// them out earlier.
    pub summary_request: Option<SummaryRequest>,
    /// The window, if the policy's mode is `on_read` and the window differs from the view. If this is absent, the
    /// window is [`Engine::view`](super::Engine::view).
    pub on_read: Option<Box<View>>,
}

/// A hard limit that cannot be met, with the pinned parts that prevent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the window exceeds its hard limit: {}", describe(.excesses, .pinned, *.waits))]
#[non_exhaustive]
pub struct HardLimitExceeded {
    /// The limits that are exceeded.
    pub excesses: Vec<Excess>,
    /// The pinned parts of the window, with sizes.
    pub pinned: Vec<Pinned>,
    /// Whether a compaction has to wait because a tool loop with signed reasoning is open.
    pub(crate) waits: bool,
}

fn describe(excesses: &[Excess], pinned: &[Pinned], waits: bool) -> String {
    let excess = |e: &Excess| format!("{} {} (at most {})", e.actual, e.measure, e.limit);
    let limits = excesses.iter().map(excess).collect::<Vec<_>>().join(", ");
    let pins = Pinned::list(pinned);
    let advice = if waits {
        "no compaction is possible until the open tool loop with signed reasoning ends"
    } else {
        "raise the limit, or shorten the pinned parts"
    };
    format!("{limits}; pinned: {pins}; {advice}")
}

/// The plan for a window, with the entries that each decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The outcome of the plan.
    pub verdict: Verdict,
    /// The groups of the window, in order.
    pub groups: Vec<ExplainedGroup>,
    /// The totals of the window before the plan.
    pub before: Totals,
    /// The totals of the window after the plan.
    pub after: Totals,
    /// The limits that the window still exceeds after the plan, because the rest is pinned or has to wait.
    pub over: Vec<Excess>,
    /// Why lower limits than usual apply, if they do.
    pub occasion: Option<Occasion>,
}

/// A group of a window, with the decision about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedGroup {
    /// The decision about the group, with its reason.
    pub decision: Decision,
    /// Its entries. The preamble has none.
    pub entries: Vec<Range<Position>>,
}
