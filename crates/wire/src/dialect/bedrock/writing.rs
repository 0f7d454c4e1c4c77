//! Writes messages and tools for Bedrock, and edits and mends the messages that are sent.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::owned;
use super::{DOCUMENTS, IMAGES};
use crate::dialect::blocks::Outbound;
use crate::dialect::content::{edited, element};
use crate::dialect::format::{Rendered, Sending};
use crate::dialect::{ConversionError, Dialect, Mend, Mended, convert};
use crate::edit::{self, Edit};
use crate::message::{Media, MediaSource, Message, PartRef, Reasoning, ResultItem, ToolCall, ToolResult};
use crate::wire::Role;
use lookback_content::json::{self, Fields};

/// Applies the edits of one block.
pub(super) fn edit(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    match part {
        PartRef::ToolCall(_) => {
            let inner = fields.get("toolUse")?.to_owned();
            let mut inner = Fields::read(&inner)?;
            if let Some(id) = edit::renamed(edits, index) {
                inner.set("toolUseId", json::string(id));
            }
            if let Some(arguments) = edit::arguments(edits, index) {
                inner.set("input", serde_json::from_str(arguments).ok()?);
            }
            fields.set("toolUse", inner.write());
        }
        PartRef::ToolResult(result) => {
            let inner = fields.get("toolResult")?.to_owned();
            let mut inner = Fields::read(&inner)?;
            if let Some(id) = edit::renamed(edits, index) {
                inner.set("toolUseId", json::string(id));
            }
            let text = |text: &str| json::object([("text", json::string(text))]);
            let shown = |item: usize| element(edits, index, item, result.content.get(item).and_then(ResultItem::text));
            if let Some(note) = edit::note_of(result, edits, index) {
                inner.set("content", json::write_array([&*text(&note.marker)]));
            } else if let Some(content) = inner.get("content").and_then(|content| edited(content, shown, text)) {
                inner.set("content", content);
            }
            fields.set("toolResult", inner.write());
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
    let loss = |what| Err(ConversionError::new(Dialect::Bedrock, what));
    let mut blocks = Vec::new();
    for part in message.parts() {
        blocks.push(json::value(&match part {
            PartRef::Text(text) => json!({"text": text}),
            PartRef::Image(media) => json!({"image": block(media, IMAGES)?}),
            PartRef::Document(media) => json!({"document": block(media, DOCUMENTS)?}),
            PartRef::Reasoning(Reasoning { text, signature: Some(signature) }) if text.is_empty() => {
                json!({"reasoningContent": {"redactedContent": signature}})
            }
            PartRef::Reasoning(Reasoning { text, signature }) => match signature {
                Some(signature) => {
                    json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
                }
                None => json!({"reasoningContent": {"reasoningText": {"text": text}}}),
            },
            PartRef::ToolCall(call) => {
                blocks.push(tool_use_block(call)?);
                continue;
            }
            PartRef::ToolResult(result) => {
                blocks.push(tool_result_block(result)?);
                continue;
            }
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => continue,
            PartRef::Opaque(_) => return loss("a part of a kind that only its own provider knows"),
        }));
    }
    let role = match message.role() {
        Role::System => return loss("a system message among the messages"),
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = json::write_array(blocks.iter().map(AsRef::as_ref));
    Ok(vec![json::object([("role", json::string(role)), ("content", content)])])
}

fn tool_use_block(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let input = convert::arguments(Dialect::Bedrock, call)?;
    let (id, name) = (json::string(&call.id), json::string(&call.name));
    Ok(json::object([("toolUse", json::object([("toolUseId", id), ("name", name), ("input", input)]))]))
}

fn tool_result_block(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    let item = |item: &ResultItem| {
        Ok(match item {
            ResultItem::Text(text) => json::object([("text", json::string(text))]),
            ResultItem::Json(text) => match serde_json::from_str::<Box<RawValue>>(text) {
                Ok(raw) => json::object([("json", raw)]),
                Err(_) => json::object([("text", json::string(text))]),
            },
            ResultItem::Image(media) => json::object([("image", json::value(&block(media, IMAGES)?))]),
            ResultItem::Document(media) => json::object([("document", json::value(&block(media, DOCUMENTS)?))]),
            ResultItem::Opaque(_) => {
                return Err(ConversionError::new(Dialect::Bedrock, "an unknown item of a tool result"));
            }
        })
    };
    let items = result.content.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let status = json::string(if result.error { "error" } else { "success" });
    let content = json::write_array(items.iter().map(AsRef::as_ref));
    let inner = json::object([("toolUseId", json::string(&result.call_id)), ("content", content), ("status", status)]);
    Ok(json::object([("toolResult", inner)]))
}

fn block(media: &Media, formats: &[(&str, &str)]) -> Result<serde_json::Value, ConversionError> {
    use serde_json::json;
    let loss = |what| ConversionError::new(Dialect::Bedrock, what);
    let mime = media.mime.as_deref().ok_or_else(|| loss("a picture or file without a media type"))?;
    let format = formats.iter().find(|(_, known)| *known == mime).map(|(name, _)| *name);
    let format = format.ok_or_else(|| loss("a picture or file of this media type"))?;
    let source = match &media.source {
        MediaSource::Base64(data) => json!({"bytes": data}),
        MediaSource::Text(text) => json!({"text": text}),
        MediaSource::Url(url) if url.starts_with("s3:") => json!({"s3Location": {"uri": url}}),
        MediaSource::Url(_) => return Err(loss(convert::ADDRESS)),
        MediaSource::Id(_) => return Err(loss(convert::IDENTIFIER)),
    };
    Ok(match &media.name {
        Some(name) => json!({"format": format, "name": name, "source": source}),
        None => json!({"format": format, "source": source}),
    })
}

pub(super) fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}})
}

