//! Faults: settings of a policy that cannot work.

use super::{Limits, Mode, Pace, Payback, Policy, Stage, Tokens};
use lookback_wire::size::Measure;

impl Policy {
    /// Returns the faults of this policy, or an empty list if it has none. A policy with faults still gives a plan, but
    /// not the intended one.
    pub fn faults(&self) -> Vec<PolicyFault> {
        self.kinds_of_faults().into_iter().map(PolicyFault::from).collect()
    }

    fn kinds_of_faults(&self) -> Vec<FaultKind> {
        let mut faults = Vec::new();
        let (cold, cold_target) = (self.cold.map(|cold| cold.limits), self.cold.map(|cold| cold.target));
        let payback = self.payback.map(|payback| payback.limits);
        let all = [("limits", Some(self.limits)), ("target", self.target), ("hard", self.hard)];
        let all = all.into_iter().chain([("cold.limits", cold), ("cold.target", cold_target)]);
        let all = all.chain([("payback.limits", payback)]);
        for (place, limits) in all.filter_map(|(place, limits)| Some((place, limits?))) {
            if let Some(Tokens::Share(share)) = limits.tokens
                && !(share > 0.0 && share <= 1.0)
            {
                faults.push(FaultKind::Share { place, share });
            }
            for measure in
                Measure::ALL.into_iter().filter(|measure| limits.get(*measure) == Some(0) && *measure != Measure::Media)
            {
                faults.push(FaultKind::Zero { place, measure });
            }
        }
        let pairs = [("target", self.target, Some(self.limits)), ("cold.target", cold_target, cold)];
        for (place, target, limits) in pairs {
            let (Some(target), Some(limits)) = (target, limits) else { continue };
            for measure in Measure::ALL {
                if let (Some(target), Some(limit)) = (target.get(measure), limits.get(measure))
                    && target > limit
                {
                    faults.push(FaultKind::TargetAboveLimit { place, measure, target, limit });
                }
            }
        }
        let least = [
            ("caps.file", self.caps.map(|caps| caps.file)),
            ("caps.other", self.caps.map(|caps| caps.other)),
            ("caps.without_recall", self.caps.map(|caps| caps.without_recall)),
            ("repeats.lines", self.repeats.map(|repeats| repeats.lines)),
            ("index.budget", self.index.map(|index| index.budget)),
        ];
        faults.extend(
            least.into_iter().filter(|(_, value)| *value == Some(0)).map(|(place, _)| FaultKind::Least { place }),
        );
        if let Some(Payback { write, .. }) =
            self.payback.filter(|payback| !(payback.write >= 1.0 && payback.write.is_finite()))
        {
            faults.push(FaultKind::Price { write });
        }
        let is_in_tokens = |limits: Limits| limits.body.is_some() || limits.tokens.is_some();
        if payback.is_some_and(|limits| !is_in_tokens(limits)) {
            faults.push(FaultKind::Payback);
        }
        if let Some(summary) = self.summary() {
            if self.mode == Mode::OnRead {
                faults.push(FaultKind::SummaryOnRead);
            }
            if summary.budget == 0 || !summary.wording.contains("{summary}") {
                faults.push(FaultKind::EmptySummary);
            }
        }
        if self.overflow.iter().any(|stage| matches!(stage, Stage::Summarize(_))) {
            faults.push(FaultKind::SummaryOnOverflow);
        }
        if self.pace == Pace::Calls(0) {
            faults.push(FaultKind::Pace);
        }
        faults
    }
}

/// A setting of a policy that cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct PolicyFault(#[from] FaultKind);

/// The reason of a [`PolicyFault`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
enum FaultKind {
    /// A share that is 0 or less, above 1, or not a number.
    #[error("{place}.tokens: a share must be greater than 0 and at most 1, got {share}")]
    Share {
        /// The setting: `limits`, `target`, `hard`, or one of `cold` or `payback`.
        place: &'static str,
        share: f64,
    },
    /// A limit of 0, which no window can meet.
    #[error("{place}: a limit of 0 {measure} leaves nothing to send")]
    Zero {
        /// The setting: `limits`, `target`, `hard`, or one of `cold` or `payback`.
        place: &'static str,
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
    /// A number of 0 where at least 1 is needed.
    #[error("{place} must be at least 1")]
    Least { place: &'static str },
    /// A payback without a limit in tokens. It would have no effect.
    #[error("payback.limits: set `body` or `tokens`")]
    Payback,
    /// A price of writing that is below the price of reading, or is not finite.
    #[error("payback.write must be at least 1, got {write}")]
    Price { write: f64 },
    /// A target above its limit. It would have no effect.
    #[error("{place}: {target} {measure} is above the limit of {limit}")]
    TargetAboveLimit { place: &'static str, measure: Measure, target: u64, limit: u64 },
}
