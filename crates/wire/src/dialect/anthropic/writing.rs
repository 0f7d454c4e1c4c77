//! Writes messages and tools for Anthropic, and edits and mends the messages that are sent.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::rules::is_claude;
use super::{hosted, markers};
use crate::dialect::blocks::Outbound;
use crate::dialect::content::{edited, element, text_block};
use crate::dialect::format::{Rendered, Sending};
use crate::dialect::{ConversionError, Dialect, Mend, Mended, blocks, convert};
use crate::edit::{self, Edit};
use crate::message::{Media, MediaSource, Message, PartRef, Reasoning, ResultItem, ToolCall};
use crate::wire::Role;
use lookback_content::json::{self, Fields};

/// Applies the edits of one block.
pub(super) fn edit(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    match part {
        PartRef::ToolCall(_) => {
            if let Some(id) = edit::renamed(edits, index) {
                fields.set("id", json::string(id));
            }
            if let Some(arguments) = edit::arguments(edits, index) {
                fields.set("input", serde_json::from_str(arguments).ok()?);
            }
        }
        PartRef::ToolResult(result) => {
            if let Some(id) = edit::renamed(edits, index) {
                fields.set("tool_use_id", json::string(id));
            }
            if let Some(note) = edit::note_of(result, edits, index) {
                fields.set("content", json::string(&note.marker));
            }
            let shown = |item: usize| element(edits, index, item, result.content.get(item).and_then(ResultItem::text));
            if let Some(content) = fields.get("content").and_then(|content| edited(content, shown, text_block)) {
                fields.set("content", content);
            }
        }
        PartRef::Text(text) => {
            if let Some(cut) = edit::cut_of(edits, index, 0) {
                fields.set("text", json::string(&cut.apply(text)));
            }
        }
        PartRef::Image(_) | PartRef::Document(_) | PartRef::Reasoning(_) | PartRef::Opaque(_) => {}
    }
    Some(fields.write())
}

pub(super) fn render(message: &Message) -> Rendered {
    use serde_json::json;
    let loss = |what| Err(ConversionError::new(Dialect::Anthropic, what));
    let mut blocks = Vec::new();
    for part in message.parts() {
        blocks.push(json::value(&match part {
            PartRef::Text(text) => json!({"type": "text", "text": text}),
            PartRef::Image(media) => json!({"type": "image", "source": source(media)?}),
            PartRef::Document(media) => match &media.name {
                Some(name) => json!({"type": "document", "title": name, "source": source(media)?}),
                None => json!({"type": "document", "source": source(media)?}),
            },
            PartRef::Reasoning(Reasoning { text, signature: Some(signature) }) if text.is_empty() => {
                json!({"type": "redacted_thinking", "data": signature})
            }
            PartRef::Reasoning(Reasoning { text, signature: Some(signature) }) => {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            PartRef::Reasoning(Reasoning { signature: None, .. }) => return loss("reasoning without a signature"),
            PartRef::ToolCall(call) => {
                blocks.push(tool_use_block(call)?);
                continue;
            }
            PartRef::ToolResult(result) => {
                let mut items = Vec::new();
                for item in &result.content {
                    items.push(match item {
                        ResultItem::Text(text) | ResultItem::Json(text) => json!({"type": "text", "text": text}),
                        ResultItem::Image(media) => json!({"type": "image", "source": source(media)?}),
                        ResultItem::Document(media) => json!({"type": "document", "source": source(media)?}),
                        ResultItem::Opaque(_) => return loss("an unknown item of a tool result"),
                    });
                }
                let content = match &result.content[..] {
                    [ResultItem::Text(text) | ResultItem::Json(text)] => json!(text),
                    _ => serde_json::Value::Array(items),
                };
                let mut block = json!({"type": "tool_result", "tool_use_id": result.call_id, "content": content});
                if let (true, Some(object)) = (result.error, block.as_object_mut()) {
                    object.insert("is_error".to_owned(), json!(true));
                }
                block
            }
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => continue,
            PartRef::Opaque(_) => return loss("a part of a kind that only its own provider knows"),
        }));
    }
    let role = match message.role() {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = match message.parts().next() {
        Some(PartRef::Text(text)) if blocks.len() == 1 => json::string(text),
        _ => json::write_array(blocks.iter().map(AsRef::as_ref)),
    };
    Ok(vec![json::object([("role", json::string(role)), ("content", content)])])
}

fn tool_use_block(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let input = convert::arguments(Dialect::Anthropic, call)?;
    let (id, name) = (json::string(&call.id), json::string(&call.name));
    Ok(json::object([("type", json::string("tool_use")), ("id", id), ("name", name), ("input", input)]))
}

fn source(media: &Media) -> Result<serde_json::Value, ConversionError> {
    use serde_json::json;
    let mime = media.mime.as_deref();
    Ok(match (&media.source, mime) {
        (MediaSource::Base64(data), Some(mime)) => json!({"type": "base64", "media_type": mime, "data": data}),
        (MediaSource::Base64(_), None) => {
            return Err(ConversionError::new(Dialect::Anthropic, "a picture or file without a media type"));
        }
        (MediaSource::Text(text), _) => {
            json!({"type": "text", "media_type": mime.unwrap_or("text/plain"), "data": text})
        }
        (MediaSource::Url(url), _) if convert::is_public(url) => json!({"type": "url", "url": url}),
        (MediaSource::Url(_), _) => return Err(ConversionError::new(Dialect::Anthropic, convert::ADDRESS)),
        (MediaSource::Id(_), _) => return Err(ConversionError::new(Dialect::Anthropic, convert::IDENTIFIER)),
    })
}

pub(super) fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"name": name, "description": description, "input_schema": parameters})
}

/// Mends outgoing messages. Removes uses without a result, and results without a use, of tools that the provider runs.
/// Shortens cache markers with a longer lifetime than an earlier one.
pub(super) fn mend(sending: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended> {
    let mut mends = Vec::new();
    if is_claude(sending.target) != Some(true) {
        return mends;
    }
    let faults = {
        let raws = messages.iter().map(|message| &*message.1);
        hosted::faults(raws)
    };
    for (place, elements) in hosted::by_message(faults) {
        if let Some((index, raw)) = messages.get_mut(place).map(|message| &mut **message)
            && let Some(left) = blocks::without(raw, &elements)
        {
            *raw = Cow::Owned(left);
            mends.push(Mend::Removed { elements: elements.len() }.at(*index));
        }
    }
    let mut order = markers::Order::default();
    sending.preamble.into_iter().for_each(|preamble| _ = order.read(preamble));
    for (index, raw) in messages.iter_mut().map(|message| &mut **message) {
        if let Some(mended) = order.mend(raw) {
            *raw = Cow::Owned(mended);
            mends.push(Mend::MembersMended.at(*index));
        }
    }
    mends
}
