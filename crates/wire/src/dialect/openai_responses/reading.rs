//! Reads the messages and responses of the Responses API.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::item;
use crate::dialect::{DecodeError, Dialect, Response, response};
use crate::message::{AssistantPart, Content, Message};
use lookback_content::json::{self, Fields};

/// Reads an item, or a list of items of the model.
///
/// Such a list may have calls that the provider ran itself, together with their outputs. The client does not answer
/// these.
pub(super) fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let Some(pieces) = json::array(raw) else { return item::decode(raw) };
    let answered: HashSet<String> = pieces.iter().filter_map(|piece| item::answers(piece)).collect();
    let mut parts = Vec::new();
    for piece in &pieces {
        match item::decode(piece)? {
            Content::Assistant(own) => parts.extend(own.into_iter().map(|part| match part {
                AssistantPart::ToolCall(call) if answered.contains(&call.id) => item::opaque_part(piece),
                part => part,
            })),
            Content::System(_) | Content::User(_) => parts.push(item::opaque_part(piece)),
        }
    }
    if pieces.is_empty() {
        return Err(DecodeError::member("[0]", "an item"));
    }
    Ok(Content::Assistant(parts))
}

/// Returns the items of a message.
pub(super) fn pieces(raw: &RawValue) -> Vec<&RawValue> {
    json::array(raw).unwrap_or_else(|| vec![raw])
}

/// The kinds of items that are allowed only at some places.
#[derive(PartialEq)]
pub(super) enum Kind {
    Reasoning,
    Trigger,
    Other,
}

impl Kind {
    pub(super) fn detect(raw: &RawValue) -> Kind {
        // Most items are neither, and need not be parsed.
        let has = |kind: &str| raw.get().contains(kind);
        if !has(item::REASONING) && !has(item::TRIGGER) {
            return Kind::Other;
        }
        match Fields::read(raw).as_ref().map(item::kind).as_deref() {
            Some(item::REASONING) => Kind::Reasoning,
            Some(item::TRIGGER) => Kind::Trigger,
            _ => Kind::Other,
        }
    }
}

/// Returns the items of a message.
pub(super) fn pieces_of(message: &Message) -> Vec<&RawValue> {
    message.wire().map(|wire| pieces(&wire.raw)).unwrap_or_default()
}

/// Reads a response: all items of its output are one message.
pub(super) fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
    let output = fields.get("output").filter(|output| json::array(output).is_some());
    let output = output.ok_or_else(|| DecodeError::member("output", "a list of items"))?;
    // A single item is not a list, as in a request.
    let items = pieces(output);
    let message = if let [only] = items.as_slice() { only } else { output };
    let usage = fields.get("usage").and_then(Fields::read).unwrap_or_default();
    Ok(Response {
        message: Dialect::OpenAiResponses.decode_raw(message)?,
        model: fields.text("model").map(Cow::into_owned),
        input: response::tokens(&usage, &["input_tokens"]),
        cached: response::detail(&usage, "input_tokens_details", "cached_tokens"),
        written: response::detail(&usage, "input_tokens_details", "cache_write_tokens"),
        output: response::tokens(&usage, &["output_tokens"]),
        fills_window: false,
        lost_reasoning: response::left_out(fields, "reasoning"),
    })
}
