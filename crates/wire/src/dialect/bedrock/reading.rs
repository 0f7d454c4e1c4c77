//! Reads the messages and responses of Bedrock.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{DOCUMENTS, IMAGES, STRAY_RESULT};
use crate::dialect::{DecodeError, Dialect, Response, response};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Opaque, Reasoning, ResultItem, ToolCall, ToolResult, UserPart,
};
use lookback_content::json::{self, Fields};

pub(super) fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = &crate::dialect::fields(raw)?;
    Ok(match &*crate::dialect::role(fields)? {
        "user" => Content::User(parts(fields, user_part)?),
        "assistant" => Content::Assistant(answer(fields)?),
        role => return Err(DecodeError::role(role, Dialect::Bedrock, "user and assistant")),
    })
}

/// Reads an assistant message.
///
/// It may have uses of tools that the provider runs itself, together with their results. The client does not answer
/// these.
fn answer(fields: &Fields<'_>) -> Result<Vec<AssistantPart>, DecodeError> {
    let mut answer = parts(fields, assistant_part)?;
    let raws = fields.get("content").and_then(json::array).unwrap_or_default();
    let inner = |raw: &RawValue, kind: &str| Fields::read(raw).and_then(|block| block.get(kind).map(ToOwned::to_owned));
    let result = |raw: &&RawValue| {
        let result = inner(raw, "toolResult")?;
        Fields::read(&result)?.text("toolUseId").map(owned)
    };
    let answered: HashSet<String> = raws.iter().filter_map(result).collect();
    let asked: HashSet<String> = answer
        .iter()
        .filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        })
        .collect();
    for (part, raw) in answer.iter_mut().zip(raws) {
        if let AssistantPart::Opaque(opaque) = part
            && result(&raw).is_some_and(|id| !asked.contains(&id))
        {
            opaque.kind = STRAY_RESULT.to_owned();
        }
        if let AssistantPart::ToolCall(call) = part {
            let is_hosted = || {
                let tool_use = inner(raw, "toolUse");
                let fields = tool_use.as_deref().and_then(Fields::read);
                fields.is_some_and(|fields| fields.text("type").is_some_and(|kind| kind == "server_tool_use"))
            };
            if answered.contains(&call.id) || is_hosted() {
                *part = AssistantPart::Opaque(Opaque { kind: "toolUse".to_owned(), raw: raw.to_owned() });
            }
        }
    }
    Ok(answer)
}

