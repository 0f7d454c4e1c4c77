//! The budget of a run, in tokens and in US dollars: it nudges the model when most of it is used or the calls bring
//! little progress, and ends the run when it is used up.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::cost::CallCosts;
use super::end::dollars;
use super::{EndReason, Event, Failure, Middleware, ModelAnswer, OnFailure, Reaction, Run};
use lookback_replay::prices::Price;
use lookback_replay::receipt::Receipt;

/// The number of calls in a row with few new tokens, after which the model is nudged.
const CALLS: usize = 3;
/// A call with fewer new tokens than this has few.
const LITTLE: u64 = 500;
/// The instruction to the model when most of the budget is used.
const TO_THE_END: &str = "Bring the task to its end: answer with what you have, or make only the calls that the answer \
                          needs.";

/// A limit on the tokens and the cost of a run.
///
/// It nudges the model when most of the budget is used, and when each of three calls in a row brought fewer than 500
/// new tokens. Each nudge comes once in a run. At the hard limit, the model gives its last answer, or the run ends. The
/// budget fails closed, because a run with unknown costs must not continue.
///
/// ```
/// use lookback_agent::{AtHard, Budget};
///
/// let budget = Budget::new(100_000, || 0).with_soft(0.7)?.with_hard(0.95)?.with_at_hard(AtHard::Stop);
/// assert!(budget.with_soft(f64::NAN).is_err());
/// # Ok::<(), lookback_agent::BudgetError>(())
/// ```
pub struct Budget {
    most: u64,
    soft: f64,
    hard: f64,
    at_hard: AtHard,
    active: bool,
    used: Option<Box<dyn Fn() -> u64 + Send>>,
    /// Tokens of the next run's budget that are already used.
    used_before: u64,
    money: Option<Money>,
    state: State,
}

/// A budget in US dollars. Amounts are in millionths.
#[derive(Debug)]
struct Money {
    most: u64,
    costs: CallCosts,
    /// Whether the budget is for all runs of the session together, not for each run.
    is_session: bool,
    /// The cost so far, in US dollars.
    spent: f64,
    /// The run's tokens at the time of the last charge.
    paid: u64,
    told_soft: bool,
}

impl Money {
    fn begin_run(&mut self) {
        if !self.is_session {
            self.spent = 0.0;
        }
        (self.paid, self.told_soft) = (0, false);
    }

    /// Charges an answered call.
    fn pay(&mut self, answer: &ModelAnswer, run: &Run) {
        let charge = self.costs.charge(answer);
        let tokens = run.spent.saturating_sub(std::mem::replace(&mut self.paid, run.spent));
        let output = match &answer.usage {
            Some(usage) => usage.output,
            None => tokens.saturating_sub(charge.sent()),
        };
        self.spent += charge.cost + self.costs.price.output_cost(output);
    }
}

/// The state of the current run.
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

/// The effect of a budget's hard limit.
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
    pub(crate) ratio: f64,
}

impl Budget {
    /// Creates a budget of tokens that the caller counts. The growth of that count during a call is the number of the
    /// call's new tokens. A budget of 0 never acts.
    pub fn new(most: u64, used: impl Fn() -> u64 + Send + 'static) -> Self {
        Budget { used: Some(Box::new(used)), ..Budget::reported(most) }
    }

    /// Creates a budget of input and output tokens, as reported with the answers. If nothing is reported for a call,
    /// the tokens of its window and its answer are estimated. The new tokens of a call are its output, plus the growth
    /// of its input since the previous call. A budget of 0 never acts.
    ///
    /// Each run begins with the whole budget, even if it continues a run whose process was killed (see
    /// [`Budget::with_used_before`]).
    pub fn reported(most: u64) -> Self {
        let (at_hard, state) = (AtHard::default(), State::default());
        Budget { most, soft: 0.8, hard: 1.0, at_hard, active: true, used: None, used_before: 0, money: None, state }
    }

    /// Creates a budget of US dollars for each run (see [`Budget::with_cost`]), with no limit on its tokens.
    ///
    /// ```
    /// use lookback_replay::prices::Prices;
    /// use lookback_agent::Budget;
    ///
    /// let prices = Prices::builtin();
    /// let budget = Budget::cost(5.00, prices.find("claude-sonnet-4-5").unwrap());
    /// # let _ = budget;
    /// ```
    pub fn cost(dollars: f64, price: &Price) -> Self {
        Budget::reported(0).with_cost(dollars, price)
    }

    /// Also limits the cost of each run, in US dollars at this price.
    ///
    /// The cost of a call is that of its input, with a simulated prompt cache, and of its output. Both are corrected by
    /// the usage that is reported with the answer; without a report, they are estimated. If the price has no output
    /// price, only the input counts.
    ///
    /// An amount below half a millionth of a dollar, or NaN, allows no call. Without this method, the cost is not
    /// limited.
    #[must_use]
    pub fn with_cost(self, dollars: f64, price: &Price) -> Self {
        self.with_money(dollars, price, None)
    }

