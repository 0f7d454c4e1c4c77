//! Assembles a streamed response of ConverseStream, whose events are objects with one member.

use serde_json::value::RawValue;

use super::{EventKind, Growing, Pieces, element};
use lookback_content::json::{self, Fields};

#[derive(Default)]
pub(in crate::dialect) struct Blocks {
    role: Option<String>,
    blocks: Vec<Block>,
    usage: Option<Box<RawValue>>,
}

/// A block. It has only one of these contents.
#[derive(Default)]
struct Block {
    text: Option<String>,
    tool_use: Option<(Growing, String)>,
    reasoning: Growing,
    is_complete: bool,
}

impl Pieces for Blocks {
    fn add(&mut self, event: &Fields<'_>) -> EventKind {
        let Some((kind, value)) = event.iter().next() else { return EventKind::Nothing };
        let Some(inner) = Fields::read(value) else { return EventKind::Nothing };
        match kind {
            "messageStart" => {
                self.role = inner.text("role").map(Into::into);
                EventKind::Nothing
            }
            "contentBlockStart" => {
                let start = inner.get("start").and_then(Fields::read).unwrap_or_default();
                let tool_use = start.get("toolUse").and_then(Fields::read);
                if let Some(block) = element(&mut self.blocks, &inner, "contentBlockIndex") {
                    block.tool_use = tool_use.map(|fields| (Growing::from_fields(&fields), String::new()));
                }
                EventKind::Content
            }
            "contentBlockDelta" => {
                let delta = inner.get("delta").and_then(Fields::read).unwrap_or_default();
                if let Some(block) = element(&mut self.blocks, &inner, "contentBlockIndex") {
                    block.grow(&delta);
                }
                EventKind::Content
            }
            "contentBlockStop" => {
                if let Some(block) = element(&mut self.blocks, &inner, "contentBlockIndex") {
                    block.is_complete = true;
                }
                EventKind::Nothing
            }
            "metadata" => {
                self.usage = inner.get("usage").map(ToOwned::to_owned);
                EventKind::Nothing
            }
            "messageStop" => EventKind::Stop,
            kind if kind.ends_with("Exception") => EventKind::Error,
            _ => EventKind::Nothing,
        }
    }

    fn body(&self) -> Box<RawValue> {
        let mut body = Fields::default();
        if let Some(role) = &self.role {
            let blocks: Vec<_> = self.blocks.iter().filter_map(Block::write).collect();
            let content = json::write_array(blocks.iter().map(AsRef::as_ref));
            let message = json::object([("role", json::string(role)), ("content", content)]);
            body.set("output", json::object([("message", message)]));
        }
        if let Some(usage) = &self.usage {
            body.set("usage", usage.clone());
        }
        body.write()
    }
}

impl Block {
    fn grow(&mut self, delta: &Fields<'_>) {
        if let Some(text) = delta.text("text") {
            self.text.get_or_insert_default().push_str(&text);
        }
        if let Some(tool_use) = delta.get("toolUse").and_then(Fields::read) {
            let (_, input) = self.tool_use.get_or_insert_default();
            input.push_str(&tool_use.text("input").unwrap_or_default());
        }
        if let Some(reasoning) = delta.get("reasoningContent").and_then(Fields::read) {
            for (name, value) in reasoning.iter() {
                self.reasoning.append(name, &json::text(value).unwrap_or_default());
            }
        }
    }

    /// Returns the block, or `None` if it was cut off inside its input, because such a call cannot be run.
    fn write(&self) -> Option<Box<RawValue>> {
        if let Some((members, input)) = &self.tool_use {
            if !self.is_complete {
                return None;
            }
            let mut members = members.clone();
            let input = if input.is_empty() { "{}" } else { input };
            members.set("input", serde_json::from_str::<&RawValue>(input).ok()?);
            return Some(json::object([("toolUse", members.write())]));
        }
        if !self.reasoning.is_empty() {
            let redacted = self.reasoning.text("redactedContent").is_some();
            let inner = self.reasoning.write();
            let inner = if redacted { inner } else { json::object([("reasoningText", inner)]) };
            return Some(json::object([("reasoningContent", inner)]));
        }
        Some(json::object([("text", json::string(self.text.as_deref()?))]))
    }
}
