//! The choice of a policy: the cheapest within bounds, and how sure the choice is.

use lookback_replay::replay::Report;

use super::resample::{interval, resamples};
use crate::args::TuneArgs;

/// The fewest recordings whose samples show how sure a choice is.
pub(super) const FEWEST: usize = 10;

/// The number of samples of the recordings.
pub(super) const SAMPLES: u16 = 1_000;

const SEED: u64 = 1;

/// The most that a policy may miss, as shares. `None` means as much as the default misses.
#[derive(Default)]
pub(super) struct Bounds {
    identifiers: Option<f64>,
    spans: Option<f64>,
    calls: Option<f64>,
}

impl Bounds {
    pub(super) fn from_args(args: &TuneArgs) -> Bounds {
        let share = |percent: Option<f64>| percent.map(|percent| percent / 100.0);
        Bounds { identifiers: share(args.missed), spans: share(args.spans), calls: share(args.calls) }
    }

    /// Returns whether the default sets all bounds.
    pub(super) fn are_usual(&self) -> bool {
        self.identifiers.is_none() && self.spans.is_none() && self.calls.is_none()
    }

    /// Returns whether a policy is within the bounds, given the default on the same recordings.
    fn allow(&self, policy: &Report, usual: &Report) -> bool {
        let (missed, usual) = (policy.missed(), usual.missed());
        missed.identifiers <= self.identifiers.unwrap_or(usual.identifiers)
            && missed.spans <= self.spans.unwrap_or(usual.spans)
            && missed.calls <= self.calls.unwrap_or(usual.calls)
    }
}

/// Returns the index of the policy within the bounds that costs least with recalls. The first total must be that of the
/// default, which wins a tie.
pub(super) fn cheapest(totals: &[Report], bounds: &Bounds) -> Option<usize> {
    let usual = totals.first()?;
    let allowed = totals.iter().enumerate().filter(|(_, total)| bounds.allow(total, usual));
    let cheapest = allowed.min_by(|(_, a), (_, b)| a.cost_with_recalls().total_cmp(&b.cost_with_recalls()));
    cheapest.map(|(index, _)| index)
}

/// How sure it is that a policy is better than the default, measured over samples of the recordings.
pub(super) struct Sureness {
    /// The bounds of 95 % of the samples: cost with recalls, relative to the default.
    pub(super) low: f64,
    pub(super) high: f64,
    /// The share of samples in which the policy costs less than the default and is within the bounds.
    pub(super) better: f64,
}

/// Returns how sure it is that the policy with this index is better than the first. Each row has the reports of one
/// recording. `None` if there are fewer than [`FEWEST`].
pub(super) fn sureness(rows: &[Vec<Report>], index: usize, bounds: &Bounds) -> Option<Sureness> {
    let pairs: Vec<_> = rows.iter().filter_map(|row| Some((row.get(index)?, row.first()?))).collect();
    if pairs.len() < FEWEST {
        return None;
    }
    let (mut times, mut better) = (Vec::new(), 0.0);
    for sample in resamples(pairs.len(), usize::from(SAMPLES), SEED) {
        let (mut policy, mut usual) = (Report::default(), Report::default());
        for (own, default) in sample.iter().filter_map(|index| pairs.get(*index)) {
            policy.add(own);
            usual.add(default);
        }
        let is_cheaper = policy.cost_with_recalls() < usual.cost_with_recalls();
        better += f64::from(is_cheaper && bounds.allow(&policy, &usual));
        times.push(policy.cost_with_recalls() / usual.cost_with_recalls());
    }
    let (low, high) = interval(times)?;
    Some(Sureness { low, high, better: better / f64::from(SAMPLES) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cost: f64, recalls: f64, missed: u64) -> Report {
        let mut report = Report::new("total", "policy");
        (report.cost, report.recall_cost) = (cost, recalls);
        (report.calls, report.missed_calls) = (100, missed);
        (report.reused_identifiers, report.missed_identifiers) = (100, missed);
        (report.copied_spans, report.missed_spans) = (100, missed);
        report
    }

    fn bounds(identifiers: f64) -> Bounds {
        Bounds { identifiers: Some(identifiers), spans: Some(1.0), calls: Some(1.0) }
    }

    #[test]
    fn the_cheapest_with_recalls_wins_if_it_misses_no_more_than_the_default() {
        let totals = [report(10.0, 1.0, 5), report(1.0, 1.0, 6), report(7.0, 3.0, 5), report(8.0, 0.5, 4)];
        assert_eq!(cheapest(&totals, &Bounds::default()), Some(3));
        assert_eq!(cheapest(&totals, &bounds(0.06)), Some(1));
        assert_eq!(cheapest(&totals, &bounds(0.05)), Some(3));
        assert_eq!(cheapest(&totals, &bounds(0.03)), None);
        assert_eq!(cheapest(&totals[..1], &Bounds::default()), Some(0));
        assert_eq!(cheapest(&[report(1.0, 0.0, 5), report(1.0, 0.0, 5)], &Bounds::default()), Some(0), "a tie");
    }

    #[test]
    fn each_bound_counts() {
        let usual = report(1.0, 0.0, 5);
        let parts: [fn(&mut Report); 3] = [
            |report| report.missed_identifiers = 6,
            |report| report.missed_spans = 6,
            |report| report.missed_calls = 6,
        ];
        for part in parts {
            let mut worse = report(0.5, 0.0, 0);
            part(&mut worse);
            assert!(!Bounds::default().allow(&worse, &usual));
        }
    }

    #[test]
    fn recordings_that_agree_are_sure_and_others_are_not() {
        let sure = |costs: [f64; 2]| {
            let row = |index: usize| vec![report(1.0, 0.0, 5), report(costs[index % 2], 0.0, 5)];
            sureness(&(0..20).map(row).collect::<Vec<_>>(), 1, &Bounds::default()).unwrap()
        };
        let agree = sure([0.8, 0.9]);
        assert!(agree.better > 0.999 && 0.8 < agree.low && agree.low < 0.85 && 0.85 < agree.high && agree.high < 0.9);
        let disagree = sure([0.2, 1.7]);
        assert!(disagree.low < 0.7 && disagree.high > 1.2 && (0.5..0.9).contains(&disagree.better));
    }

    #[test]
    fn a_policy_that_misses_more_in_a_sample_is_not_better_in_it() {
        // In total it misses as much, but it misses less in half of the recordings and more in the other half.
        let row = |index: u64| vec![report(1.0, 0.0, 5), report(0.5, 0.0, 10 * (index % 2))];
        let sureness = sureness(&(0..20).map(row).collect::<Vec<_>>(), 1, &Bounds::default()).unwrap();
        assert!((0.4..0.8).contains(&sureness.better), "{}", sureness.better);
        assert!((sureness.low, sureness.high) == (0.5, 0.5));
    }

    #[test]
    fn few_recordings_are_too_few_to_tell() {
        let rows = vec![vec![report(1.0, 0.0, 5), report(0.5, 0.0, 5)]; FEWEST];
        assert!(sureness(&rows, 1, &Bounds::default()).is_some());
        assert!(sureness(&rows[1..], 1, &Bounds::default()).is_none());
    }
}
