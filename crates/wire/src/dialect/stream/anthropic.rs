//! Assembles a streamed response of Messages, in which blocks begin, grow and end.

use serde_json::value::RawValue;

use super::{EventKind, Growing, Pieces, element};
use lookback_content::json::{self, Fields};

#[derive(Default)]
pub(in crate::dialect) struct Blocks {
    message: Growing,
    usage: Growing,
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    members: Growing,
    /// The input of a tool use, as text.
    input: String,
    citations: Vec<Box<RawValue>>,
    is_complete: bool,
}

impl Pieces for Blocks {
    fn add(&mut self, event: &Fields<'_>) -> EventKind {
        match &*event.text("type").unwrap_or_default() {
            "message_start" => {
                let message = event.get("message").and_then(Fields::read).unwrap_or_default();
                let is_kept = |name: &str| matches!(name, "model" | "role" | "input_transformations");
                for (name, value) in message.iter().filter(|(name, _)| is_kept(name)) {
                    self.message.set(name, value);
                }
                self.add_usage(&message);
                EventKind::Nothing
            }
            "content_block_start" => {
                let block = event.get("content_block").and_then(Fields::read).unwrap_or_default();
                if let Some(place) = element(&mut self.blocks, event, "index") {
                    place.members = Growing::from_fields(&block);
                }
                EventKind::Content
            }
            "content_block_delta" => {
                let delta = event.get("delta").and_then(Fields::read).unwrap_or_default();
                if let Some(block) = element(&mut self.blocks, event, "index") {
                    block.grow(&delta);
                }
                EventKind::Content
            }
            "content_block_stop" => {
                if let Some(block) = element(&mut self.blocks, event, "index") {
                    block.is_complete = true;
                }
                EventKind::Nothing
            }
            "message_delta" => {
                self.add_usage(event);
                let delta = event.get("delta").and_then(Fields::read).unwrap_or_default();
                for (name, value) in delta.iter().filter(|(name, _)| *name == "stop_reason") {
                    self.message.set(name, value);
                }
                EventKind::Nothing
            }
            "message_stop" => EventKind::End,
            "error" => EventKind::Error,
            _ => EventKind::Nothing,
        }
    }

    fn body(&self) -> Box<RawValue> {
        let mut message = self.message.clone();
        if !message.is_empty() {
            let blocks: Vec<_> = self.blocks.iter().filter_map(Block::write).collect();
            message.set("content", &json::write_array(blocks.iter().map(AsRef::as_ref)));
            message.set("usage", &self.usage.write());
        }
        message.write()
    }
}

impl Blocks {
    /// Adds a usage report. Its numbers replace earlier ones.
    fn add_usage(&mut self, fields: &Fields<'_>) {
        if let Some(usage) = fields.get("usage").and_then(Fields::read) {
            self.usage.replace(&usage);
        }
    }
}

impl Block {
    fn grow(&mut self, delta: &Fields<'_>) {
        for (name, value) in delta.iter().filter(|(name, value)| *name != "type" && value.get() != "null") {
            match (name, json::text(value)) {
                ("partial_json", Some(text)) => self.input.push_str(&text),
                ("citation", _) => self.citations.push(value.to_owned()),
                (name, Some(text)) => self.members.append(name, &text),
                (name, None) => self.members.set(name, value),
            }
        }
    }

    /// Returns the block, or `None` if it was cut off inside its input, because such a call cannot be run.
    fn write(&self) -> Option<Box<RawValue>> {
        let mut members = self.members.clone();
        if members.has("input") && !self.is_complete {
            return None;
        }
        if !self.input.is_empty() {
            members.set("input", serde_json::from_str::<&RawValue>(&self.input).ok()?);
        }
        if !self.citations.is_empty() {
            members.set("citations", &json::write_array(self.citations.iter().map(AsRef::as_ref)));
        }
        (!members.is_empty()).then(|| members.write())
    }
}
