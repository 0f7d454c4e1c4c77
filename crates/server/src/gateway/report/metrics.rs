//! The counters of the gateway, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

use crate::gateway::report::payoff::{Figure, Payoff};
use crate::gateway::report::simulated::Simulated;

/// Counters since the gateway started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    answered: [AtomicU64; 5],
    windows: AtomicU64,
    cut: AtomicU64,
    overflows: AtomicU64,
    refused: AtomicU64,
    store: AtomicU64,
    reasoning: AtomicU64,
    compressed: [AtomicU64; 2],
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    /// Counts an answer by the first digit of its status.
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        self.answered.get(class).iter().for_each(|counter| add(counter));
    }

    pub(crate) fn window(&self, is_cut: bool) {
        add(&self.windows);
        if is_cut {
            add(&self.cut);
        }
    }

    pub(crate) fn overflow(&self) {
        add(&self.overflows);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused);
    }

    pub(crate) fn store_failed(&self) {
        add(&self.store);
    }

    /// Counts a window that was made for a request that others send.
    pub(crate) fn compressed(&self, is_cut: bool) {
        self.compressed.get(usize::from(is_cut)).iter().for_each(|counter| add(counter));
    }

    /// Counts parts of reasoning that a provider has left out.
    pub(crate) fn reasoning_lost(&self, parts: usize) {
        self.reasoning.fetch_add(parts as u64, Ordering::Relaxed);
    }

    /// Writes all counters.
    pub(crate) fn text(&self, payoff: &Payoff, shadows: Option<Simulated>) -> String {
        let mut out = String::new();
        let mut write = |name: &str, help: &str, values: &[(&str, &AtomicU64)]| {
            let _ = writeln!(out, "# HELP lookback_{name} {help}\n# TYPE lookback_{name} counter");
            for (label, value) in values {
                let _ = writeln!(out, "lookback_{name}{label} {}", value.load(Ordering::Relaxed));
            }
        };
        let classes =
            ["{status=\"1xx\"}", "{status=\"2xx\"}", "{status=\"3xx\"}", "{status=\"4xx\"}", "{status=\"5xx\"}"];
        let answered: Vec<_> = classes.into_iter().zip(&self.answered).collect();
        write("answers_total", "Answers to clients.", &answered);
        write("windows_total", "Requests that belong to a session.", &[("", &self.windows)]);
        write("cut_windows_total", "Those of them that were sent without all of their history.", &[("", &self.cut)]);
        write(
            "overflows_total",
            "Requests that the upstream refused as too long, and that were made smaller.",
            &[("", &self.overflows)],
        );
        write("refused_total", "Refusals of the upstream that were passed on.", &[("", &self.refused)]);
        write("store_failures_total", "Requests or answers that the store failed for.", &[("", &self.store)]);
        write(
            "lost_reasoning_total",
            "Parts of requests' reasoning that providers say they left out, for whatever reason.",
            &[("", &self.reasoning)],
        );
        let [whole, cut] = &self.compressed;
        write(
            "compressed_total",
            "Windows that were made for requests that others send.",
            &[("{cut=\"false\"}", whole), ("{cut=\"true\"}", cut)],
        );
        for Figure { name, help, values } in payoff.figures() {
            let _ = writeln!(out, "# HELP lookback_{name} {help}\n# TYPE lookback_{name} gauge");
            for (arm, value) in values.into_iter().filter(|(_, value)| value.is_finite()) {
                let _ = writeln!(out, "lookback_{name}{{arm=\"{arm}\"}} {value}");
            }
        }
        if let Some(Simulated { calls, everything, windows }) = shadows {
            let help = "Calls that were sent as they came, without the newest sixteenth of a conversation.";
            let _ = writeln!(out, "# HELP lookback_shadow_calls {help}\n# TYPE lookback_shadow_calls gauge");
            let _ = writeln!(out, "lookback_shadow_calls {calls}");
            let help = "Their simulated cost with their answers, as they were sent and with windows.";
            let _ = writeln!(out, "# HELP lookback_shadow_dollars {help}\n# TYPE lookback_shadow_dollars gauge");
            let _ = writeln!(out, "lookback_shadow_dollars{{sent=\"everything\"}} {everything}");
            let _ = writeln!(out, "lookback_shadow_dollars{{sent=\"windows\"}} {windows}");
        }
        let help = "Whether windows pay: 1 if they do, -1 if they do not, 0 if that is not clear yet.";
        let _ = writeln!(out, "# HELP lookback_payoff_verdict {help}\n# TYPE lookback_payoff_verdict gauge");
        for (per, verdict) in payoff.verdicts() {
            let _ = writeln!(out, "lookback_payoff_verdict{{per=\"{per}\"}} {verdict}");
        }
        out
    }
}
