//! What the calls of a run cost, from the windows that were sent and the usage that was reported.

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

    /// Returns what the input of an answered call cost. Call it once for each answer.
    pub(super) fn charge(&mut self, answer: &ModelAnswer) -> Charge {
        let charge = self.cache.call(&blocks(&answer.sent), now());
        self.corrected(charge, answer)
    }

    /// Corrects a charge by the usage that was reported with an answer, as a [`Receipt`](lookback_replay::receipt::Receipt) does.
    pub(super) fn corrected(&self, charge: Charge, answer: &ModelAnswer) -> Charge {
        let reported = answer.usage.as_ref().map_or(0, |usage| usage.input);
        charge.corrected(reported, answer.sent.totals().size.tokens, &self.price)
    }
}

/// What one call cost, in US dollars.
#[cfg(feature = "otel")]
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCost {
    pub(super) input: f64,
    pub(super) output: f64,
    /// What its input would have cost without a window.
    pub(super) without_window: f64,
}

/// What calls cost, and what they would have cost without a window, as far as a middleware sees it: in the windows that
/// were sent.
#[cfg(feature = "otel")]
#[derive(Debug)]
pub(super) struct ComparedCosts {
    costs: CallCosts,
    whole: Growing,
    /// The newest message that has been sent.
    newest: Option<Position>,
    /// The messages with tokens that count only until the turn is over: where each ends in `whole`, and how many these are.
    passing: Vec<(Position, u64, u64)>,
    /// What the newest request began with: its branch, and the system prompt.
    beginning: Option<(usize, Option<u128>)>,
}

#[cfg(feature = "otel")]
impl ComparedCosts {
    pub(super) fn new(price: &Price) -> Self {
        let whole = Growing::new(price.clone());
        ComparedCosts { costs: CallCosts::new(price), whole, newest: None, passing: Vec::new(), beginning: None }
    }

    /// Takes away what has passed since the last call.
    fn end_turn(&mut self, view: &View) {
        let stays = |position| view.messages().any(|item| item.position() == position && item.size().passing > 0);
        while let Some((_, end, passing)) = self.passing.pop_if(|(position, ..)| !stays(*position)) {
            self.whole.shrink(end, passing);
        }
    }

    /// Returns what an answered call cost. Call it once for each answer.
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
            // A summary and an index stand for messages that the whole history has.
            let new = new.filter(|item| !item.stands_for_others());
            for item in new {
                self.whole.change(self.whole.tokens(), item.size().tokens);
                if item.size().passing > 0 {
                    self.passing.push((item.position(), self.whole.tokens(), item.size().passing));
                }
            }
        } else {
            self.passing.clear();
            // On another branch, or behind another system prompt, the comparison begins anew.
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
