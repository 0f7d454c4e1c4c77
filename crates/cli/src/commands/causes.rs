//! The causes of misses in a sentence.

use std::collections::BTreeMap;

use lookback_replay::replay::{Cause, Report};

/// Returns the share of each cause of missed identifiers and spans, the largest first, such as `61 % capped, 39 %
/// dropped`. Without misses, returns `-`.
pub(super) fn causes(report: &Report) -> String {
    let mut counts: BTreeMap<Cause, u64> = report.missed_spans_by.clone();
    for (cause, count) in &report.missed_identifiers_by {
        *counts.entry(*cause).or_default() += count;
    }
    let total: u64 = counts.values().sum();
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    #[allow(clippy::cast_precision_loss, reason = "shown without decimals")]
    let share = |(cause, count): (Cause, u64)| format!("{:.0} % {cause}", 100.0 * count as f64 / total as f64);
    let shares: Vec<String> = counts.into_iter().map(share).collect();
    if shares.is_empty() { "-".to_owned() } else { shares.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_named_with_their_shares_the_largest_first() {
        let mut report = Report::new("notes", "default");
        assert_eq!(causes(&report), "-");
        report.missed_identifiers_by = [(Cause::Capped, 1), (Cause::Dropped, 4)].into();
        report.missed_spans_by = [(Cause::Capped, 2), (Cause::Dropped, 5)].into();
        assert_eq!(causes(&report), "75 % dropped, 25 % capped");
    }
}
