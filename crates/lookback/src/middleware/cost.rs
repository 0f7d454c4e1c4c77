//! What the calls of a run cost, from the windows that were sent and the usage that was reported.

use super::ModelAnswer;
use crate::cache::{Cache, Charge, blocks};
use crate::prices::Price;
use crate::session::now;

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

    /// Corrects a charge by the usage that was reported with an answer, as a [`Receipt`](crate::Receipt) does.
    pub(super) fn corrected(&self, charge: Charge, answer: &ModelAnswer) -> Charge {
        let reported = answer.usage.as_ref().map_or(0, |usage| usage.input);
        charge.corrected(reported, answer.sent.totals().size.tokens, &self.price)
    }
}
