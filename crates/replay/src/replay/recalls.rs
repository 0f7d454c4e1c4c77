//! The cost of recalls: the calls with which a model would bring back the texts that its window misses.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use lookback_engine::transcript::Position;

use crate::cache::Charge;
use crate::prices::Price;

/// The tokens that a model writes for a call of the tool `recall`.
const REQUEST: u64 = 60;
/// The tokens of the answer to a search: five excerpts of up to 300 characters, each with its speaker and entry.
const EXCERPTS: u64 = 475;
/// The characters of the page around a text that the tool returns, and those of them that precede the text.
const PAGE: usize = 4_000;
const BEFORE: usize = PAGE / 4;

/// The recalls of a session.
///
/// The model reads the page around each missed text. The marker of a result that was cut or cleared names its entry. For
/// other messages, the model searches the log before. The excerpts rarely have all of the wanted lines, so the
/// model reads the page as well. All of that stays in its window until the next compaction, and later calls pay for it.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    /// The tokens that recalls have added to the window.
    tokens: u64,
    /// The pages that are in the window again, as ranges of bytes of their messages.
    pages: HashMap<Position, Vec<Range<usize>>>,
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

    /// Returns the cost of recalling these texts of messages before a call with this many tokens. `is_shown` returns
    /// whether the window shows a shortened form of a message, `text` the text of a message, and `tokens` the tokens of
    /// a page.
    pub(super) fn recall(
        &mut self,
        window: u64,
        missed: &[(Position, String)],
        is_shown: impl Fn(Position) -> bool,
        text: impl Fn(Position) -> String,
        tokens: impl Fn(&str) -> u64,
        price: &Price,
    ) -> f64 {
        let mut of: BTreeMap<Position, Vec<&str>> = BTreeMap::new();
        missed.iter().for_each(|(position, missed)| of.entry(*position).or_default().push(missed));
        let (mut requests, mut answers, mut searches) = (0, 0, false);
        for (position, missed) in of {
            let text = text(position);
            let mut places: Vec<usize> = missed.iter().map(|missed| text.find(missed).unwrap_or_default()).collect();
            places.sort_unstable();
            let pages = self.pages.entry(position).or_default();
            for place in places {
                if !pages.iter().any(|page| page.contains(&place)) {
                    let page = around(&text, place);
                    requests += REQUEST;
                    answers += tokens(text.get(page.clone()).unwrap_or_default());
                    // A message without text still takes a request.
                    pages.push(page.start..page.end.max(page.start + 1));
                    searches |= !is_shown(position);
                }
            }
        }
        let mut cost = 0.0;
        let rounds = [searches.then_some((REQUEST, EXCERPTS)), (requests > 0).then_some((requests, answers))];
        for (requests, answers) in rounds.into_iter().flatten() {
            // The model's requests and their answers are written after the window, which is read.
            cost += price.cost(window + self.tokens, requests + answers, 0) + price.output_cost(requests);
            self.tokens += requests + answers;
        }
        cost
    }
}

/// Returns the page around a place in a text, as a range of bytes.
fn around(text: &str, place: usize) -> Range<usize> {
    let (before, after) = text.split_at_checked(place).unwrap_or((text, ""));
    let before: usize = before.chars().rev().take(BEFORE).map(char::len_utf8).sum();
    let after: usize = after.chars().take(PAGE - BEFORE).map(char::len_utf8).sum();
    place - before..place + after
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
        let text = |_| format!("{}needle{}thread", "a".repeat(5_000), "b".repeat(5_000));
        let tokens = |page: &str| page.len() as u64 / 4;
        let mut recalls = Recalls::default();
        let mut recall = |missed: &[&str], is_shown: bool| {
            let missed: Vec<_> = missed.iter().map(|text| (4, (*text).to_owned())).collect();
            recalls.recall(10_000, &missed, |_| is_shown, text, tokens, price)
        };
        let search = 10_000.0 * read + 535.0 * write + 60.0 * output;
        let page = 10_535.0 * read + 1_060.0 * write + 60.0 * output;
        let cost = recall(&["needle", "needle"], false);
        assert!(is_close(cost, search + page), "{cost}");
        assert!(is_close(recall(&["needle"], false), 0.0), "it is there already");
        let cost = recall(&["thread"], true);
        let page = 11_595.0 * read + (60.0 + 251.0) * write + 60.0 * output;
        assert!(is_close(cost, page), "another place takes another page, without a search: {cost}");
        let charge = |read| Charge { read, ..Charge::default() };
        assert!(is_close(recalls.carry(&charge(9_000), price), 1_906.0 * read));
        assert!(is_close(recalls.carry(&charge(0), price), 1_906.0 * write), "a cold cache is written anew");
        recalls.compact();
        assert!(is_close(recalls.carry(&charge(9_000), price), 0.0));
    }

    #[test]
    fn a_page_lies_around_its_place_in_any_text() {
        for text in ["", "é", &"é".repeat(9_000)] {
            for (place, _) in text.char_indices() {
                let page = around(text, place);
                assert!(text[page.clone()].chars().count() <= PAGE && page.contains(&place));
            }
        }
    }
}
