//! The ranges of the numbers by which an answer is sampled.

use super::{Finding, Problem, Request, Rule};

/// The members of a body that have a range, and their largest values. The smallest is zero.
const RANGES: [(&str, f64); 2] = [("temperature", 2.0), ("top_p", 1.0)];

/// Finds numbers that are outside of their range.
pub(super) fn check(rule: Rule, request: &Request) -> Vec<Finding> {
    let number = |name: &str| serde_json::from_str::<f64>(request.member(name)?.get()).ok();
    let is_outside = |(name, most): &(&str, f64)| number(name).is_some_and(|value| !(0.0..=*most).contains(&value));
    let found = RANGES.iter().filter(|range| is_outside(range));
    found.map(|(name, _)| rule.at(request.messages().len(), (*name).to_owned(), Problem::OutOfRange)).collect()
}