/// The most characters in the name of a file.
const LONGEST_NAME: usize = 200;

/// Returns the name of a file with `-` for each character that is not allowed, and without spaces in a row.
pub(super) fn allowed_name(name: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() || " -_()[]".contains(char) { char } else { '-' };
    let mut allowed = String::with_capacity(name.len());
    for char in name.chars().map(|char| if char.is_whitespace() { ' ' } else { plain(char) }).take(LONGEST_NAME) {
        if char != ' ' || !allowed.ends_with(' ') {
            allowed.push(char);
        }
    }
    if allowed.is_empty() { "file".to_owned() } else { allowed }
}

/// Mends the names of files in outgoing messages.
pub(super) fn mend(_: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended> {
    let (mut mends, mut names) = (Vec::new(), Names::default());
    for (index, raw) in messages.iter_mut().map(|message| &mut **message) {
        if raw.get().contains("\"document\"")
            && let Some(mended) = names.mend(raw)
        {
            *raw = Cow::Owned(mended);
            mends.push(Mend::MembersMended.at(*index));
        }
    }
    mends
}

/// The names of the outgoing files, each with the number of files that wanted it.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// Returns a message with valid and unique file names, or `None` if its names are already valid and unique.
    fn mend(&mut self, message: &RawValue) -> Option<Box<RawValue>> {
        let mut fields = Fields::read(message)?;
        let content = self.mended(fields.get("content")?)?;
        fields.set("content", content);
        Some(fields.write())
    }

    /// Returns a list of blocks with mended names, or `None` if none needs one.
    fn mended(&mut self, content: &RawValue) -> Option<Box<RawValue>> {
        let blocks = json::array(content)?;
        let mended: Vec<Option<Box<RawValue>>> = blocks.iter().map(|block| self.block(block)).collect();
        if mended.iter().all(Option::is_none) {
            return None;
        }
        Some(json::write_array(
            blocks.into_iter().zip(&mended).map(|(block, mended)| mended.as_deref().unwrap_or(block)),
        ))
    }

    fn block(&mut self, block: &RawValue) -> Option<Box<RawValue>> {
        let mut fields = Fields::read(block)?;
        if let Some(result) = fields.get("toolResult").map(ToOwned::to_owned) {
            let mut inner = Fields::read(&result)?;
            let content = self.mended(inner.get("content")?)?;
            inner.set("content", content);
            fields.set("toolResult", inner.write());
            return Some(fields.write());
        }
        let document = fields.get("document")?.to_owned();
        let mut inner = Fields::read(&document)?;
        let name = inner.text("name").map(owned)?;
        let own = Some(self.own(&name)).filter(|own| *own != name)?;
        inner.set("name", json::string(&own));
        fields.set("document", inner.write());
        Some(fields.write())
    }

    /// Returns the name under which a file is sent: its own or, if an earlier file has that name, one with a number.
    fn own(&mut self, name: &str) -> String {
        let wanted = allowed_name(name);
        let mut own = wanted.clone();
        while self.0.contains_key(&own) {
            let number = self.0.entry(wanted.clone()).or_insert(1);
            *number += 1;
            let end = format!(" ({number})");
            own = wanted.chars().take(LONGEST_NAME - end.len()).collect::<String>().trim_end().to_owned() + &end;
        }
        self.0.insert(own.clone(), 1);
        own
    }
}
