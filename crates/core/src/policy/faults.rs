//! Faults: settings of a policy that cannot work.

use super::{Mode, Pace, Policy, Stage, Tokens};
use crate::size::Measure;

impl Policy {
    /// Returns the faults of this policy, or an empty list if it has none. A policy with faults still gives a plan, but
    /// not the one that was meant.
    pub fn faults(&self) -> Vec<PolicyFault> {
        let mut faults = Vec::new();
        let (cold, cold_target) = (self.cold.map(|cold| cold.limits), self.cold.map(|cold| cold.target));
        let all = [("limits", Some(self.limits)), ("target", self.target), ("hard", self.hard)];
        let all = all.into_iter().chain([("cold.limits", cold), ("cold.target", cold_target)]);
        for (place, limits) in all.filter_map(|(place, limits)| Some((place, limits?))) {
            if let Some(Tokens::Share(share)) = limits.tokens
                && !(share > 0.0 && share <= 1.0)
            {
                faults.push(PolicyFault::Share { place, share });
            }
            for measure in
                Measure::ALL.into_iter().filter(|measure| limits.get(*measure) == Some(0) && *measure != Measure::Media)
            {
                faults.push(PolicyFault::Zero { place, measure });
            }
        }
        if let Some(target) = self.target {
            for measure in Measure::ALL {
                if let (Some(target), Some(limit)) = (target.get(measure), self.limits.get(measure))
                    && target > limit
                {
                    faults.push(PolicyFault::TargetAboveLimit { measure, target, limit });
                }
            }
        }
        if let Some(summary) = self.summary() {
            if self.mode == Mode::OnRead {
                faults.push(PolicyFault::SummaryOnRead);
            }
            if summary.budget == 0 || !summary.wording.contains("{summary}") {
                faults.push(PolicyFault::EmptySummary);
            }
        }
        if self.overflow.iter().any(|stage| matches!(stage, Stage::Summarize(_))) {
            faults.push(PolicyFault::SummaryOnOverflow);
        }
        if self.pace == Pace::Calls(0) {
            faults.push(PolicyFault::Pace);
        }
        faults
    }
}

/// A setting of a policy that cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// A share that is not above 0 and at most 1.
    #[error("{place}.tokens: a share must be greater than 0 and at most 1, got {share}")]
    Share {
        /// The setting: `limits`, `target`, `hard`, or one of `cold`.
        place: &'static str,
        /// The share.
        share: f64,
    },
    /// A limit of 0, which no window can meet.
    #[error("{place}: a limit of 0 {measure} leaves nothing to send")]
    Zero {
        /// The setting: `limits`, `target` or `hard`.
        place: &'static str,
        /// The measure of the limit.
        measure: Measure,
    },
    /// A summary in a policy that records nothing.
    #[error("stages: `summarize` does not work in the mode `on_read`, because a summary must be recorded")]
    SummaryOnRead,
    /// A summary without text: its budget is 0, or its wording leaves it out.
    #[error("stages: `summarize` needs a budget above 0, and a wording that contains `{{summary}}`")]
    EmptySummary,
    /// A summary among the stages for an overflow. The call cannot wait until one is made.
    #[error("overflow: `summarize` is too slow for this; put it into `stages`")]
    SummaryOnOverflow,
    /// A pace of 0 calls, at which the limits would never be checked.
    #[error("pace: `calls` must be at least 1")]
    Pace,
    /// A target above its limit. It would have no effect.
    #[error("target: {target} {measure} is above the limit of {limit}")]
    TargetAboveLimit {
        /// The measure of both.
        measure: Measure,
        /// The target.
        target: u64,
        /// The limit.
        limit: u64,
    },
}
