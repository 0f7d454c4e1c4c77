//! The cost that providers reported for calls, as JSON.

use lookback_replay::receipt::Paid;
use serde::Serialize;

/// The cost that the provider reported for some calls, and the estimated cost of sending everything.
#[derive(Serialize)]
pub(super) struct PaidLine {
    calls: u64,
    pub(super) cost: f64,
    pub(super) everything: Option<f64>,
    error: Option<f64>,
}

impl PaidLine {
    /// Returns the costs. `None` if nothing was reported.
    pub(super) fn new(paid: &Paid) -> Option<PaidLine> {
        let Paid { calls, cost, .. } = *paid;
        let everything = paid.everything();
        let error = everything.and_then(|estimate| estimate.error);
        (calls > 0).then(|| PaidLine { calls, cost, everything: everything.map(|estimate| estimate.cost), error })
    }
}
