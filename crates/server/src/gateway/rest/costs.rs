//! The cost of sessions with and without a window, in the REST API.

use axum::Extension;
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::fault::Faults;
use crate::gateway::admission::Admission;
use crate::gateway::report::payoff::{self, Verdict};
use crate::gateway::report::simulated::Simulated;

/// The cost of sessions since the gateway started, by the provider's own reports.
#[derive(Serialize, ToSchema)]
pub(super) struct Payoff {
    /// Sessions that are sent with their window.
    windowed: Arm,
    /// Sessions that are left alone, for comparison. There are none unless the gateway has a `holdout`.
    held_out: Arm,
    /// The simulated cost of conversations that are sent as they come, and of their windows. Only with `--shadow`, and
    /// without the newest calls of each conversation, at most one in 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<Simulated>,
    /// Whether a call costs less with a window.
    per_call: Verdict,
    /// Whether a turn costs less with a window.
    per_turn: Verdict,
}

/// The cost of sessions in one arm.
#[derive(Serialize, ToSchema)]
pub(super) struct Arm {
    /// Sessions with an answer whose cost is known.
    sessions: f64,
    /// Answers whose cost is known.
    calls: f64,
    /// Those of them that answer a new message from a person.
    turns: f64,
    /// Answers whose cost is not known.
    unpriced_calls: u64,
    /// The cost of the answers, in US dollars.
    dollars: f64,
    /// The cost of a call.
    per_call: Option<Figure>,
    /// The cost of a turn.
    per_turn: Option<Figure>,
}

/// A figure in US dollars.
#[derive(Serialize, ToSchema)]
pub(super) struct Figure {
    dollars: f64,
    /// Its standard error, with each session as one observation. Unknown for a single session.
    error: Option<f64>,
}

/// Show whether windows pay
#[utoipa::path(get, path = "/payoff", tag = "figures", responses(
    (status = 200, description = "The cost of sessions", body = Payoff), Faults,
))]
pub(super) async fn payoff(Extension(admission): Extension<Admission>) -> Json<Payoff> {
    let tenant = admission.caller.tenant.as_ref();
    let [windowed, held_out] = admission.shared.payoff.sums_for(tenant);
    let shadow = admission.shared.shadows.of(tenant);
    let per_call = Verdict::from_ratios(windowed.per_call(), held_out.per_call());
    let per_turn = Verdict::from_ratios(windowed.per_turn(), held_out.per_turn());
    Json(Payoff { windowed: Arm::from(&windowed), held_out: Arm::from(&held_out), shadow, per_call, per_turn })
}

impl From<&payoff::Sums> for Arm {
    fn from(sums: &payoff::Sums) -> Arm {
        let figure = |payoff::Ratio { value, error, .. }| {
            value.is_finite().then(|| Figure { dollars: value, error: error.is_finite().then_some(error) })
        };
        let payoff::Spent { calls, turns, dollars } = sums.all;
        Arm {
            sessions: sums.sessions,
            calls,
            turns,
            unpriced_calls: sums.unpriced,
            dollars,
            per_call: figure(sums.per_call()),
            per_turn: figure(sums.per_turn()),
        }
    }
}
