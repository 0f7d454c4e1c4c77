//! The tokens of the preamble: the system prompt and the tools.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::TokenCounter;
use lookback_content::json::{self, Fields};
use lookback_models::{Frame, scale};
use lookback_wire::dialect::Preamble;
use lookback_wire::size::Size;

/// Measures the preamble, including the tokens that the provider adds to every request. A tool counts as its JSON,
/// multiplied by the schema factor of the counter's [`Frame`]. With such a factor, tools that the provider runs itself,
/// which have no name, do not count.
pub fn measure_preamble(preamble: &Preamble, counter: &dyn TokenCounter) -> Size {
    let frame = counter.frame();
    let system = preamble.system.as_deref().map_or(0, |system| match json::text(system) {
        Some(text) => counter.text(&text),
        None => texts(system, DEEPEST).iter().map(|text| counter.text(text)).fold(0, u64::saturating_add),
    });
    // OpenAI sends the system prompt as a message.
    let system = if system > 0 { system.saturating_add(frame.system) } else { 0 };
    let tools = preamble.tools.as_deref().map_or(0, |tools| match frame.schema {
        None => counter.text(tools.get()),
        Some(factor) => tool_tokens(tools, &frame, factor, counter),
    });
    let form = preamble.form.as_deref().zip(frame.form).map_or(0, |(schema, around)| {
        around.saturating_add(scale(counter.text(&compact(schema)), frame.schema.unwrap_or(1.0)))
    });
    let bytes = [&preamble.system, &preamble.tools].into_iter().flatten().map(|raw| raw.get().len() as u64).sum();
    let thinks = if preamble.thinks { frame.thinks } else { 0 };
    let tokens = [frame.request, system, tools, form, thinks].into_iter().fold(0, u64::saturating_add);
    Size { tokens, bytes, ..Size::default() }
}

/// Returns the tokens of each declared tool that the model sees only after a message has loaded it. The other tools count
/// as part of the preamble.
#[doc(hidden)]
pub fn measure_deferred(preamble: &Preamble, counter: &dyn TokenCounter) -> HashMap<String, u64> {
    let frame = counter.frame();
    let (Some(tools), Some(factor)) = (preamble.tools.as_deref(), frame.schema) else { return HashMap::new() };
    let mut found = Vec::new();
    deferred(tools, DEEPEST, &mut found);
    let tokens = |tool: &RawValue| frame.tool.saturating_add(scale(counter.text(&compact(tool)), factor));
    found.into_iter().map(|(name, tool)| (name, tokens(tool))).collect()
}

/// Collects the tools that are declared to be loaded later, with their names.
fn deferred<'a>(value: &'a RawValue, depth: usize, found: &mut Vec<(String, &'a RawValue)>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().for_each(|element| deferred(element, depth, found));
    }
    let Some(fields) = Fields::read(value) else { return };
    match fields.text("name") {
        Some(name) if is_deferred(&fields) => found.push((name.into_owned(), value)),
        _ => fields.borrowed("tools").into_iter().for_each(|inner| deferred(inner, depth, found)),
    }
}

fn is_deferred(tool: &Fields<'_>) -> bool {
    tool.get("defer_loading").is_some_and(|later| later.get() == "true")
}

/// Returns JSON without white space, because providers do not charge for indentation.
fn compact(value: &RawValue) -> String {
    serde_json::from_str::<serde_json::Value>(value.get())
        .map_or_else(|_| value.get().to_owned(), |value| value.to_string())
}

/// Returns the tokens of the tools that the client declares.
fn tool_tokens(tools: &RawValue, frame: &Frame, factor: f64, counter: &dyn TokenCounter) -> u64 {
    let declared = declared(tools, DEEPEST);
    if declared.is_empty() {
        return 0;
    }
    let is_chat = declared.iter().any(|tool| Fields::read(tool).is_some_and(|fields| fields.get("function").is_some()));
    let each = |tool: &&RawValue| frame.tool.saturating_add(scale(counter.text(&compact(tool)), factor));
    let all = declared.iter().map(each).fold(frame.tools, u64::saturating_add);
    if is_chat { all.saturating_add(frame.chat_tools) } else { all }
}

/// Returns the tools that the client declares by name, wherever the dialect has them.
fn declared(value: &RawValue, depth: usize) -> Vec<&RawValue> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().flat_map(|element| declared(element, depth)).collect();
    }
    let Some(fields) = Fields::read(value) else { return Vec::new() };
    if is_deferred(&fields) {
        return Vec::new();
    }
    if let Some(inner) = fields.borrowed("tools") {
        return declared(inner, depth);
    }
    // A tool that the provider runs has a type and no name.
    if fields.get("name").is_some() || fields.get("function").is_some() {
        return vec![value];
    }
    fields.keys().filter_map(|name| fields.borrowed(name)).flat_map(|inner| declared(inner, depth)).collect()
}

/// The most levels of nesting at which texts and tools are found, such as in an object with a list of parts.
const DEEPEST: usize = 4;

/// Returns the texts of a system prompt that is not a string.
fn texts(value: &RawValue, depth: usize) -> Vec<String> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().flat_map(|element| texts(element, depth)).collect();
    }
    let Some(fields) = Fields::read(value) else { return Vec::new() };
    match fields.text("text") {
        Some(text) => vec![text.into_owned()],
        None => fields.iter().flat_map(|(_, value)| texts(value, depth)).collect(),
    }
}
