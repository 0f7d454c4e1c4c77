//! Presets that keep the newest part of a conversation, up to one limit.

use lookback_engine::policy::{Limits, Policy};
use lookback_wire::size::Measure;

/// Returns a preset that keeps the newest messages which fit a number of tokens, from 1.
///
/// ```
/// use lookback_engine::{Limits, Policy};
/// use lookback_presets as presets;
///
/// let policy: Policy = presets::tokens(32_000).target(16_000).into();
/// assert_eq!(policy.limits, Limits::tokens(32_000));
/// assert_eq!(policy.target, Some(Limits::tokens(16_000)));
/// ```
pub fn tokens(max: u64) -> Newest {
    Newest { measure: Measure::Tokens, max, target: None }
}

/// Returns a preset that keeps the newest messages: at most `max`, from 1.
pub fn messages(max: u64) -> Newest {
    Newest { measure: Measure::Messages, max, target: None }
}

/// Returns a preset that keeps the newest turns: at most `max`, from 1.
pub fn turns(max: u64) -> Newest {
    Newest { measure: Measure::Turns, max, target: None }
}

/// Returns a preset that keeps the newest rounds: at most `max`, from 1.
pub fn rounds(max: u64) -> Newest {
    Newest { measure: Measure::Rounds, max, target: None }
}

/// A preset with one limit, made by [`tokens`], [`messages`], [`turns`] or [`rounds`].
///
/// Set a [target](Newest::target): without one, a window that is full drops a little at each call, which breaks the
/// provider's prompt cache each time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a preset does nothing until it becomes a policy"]
pub struct Newest {
    measure: Measure,
    max: u64,
    target: Option<u64>,
}

impl Newest {
    /// Sets the target, in the unit of the limit: a window that exceeds the limit is made smaller until it meets the
    /// target.
    pub fn target(self, target: u64) -> Self {
        Newest { target: Some(target), ..self }
    }
}

impl From<Newest> for Policy {
    fn from(Newest { measure, max, target }: Newest) -> Policy {
        let limits = |count| Limits::of(measure, count);
        Policy { limits: limits(max), target: target.map(limits), ..Policy::unlimited() }
    }
}
