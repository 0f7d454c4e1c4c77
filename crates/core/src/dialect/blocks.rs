//! What the block formats share: messages are a role and a list of blocks, and neighbours of one role are one message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Dialect, Loss, Shown};
use crate::cut::{self, Edit};
use crate::json::{self, Fields};
use crate::message::{Message, PartRef, Role};

/// Carries out the edits of one block; `None` where they leave nothing of it.
pub(super) type EditBlock =
    fn(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>>;

/// The most cache markers that a request may have, its system prompt and tools included (AM9, BC6).
const MOST_MARKERS: usize = 4;

/// Encodes messages of a block format, merging neighbours of one role: some models refuse what is not merged (AM1, BC2).
pub(super) fn encode<'a>(
    dialect: Dialect,
    edit: EditBlock,
    shown: impl IntoIterator<Item = Shown<'a>>,
) -> Result<Vec<Cow<'a, RawValue>>, Loss> {
    let mut out: Vec<(Role, Cow<'a, RawValue>, Order)> = Vec::new();
    for Shown { message, edits } in shown {
        let owned;
        let raws: Vec<Cow<'a, RawValue>> = match message.wire().filter(|wire| wire.dialect == dialect) {
            Some(wire) if edits.is_empty() => vec![Cow::Borrowed(&*wire.raw)],
            Some(wire) => edit_message(edit, message, &wire.raw, edits).map(Cow::Owned).into_iter().collect(),
            None => {
                owned = dialect.convert(message)?;
                let wires = owned.iter().filter_map(|message| Some((message, message.wire()?)));
                wires
                    .filter_map(|(message, wire)| edit_message(edit, message, &wire.raw, edits))
                    .map(Cow::Owned)
                    .collect()
            }
        };
        let role = message.role();
        for raw in raws {
            match out.last_mut() {
                Some((last, into, order)) if *last == role && role != Role::System => {
                    *into = Cow::Owned(merge(into, &raw));
                    order.then(message, edits);
                }
                _ => {
                    let mut order = Order::default();
                    order.then(message, edits);
                    out.push((role, raw, order));
                }
            }
        }
    }
    let sorted = |(_, raw, order): (Role, Cow<'a, RawValue>, Order)| match order {
        Order { broken: true, .. } => results_first(dialect, &raw).map_or(raw, Cow::Owned),
        Order { broken: false, .. } => raw,
    };
    let mut messages: Vec<_> = out.into_iter().map(sorted).collect();
    limit_markers(&mut messages);
    Ok(messages)
}

/// The blocks of a message: a string stands for one block of text.
pub(super) fn blocks(content: &RawValue) -> Vec<Cow<'_, RawValue>> {
    match json::array(content) {
        Some(blocks) => blocks.into_iter().map(Cow::Borrowed).collect(),
        None => vec![Cow::Owned(text_block(content))],
    }
}

/// A string becomes a block of text with the string's own bytes.
fn text_block(string: &RawValue) -> Box<RawValue> {
    let mut block = Fields::default();
    block.set("type", json::string("text"));
    block.set("text", string.to_owned());
    block.write()
}

fn edit_message(edit: EditBlock, message: &Message, raw: &RawValue, edits: &[Edit]) -> Option<Box<RawValue>> {
    if cut::hides_all(message, edits) {
        return None;
    }
    let mut fields = Fields::read(raw)?;
    let content = fields.get("content")?.to_owned();
    let blocks = blocks(&content);
    let shown = blocks.iter().zip(message.parts()).enumerate().filter(|(part, _)| !cut::is_hidden(edits, *part));
    let shown: Vec<_> = shown
        .filter_map(|(index, (block, part))| {
            let touched = edits.iter().any(|edit| edit.part == index);
            if touched { edit(block, part, index, edits).map(Cow::Owned) } else { Some(Cow::Borrowed(&**block)) }
        })
        .collect();
    fields.set("content", json::write_array(shown.iter().map(AsRef::as_ref)));
    Some(fields.write())
}

