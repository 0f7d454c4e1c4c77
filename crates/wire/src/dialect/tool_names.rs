//! Checks the names of declared and called tools, because providers allow few characters, and a name that a model made
//! up is sent with every later request.

use std::cell::LazyCell;

use serde_json::value::RawValue;

use super::{Finding, Place, ProblemKind, Request, Rule};
use lookback_content::json::{self, Fields};

/// The maximum depth of a tool's name in the member of a body.
const DEEPEST: usize = 5;

/// The members in which dialects have tools, or a tool.
const AROUND: [&str; 6] = ["tools", "toolSpec", "functionDeclarations", "function_declarations", "function", "custom"];

/// Returns whether a name has 1 to `most` characters, all of them letters, digits, `_` or `-`.
pub(super) fn is_word(name: &str, most: usize) -> bool {
    (1..=most).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn problem(name: &str) -> ProblemKind {
    ProblemKind::BadToolName { name: name.to_owned() }
}

/// Finds declared tools whose name is not allowed.
pub(super) fn declared(rule: Rule, request: &Request, is_allowed: fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(tools) = &request.preamble().tools {
        names(tools, request.dialect().format().tools.to_owned(), DEEPEST, &mut found);
    }
    let bad = found.into_iter().filter(|(_, name)| !is_allowed(name));
    bad.map(|(path, name)| rule.at(request.messages().len(), path, problem(&name))).collect()
}

/// Finds calls of tools whose name is not allowed.
pub(super) fn called(rule: Rule, request: &Request, is_allowed: fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in Place::all(request.messages()) {
        let path = LazyCell::new(|| request.dialect().paths(&place));
        // Calls of other forms may have names that the provider chose.
        let bad = place.message.tool_calls().filter(|(_, call)| call.form.is_none() && !is_allowed(&call.name));
        findings.extend(bad.map(|(part, call)| rule.at(place.index, path(part), problem(&call.name))));
    }
    findings
}

/// Collects the names of declared tools, wherever a dialect has them, each with its path.
fn names(value: &RawValue, path: String, depth: usize, found: &mut Vec<(String, String)>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(elements) = json::array(value) {
        for (index, element) in elements.into_iter().enumerate() {
            names(element, format!("{path}[{index}]"), depth, found);
        }
        return;
    }
    let Some(fields) = Fields::read(value) else { return };
    match fields.text("name") {
        Some(name) => found.push((path + ".name", name.into_owned())),
        None => {
            let inner = AROUND.iter().filter_map(|key| Some((key, fields.borrowed(key)?)));
            inner.for_each(|(key, inner)| names(inner, format!("{path}.{key}"), depth, found));
        }
    }
}
