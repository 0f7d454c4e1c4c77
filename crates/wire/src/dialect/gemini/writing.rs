//! Writes messages and tools for Gemini, and edits and mends the messages that are sent.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::{is_empty, only_text, text_of};
use super::{ANONYMOUS, ERROR, OUTPUT, demands_signatures, member, spelled};
use crate::dialect::blocks::Outbound;
use crate::dialect::format::{Rendered, Sending};
use crate::dialect::{ConversionError, Dialect, Mend, Mended, convert};
use crate::edit::{self, Edit};
use crate::message::{Media, MediaSource, Message, PartRef, ResultItem, ToolCall, ToolResult};
use crate::wire::Role;
use lookback_content::json::{self, Fields};

/// The signature that clients should send, according to Google's documentation, for a call that the model did not sign.
const UNCHECKED: &str = "skip_thought_signature_validator";

/// Applies the edits of one part.
pub(super) fn edit(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    match part {
        PartRef::ToolCall(_) => {
            let place = spelled(&fields, "functionCall");
            let inner = fields.get(place)?.to_owned();
            let mut inner = Fields::read(&inner)?;
            let is_renamed = rename(&mut inner, edits, index);
            match edit::arguments(edits, index) {
                Some(arguments) => inner.set("args", serde_json::from_str(arguments).ok()?),
                None if !is_renamed => return Some(block.to_owned()),
                None => {}
            }
            fields.set(place, inner.write());
        }
        PartRef::ToolResult(result) => {
            let place = spelled(&fields, "functionResponse");
            let inner = fields.get(place)?.to_owned();
            let mut inner = Fields::read(&inner)?;
            let is_renamed = rename(&mut inner, edits, index);
            if !cut_result(&mut inner, result, edits, index) && !is_renamed {
                return Some(block.to_owned());
            }
            fields.set(place, inner.write());
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

/// Writes a new identifier, and returns whether there was one. Calls and responses without an identifier are matched by
/// their order.
fn rename(fields: &mut Fields<'_>, edits: &[Edit], part: usize) -> bool {
    match edit::renamed(edits, part) {
        Some(id) if fields.text("id").is_some_and(|id| !id.is_empty()) => {
            fields.set("id", json::string(id));
            true
        }
        _ => false,
    }
}

/// Applies the cuts of a result: the first item is the response, and the others are its pictures and files. Returns
/// whether there were any cuts.
fn cut_result(fields: &mut Fields<'_>, result: &ToolResult, edits: &[Edit], part: usize) -> bool {
    let response = fields.get("response").filter(|response| !is_empty(response)).map(ToOwned::to_owned);
    let first = usize::from(response.is_some());
    let cut = if first == 1 { edit::cut_of(edits, part, 0) } else { None };
    let cut = cut.or_else(|| edit::note_of(result, edits, part));
    if let Some(cut) = cut {
        let text = result.content.first().and_then(ResultItem::text).unwrap_or_default();
        let place = response.as_deref().and_then(only_text).map_or(OUTPUT, |(member, _)| member);
        fields.set("response", json::object([(place, json::string(&cut.apply(text)))]));
    }
    let is_cut = cut.is_some();
    let Some(media) = fields.get("parts").map(ToOwned::to_owned) else { return is_cut };
    let mut notes = Vec::new();
    let kept = json::array(&media).unwrap_or_default().into_iter().enumerate().filter(|(index, _)| {
        let cut = edit::cut_of(edits, part, first + index);
        notes.extend(cut.map(|cut| cut.marker.clone()));
        cut.is_none()
    });
    let kept: Vec<_> = kept.map(|(_, raw)| raw).collect();
    if notes.is_empty() {
        return is_cut;
    }
    fields.set("parts", json::write_array(kept));
    // A note about removed pictures and files must be in the response.
    let response = fields.get("response").map(ToOwned::to_owned);
    let mut response = response.as_deref().and_then(Fields::read).unwrap_or_default();
    response.set("omitted", json::string(&notes.join("\n")));
    fields.set("response", response.write());
    true
}

/// Mends outgoing contents. Calls are only signed if the model is known to demand signatures.
pub(super) fn mend(sending: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended> {
    let signs = demands_signatures(sending.target) == Some(true);
    // The provider does not check earlier turns.
    let turn = messages.iter().rposition(|message| begins_turn(&message.1)).unwrap_or(0);
    let (mut signed, mut mends) = (false, Vec::new());
    for (place, (index, raw)) in messages.iter_mut().map(|message| &mut **message).enumerate() {
        if let Some((mended, done)) = mend_content(signs && place >= turn, raw, &mut signed) {
            *raw = Cow::Owned(mended);
            mends.extend(done.into_iter().map(|mend| mend.at(*index)));
        }
    }
    mends
}

/// Returns whether a content begins a turn: it is a user's content without responses.
fn begins_turn(raw: &RawValue) -> bool {
    let message = Dialect::Gemini.decode_raw(raw);
    message.is_ok_and(|message| message.role() == Role::User && message.tool_results().next().is_none())
}

/// Mends a content: wraps a response that is not an object in one, removes empty parts and, if the model `signs`, marks
/// calls without a signature. `signed` is whether an earlier part has a signature.
///
/// A call is only marked if an earlier content has a signature.
pub(super) fn mend_content(signs: bool, raw: &RawValue, signed: &mut bool) -> Option<(Box<RawValue>, Vec<Mend>)> {
    let fields = Fields::read(raw)?;
    let content = fields.get("parts")?.to_owned();
    let parts = json::array(&content)?;
    let was_signed = *signed;
    let mut is_first_call = true;
    let (mut new, mut mends) = (Vec::with_capacity(parts.len()), Vec::new());
    let empty = parts.iter().filter(|part| is_empty(part)).count();
    let leaves_out = empty > 0 && empty < parts.len();
    if leaves_out {
        mends.push(Mend::Removed { elements: empty });
    }
    for part in parts.into_iter().filter(|part| !leaves_out || !is_empty(part)) {
        let Some(mut fields) = Fields::read(part) else { continue };
        let mended = mends.len();
        let is_signed = text_of(&fields, "thoughtSignature").is_some_and(|signature| !signature.is_empty());
        *signed |= is_signed;
        let is_call = member(&fields, "functionCall").is_some();
        if signs && is_call && is_first_call && !is_signed && was_signed {
            fields.set("thoughtSignature", json::string(UNCHECKED));
            mends.push(Mend::Signed);
        }
        is_first_call &= !is_call;
        if let Some(response) = bare_response(&fields) {
            let place = spelled(&fields, "functionResponse");
            let inner = fields.get(place)?.to_owned();
            let mut inner = Fields::read(&inner)?;
            inner.set("response", json::object([(OUTPUT, response)]));
            fields.set(place, inner.write());
            mends.push(Mend::MembersMended);
        }
        new.push(if mends.len() > mended { Cow::Owned(fields.write()) } else { Cow::Borrowed(part) });
    }
    if mends.is_empty() {
        return None;
    }
    mends.dedup();
    let mut fields = fields;
    fields.set("parts", json::write_array(new.iter().map(AsRef::as_ref)));
    Some((fields.write(), mends))
}

/// Returns the response of a part if it is not an object.
fn bare_response(part: &Fields<'_>) -> Option<Box<RawValue>> {
    let inner = Fields::read(member(part, "functionResponse")?)?;
    inner.get("response").filter(|response| !response.get().starts_with('{')).map(ToOwned::to_owned)
}

pub(super) fn render(message: &Message) -> Rendered {
    use serde_json::json;
    let loss = |what| Err(ConversionError::new(Dialect::Gemini, what));
    let mut parts = Vec::new();
    for part in message.parts() {
        parts.push(match part {
            PartRef::Text(text) => json::object([("text", json::string(text))]),
            PartRef::Image(media) | PartRef::Document(media) => json::value(&media_part(media)?),
            PartRef::Reasoning(_) => return loss("reasoning"),
            PartRef::ToolCall(call) => function_call(call)?,
            PartRef::ToolResult(result) => function_response(result)?,
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => continue,
            PartRef::Opaque(_) => return loss("a part of a kind that only its own provider knows"),
        });
    }
    let role = match message.role() {
        Role::System => return loss("a system message among the messages"),
        Role::User => "user",
        Role::Assistant => "model",
    };
    let parts = json::write_array(parts.iter().map(AsRef::as_ref));
    Ok(vec![json::object([("role", json::value(&json!(role))), ("parts", parts)])])
}

fn function_call(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let args = convert::arguments(Dialect::Gemini, call)?;
    if call.form.as_deref().is_some_and(|form| form != ANONYMOUS) {
        return Err(ConversionError::new(Dialect::Gemini, "a call of a form that only its own provider knows"));
    }
    let inner = [("id", json::string(&call.id)), ("name", json::string(&call.name)), ("args", args)];
    Ok(json::object([("functionCall", json::object(inner))]))
}

fn function_response(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    let loss = |what| Err(ConversionError::new(Dialect::Gemini, what));
    let Some(tool) = &result.tool else { return loss("a tool result without the name of its tool") };
    let place = if result.error { ERROR } else { OUTPUT };
    let (mut texts, mut media) = (Vec::new(), Vec::new());
    for item in &result.content {
        match item {
            ResultItem::Text(text) | ResultItem::Json(text) => texts.push(text.as_str()),
            ResultItem::Image(item) | ResultItem::Document(item) => media.push(media_part(item)?),
            ResultItem::Opaque(_) => return loss("an unknown item of a tool result"),
        }
    }
    let text = match texts.as_slice() {
        [] => json::string(""),
        [text] => json::string(text),
        several => json::value(several),
    };
    let mut inner = Fields::default();
    if result.form.is_none() {
        inner.set("id", json::string(&result.call_id));
    }
    inner.set("name", json::string(tool));
    let response =
        if texts.is_empty() && !result.error { Fields::default().write() } else { json::object([(place, text)]) };
    inner.set("response", response);
    if !media.is_empty() {
        inner.set("parts", json::value(&media));
    }
    Ok(json::object([("functionResponse", inner.write())]))
}

fn media_part(media: &Media) -> Result<Value, ConversionError> {
    use serde_json::json;
    let loss = |what| ConversionError::new(Dialect::Gemini, what);
    let mime = media.mime.as_deref().ok_or_else(|| loss("a picture or file without a media type"))?;
    let (member, mut inner) = match &media.source {
        MediaSource::Base64(data) => ("inlineData", json!({"mimeType": mime, "data": data})),
        MediaSource::Url(url) if !url.starts_with("s3:") => ("fileData", json!({"mimeType": mime, "fileUri": url})),
        MediaSource::Url(_) => return Err(loss(convert::ADDRESS)),
        MediaSource::Text(_) => return Err(loss("a document that is text")),
        MediaSource::Id(_) => return Err(loss(convert::IDENTIFIER)),
    };
    if let (Some(name), Some(inner)) = (&media.name, inner.as_object_mut()) {
        inner.insert("displayName".to_owned(), json!(name));
    }
    Ok(json!({ member: inner }))
}

pub(super) fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"functionDeclarations": [{"name": name, "description": description, "parametersJsonSchema": parameters}]})
}
