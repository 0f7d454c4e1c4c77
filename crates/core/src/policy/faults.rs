//! What makes no sense in a policy.

use super::{Measure, Mode, Pace, Policy, Stage, Tokens};

impl Policy {
    /// What makes no sense in it. A plan comes of any policy, but of these not the one that was meant.
    pub fn faults(&self) -> Vec<PolicyFault> {
        let mut faults = Vec::new();
        let all = [("limits", Some(self.limits)), ("target", self.target), ("hard", self.hard)];
        for (place, limits) in all.into_iter().filter_map(|(place, limits)| Some((place, limits?))) {
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

/// Something in a policy that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyFault {
    /// A share that is not above 0 and at most 1.
    #[error("{place}.tokens: a share must be above 0 and at most 1, but is {share}")]
    Share {
        /// Where.
        place: &'static str,
        /// The share.
        share: f64,
    },
    /// A limit of zero, which no window can keep.
    #[error("{place}: a limit of 0 {measure} leaves nothing to send")]
    Zero {
        /// Where.
        place: &'static str,
        /// In which measure.
        measure: Measure,
    },
    /// A summary that nothing keeps.
    #[error("stages: a summary is recorded, so `summarize` does not go with the mode `on_read`")]
    SummaryOnRead,
    /// A summary that shows nothing.
    #[error("stages: a summary needs a budget above 0, and a wording with {{summary}} in it")]
    EmptySummary,
    /// A summary where there is no time for one.
    #[error(
        "overflow: the provider waits for a shorter request, and a summary takes time; put `summarize` into `stages`"
    )]
    SummaryOnOverflow,
    /// Limits that are never looked at.
    #[error("pace: limits are looked at before every 1 or more calls, not 0")]
    Pace,
    /// A target that the limit makes unreachable.
    #[error("target: {target} {measure} is above the limit of {limit}")]
    TargetAboveLimit {
        /// In which measure.
        measure: Measure,
        /// The target.
        target: u64,
        /// The limit.
        limit: u64,
    },
}
