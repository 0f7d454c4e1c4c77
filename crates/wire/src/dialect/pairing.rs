//! The rule that all providers share: each tool call has one result, directly after its message.

use std::cell::LazyCell;
use std::collections::{HashMap, VecDeque};

use super::{Dialect, Finding, Place, Problem, ProblemKind, Request, Rule};
use crate::message::{Message, PartRef, ToolCall};
use crate::wire::Role;

/// The rules of a dialect that faults of pairing break.
pub(super) struct PairingRules {
    pub(super) missing: Rule,
    pub(super) orphan: Rule,
    pub(super) duplicate_result: Rule,
    pub(super) duplicate_call: Rule,
    /// The rule that results come first in their message, if the dialect has one.
    pub(super) results_first: Option<Rule>,
    /// Whether results must come directly after their calls, with no other message between.
    pub(super) adjacent: bool,
    /// Whether neighbors of one role are one message.
    pub(super) merges_neighbors: bool,
}

impl Rule {
    pub(super) fn at(&self, message: usize, path: String, problem: ProblemKind) -> Finding {
        Finding { rule: self.id, severity: self.severity, message, path, problem: Problem(problem) }
    }
}

/// The calls that wait for a result, indexed by identifier.
#[derive(Default)]
struct OpenCalls<'a> {
    calls: Vec<OpenCall<'a>>,
    /// For each identifier, the calls that have no result yet. The queue is empty if all have one.
    waiting: HashMap<&'a str, VecDeque<usize>>,
    /// The calls of each tool. Answered calls at the front are removed during a search.
    of_tool: HashMap<&'a str, VecDeque<usize>>,
}

struct OpenCall<'a> {
    id: &'a str,
    /// Whether the call has an identifier, and not only the name of its tool.
    is_named: bool,
    place: Place<'a>,
    part: usize,
    answered: bool,
}

impl<'a> OpenCalls<'a> {
    fn push(&mut self, call: &'a ToolCall, place: Place<'a>, part: usize) {
        self.waiting.entry(&call.id).or_default().push_back(self.calls.len());
        self.of_tool.entry(&call.name).or_default().push_back(self.calls.len());
        self.calls.push(OpenCall { id: &call.id, is_named: call.form.is_none(), place, part, answered: false });
    }

    /// Returns whether there is a call with this identifier, answered or not.
    fn has(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    /// Returns whether a call with this identifier waits for its result.
    fn waits(&self, id: &str) -> bool {
        self.waiting.get(id).is_some_and(|calls| !calls.is_empty())
    }

    /// Marks the first waiting call of a tool as answered. Returns whether it has an identifier, or `None` if no call
    /// waits.
    fn answer_tool(&mut self, tool: &str) -> Option<bool> {
        let of_tool = self.of_tool.get_mut(tool)?;
        while let Some(call) = of_tool.pop_front().and_then(|first| self.calls.get_mut(first)) {
            if !std::mem::replace(&mut call.answered, true) {
                return Some(call.is_named);
            }
        }
        None
    }

    /// Marks the first waiting call of an identifier as answered. Returns `false` if no call waits.
    fn answer(&mut self, id: &str) -> bool {
        let first = self.waiting.get_mut(id).and_then(VecDeque::pop_front);
        let call = first.and_then(|first| self.calls.get_mut(first));
        call.is_some_and(|call| !std::mem::replace(&mut call.answered, true))
    }
}

/// Checks the pairing of calls and results over a list of messages.
pub(super) fn check(dialect: Dialect, rules: &PairingRules, messages: &[Message]) -> Vec<Finding> {
    let results_by_name = dialect.quirks().results_by_name;
    let mut findings = Vec::new();
    let mut open = OpenCalls::default();
    let mut before = None;
    for place in Place::all(messages) {
        let Place { index, message, .. } = place;
        let path = LazyCell::new(|| dialect.paths(&place));
        let answers = message.role() == Role::User && place.is_result;
        let continues = rules.merges_neighbors && message.role() == Role::Assistant && before == Some(Role::Assistant);
        before = Some(message.role());
        if !answers && !continues && rules.adjacent {
            close(dialect, rules, &mut open, &mut findings);
        }
        for (part, result) in message.tool_results() {
            let id = result.call_id.as_str();
            let is_by_name = results_by_name && (result.names_only_tool() || !open.has(id));
            let by_tool = if is_by_name { result.tool.as_deref() } else { None };
            if open.answer(id) {
                continue;
            }
            if let Some(is_named) = by_tool.and_then(|tool| open.answer_tool(tool)) {
                // The result names another call than the one that it answers. It is unknown whether the provider checks
                // that.
                if is_named && !result.names_only_tool() {
                    let problem = ProblemKind::OrphanResult { id: id.to_owned() };
                    findings.push(rules.orphan.as_warning().at(index, path(part), problem));
                }
                continue;
            }
            if open.has(id) {
                let problem = ProblemKind::DuplicateResult { id: id.to_owned() };
                findings.push(rules.duplicate_result.at(index, path(part), problem));
            } else {
                findings.push(rules.orphan.at(index, path(part), ProblemKind::OrphanResult { id: id.to_owned() }));
            }
        }
        if answers && let Some(rule) = rules.results_first {
            let mut parts = message.parts().enumerate();
            let other = parts.find(|(_, part)| !matches!(part, PartRef::ToolResult(_))).map(|(part, _)| part);
            let later = parts.any(|(_, part)| matches!(part, PartRef::ToolResult(_)));
            if let (Some(part), true) = (other, later) {
                findings.push(rule.at(index, path(part), ProblemKind::ResultsNotFirst));
            }
        }
        // A message with other content than results is the last one that may have results of these calls.
        if answers && message.opens_turn() && rules.adjacent {
            close(dialect, rules, &mut open, &mut findings);
        }
        for (part, call) in message.tool_calls() {
            let id = call.id.as_str();
            // An identifier may be reused once its call is answered.
            let is_taken = if rules.adjacent { open.has(id) } else { open.waits(id) };
            if !results_by_name && is_taken {
                findings.push(rules.duplicate_call.at(
                    index,
                    path(part),
                    ProblemKind::DuplicateCall { id: id.to_owned() },
                ));
            }
            open.push(call, place, part);
        }
    }
    close(dialect, rules, &mut open, &mut findings);
    findings
}

/// Finds identifiers of calls that are longer than the provider allows.
pub(super) fn long_ids(request: &Request, rule: &Option<Rule>, most: usize) -> Vec<Finding> {
    let Some(rule) = rule else { return Vec::new() };
    let mut findings = Vec::new();
    for place in Place::all(request.messages()) {
        let path = LazyCell::new(|| request.dialect().paths(&place));
        let calls = place.message.tool_calls().filter(|(_, call)| call.id.chars().nth(most).is_some());
        findings.extend(
            calls.map(|(part, call)| {
                rule.at(place.index, path(part), ProblemKind::LongId { id: call.id.clone(), most })
            }),
        );
    }
    findings
}

fn close(dialect: Dialect, rules: &PairingRules, open: &mut OpenCalls<'_>, findings: &mut Vec<Finding>) {
    let mut missing = std::mem::take(open).calls;
    missing.retain(|call| !call.answered);
    for of_message in missing.chunk_by(|a, b| a.place.index == b.place.index) {
        let Some(path) = of_message.first().map(|call| dialect.paths(&call.place)) else { continue };
        findings.extend(of_message.iter().map(|call| {
            let problem = ProblemKind::MissingResult { id: call.id.to_owned() };
            rules.missing.at(call.place.index, path(call.part), problem)
        }));
    }
}
