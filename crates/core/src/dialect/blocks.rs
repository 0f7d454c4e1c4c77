//! What the block formats share: messages are a role and a list of blocks, and neighbours of one role are one message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Dialect, Frame, Loss, Shown};
use crate::cut::{self, Edit};
use crate::json::{self, Fields};
use crate::message::{Message, PartRef, Role};

/// Carries out the edits of one block; `None` where they leave nothing of it.
pub(super) type EditBlock =
    fn(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>>;

/// What one block format has of its own.
pub(super) struct Format {
    pub(super) dialect: Dialect,
    pub(super) edit: EditBlock,
    /// The member of a block that marks how far to cache.
    pub(super) marker: &'static str,
}

/// The most cache markers that a request may have, its system prompt and tools included (AM9, BC6).
pub(super) const MOST_MARKERS: usize = 4;

/// A message on its way out: the raw messages that it is merged from.
struct Sent<'a> {
    role: Role,
    raws: Vec<Cow<'a, RawValue>>,
    /// Whether it holds something else.
    other: bool,
    /// Whether a result stands behind something else.
    mixed: bool,
}

/// Encodes messages of a block format, merging neighbours of one role: some models refuse what is not merged (AM1, BC2).
/// Results come first in what is merged, as they must (AM2, BC2), and a system message behind a user's that follows it (AM7).
pub(super) fn encode<'a>(
    format: &Format,
    frame: Option<&Frame>,
    shown: impl IntoIterator<Item = Shown<'a>>,
) -> Result<Vec<Cow<'a, RawValue>>, Loss> {
    let Format { dialect, edit, marker } = *format;
    let mut out: Vec<Sent<'a>> = Vec::new();
    for Shown { message, edits } in shown {
        match message.wire().filter(|wire| wire.dialect == dialect) {
            Some(wire) if edits.is_empty() => send(&mut out, message, edits, Cow::Borrowed(&*wire.raw)),
            Some(wire) => {
                if let Some(raw) = edit_message(edit, message, &wire.raw, edits) {
                    send(&mut out, message, edits, Cow::Owned(raw));
                }
            }
            None => {
                for message in dialect.convert(message)? {
                    let raw = message.wire().and_then(|wire| edit_message(edit, &message, &wire.raw, edits));
                    if let Some(raw) = raw {
                        send(&mut out, &message, edits, Cow::Owned(raw));
                    }
                }
            }
        }
    }
    // Where no system message may stand, what it says is sent as the user's: nothing is lost, and it gains no trust.
    let mut before = None;
    for sent in &mut out {
        if sent.role == Role::System && !matches!(before, Some(Role::User | Role::System)) {
            sent.role = Role::User;
            sent.raws.iter_mut().for_each(|raw| *raw = Cow::Owned(as_user(raw)));
        }
        before = Some(sent.role);
    }
    let outside = frame.map_or(0, |frame| markers_outside(marker, frame));
    limit_markers(marker, outside, out.iter_mut().flat_map(|sent| &mut sent.raws));
    let finish = |sent: Sent<'a>| {
        let mixed = sent.mixed;
        let raw = merge(sent.raws)?;
        Some(if mixed { Cow::Owned(results_first(dialect, &raw)) } else { raw })
    };
    Ok(out.into_iter().filter_map(finish).collect())
}

/// Puts a message behind the others, or into one of them.
fn send<'a>(out: &mut Vec<Sent<'a>>, message: &Message, edits: &[Edit], raw: Cow<'a, RawValue>) {
    let role = message.role();
    let is_result = |part: &PartRef<'_>| matches!(part, PartRef::ToolResult(_));
    let shown = || message.parts().enumerate().filter(|(part, _)| !cut::is_hidden(edits, *part)).map(|(_, part)| part);
    let (result, other) = (shown().any(|part| is_result(&part)), shown().any(|part| !is_result(&part)));
    let mixed = result && other && shown().skip_while(is_result).any(|part| is_result(&part));
    let systems = out.iter().rev().take_while(|sent| role == Role::User && sent.role == Role::System).count();
    let at = out.len() - systems;
    match at.checked_sub(1).and_then(|last| out.get_mut(last)) {
        Some(last) if last.role == role => {
            last.raws.push(raw);
            last.mixed |= mixed || (last.other && result);
            last.other |= other;
        }
        _ => out.insert(at, Sent { role, raws: vec![raw], other, mixed }),
    }
}

fn as_user(raw: &RawValue) -> Box<RawValue> {
    let Some(mut fields) = Fields::read(raw) else { return raw.to_owned() };
    fields.set("role", json::string("user"));
    // What is no text to the system may be more than text to the user: a result, of which nobody knows.
    let content = fields.get("content").and_then(json::array).map(|blocks| {
        let is_text = |block: &RawValue| {
            Fields::read(block).is_some_and(|fields| fields.text("type").is_some_and(|kind| kind == "text"))
        };
        let say =
            |block: &RawValue| if is_text(block) { block.to_owned() } else { text_block(&json::string(block.get())) };
        blocks.into_iter().map(say).collect::<Vec<_>>()
    });
    if let Some(blocks) = content {
        fields.set("content", json::write_array(blocks.iter().map(AsRef::as_ref)));
    }
    fields.write()
}