fn parts<T>(fields: &Fields<'_>, part: fn(&str, &RawValue, &RawValue) -> Option<T>) -> Result<Vec<T>, DecodeError>
where
    T: From<Opaque>,
{
    let content = fields.get("content").and_then(json::array);
    let content = content.ok_or_else(|| DecodeError::member("content", "a list of blocks"))?;
    let read = |(index, block): (usize, &RawValue)| {
        let fields =
            Fields::read(block).ok_or_else(|| DecodeError::member(format!("content[{index}]"), "an object"))?;
        // A block is an object with one member, whose key is the kind of the block.
        let kind = fields.keys().next().unwrap_or_default().to_owned();
        let known = fields.get(&kind).and_then(|value| part(&kind, value, block));
        Ok(known.unwrap_or_else(|| T::from(Opaque { kind, raw: block.to_owned() })))
    };
    content.into_iter().enumerate().map(read).collect()
}

impl From<Opaque> for UserPart {
    fn from(opaque: Opaque) -> Self {
        UserPart::Opaque(opaque)
    }
}

impl From<Opaque> for AssistantPart {
    fn from(opaque: Opaque) -> Self {
        AssistantPart::Opaque(opaque)
    }
}

pub(super) fn owned(text: Cow<'_, str>) -> String {
    text.into_owned()
}

fn user_part(kind: &str, value: &RawValue, _: &RawValue) -> Option<UserPart> {
    match kind {
        "text" => json::text(value).map(owned).map(UserPart::Text),
        "image" => media(value, IMAGES).map(UserPart::Image),
        "document" => media(value, DOCUMENTS).map(UserPart::Document),
        "toolResult" => tool_result(value).map(UserPart::ToolResult),
        _ => None,
    }
}

fn assistant_part(kind: &str, value: &RawValue, _: &RawValue) -> Option<AssistantPart> {
    match kind {
        "text" => json::text(value).map(owned).map(AssistantPart::Text),
        "toolUse" => {
            let fields = Fields::read(value)?;
            let input = fields.get("input").map_or("null", RawValue::get);
            let (id, name) = (fields.text("toolUseId")?, fields.text("name")?);
            Some(AssistantPart::ToolCall(ToolCall::new(id, name, input)))
        }
        "reasoningContent" => {
            let fields = Fields::read(value)?;
            let reasoning = if let Some(text) = fields.get("reasoningText").and_then(Fields::read) {
                Reasoning { text: text.text("text").map(owned)?, signature: text.text("signature").map(owned) }
            } else {
                Reasoning { text: String::new(), signature: Some(fields.text("redactedContent").map(owned)?) }
            };
            Some(AssistantPart::Reasoning(reasoning))
        }
        _ => None,
    }
}

fn tool_result(value: &RawValue) -> Option<ToolResult> {
    let fields = Fields::read(value)?;
    let item = |block: &RawValue| {
        let fields = Fields::read(block)?;
        let kind = fields.keys().next().unwrap_or_default().to_owned();
        let known = fields.get(&kind).and_then(|value| match kind.as_str() {
            "text" => json::text(value).map(owned).map(ResultItem::Text),
            "json" => Some(ResultItem::Json(value.get().to_owned())),
            "image" => media(value, IMAGES).map(ResultItem::Image),
            "document" => media(value, DOCUMENTS).map(ResultItem::Document),
            _ => None,
        });
        Some(known.unwrap_or_else(|| ResultItem::Opaque(Opaque { kind, raw: block.to_owned() })))
    };
    let content = fields.get("content").and_then(json::array)?.into_iter().map(item).collect::<Option<_>>()?;
    let error = fields.text("status").is_some_and(|status| status == "error");
    Some(ToolResult::from_items(fields.text("toolUseId")?, content).with_error(error))
}

fn media(value: &RawValue, formats: &[(&str, &str)]) -> Option<Media> {
    let fields = Fields::read(value)?;
    let source = fields.get("source").and_then(Fields::read)?;
    let place = || source.get("s3Location").and_then(Fields::read)?.text("uri").map(owned);
    let from = match (source.text("bytes"), source.text("text"), place()) {
        (Some(data), ..) => MediaSource::Base64(owned(data)),
        (None, Some(text), _) => MediaSource::Text(owned(text)),
        (None, None, Some(uri)) => MediaSource::Url(uri),
        (None, None, None) => return None,
    };
    let format = fields.text("format");
    let mime = formats.iter().find(|(name, _)| format.as_deref() == Some(*name)).map(|(_, mime)| (*mime).to_owned());
    Some(Media { mime, name: fields.text("name").map(owned), source: from })
}

/// Reads a response. Its body does not name the model.
pub(super) fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
    let output = fields.get("output").and_then(Fields::read).unwrap_or_default();
    let message = output.get("message").ok_or_else(|| DecodeError::member("output.message", "a message"))?;
    let usage = fields.get("usage").and_then(Fields::read).unwrap_or_default();
    let input = ["inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"];
    Ok(Response {
        message: Dialect::Bedrock.decode_raw(message)?,
        model: None,
        input: response::tokens(&usage, &input),
        cached: response::tokens(&usage, &["cacheReadInputTokens"]),
        written: response::tokens(&usage, &["cacheWriteInputTokens"]),
        output: response::tokens(&usage, &["outputTokens"]),
        fills_window: false,
        lost_reasoning: 0,
    })
}
