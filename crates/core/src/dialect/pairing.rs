//! The rule that all providers share: each tool call is answered, once, right after the message that made it.

use super::{Dialect, Finding, Problem, Rule};
use crate::message::{Message, PartRef, Role};

/// Which of a dialect's rules each fault of pairing breaks.
pub(super) struct PairingRules {
    pub(super) missing: Rule,
    pub(super) orphan: Rule,
    pub(super) duplicate_result: Rule,
    pub(super) duplicate_call: Rule,
    /// Where the results must come first in their message.
    pub(super) results_first: Option<Rule>,
    /// Whether identifiers are unique in the request, not only in the message.
    pub(super) unique_in_request: bool,
}

impl Rule {
    pub(super) fn at(&self, message: usize, path: String, problem: Problem) -> Finding {
        Finding { rule: self.id, severity: self.severity, message, path, problem }
    }
}

/// Checks the pairing of calls and results over a list of messages.
pub(super) fn check(dialect: Dialect, rules: &PairingRules, messages: &[Message]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = std::collections::HashSet::new();
    // The calls that wait for a result: identifier, message, part, answered.
    let mut open: Vec<(&str, usize, usize, bool)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let path = |part| dialect.path(index, message, part);
        let answers = message.role() == Role::User && message.tool_results().next().is_some();
        if !answers {
            close(dialect, rules, messages, &mut open, &mut findings);
        }
        for (part, result) in message.tool_results() {
            let id = result.call_id.as_str();
            if let Some(call) = open.iter_mut().find(|call| call.0 == id && !call.3) {
                call.3 = true;
            } else if open.iter().any(|call| call.0 == id) {
                let problem = Problem::DuplicateResult { id: id.to_owned() };
                findings.push(rules.duplicate_result.at(index, path(part), problem));
            } else {
                findings.push(rules.orphan.at(index, path(part), Problem::OrphanResult { id: id.to_owned() }));
            }
        }
        if let Some(rule) = rules.results_first.filter(|_| answers) {
            let mut parts = message.parts().enumerate();
            let other = parts.find(|(_, part)| !matches!(part, PartRef::ToolResult(_))).map(|(part, _)| part);
            let later = parts.any(|(_, part)| matches!(part, PartRef::ToolResult(_)));
            if let (Some(part), true) = (other, later) {
                findings.push(rule.at(index, path(part), Problem::ResultsNotFirst));
            }
        }
        // A message that holds more than results ends the run in which results may stand.
        if answers && message.opens_turn() {
            close(dialect, rules, messages, &mut open, &mut findings);
        }
        for (part, call) in message.tool_calls() {
            let id = call.id.as_str();
            if open.iter().any(|other| other.0 == id) || (!seen.insert(id) && rules.unique_in_request) {
                findings.push(rules.duplicate_call.at(index, path(part), Problem::DuplicateCall { id: id.to_owned() }));
            }
            open.push((id, index, part, false));
        }
    }
    close(dialect, rules, messages, &mut open, &mut findings);
    findings
}

fn close(
    dialect: Dialect,
    rules: &PairingRules,
    messages: &[Message],
    open: &mut Vec<(&str, usize, usize, bool)>,
    findings: &mut Vec<Finding>,
) {
    for (id, index, part, answered) in open.drain(..) {
        if let (false, Some(message)) = (answered, messages.get(index)) {
            let problem = Problem::MissingResult { id: id.to_owned() };
            findings.push(rules.missing.at(index, dialect.path(index, message, part), problem));
        }
    }
}
