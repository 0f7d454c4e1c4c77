//! The cost of a run's calls, computed from the sent windows and the reported usage.

#[cfg(feature = "otel")]
use lookback_engine::transcript::Position;
#[cfg(feature = "otel")]
use lookback_engine::view::View;

use super::ModelAnswer;
#[cfg(feature = "otel")]
use lookback_replay::cache::Growing;
use lookback_replay::cache::{Cache, Charge, blocks};
use lookback_replay::prices::Price;
use lookback_store::now;

/// The simulated prompt cache of a run's calls.
#[derive(Debug)]
pub(super) struct CallCosts {
    pub(super) price: Price,
    cache: Cache,
}

impl CallCosts {
    pub(super) fn new(price: &Price) -> Self {
        CallCosts { price: price.clone(), cache: Cache::new(price.clone()) }
    }

    /// Returns the charge for the input of an answered call. Call it once for each answer.
    pub(super) fn charge(&mut self, answer: &ModelAnswer) -> Charge {
        let charge = self.cache.call(&blocks(&answer.sent), now());
        self.corrected(charge, answer)
    }

    /// Corrects a charge by the usage that was reported with an answer, like a
    /// [`Receipt`](lookback_replay::receipt::Receipt).
    pub(super) fn corrected(&self, charge: Charge, answer: &ModelAnswer) -> Charge {
        let reported = answer.usage.as_ref().map_or(0, |usage| usage.input);
        charge.corrected(reported, answer.sent.totals().size.tokens, &self.price)
    }
}

/// The cost of one call, in US dollars.
#[cfg(feature = "otel")]
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCost {
    pub(super) input: f64,
    pub(super) output: f64,
    /// The cost of its input without a window.
    pub(super) without_window: f64,
}

/// The costs of calls with and without a window. A middleware sees only the windows that were sent, so the whole
/// history is put together from these.
#[cfg(feature = "otel")]
#[derive(Debug)]
pub(super) struct ComparedCosts {
    costs: CallCosts,
    whole: Growing,
    /// The newest message that has been sent.
    newest: Option<Position>,
    /// The messages with passing tokens: the position of each, its end in `whole`, and the number of these tokens.
    passing: Vec<(Position, u64, u64)>,
    /// The beginning of the newest request: the number of spans in its branch, and the digest of the system prompt.
    beginning: Option<(usize, Option<u128>)>,
}

#[cfg(feature = "otel")]
impl ComparedCosts {
    pub(super) fn new(price: &Price) -> Self {
        let whole = Growing::new(price.clone());
        ComparedCosts { costs: CallCosts::new(price), whole, newest: None, passing: Vec::new(), beginning: None }
    }

    /// Removes passing tokens of turns that are over.
    fn end_turn(&mut self, view: &View) {
        let stays = |position| view.messages().any(|item| item.position() == position && item.size().passing > 0);
        while let Some((_, end, passing)) = self.passing.pop_if(|(position, ..)| !stays(*position)) {
            self.whole.shrink(end, passing);
        }
    }

    /// Returns the cost of an answered call. Call it once for each answer.
    pub(super) fn add(&mut self, answer: &ModelAnswer) -> CallCost {
        let view = &answer.sent;
        let blocks = blocks(view);
        let fixed = || blocks.iter().take_while(|block| block.fixed);
        let beginning = Some((view.path().len(), fixed().next().map(|block| block.digest)));
        if self.beginning == beginning {
            self.end_turn(view);
            let before = self.newest;
            let is_new = |position: Position| before.is_none_or(|newest| position > newest);
            let new = view.messages().filter(|item| is_new(item.position()));
            // A summary and an index represent messages that the whole history already has.
            let new = new.filter(|item| !item.stands_for_others());
            for item in new {
                self.whole.change(self.whole.tokens(), item.size().tokens);
                if item.size().passing > 0 {
                    self.passing.push((item.position(), self.whole.tokens(), item.size().passing));
                }
            }
        } else {
            self.passing.clear();
            // On another branch, or after another system prompt, the comparison restarts.
            self.whole.change(0, view.totals().size.tokens);
        }
        self.beginning = beginning;
        self.newest = view.messages().map(|item| item.position()).max().max(self.newest);
        let whole = self.whole.call(fixed().map(|block| block.tokens).sum(), now());
        let without_window = self.costs.corrected(whole, answer).cost;
        let output = answer.usage.as_ref().map_or(0, |usage| usage.output);
        let output = self.costs.price.output_cost(output);
        CallCost { input: self.costs.charge(answer).cost, output, without_window }
    }
}
