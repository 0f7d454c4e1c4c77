//! The token budget of a run: a nudge when most of it is used or the calls bring little, and an end when it is used up.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::{EndReason, Event, Failure, Middleware, OnFailure, Reaction, Run};

/// The number of calls in a row that must bring little.
const CALLS: usize = 3;
/// A call with fewer new tokens brings little.
const LITTLE: u64 = 500;

/// A limit on the tokens of a run.
///
/// It nudges the model when most of the tokens are used, and when three calls in a row brought fewer than 500 new
/// tokens each; each nudge comes once in a run. At the hard limit the run gives its last answer, or ends. It fails
/// closed, since a run with unknown costs must not go on.
///
/// ```
/// use lookback::middleware::{AtHard, Budget};
///
/// let budget = Budget::new(100_000, || 0).with_soft(0.7)?.with_hard(0.95)?.with_at_hard(AtHard::Stop);
/// assert!(budget.with_soft(f64::NAN).is_err());
/// # Ok::<(), lookback::middleware::BudgetError>(())
/// ```
pub struct Budget {
    most: u64,
    soft: f64,
    hard: f64,
    at_hard: AtHard,
    active: bool,
    used: Option<Box<dyn Fn() -> u64 + Send>>,
    /// Tokens of the next run's budget that are used already.
    used_before: u64,
    state: State,
}

/// What is known about the run.
#[derive(Debug, Default)]
struct State {
    used_before: u64,
    /// All new tokens up to the last iteration.
    new: Option<u64>,
    /// New tokens of the last calls.
    deltas: VecDeque<u64>,
    told_soft: bool,
    told_diminishing: bool,
    now: u64,
}

/// What happens at the hard limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AtHard {
    /// The model gives its last answer, in one more call without tools.
    #[default]
    LastAnswer,
    /// The run ends.
    Stop,
}

/// An error for a limit that is not a share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error("the {limit} limit of a budget must be greater than 0 and at most 1, got {ratio}")]
pub struct BudgetError {
    /// The limit: `soft` or `hard`.
    pub limit: &'static str,
    /// The value that was given.
    pub ratio: f64,
}

impl Budget {
    /// Creates a budget of tokens that the caller counts. The growth of that number in a call counts as the call's new
    /// tokens. A budget of 0 never acts.
    pub fn new(most: u64, used: impl Fn() -> u64 + Send + 'static) -> Self {
        Budget { used: Some(Box::new(used)), ..Budget::reported(most) }
    }

    /// Creates a budget of input and output tokens, as reported with the answers. If nothing is reported for a call,
    /// the tokens of its window and its answer are estimated. The new tokens of a call are its output, and what its
    /// input has more than the input before it. A budget of 0 never acts.
    ///
    /// Each run begins with the whole budget, even if it goes on after its process was killed: see
    /// [`Budget::with_used_before`].
    pub fn reported(most: u64) -> Self {
        let (at_hard, state) = (AtHard::default(), State::default());
        Budget { most, soft: 0.8, hard: 1.0, at_hard, active: true, used: None, used_before: 0, state }
    }

    /// Sets how many tokens of the first run's budget are used when it begins. For a run whose process was killed, if
    /// you know what it had cost by then.
    #[must_use]
    pub fn with_used_before(self, tokens: u64) -> Self {
        Budget { used_before: tokens, ..self }
    }

    /// Sets the share of the budget at which the model is nudged. The default is 0.8.
    ///
    /// # Errors
    /// Returns an error unless the share is greater than 0 and at most 1.
    pub fn with_soft(self, ratio: f64) -> Result<Self, BudgetError> {
        Ok(Budget { soft: share("soft", ratio)?, ..self })
    }

    /// Sets the share of the budget at which it is used up. The default is 1.
    ///
    /// # Errors
    /// Returns an error unless the share is greater than 0 and at most 1.
    pub fn with_hard(self, ratio: f64) -> Result<Self, BudgetError> {
        Ok(Budget { hard: share("hard", ratio)?, ..self })
    }

    /// Sets what happens when the budget is used up. The default is a last answer.
    #[must_use]
    pub fn with_at_hard(self, at_hard: AtHard) -> Self {
        Budget { at_hard, ..self }
    }

    /// Switches the budget off, so that it never acts.
    #[must_use]
    pub fn disabled(self) -> Self {
        Budget { active: false, ..self }
    }

    fn limit(&self, ratio: f64) -> u64 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a budget is far below 2^52, and `as` saturates"
        )]
        let limit = (self.most as f64 * ratio).ceil() as u64;
        limit
    }

    fn begin_iteration(&mut self, new: u64) -> Reaction {
        let used = self.state.now;
        if let Some(before) = self.state.new.replace(new) {
            self.state.deltas.push_back(new.saturating_sub(before));
            if self.state.deltas.len() > CALLS {
                self.state.deltas.pop_front();
            }
        }
        let limit = self.limit(self.hard);
        if used < limit {
            return Reaction::none();
        }
        let reason = EndReason::Budget { used, limit };
        match self.at_hard {
            AtHard::Stop => Reaction::none().stop(reason),
            AtHard::LastAnswer => Reaction::none()
                .note(format!(
                    "Token budget: {used} of {limit} tokens are used up. This is the last answer, without tools: give \
                     what you have found, and say what is missing."
                ))
                .last_answer(reason),
        }
    }

    fn nudge(&mut self, run: &Run) -> Reaction {
        let (used, most) = (self.state.now, self.most);
        if run.tools != super::ToolUse::Allowed {
            return Reaction::none();
        }
        if used >= self.limit(self.soft) && !self.state.told_soft {
            self.state.told_soft = true;
            let percent = u128::from(used) * 100 / u128::from(most.max(1));
            return Reaction::none().note(format!(
                "Token budget: {used} of {most} tokens are used ({percent} %). Bring the task to its end: answer with what \
                 you have, or make only the calls that the answer needs."
            ));
        }
        let little = self.state.deltas.len() == CALLS && self.state.deltas.iter().all(|delta| *delta < LITTLE);
        if little && !self.state.told_diminishing {
            self.state.told_diminishing = true;
            return Reaction::none().note(format!(
                "The last {CALLS} calls brought fewer than {LITTLE} new tokens each. If you know enough, answer now; if \
                 not, try another way, or ask."
            ));
        }
        Reaction::none()
    }
}

fn share(limit: &'static str, ratio: f64) -> Result<f64, BudgetError> {
    if ratio > 0.0 && ratio <= 1.0 { Ok(ratio) } else { Err(BudgetError { limit, ratio }) }
}

impl Middleware for Budget {
    fn name(&self) -> &str {
        "budget"
    }

    fn order(&self) -> u32 {
        10
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }

    fn on_failure(&self) -> OnFailure {
        OnFailure::Closed
    }

    fn is_enabled(&self) -> bool {
        self.active && self.most > 0
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        Ok(match event {
            Event::Start => {
                self.state = State { used_before: std::mem::take(&mut self.used_before), ..State::default() };
                Reaction::none()
            }
            Event::BeforeIteration => {
                let counted = self.used.as_ref().map(|used| used());
                self.state.now = counted.unwrap_or(run.spent).saturating_add(self.state.used_before);
                self.begin_iteration(counted.unwrap_or(run.new_tokens))
            }
            Event::BeforeModel => self.nudge(run),
            _ => Reaction::none(),
        })
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("most", &self.most)
            .field("soft", &self.soft)
            .field("hard", &self.hard)
            .field("at_hard", &self.at_hard)
            .field("active", &self.active)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
