//! One model call of a replay: its window, its cost, and the actions of a compaction on the groups.

use std::collections::BTreeMap;

use lookback_engine::group::Pin;
use lookback_engine::plan::{Action, Decision, Occasion, Reason};
use lookback_engine::totals::Excess;
use lookback_engine::transcript::{Compaction, Entry};
use serde::Serialize;

use super::{Cause, Reported};
use crate::cache::Charge;
use lookback_session::Window;

/// One model call of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReplayedCall {
    /// The number of the call, from 1.
    pub number: u64,
    /// The index of the assistant message that answers it.
    pub message: usize,
    /// The number of messages in the window.
    pub messages: u64,
    /// The tokens and the cost of the call.
    pub charge: Charge,
    /// The numbers of groups that a compaction directly before the call kept, shortened or dropped.
    pub groups: Groups,
    /// The occasion of that compaction, if it was made at lower limits than usual.
    pub occasion: Option<Occasion>,
    /// The number of tool results that were truncated on arrival since the previous call.
    pub capped: u64,
    /// The number of repairs that were made for this window, such as stand-ins for missing results.
    pub repairs: u64,
    /// The limits of the policy that the window exceeded.
    pub over: Vec<Excess>,
    /// The largest pinned group, if the window exceeded a limit.
    pub pinned: Option<Pin>,
    /// The identifiers and spans that the model used again and the window missed, by cause. A cause without any is left
    /// out.
    #[doc(hidden)]
    pub missed: BTreeMap<Cause, u64>,
    /// The tool calls of the answer that ask again for a result that has left the window.
    #[doc(hidden)]
    pub rereads: u64,
    /// The provider's usage report for the call, if it was recorded.
    pub reported: Option<Reported>,
}

impl ReplayedCall {
    /// Describes a call with this window. The replay adds `capped`, `missed`, `rereads` and `reported`.
    pub(super) fn new(window: &Window<'_>, number: u64, message: usize, charge: Charge) -> ReplayedCall {
        let compactions = window.entries().iter().filter_map(|entry| match entry {
            Entry::Compaction(compaction) => Some(compaction),
            _ => None,
        });
        let repairs = window.entries().iter().filter(|entry| matches!(entry, Entry::Repair(_))).count() as u64;
        let messages = window.view().totals().size.messages;
        let over = window.over().to_vec();
        let pinned = |decision: &Decision| match decision.reason {
            Reason::Pinned { pin } => Some((decision.after.tokens, pin)),
            _ => None,
        };
        let decisions = if over.is_empty() { None } else { window.plan().map(|plan| &plan.decisions) };
        let pinned = decisions.into_iter().flatten().filter_map(pinned).max_by_key(|(tokens, _)| *tokens);
        let occasion = compactions.clone().find_map(|compaction| compaction.occasion);
        let groups = Groups::from_compactions(compactions);
        let pinned = pinned.map(|(_, pin)| pin);
        ReplayedCall {
            number,
            message,
            messages,
            charge,
            groups,
            occasion,
            capped: 0,
            repairs,
            over,
            pinned,
            missed: BTreeMap::new(),
            rereads: 0,
            reported: None,
        }
    }
}

/// The numbers of groups of a window that a compaction kept, shortened or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Groups {
    /// Kept unchanged.
    pub kept: u64,
    /// Kept with truncated tool results.
    pub truncated: u64,
    /// Kept with cleared tool results or pictures.
    pub cleared: u64,
    /// Merged into the running summary.
    pub summarized: u64,
    /// Dropped.
    pub dropped: u64,
}

impl Groups {
    fn from_compactions<'a>(compactions: impl Iterator<Item = &'a Compaction>) -> Groups {
        let mut groups = Groups::default();
        for outcome in compactions.flat_map(|compaction| &compaction.groups) {
            groups.count(outcome.decision.action, outcome.count as u64);
        }
        groups
    }

    fn count(&mut self, action: Action, groups: u64) {
        match action {
            Action::Keep => self.kept += groups,
            Action::Truncate => self.truncated += groups,
            Action::Clear => self.cleared += groups,
            Action::Summarize => self.summarized += groups,
            Action::Drop => self.dropped += groups,
            // An action that this version has no count for.
            _ => {}
        }
    }
}
