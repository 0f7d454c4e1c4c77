//! The budget of a run in tokens: a word when most of it is used or nothing much comes of it any more, and an end when it is used up.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::{EndReason, Event, Failure, Middleware, OnFailure, Reaction, Run};

/// How many calls in a row must bring little.
const CALLS: usize = 3;
/// Below this many new tokens a call brings little.
const LITTLE: u64 = 500;

/// Watches the tokens of a run. Each of its two nudges comes once a run; at the hard limit the run gives its last answer, or ends.
/// It fails closed: a run whose costs nobody knows does not go on.
///
/// ```
/// use lookback::middleware::{AtHard, Budget};
///
/// let budget = Budget::new(100_000, || 0).soft(0.7)?.hard(0.95)?.at_hard(AtHard::Stop);
/// assert!(budget.soft(f64::NAN).is_err());
/// # Ok::<(), lookback::middleware::BudgetError>(())
/// ```
pub struct Budget {
    most: u64,
    soft: f64,
    hard: f64,
    at_hard: AtHard,
    active: bool,
    used: Option<Box<dyn Fn() -> u64 + Send>>,
    /// Tokens of the next run that were used before it.
    used_before: u64,
    state: State,
}

/// What is known of the run.
#[derive(Debug, Default)]
struct State {
    used_before: u64,
    /// All new tokens by the last iteration.
    new: Option<u64>,
    /// New tokens of the last calls.
    deltas: VecDeque<u64>,
    told_soft: bool,
    told_diminishing: bool,
    now: u64,
}

/// What happens at the hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AtHard {
    /// One more model call, without tools.
    #[default]
    LastAnswer,
    /// The run ends.
    Stop,
}

/// A share of the budget that is none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a budget's {limit} limit must be a share above 0 and at most 1, got {ratio}")]
pub struct BudgetError {
    /// Which: `soft` or `hard`.
    pub limit: &'static str,
    /// What was given.
    pub ratio: f64,
}

impl Budget {
    /// At most so many tokens, counted by the caller. With 0 it never acts. What a call adds to them is what it brings that is new.
    pub fn new(most: u64, used: impl Fn() -> u64 + Send + 'static) -> Self {
        Budget { used: Some(Box::new(used)), ..Budget::reported(most) }
    }

    /// At most so many tokens in and out, as they are reported with the answers. With 0 it never acts. Of a call of which nothing is reported,
    /// the tokens of its window and of its answer are counted, as an estimate. What a call brings that is new is its output, and what its
    /// input has more than that of the call before.
    ///
    /// A run begins with the whole budget, also one that goes on after a kill: see [`Budget::used_before`].
    pub fn reported(most: u64) -> Self {
        let (at_hard, state) = (AtHard::default(), State::default());
        Budget { most, soft: 0.8, hard: 1.0, at_hard, active: true, used: None, used_before: 0, state }
    }

    /// So many tokens of the first run's budget are used when it begins: where a process was killed in the middle of that run, and whoever
    /// started it again knows what it had cost.
    #[must_use]
    pub fn used_before(self, tokens: u64) -> Self {
        Budget { used_before: tokens, ..self }
    }

    /// The share of the budget from which the model is told, instead of 0.8.
    ///
    /// # Errors
    /// Where it is not above 0 and at most 1.
    pub fn soft(self, ratio: f64) -> Result<Self, BudgetError> {
        Ok(Budget { soft: share("soft", ratio)?, ..self })
    }

    /// The share of the budget at which it is used up, instead of 1.
    ///
    /// # Errors
    /// Where it is not above 0 and at most 1.
    pub fn hard(self, ratio: f64) -> Result<Self, BudgetError> {
        Ok(Budget { hard: share("hard", ratio)?, ..self })
    }

    /// What happens when it is used up, instead of a last answer.
    #[must_use]
    pub fn at_hard(self, at_hard: AtHard) -> Self {
        Budget { at_hard, ..self }
    }

    /// Whether it acts at all.
    #[must_use]
    pub fn active(self, active: bool) -> Self {
        Budget { active, ..self }
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
        if run.tools != super::ToolUse::Free {
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
