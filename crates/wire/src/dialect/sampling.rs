//! Checks the ranges of sampling parameters.

use super::{Finding, ProblemKind, Request, Rule};

/// The sampling parameters of a body, with their maximum values. The minimum is 0.
const RANGES: [(&str, f64); 2] = [("temperature", 2.0), ("top_p", 1.0)];

/// Finds sampling parameters outside their range.
pub(super) fn check(rule: Rule, request: &Request) -> Vec<Finding> {
    let number = |name: &str| serde_json::from_str::<f64>(request.member(name)?.get()).ok();
    let is_outside = |(name, most): &(&str, f64)| number(name).is_some_and(|value| !(0.0..=*most).contains(&value));
    let found = RANGES.iter().filter(|range| is_outside(range));
    found.map(|(name, _)| rule.at(request.messages().len(), (*name).to_owned(), ProblemKind::OutOfRange)).collect()
}
