//! The names of tools that a request declares, calls, or loads with a message. Providers allow few characters in them,
//! and a name that a model made up is sent with every later request.

use std::cell::LazyCell;
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{Finding, Place, Preamble, ProblemKind, Request, Rule};
use crate::message::{Message, Opaque, ToolCall};
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

/// Finds declared tools whose name is not allowed.
pub(super) fn declared(rule: Rule, request: &Request, is_allowed: fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(tools) = &request.preamble().tools {
        names(tools, request.dialect().format().tools.to_owned(), DEEPEST, &mut found);
    }
    let bad = found.into_iter().filter(|(_, name)| !is_allowed(name));
    bad.map(|(path, name)| rule.at(request.messages().len(), path, ProblemKind::BadToolName { name })).collect()
}

/// Finds calls of tools whose name is not allowed.
pub(super) fn called(rule: Rule, request: &Request, is_allowed: fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in Place::all(request.messages()) {
        let path = LazyCell::new(|| request.dialect().paths(&place));
        // Calls of other forms may have names that the provider chose.
        let bad = place.message.tool_calls().filter(|(_, call)| call.form.is_none() && !is_allowed(&call.name));
        let problem = |call: &ToolCall| ProblemKind::BadToolName { name: call.name.clone() };
        findings.extend(bad.map(|(part, call)| rule.at(place.index, path(part), problem(call))));
    }
    findings
}

/// Finds tools that a message loads and the request does not declare, if it declares all of its tools by name.
pub(super) fn loaded(rule: Rule, request: &Request) -> Vec<Finding> {
    let declared = LazyCell::new(|| {
        let tools = request.preamble().tools.as_deref().and_then(json::array).unwrap_or_default();
        let name = |tool: &RawValue| Some(Fields::read(tool)?.text("name")?.into_owned());
        tools.into_iter().map(name).collect::<Option<HashSet<String>>>().filter(|names| !names.is_empty())
    });
    let mut findings = Vec::new();
    for place in Place::all(request.messages()) {
        for (part, names) in place.message.loaded() {
            let is_unknown = |name: &String| declared.as_ref().is_some_and(|declared| !declared.contains(name));
            for name in names.into_iter().filter(is_unknown) {
                let path = request.dialect().path(&place, part);
                findings.push(rule.at(place.index, path, ProblemKind::UnknownTool { name }));
            }
        }
    }
    findings
}

impl Message {
    /// Returns the parts that apply to all later messages, each with its index and the names of the tools that it
    /// loads. The model can call them as long as the message is there.
    #[doc(hidden)]
    pub fn loaded(&self) -> Vec<(usize, Vec<String>)> {
        let Some(kinds) = self.wire().map(|wire| wire.dialect.quirks().standing) else { return Vec::new() };
        let standing = self.opaques().filter(|(_, opaque)| kinds.contains(&&*opaque.kind));
        let names = |opaque: &Opaque| {
            let mut found = Vec::new();
            leaves(&opaque.raw, "", DEEPEST, &mut found);
            found
        };
        standing.map(|(index, opaque)| (index, names(opaque))).collect()
    }
}

/// Collects the names of loaded tools. Those of a namespace have its name before them.
fn leaves(value: &RawValue, around: &str, depth: usize, found: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().for_each(|element| leaves(element, around, depth, found));
    }
    let Some(fields) = Fields::read(value) else { return };
    let name = fields.text("name").or_else(|| fields.text("tool_name"));
    let name = name.map(|name| if around.is_empty() { name.into_owned() } else { format!("{around}/{name}") });
    match (name, fields.borrowed("tools")) {
        (Some(name), None) => found.push(name),
        (name, Some(inner)) => leaves(inner, name.as_deref().unwrap_or(around), depth, found),
        (None, None) => {
            let inner = ["tool", "tool_references", "content"].into_iter().filter_map(|key| fields.borrowed(key));
            inner.for_each(|inner| leaves(inner, around, depth, found));
        }
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
    match fields.text("name") {
        Some(name) => found.push((path + ".name", name.into_owned())),
        None => {
            let inner = AROUND.iter().filter_map(|key| Some((key, fields.borrowed(key)?)));
            inner.for_each(|(key, inner)| names(inner, format!("{path}.{key}"), depth, found));
        }
    }
}
