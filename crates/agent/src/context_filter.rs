//! The context filter: an additional policy for the windows of a run, such as the newest rounds with short tool
//! results.

use std::time::Duration;

use lookback_engine::policy::Policy;

use super::{Event, Failure, Middleware, Reaction, Run};
use lookback_presets::{PolicyError, named};

/// Makes every window of the run meet a policy in addition to the session's own.
///
/// It tightens the policy instead of rewriting messages. So other middleware cannot undo it, and the messages that it
/// drops are in the log and can be recalled.
///
/// ```
/// use lookback_agent::ContextFilter;
/// use lookback_engine::policy::{Limits, Policy};
///
/// let window = ContextFilter::new(Policy { limits: Limits::tokens(50_000), stages: Vec::new(), ..Policy::unlimited() });
/// assert!(ContextFilter::rounds(5).is_ok() && ContextFilter::rounds(0).is_err());
/// # let _ = window;
/// ```
#[derive(Debug, Clone)]
pub struct ContextFilter {
    policy: Policy,
}

impl ContextFilter {
    /// Creates a filter from a policy. If the policy has no stages, those of the session's policy stay in place.
    ///
    /// The policy is not checked (see [`Policy::faults`]). Under a limit of 0 rounds, only pinned messages stay.
    pub fn new(policy: Policy) -> Self {
        ContextFilter { policy }
    }

    /// Creates a filter that keeps at most this many of the newest rounds, like the preset `two-tier`. Tool results are
    /// cleared in all but the newest three of these rounds, and truncated to 8,000 characters.
    ///
    /// Such a window slides by one round at each call, which breaks the provider's cache each time. A window with a
    /// target does not: `named("two-tier:sliding_window_size=10,target_rounds=5")`.
    ///
    /// # Errors
    /// Returns an error if `rounds` is 0.
    pub fn rounds(rounds: u64) -> Result<Self, PolicyError> {
        if rounds == 0 {
            return Err(PolicyError::refused("rounds", "a positive integer", "0"));
        }
        Ok(ContextFilter::new(named(&format!("two-tier:sliding_window_size={rounds}"))?))
    }

    /// Makes the texts that replace cut or cleared results name the log entry of the original. Use it for models with
    /// the tool `recall`.
    #[must_use]
    pub(crate) fn with_entry_numbers(mut self) -> Self {
        // The preset's marker asks the model to run the tool again, which costs more than recalling the result.
        if let Some(cap) = &mut self.policy.arrival {
            cap.marker = None;
        }
        ContextFilter { policy: self.policy.with_entry_numbers() }
    }
}

impl Middleware for ContextFilter {
    fn name(&self) -> &str {
        "context_filter"
    }

    fn order(&self) -> u32 {
        15
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }

    fn on(&mut self, event: &Event, _run: &Run) -> Result<Reaction, Failure> {
        Ok(match event {
            Event::Start => Reaction::none().tighten(self.policy.clone()),
            _ => Reaction::none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_presets::named;

    #[test]
    fn rounds_are_those_of_the_preset() {
        let ContextFilter { policy } = ContextFilter::rounds(7).unwrap();
        assert_eq!(policy, named("two-tier:sliding_window_size=7").unwrap());
        let error = ContextFilter::rounds(0).unwrap_err();
        assert_eq!(error.to_string(), "rounds must be a positive integer, got 0");
    }
}
