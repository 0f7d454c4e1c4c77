//! The cost that providers reported, and an estimate of the cost of sending everything.

use std::ops::Add;

/// The calls with reported usage: their cost by the report, and their simulated costs with a window and without.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[doc(hidden)]
pub struct Paid {
    /// The number of these calls.
    pub calls: u64,
    /// The cost of their input, in US dollars.
    pub cost: f64,
    simulated: f64,
    without_window: f64,
    cost_squared: f64,
    simulated_squared: f64,
    cost_by_simulated: f64,
}

/// An estimated cost.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)]
pub struct Estimate {
    /// In US dollars.
    pub cost: f64,
    /// Twice its standard error: in 95 of 100 cases, the cost is nearer than this. `None` if that is unknown.
    pub error: Option<f64>,
}

impl Paid {
    /// Creates the figures of one call: its reported cost, and its simulated costs.
    pub(super) fn call(cost: f64, simulated: f64, without_window: f64) -> Paid {
        Paid {
            calls: 1,
            cost,
            simulated,
            without_window,
            cost_squared: cost * cost,
            simulated_squared: simulated * simulated,
            cost_by_simulated: cost * simulated,
        }
    }

    /// Estimates the cost of these calls if each had sent everything: the simulated cost, multiplied by the [`ratio`] of the
    /// reported to the simulated cost of what was sent.
    ///
    /// Returns `None` if fewer than two calls were reported, or if nothing has left a window, so that nothing needs to be
    /// estimated.
    pub fn everything(&self) -> Option<Estimate> {
        #[allow(clippy::cast_precision_loss, reason = "a count of calls")]
        let n = self.calls as f64;
        let is_cut = (self.without_window - self.simulated).abs() > self.simulated * 1e-9;
        if self.calls < 2 || self.simulated <= 0.0 || !is_cut {
            return None;
        }
        let squares = [self.cost_squared, self.cost_by_simulated, self.simulated_squared];
        let (ratio, error) = ratio(n, [self.cost, self.simulated], squares);
        let error = 2.0 * error * self.without_window;
        Some(Estimate { cost: ratio * self.without_window, error: error.is_finite().then_some(error) })
    }
}

/// The costs of the calls with reported usage, of one session or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[doc(hidden)]
pub struct PaidTotal {
    /// The number of these calls.
    pub calls: u64,
    /// The cost of their input, in US dollars.
    pub cost: f64,
    /// The sum of the estimates. Sessions without one sent everything, as far as that is known.
    everything: f64,
    /// Errors of different sessions are independent, so their squares add up.
    error_squared: f64,
    has_estimate: bool,
}

impl PaidTotal {
    /// Estimates the cost of these calls if each had sent everything. `None` if no session has an estimate.
    pub fn everything(&self) -> Option<Estimate> {
        let error = self.error_squared.sqrt();
        self.has_estimate.then(|| Estimate { cost: self.everything, error: error.is_finite().then_some(error) })
    }
}

impl From<Paid> for PaidTotal {
    fn from(paid: Paid) -> Self {
        let estimate = paid.everything();
        let error = estimate.map_or(0.0, |estimate| estimate.error.unwrap_or(f64::NAN));
        PaidTotal {
            calls: paid.calls,
            cost: paid.cost,
            everything: estimate.map_or(paid.cost, |estimate| estimate.cost),
            error_squared: error * error,
            has_estimate: estimate.is_some(),
        }
    }
}

impl Add for PaidTotal {
    type Output = PaidTotal;

    fn add(self, other: PaidTotal) -> PaidTotal {
        PaidTotal {
            calls: self.calls + other.calls,
            cost: self.cost + other.cost,
            everything: self.everything + other.everything,
            error_squared: self.error_squared + other.error_squared,
            has_estimate: self.has_estimate || other.has_estimate,
        }
    }
}

/// Returns the ratio of two sums over `n` observations, `[y, x]`, and its standard error, which needs the sums of
/// `[y², xy, x²]`. The error is that of a ratio estimate: `s / (m sqrt n)`, where `s` is the deviation of `y` from what
/// the ratio predicts, and `m` the mean of `x`.
#[doc(hidden)]
pub fn ratio(n: f64, [y, x]: [f64; 2], [yy, xy, xx]: [f64; 3]) -> (f64, f64) {
    let ratio = y / x;
    // The sum of (y - ratio * x)^2.
    let residuals = yy - 2.0 * ratio * xy + ratio * ratio * xx;
    let deviation = (residuals.max(0.0) / (n - 1.0)).sqrt();
    (ratio, deviation * n.sqrt() / x)
}

impl Add for Paid {
    type Output = Paid;

    fn add(self, other: Paid) -> Paid {
        Paid {
            calls: self.calls + other.calls,
            cost: self.cost + other.cost,
            simulated: self.simulated + other.simulated,
            without_window: self.without_window + other.without_window,
            cost_squared: self.cost_squared + other.cost_squared,
            simulated_squared: self.simulated_squared + other.simulated_squared,
            cost_by_simulated: self.cost_by_simulated + other.cost_by_simulated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_follows_the_ratio_of_reported_to_simulated_costs() {
        let calls = [(0.011, 0.01, 0.02), (0.019, 0.02, 0.05), (0.033, 0.03, 0.09)];
        let paid = calls.map(|(cost, with, without)| Paid::call(cost, with, without)).into_iter().reduce(Paid::add);
        let estimate = paid.unwrap().everything().unwrap();
        let ratio = 0.063 / 0.06;
        let residuals: f64 = calls.iter().map(|(cost, with, _)| (cost - ratio * with).powi(2)).sum();
        let error = 2.0 * (residuals / 2.0).sqrt() * 3_f64.sqrt() / 0.06 * 0.16;
        assert!((estimate.cost - ratio * 0.16).abs() < 1e-12, "{estimate:?}");
        assert!((estimate.error.unwrap() - error).abs() < 1e-12, "{estimate:?} {error}");
    }

    #[test]
    fn nothing_is_estimated_where_nothing_was_measured_or_cut() {
        assert_eq!(Paid::default().everything(), None);
        assert_eq!(Paid::call(0.01, 0.02, 0.02).everything(), None);
        assert_eq!(Paid::call(0.01, 0.02, 0.04).everything(), None, "one call says nothing of a ratio");
    }

    #[test]
    fn the_estimate_of_several_sessions_is_the_sum_of_theirs() {
        let one = || Paid::call(0.01, 0.01, 0.03);
        let cut = PaidTotal::from(one() + one());
        let whole = PaidTotal::from(Paid::call(1.0, 2.0, 2.0) + Paid::call(1.0, 2.0, 2.0));
        assert_eq!(whole.everything(), None);
        let estimate = (cut + whole).everything().unwrap();
        assert!((estimate.cost - 2.06).abs() < 1e-12 && estimate.error == Some(0.0), "{estimate:?}");
    }
}
