//! What the model reads before the messages: the system prompt and the tools, and the tokens that they cost.

use crate::redacted::Redacted;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Dialect;
use crate::json::{self, Fields};
use crate::size::Size;
use crate::tokens::{Frame, TokenCounter, scale};

/// The system prompt and the tools, if they are sent outside the messages, and what is asked of the answer.
///
/// The model reads them first. They cost tokens, and are never dropped.
#[derive(derive_more::Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Preamble {
    /// The system prompt, if the dialect has it outside the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug("{:?}", Redacted(system))]
    pub system: Option<Box<RawValue>>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug("{:?}", Redacted(tools))]
    pub tools: Option<Box<RawValue>>,
    /// The JSON schema of the form that answers must have. Providers show it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug(skip)]
    pub form: Option<Box<RawValue>>,
    /// Whether the request asks the model to reason. Some providers tell the model so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[debug(skip)]
    pub thinks: bool,
}

impl Preamble {
    /// Takes the preamble from a request body, whose members `member` returns by name.
    ///
    /// The dialect says which members they are. It has no system prompt if the dialect has that among the messages.
    pub fn of_body(dialect: Dialect, member: impl Fn(&str) -> Option<Box<RawValue>>) -> Self {
        let format = dialect.format();
        // Protocol buffers spell some members in another way.
        let spelled = |name: &str| member(name).or_else(|| member(&in_snake_case(name)));
        let form = format.answer_forms.iter().find_map(|(name, _)| schema(&spelled(name)?, DEEPEST));
        let thinks = format.thinking.iter().any(|name| member(name).is_some_and(|raw| thinks(&raw, DEEPEST)));
        Preamble { system: format.system.and_then(spelled), tools: spelled(format.tools), form, thinks }
    }

    /// Returns the members of a request body that have the preamble: the reverse of [`Preamble::of_body`].
    pub fn in_body(&self, dialect: Dialect) -> impl Iterator<Item = (&'static str, &RawValue)> {
        let format = dialect.format();
        let system = format.system.zip(self.system.as_deref());
        system.into_iter().chain(self.tools.as_deref().map(|tools| (format.tools, tools)))
    }

    /// Sets the system prompt, which is JSON as the dialect writes it.
    #[must_use]
    pub fn with_system(self, system: Box<RawValue>) -> Self {
        Preamble { system: Some(system), ..self }
    }

    /// Sets the tools, which are JSON as the dialect writes it.
    #[must_use]
    pub fn with_tools(self, tools: Box<RawValue>) -> Self {
        Preamble { tools: Some(tools), ..self }
    }

    /// Measures the preamble, with what the provider adds to every request. A tool is counted as its JSON, by the factor of
    /// the counter's [`Frame`](crate::tokens::Frame). A tool without a name, which the provider runs by itself, is counted as
    /// nothing if the frame is known.
    pub fn measure(&self, counter: &dyn TokenCounter) -> Size {
        let frame = counter.frame();
        let system = self.system.as_deref().map_or(0, |system| match json::text(system) {
            Some(text) => counter.text(&text),
            None => texts(system, DEEPEST).iter().map(|text| counter.text(text)).fold(0, u64::saturating_add),
        });
        // OpenAI writes it as a message.
        let system = if system > 0 { system.saturating_add(frame.system) } else { 0 };
        let tools = self.tools.as_deref().map_or(0, |tools| match frame.schema {
            None => counter.text(tools.get()),
            Some(factor) => of_tools(tools, &frame, factor, counter),
        });
        let form = self.form.as_deref().zip(frame.form).map_or(0, |(schema, around)| {
            around.saturating_add(scale(counter.text(&compact(schema)), frame.schema.unwrap_or(1.0)))
        });
        let bytes = [&self.system, &self.tools].into_iter().flatten().map(|raw| raw.get().len() as u64).sum();
        let thinks = if self.thinks { frame.thinks } else { 0 };
        let tokens = [frame.request, system, tools, form, thinks].into_iter().fold(0, u64::saturating_add);
        Size { tokens, bytes, ..Size::default() }
    }