/// The message with its results before all else, each in the order it had.
fn results_first(dialect: Dialect, raw: &RawValue) -> Box<RawValue> {
    let (Some(mut fields), Ok(message)) = (Fields::read(raw), dialect.decode_raw(raw)) else { return raw.to_owned() };
    let Some(content) = fields.get("content").map(ToOwned::to_owned) else { return raw.to_owned() };
    let blocks = blocks(&content);
    let (results, others): (Vec<_>, Vec<_>) =
        blocks.iter().zip(message.parts()).partition(|(_, part)| matches!(part, PartRef::ToolResult(_)));
    let all = results.into_iter().chain(others).map(|(block, _)| block.as_ref());
    fields.set("content", json::write_array(all));
    fields.write()
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
    // What came as a string stays one, so that less of it is never more bytes.
    let text = match &shown[..] {
        [only] if json::text(&content).is_some() => {
            Fields::read(only).and_then(|block| Some(block.get("text")?.to_owned()))
        }
        _ => None,
    };
    fields.set("content", text.unwrap_or_else(|| json::write_array(shown.iter().map(AsRef::as_ref))));
    Some(fields.write())
}

/// One message of the blocks of all. Members of a later message that those before it lack are kept too.
fn merge(mut raws: Vec<Cow<'_, RawValue>>) -> Option<Cow<'_, RawValue>> {
    if raws.len() < 2 {
        return raws.pop();
    }
    let messages: Vec<_> = raws.iter().filter_map(|raw| Fields::read(raw)).collect();
    let all: Vec<_> = messages.iter().filter_map(|fields| fields.get("content")).flat_map(blocks).collect();
    let mut merged = Fields::default();
    for message in &messages {
        merged.add_missing(message);
    }
    merged.set("content", json::write_array(all.iter().map(AsRef::as_ref)));
    Some(Cow::Owned(merged.write()))
}

/// Takes the oldest cache markers away where a session has gathered more than a provider allows: clients move theirs along
/// with the end of the history, and each message was kept as it came. `outside` stand in the system prompt and the tools.
fn limit_markers<'m, 'a: 'm>(
    marker: &str,
    outside: usize,
    messages: impl DoubleEndedIterator<Item = &'m mut Cow<'a, RawValue>>,
) {
    let mut free = MOST_MARKERS.saturating_sub(outside);
    for message in messages.rev() {
        let count = markers(marker, message);
        if count > free {
            *message = Cow::Owned(without_markers(marker, count - free, message));
        }
        free = free.saturating_sub(count);
    }
}

/// How many cache markers stand in the system prompt and the tools.
pub(super) fn markers_outside(marker: &str, frame: &Frame) -> usize {
    // Bedrock keeps its tools one level further down.
    let tools = frame.tools.as_deref().and_then(Fields::read);
    let tools = tools.as_ref().and_then(|tools| tools.get("tools")).or(frame.tools.as_deref());
    [frame.system.as_deref(), tools].into_iter().flatten().map(|raw| markers(marker, raw)).sum()
}

/// How many cache markers a message, a system prompt or a list of tools has.
pub(super) fn markers(marker: &str, raw: &RawValue) -> usize {
    if !raw.get().contains(marker) {
        return 0;
    }
    let content = Fields::read(raw).and_then(|fields| fields.get("content").map(ToOwned::to_owned));
    let elements = content.as_deref().and_then(json::array).or_else(|| json::array(raw)).unwrap_or_default();
    elements.into_iter().filter_map(Fields::read).filter(|fields| fields.get(marker).is_some()).count()
}

/// Without the first `count` of its markers.
fn without_markers(marker: &str, mut count: usize, message: &RawValue) -> Box<RawValue> {
    let Some(mut fields) = Fields::read(message) else { return message.to_owned() };
    let Some(content) = fields.get("content").map(ToOwned::to_owned) else { return message.to_owned() };
    let strip = |block: Cow<'_, RawValue>| {
        let marked = Fields::read(&block).filter(|fields| count > 0 && fields.get(marker).is_some());
        let Some(mut fields) = marked else { return Some(block.into_owned()) };
        count -= 1;
        fields.remove(marker);
        // In Bedrock's format a marker is a block of its own.
        (!fields.is_empty()).then(|| fields.write())
    };
    let blocks: Vec<_> = blocks(&content).into_iter().filter_map(strip).collect();
    if blocks.is_empty() {
        return message.to_owned();
    }
    fields.set("content", json::write_array(blocks.iter().map(AsRef::as_ref)));
    fields.write()
}
