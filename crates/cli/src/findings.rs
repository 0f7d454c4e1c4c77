//! A finding, as printed text and as JSON.

use lookback_wire::dialect::{Finding, Problem, Severity};
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Line<'a> {
    rule: &'a str,
    severity: Severity,
    path: &'a str,
    problem: &'a Problem,
    message: String,
}

impl<'a> Line<'a> {
    pub(crate) fn from_finding(finding: &'a Finding) -> Line<'a> {
        let Finding { rule, severity, path, problem, .. } = finding;
        Line { rule, severity: *severity, path, problem, message: problem.to_string() }
    }

    pub(crate) fn text(&self) -> String {
        let place = if self.path.is_empty() { "request" } else { self.path };
        let warns = if self.severity == Severity::Degraded { "warning: " } else { "" };
        format!("{warns}{place}: {}: {}", self.rule, self.message)
    }
}
