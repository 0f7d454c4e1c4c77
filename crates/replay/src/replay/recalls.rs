//! The cost of recalls: the calls with which a model would bring back the texts that its window misses.

use std::collections::HashSet;

use lookback_engine::transcript::Position;

use crate::cache::Charge;
use crate::prices::Price;

/// The tokens that a model writes for a call of the tool `recall`.
const REQUEST: u64 = 60;
/// The tokens of the answer to a search: five excerpts of 160 characters, each with its speaker and entry.
const EXCERPTS: u64 = 300;

/// The recalls of a session.
///
/// The model reads a page of each message with a missed text. The marker of a result that was cut or cleared names its
/// entry. For other messages, the model searches the log before. The excerpts rarely have the wanted line. All of that
/// stays in its window until the next compaction, and later calls pay for it.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    /// The tokens that recalls have added to the window.
    tokens: u64,
    /// The messages that are in the window again.
    messages: HashSet<Position>,
}

impl Recalls {
    /// Forgets what recalls have added, because a compaction removes it.
    pub(super) fn compact(&mut self) {
        *self = Recalls::default();
    }

    /// Returns what a call pays for the tokens that earlier recalls have added to its window.
    pub(super) fn carry(&self, charge: &Charge, price: &Price) -> f64 {
        if charge.read > 0 { price.cost(self.tokens, 0, 0) } else { price.cost(0, self.tokens, 0) }
    }

    /// Returns the cost of recalling texts from these messages before a call with this many tokens. `is_shown` returns
    /// whether the window shows a shortened form of a message, and `page` the tokens of a page of it.
    pub(super) fn recall(
        &mut self,
        window: u64,
        messages: impl IntoIterator<Item = Position>,
        is_shown: impl Fn(Position) -> bool,
        page: impl Fn(Position) -> u64,
        price: &Price,
    ) -> f64 {
        let (mut pages, mut searches) = (0, false);
        for position in messages.into_iter().filter(|position| self.messages.insert(*position)) {
            pages += page(position);
            searches |= !is_shown(position);
        }
        let mut cost = 0.0;
        for answer in [searches.then_some(EXCERPTS), Some(pages).filter(|pages| *pages > 0)].into_iter().flatten() {
            // The model's request and its answer are written after the window, which is read.
            cost += price.cost(window + self.tokens, REQUEST + answer, 0) + price.output_cost(REQUEST);
            self.tokens += REQUEST + answer;
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::Prices;

    fn is_close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-12
    }

    #[test]
    fn a_recall_pays_for_a_search_and_a_page_and_both_stay_until_a_compaction() {
        let prices = Prices::builtin();
        let price = prices.find("anthropic-5m").unwrap();
        let (read, write, output) = (3e-6 * 0.1, 3e-6 * 1.25, 15e-6);
        let mut recalls = Recalls::default();
        let cost = recalls.recall(10_000, [4, 4], |_| false, |_| 1_000, price);
        let search = 10_000.0 * read + 360.0 * write + 60.0 * output;
        let page = 10_360.0 * read + 1_060.0 * write + 60.0 * output;
        assert!(is_close(cost, search + page), "{cost}");
        assert!(is_close(recalls.recall(10_000, [4], |_| false, |_| 1_000, price), 0.0), "it is there already");
        let charge = |read| Charge { read, ..Charge::default() };
        assert!(is_close(recalls.carry(&charge(9_000), price), 1_420.0 * read));
        assert!(is_close(recalls.carry(&charge(0), price), 1_420.0 * write), "a cold cache is written anew");
        recalls.compact();
        assert!(is_close(recalls.carry(&charge(9_000), price), 0.0));
        let cost = recalls.recall(10_000, [4], |_| true, |_| 1_000, price);
        assert!(
            is_close(cost, 10_000.0 * read + 1_060.0 * write + 60.0 * output),
            "the marker names the entry: {cost}"
        );
    }
}
