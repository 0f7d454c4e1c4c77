//! Reports of a gateway's work: headers for the client, a log, costly habits, metrics, traces, and savings of windows.

pub(crate) mod event;
pub(crate) mod habits;
pub(crate) mod metrics;
pub(crate) mod note;
pub(crate) mod payoff;
pub(crate) mod simulated;
#[cfg_attr(not(feature = "otel"), path = "no_telemetry.rs")]
pub(crate) mod telemetry;