/// Whether tool results come first in a message, as AM2 and BC2 demand.
#[derive(Debug, Default)]
struct Order {
    /// Something else than a result was met.
    other: bool,
    /// A result was met behind it.
    broken: bool,
}

impl Order {
    fn then(&mut self, message: &Message, edits: &[Edit]) {
        for (_, part) in message.parts().enumerate().filter(|(index, _)| !cut::is_hidden(edits, *index)) {
            match part {
                PartRef::ToolResult(_) => self.broken |= self.other,
                _ => self.other = true,
            }
        }
    }
}

/// The same message with its tool results before all else.
fn results_first(dialect: Dialect, raw: &RawValue) -> Option<Box<RawValue>> {
    let message = dialect.decode_raw(raw).ok()?;
    let mut fields = Fields::read(raw)?;
    let content = fields.get("content")?.to_owned();
    let mut blocks: Vec<_> = blocks(&content).into_iter().zip(message.parts()).collect();
    blocks.sort_by_key(|(_, part)| !matches!(part, PartRef::ToolResult(_)));
    fields.set("content", json::write_array(blocks.iter().map(|(block, _)| &**block)));
    Some(fields.write())
}

/// One message of the blocks of both. Members of the second that the first lacks are kept too.
fn merge(first: &RawValue, second: &RawValue) -> Box<RawValue> {
    let (Some(mut fields), Some(more)) = (Fields::read(first), Fields::read(second)) else { return first.to_owned() };
    let (one, two) = (fields.get("content").map(ToOwned::to_owned), more.get("content"));
    let contents = one.as_deref().into_iter().chain(two);
    let all: Vec<_> = contents.flat_map(blocks).collect();
    fields.set("content", json::write_array(all.iter().map(AsRef::as_ref)));
    fields.add_missing(&more);
    fields.write()
}

/// Takes the oldest cache markers away where a session has gathered more than a provider allows: clients move theirs along
/// with the end of the history, and each message was kept as it came.
fn limit_markers(messages: &mut [Cow<'_, RawValue>]) {
    // Two stay free for the system prompt and the tools.
    let mut free = MOST_MARKERS - 2;
    for message in messages.iter_mut().rev() {
        let count = markers(message);
        if count <= free {
            free -= count;
        } else {
            *message = Cow::Owned(without_markers(message));
            free = 0;
        }
    }
}

/// How many cache markers a message, a system prompt or a list of tools has.
pub(super) fn markers(raw: &RawValue) -> usize {
    let text = raw.get();
    if !text.contains("cache_control") && !text.contains("cachePoint") {
        return 0;
    }
    let content = Fields::read(raw).and_then(|fields| fields.get("content").map(ToOwned::to_owned));
    let elements = content.as_deref().and_then(json::array).or_else(|| json::array(raw)).unwrap_or_default();
    elements.into_iter().filter_map(Fields::read).filter(|fields| fields.keys().any(is_marker)).count()
}

fn is_marker(key: &str) -> bool {
    key == "cache_control" || key == "cachePoint"
}

fn without_markers(message: &RawValue) -> Box<RawValue> {
    let Some(mut fields) = Fields::read(message) else { return message.to_owned() };
    let Some(content) = fields.get("content").map(ToOwned::to_owned) else { return message.to_owned() };
    let strip = |block: Cow<'_, RawValue>| {
        let Some(mut fields) = Fields::read(&block).filter(|fields| fields.keys().any(is_marker)) else {
            return Some(block.into_owned());
        };
        fields.remove("cache_control");
        fields.remove("cachePoint");
        (!fields.is_empty()).then(|| fields.write())
    };
    let blocks: Vec<_> = blocks(&content).into_iter().filter_map(strip).collect();
    fields.set("content", json::write_array(blocks.iter().map(AsRef::as_ref)));
    fields.write()
}