    /// Limits the cost of all runs of the session together, in US dollars at this price, as [`Budget::with_cost`] does
    /// for each run. Pass the session's receipt at the same price, from before its next run.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_agent::{Budget, Pipeline};
    /// use lookback_store::MemoryStore;
    /// use lookback_replay::{prices::Prices, receipt::Receipt};
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let price = Prices::builtin().find("anthropic-5m").unwrap().clone();
    /// let mut session = Session::open(MemoryStore::new(), "agent-1", Settings::default()).await?;
    /// let before = Receipt::for_session(&session, &price).await?;
    /// let budget = Budget::reported(1_000_000).with_session_cost(20.00, &price, &before);
    /// let run = Pipeline::new(session).with(budget);
    /// # let _ = run;
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn with_session_cost(self, dollars: f64, price: &Price, before: &Receipt) -> Self {
        self.with_money(dollars, price, Some(before))
    }

    fn with_money(self, dollars: f64, price: &Price, before: Option<&Receipt>) -> Self {
        let spent = before.map_or(0.0, |before| before.total.cost + price.output_cost(before.total.output_tokens));
        let (costs, is_session) = (CallCosts::new(price), before.is_some());
        let money = Money { most: millionths(dollars), costs, is_session, spent, paid: 0, told_soft: false };
        Budget { money: Some(money), ..self }
    }

    /// Sets the tokens of the first run's budget that are used when it begins. Use it to continue a run whose process
    /// was killed, if you know the tokens that it had used.
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

    /// Sets the share at which the budget is used up. The default is 1.
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

    /// Disables the budget, so it never acts.
    #[must_use]
    pub fn disabled(self) -> Self {
        Budget { active: false, ..self }
    }

    fn begin_iteration(&mut self, new: u64) -> Reaction {
        let used = self.state.now;
        if let Some(before) = self.state.new.replace(new) {
            self.state.deltas.push_back(new.saturating_sub(before));
            if self.state.deltas.len() > CALLS {
                self.state.deltas.pop_front();
            }
        }
        let limit = share_of(self.most, self.hard);
        if self.most > 0 && used >= limit {
            let said = format!("Token budget: {used} of {limit} tokens are used up.");
            return self.end(&said, EndReason::Budget { used, limit });
        }
        let Some(money) = &self.money else { return Reaction::none() };
        let (spent, limit) = (millionths(money.spent), share_of(money.most, self.hard));
        if spent >= limit {
            let said = format!("Cost budget: {} of {} is spent.", dollars(spent), dollars(limit));
            return self.end(&said, EndReason::Cost { spent, limit });
        }
        Reaction::none()
    }

    /// Ends the run, or asks for its last answer.
    fn end(&self, said: &str, reason: EndReason) -> Reaction {
        match self.at_hard {
            AtHard::Stop => Reaction::none().stop(reason),
            AtHard::LastAnswer => Reaction::none()
                .note(format!(
                    "{said} This is the last answer, without tools: give what you have found, and say what is missing."
                ))
                .last_answer(reason),
        }
    }

    fn nudge(&mut self, run: &Run) -> Reaction {
        let (used, most) = (self.state.now, self.most);
        if run.tools != super::ToolUse::Allowed {
            return Reaction::none();
        }
        let soft = self.soft;
        let percent = |used: u64, most: u64| u128::from(used) * 100 / u128::from(most.max(1));
        if most > 0 && used >= share_of(most, soft) && !self.state.told_soft {
            self.state.told_soft = true;
            let percent = percent(used, most);
            return Reaction::none()
                .note(format!("Token budget: {used} of {most} tokens are used ({percent} %). {TO_THE_END}"));
        }
        if let Some(money) = self.money.as_mut().filter(|money| !money.told_soft)
            && millionths(money.spent) >= share_of(money.most, soft)
        {
            money.told_soft = true;
            let (spent, most) = (millionths(money.spent), money.most);
            let percent = percent(spent, most);
            return Reaction::none().note(format!(
                "Cost budget: {} of {} is spent ({percent} %). {TO_THE_END}",
                dollars(spent),
                dollars(most)
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

/// Returns a share of a budget, rounded up.
fn share_of(most: u64, ratio: f64) -> u64 {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a budget is far below 2^52, and `as` saturates"
    )]
    let share = (most as f64 * ratio).ceil() as u64;
    share
}

/// Converts US dollars to millionths. NaN becomes 0.
fn millionths(dollars: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let millionths = (dollars * 1e6).round() as u64;
    millionths
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
        self.active && (self.most > 0 || self.money.is_some())
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        Ok(match event {
            Event::Start => {
                self.state = State { used_before: std::mem::take(&mut self.used_before), ..State::default() };
                if let Some(money) = &mut self.money {
                    money.begin_run();
                }
                Reaction::none()
            }
            Event::BeforeIteration => {
                let counted = self.used.as_ref().map(|used| used());
                self.state.now = counted.unwrap_or(run.spent).saturating_add(self.state.used_before);
                self.begin_iteration(counted.unwrap_or(run.new_tokens))
            }
            Event::BeforeModel => self.nudge(run),
            Event::AfterModel(answer) => {
                if let Some(money) = &mut self.money {
                    money.pay(answer, run);
                }
                Reaction::none()
            }
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
            .field("money", &self.money.as_ref().map(|money| (money.most, money.spent)))
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
