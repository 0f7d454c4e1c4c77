//! Writes messages and tools for the Responses API, and edits and mends the messages that are sent.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;
use serde_json::value::RawValue;

use super::faults::faults;
use super::item;
use super::reading::{Kind, pieces};
use super::rules::{Open, is_lone};
use crate::dialect::content::{edited, element, text};
use crate::dialect::format::{Mends, Rendered, Sending};
use crate::dialect::{ConversionError, Dialect, Mend, Mended, Severity, Shown, Target, convert};
use crate::edit::{self, Edit};
use crate::message::{Media, MediaSource, Message, PartRef, ResultItem, ToolCall, ToolResult};
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::Provider;

/// The outgoing items, each with the index of its message, and the changes to them.
#[derive(Default)]
pub(super) struct Outgoing<'a> {
    pub(super) items: Vec<(usize, Cow<'a, RawValue>)>,
    mends: Vec<Mended>,
}

pub(super) fn mends(sending: &Sending<'_>, shown: &[Shown<'_>]) -> Mends {
    let mut mends = Outgoing::new(sending, shown)?.mends;
    mends.sort_by_key(|mended| mended.message);
    Ok(mends)
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(sending: &Sending<'_>, shown: &[Shown<'a>]) -> Result<Outgoing<'a>, ConversionError> {
        let mut out = Outgoing::default();
        for (index, Shown { message, edits }) in shown.iter().copied().enumerate() {
            let own = |raw: Box<RawValue>| (index, Cow::Owned(raw));
            match message.wire().filter(|wire| wire.dialect == Dialect::OpenAiResponses) {
                Some(wire) if edits.is_empty() => {
                    out.items.extend(pieces(&wire.raw).into_iter().map(|raw| (index, Cow::Borrowed(raw))));
                }
                Some(wire) => out.items.extend(edit(message, &wire.raw, edits).into_iter().map(own)),
                None => {
                    for message in Dialect::OpenAiResponses.convert(message)? {
                        let raw = message.wire().map(|wire| edit(&message, &wire.raw, edits));
                        out.items.extend(raw.unwrap_or_default().into_iter().map(own));
                    }
                }
            }
        }
        out.remove_refused(sending.target);
        out.mend_members(sending.target);
        if sending.target.is(Provider::DeepSeek) == Some(true) {
            out.answer_at_once();
        }
        Ok(out)
    }

    /// Removes reasoning without the following item that it needs (OR2), and triggers that are not the last item (OR8).
    fn remove_refused(&mut self, target: &Target) {
        let Outgoing { items, mends } = self;
        let mut kept: Vec<(usize, Cow<'a, RawValue>)> = Vec::with_capacity(items.len());
        // Backwards, because the last of several reasoning items decides about those before it.
        for (index, raw) in std::mem::take(items).into_iter().rev() {
            let next = kept.last().map(|(_, next)| &**next);
            let is_refused = match Kind::detect(&raw) {
                Kind::Reasoning => is_lone(target, &raw, next).is_some_and(|rule| rule.severity == Severity::Refused),
                Kind::Trigger => next.is_some(),
                Kind::Other => false,
            };
            if is_refused {
                mends.push(Mend::Removed { elements: 1 }.at(index));
            } else {
                kept.push((index, raw));
            }
        }
        kept.reverse();
        *items = kept;
    }

    /// Sends each output before the next message, if it comes later (OR10).
    fn answer_at_once(&mut self) {
        let Outgoing { items, mends } = self;
        let mut outputs: HashMap<String, VecDeque<usize>> = HashMap::new();
        for (place, (_, raw)) in items.iter().enumerate() {
            if let Some(id) = item::answers(raw) {
                outputs.entry(id).or_default().push_back(place);
            }
        }
        let mut left: Vec<Option<(usize, Cow<'a, RawValue>)>> = std::mem::take(items).into_iter().map(Some).collect();
        let mut open = Open::default();
        for place in 0..left.len() {
            let Some((index, raw)) = left.get_mut(place).and_then(Option::take) else { continue };
            if item::is_message(&raw) {
                for (_, id) in open.take() {
                    let output = outputs.get_mut(&id).and_then(VecDeque::pop_front);
                    let output = output.and_then(|output| left.get_mut(output)).and_then(Option::take);
                    mends.extend(output.iter().map(|(index, _)| Mend::Moved.at(*index)));
                    items.extend(output);
                }
            }
            if let Some(id) = item::answers(&raw) {
                open.answer(&id);
                outputs.entry(id).or_default().pop_front();
            }
            item::asks(&raw).into_iter().for_each(|id| open.ask(place, id));
            items.push((index, raw));
        }
    }

    /// Mends members that the provider refuses (OR6, OR7, OR14).
    fn mend_members(&mut self, target: &Target) {
        let Outgoing { items, mends } = self;
        let mut seen = HashSet::new();
        for (index, raw) in items {
            let mended = Fields::read(raw).and_then(|mut fields| {
                let mut faults = faults(&fields, &mut seen);
                faults.retain(|fault| fault.rule(target).is_some_and(|rule| rule.severity == Severity::Refused));
                faults.iter().for_each(|fault| fault.mend(&mut fields));
                (!faults.is_empty()).then(|| fields.write())
            });
            if let Some(mended) = mended {
                *raw = Cow::Owned(mended);
                if mends.last() != Some(&Mend::MembersMended.at(*index)) {
                    mends.push(Mend::MembersMended.at(*index));
                }
            }
        }
    }
}

/// Applies the edits of a message. Returns the remaining items.
fn edit(message: &Message, raw: &RawValue, edits: &[Edit]) -> Vec<Box<RawValue>> {
    if edit::hides_all(message, edits) {
        return Vec::new();
    }
    let mut parts = message.parts();
    if json::array(raw).is_none() {
        let parts: Vec<_> = parts.collect();
        return edit_item(raw, 0, &parts, edits).into_iter().collect();
    }
    let mut first = 0;
    let edited = pieces(raw).into_iter().filter_map(|piece| {
        let at = first;
        let parts: Vec<_> = parts.by_ref().take(item::len(piece)).collect();
        first += parts.len();
        let changes = (at..first).any(|part| edit::touches(edits, part));
        if changes { edit_item(piece, at, &parts, edits) } else { Some(piece.to_owned()) }
    });
    edited.collect()
}

/// Applies the edits of an item whose first part has this index. Returns `None` if the item becomes empty.
fn edit_item(raw: &RawValue, first: usize, parts: &[PartRef<'_>], edits: &[Edit]) -> Option<Box<RawValue>> {
    if (first..first + parts.len()).all(|part| edit::is_hidden(edits, part)) {
        return None;
    }
    let mut fields = Fields::read(raw)?;
    match *parts {
        [PartRef::ToolCall(_)] => {
            if let Some(id) = edit::renamed(edits, first) {
                fields.set(if fields.get("call_id").is_some() { "call_id" } else { "id" }, json::string(id));
            }
            if let Some(arguments) = edit::arguments(edits, first) {
                fields.set("arguments", json::string(arguments));
            }
        }
        [PartRef::ToolResult(result)] => {
            if let Some(id) = edit::renamed(edits, first) {
                let places = ["call_id", "approval_request_id"];
                let place = places.into_iter().find(|place| fields.get(place).is_some()).unwrap_or("id");
                fields.set(place, json::string(id));
            }
            let shown = |item: usize| element(edits, first, item, result.content.get(item).and_then(ResultItem::text));
            if let Some(output) = fields.get("output").and_then(|output| edited(output, shown, input_text)) {
                fields.set("output", output);
            }
        }
        _ => {
            let shown = |at: usize| element(edits, first + at, 0, parts.get(at).and_then(text));
            if let Some(content) = edited(fields.get("content")?, shown, input_text) {
                fields.set("content", content);
            }
        }
    }
    Some(fields.write())
}

fn input_text(text: &str) -> Box<RawValue> {
    json::object([("type", json::string("input_text")), ("text", json::string(text))])
}

fn loss(what: &'static str) -> ConversionError {
    ConversionError::new(Dialect::OpenAiResponses, what)
}

pub(super) fn render(message: &Message) -> Rendered {
    let mut items = Vec::new();
    let mut content = Vec::new();
    for part in message.parts() {
        match part {
            PartRef::Text(text) if message.role() == Role::Assistant => {
                items.push(said("assistant", json::string(text)));
            }
            PartRef::Text(text) => content.push(input_text(text)),
            PartRef::Image(media) => content.push(image(media)?),
            PartRef::Document(media) => content.push(file(media)?),
            PartRef::ToolCall(call) => items.push(function_call(call)?),
            PartRef::ToolResult(result) => items.push(tool_output(result)?),
            PartRef::Reasoning(_) => return Err(loss("reasoning")),
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
            PartRef::Opaque(_) => return Err(loss("a part of a kind that only its own provider knows")),
        }
    }
    let role = match message.role() {
        Role::Assistant => {
            return Ok(vec![match items.as_slice() {
                [only] => only.clone(),
                [] => said("assistant", json::string("")),
                several => json::write_array(several.iter().map(AsRef::as_ref)),
            }]);
        }
        Role::System => "system",
        Role::User => "user",
    };
    if !content.is_empty() || items.is_empty() {
        let only_text = match message.parts().next() {
            Some(PartRef::Text(text)) if message.parts().count() == 1 => Some(json::string(text)),
            _ => None,
        };
        let all = || json::write_array(content.iter().map(AsRef::as_ref));
        items.push(said(role, only_text.unwrap_or_else(all)));
    }
    Ok(items)
}

fn said(role: &str, content: Box<RawValue>) -> Box<RawValue> {
    // Some servers refuse a message without its type.
    json::object([("type", json::string("message")), ("role", json::string(role)), ("content", content)])
}

fn function_call(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    if call.form.is_some() {
        return Err(loss("a call of a form that only its own provider knows"));
    }
    Ok(json::object([
        ("type", json::string("function_call")),
        ("call_id", json::string(&call.id)),
        ("name", json::string(&call.name)),
        ("arguments", json::string(&call.arguments)),
    ]))
}

fn tool_output(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    if result.error {
        return Err(loss("that a tool result is an error"));
    }
    let output = match result.content.as_slice() {
        [ResultItem::Text(text) | ResultItem::Json(text)] => json::string(text),
        items => {
            let items = items.iter().map(|item| match item {
                ResultItem::Text(text) | ResultItem::Json(text) => Ok(input_text(text)),
                ResultItem::Image(media) => image(media),
                ResultItem::Document(media) => file(media),
                ResultItem::Opaque(_) => Err(loss("an unknown item of a tool result")),
            });
            let items = items.collect::<Result<Vec<_>, _>>()?;
            json::write_array(items.iter().map(AsRef::as_ref))
        }
    };
    Ok(item::output(result, output))
}

fn image(media: &Media) -> Result<Box<RawValue>, ConversionError> {
    let url = convert::url(media).ok_or_else(|| loss("an image by its identifier, or by this address"))?;
    Ok(json::object([("type", json::string("input_image")), ("image_url", json::string(&url))]))
}

fn file(media: &Media) -> Result<Box<RawValue>, ConversionError> {
    let (member, value) = match (&media.source, convert::url(media)) {
        (MediaSource::Id(_), _) => return Err(loss(convert::IDENTIFIER)),
        (MediaSource::Url(_), Some(url)) => ("file_url", url),
        (MediaSource::Base64(_), Some(data)) => ("file_data", data),
        _ => return Err(loss("a document that is text, or without a media type")),
    };
    let mut part = Fields::default();
    part.set("type", json::string("input_file"));
    if let Some(name) = &media.name {
        part.set("filename", json::string(name));
    }
    part.set(member, json::string(&value));
    Ok(part.write())
}

pub(super) fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    serde_json::json!({"type": "function", "name": name, "description": description, "parameters": parameters})
}