    /// Returns whether two preambles have the same system prompt and the same tools, byte for byte.
    pub fn is_same(&self, other: &Preamble) -> bool {
        let same = |a: &Option<Box<RawValue>>, b: &Option<Box<RawValue>>| {
            a.as_ref().map(|raw| raw.get()) == b.as_ref().map(|raw| raw.get())
        };
        same(&self.system, &other.system) && same(&self.tools, &other.tools)
    }
}

/// Returns whether the member of a body that is about reasoning asks for some, there or deeper.
fn thinks(value: &RawValue, depth: usize) -> bool {
    let (Some(depth), Some(fields)) = (depth.checked_sub(1), Fields::read(value)) else { return false };
    let is = |name: &str, words: &[&str]| fields.text(name).is_some_and(|text| words.contains(&&*text));
    is("type", &["enabled", "adaptive"])
        || is("effort", &["minimal", "low", "medium", "high", "xhigh", "max"])
        || fields.get("enabled").is_some_and(|enabled| enabled.get() == "true")
        || fields.get("max_tokens").is_some_and(|most| most.get() != "0" && most.get() != "null")
        || fields.iter().any(|(_, inner)| self::thinks(inner, depth))
}

/// Returns the schema in the member of a body that demands a form of answers, there or deeper.
fn schema(value: &RawValue, depth: usize) -> Option<Box<RawValue>> {
    let depth = depth.checked_sub(1)?;
    let fields = Fields::read(value)?;
    let schema = fields.get("schema").and_then(|schema| match json::text(schema) {
        // Some have it as a text.
        Some(text) => serde_json::from_str(&text).ok(),
        None => Some(schema.to_owned()),
    });
    schema.or_else(|| fields.iter().find_map(|(_, inner)| self::schema(inner, depth)))
}

/// Returns JSON without white space: clients that indent it do not pay for that.
fn compact(value: &RawValue) -> String {
    serde_json::from_str::<serde_json::Value>(value.get())
        .map_or_else(|_| value.get().to_owned(), |value| value.to_string())
}

/// Returns a name such as `systemInstruction` as `system_instruction`.
fn in_snake_case(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len() + 1), |mut out, char| {
        out.extend(char.is_ascii_uppercase().then_some('_'));
        out.push(char.to_ascii_lowercase());
        out
    })
}

/// Returns the tokens of the tools that the client declares.
fn of_tools(tools: &RawValue, frame: &Frame, factor: f64, counter: &dyn TokenCounter) -> u64 {
    let declared = declared(tools, DEEPEST);
    if declared.is_empty() {
        return 0;
    }
    let is_chat = declared.iter().any(|tool| Fields::read(tool).is_some_and(|fields| fields.get("function").is_some()));
    let each = |tool: &&RawValue| frame.tool.saturating_add(scale(counter.text(&compact(tool)), factor));
    let all = declared.iter().map(each).fold(frame.tools, u64::saturating_add);
    if is_chat { all.saturating_add(frame.chat_tools) } else { all }
}

/// Returns the tools that have a name of the client's, wherever the dialect has them.
fn declared(value: &RawValue, depth: usize) -> Vec<&RawValue> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().flat_map(|element| declared(element, depth)).collect();
    }
    let Some(fields) = Fields::read(value) else { return Vec::new() };
    if fields.get("defer_loading").is_some_and(|later| later.get() == "true") {
        return Vec::new();
    }
    if let Some(inner) = fields.borrowed("tools") {
        return declared(inner, depth);
    }
    // A tool that only the provider knows has a type and no name, unless the client runs it.
    if fields.get("name").is_some() || fields.get("function").is_some() {
        return vec![value];
    }
    fields.keys().filter_map(|name| fields.borrowed(name)).flat_map(|inner| declared(inner, depth)).collect()
}

/// How deep the texts of a system prompt may be: a list of blocks, or an object with a list of parts.
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
