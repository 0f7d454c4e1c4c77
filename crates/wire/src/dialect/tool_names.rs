//! The names of tools: of those that a request declares, calls, or loads with a message.
//!
//! Providers allow few characters in them, and a name that a model made up is sent with every later request.

use std::cell::LazyCell;

use serde_json::value::RawValue;

use super::{Finding, Place, Preamble, ProblemKind, Request, Rule};
use crate::message::Message;
use lookback_content::json::{self, Fields};

/// The maximum depth of a tool's name in the member of a body.
const DEEPEST: usize = 5;

/// The members in which dialects have tools, or a tool, or references to tools.
const AROUND: [&str; 9] = [
    "tools",
    "toolSpec",
    "functionDeclarations",
    "function_declarations",
    "function",
    "custom",
    "tool",
    "tool_references",
    "content",
];

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

/// Finds tools that a message loads and the request does not declare, if it declares any.
pub(super) fn loaded(rule: Rule, request: &Request) -> Vec<Finding> {
    let Some(tools) = request.preamble().tools.as_deref().filter(|tools| tools.get() != "[]") else {
        return Vec::new();
    };
    let declared = LazyCell::new(|| {
        let mut found = Vec::new();
        names(tools, String::new(), DEEPEST, &mut found);
        found
    });
    let mut findings = Vec::new();
    for place in Place::all(request.messages()) {
        for (part, name) in place.message.loaded() {
            if declared.iter().all(|(_, declared)| *declared != name) {
                let path = request.dialect().path(&place, part);
                findings.push(rule.at(place.index, path, ProblemKind::UnknownTool { name }));
            }
        }
    }
    findings
}

impl Message {
    /// Returns the names of the tools that this message loads, each with the index of its part. The model can call them
    /// as long as the message is there.
    #[doc(hidden)]
    pub fn loaded(&self) -> Vec<(usize, String)> {
        let Some(kinds) = self.wire().map(|wire| wire.dialect.quirks().standing) else { return Vec::new() };
        let mut found = Vec::new();
        for (index, opaque) in self.opaques().filter(|(_, opaque)| kinds.contains(&&*opaque.kind)) {
            let mut own = Vec::new();
            names(&opaque.raw, String::new(), DEEPEST, &mut own);
            found.extend(own.into_iter().map(|(_, name)| (index, name)));
        }
        found
    }
}

impl Preamble {
    /// Returns the names of the declared tools, in alphabetical order. A tool without a name, which the provider runs,
    /// is named by its type.
    #[doc(hidden)]
    pub fn tool_names(&self) -> Vec<String> {
        let mut found = Vec::new();
        for tool in self.tools.as_deref().and_then(json::array).unwrap_or_default() {
            let mut own = Vec::new();
            names(tool, String::new(), DEEPEST, &mut own);
            let kind = || Fields::read(tool)?.text("type").map(|kind| kind.into_owned());
            found.extend(if own.is_empty() {
                Vec::from_iter(kind())
            } else {
                own.into_iter().map(|(_, name)| name).collect()
            });
        }
        found.sort();
        found.dedup();
        found
    }
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
    match fields.text("name").or_else(|| fields.text("tool_name")) {
        Some(name) => found.push((path + ".name", name.into_owned())),
        None => {
            let inner = AROUND.iter().filter_map(|key| Some((key, fields.borrowed(key)?)));
            inner.for_each(|(key, inner)| names(inner, format!("{path}.{key}"), depth, found));
        }
    }
}
