//! Reads the messages and responses of Anthropic.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::CONFIG;
use crate::dialect::{DecodeError, Dialect, Response, blocks, response};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Opaque, Reasoning, ResultItem, SystemPart, ToolCall, ToolResult,
    UserPart,
};
use lookback_content::json::{self, Fields};

pub(super) fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = &crate::dialect::fields(raw)?;
    Ok(match &*crate::dialect::role(fields)? {
        "user" => Content::User(parts(fields, user_part)?),
        "assistant" => Content::Assistant(parts(fields, assistant_part)?),
        "system" => Content::System(system_parts(fields)?),
        role => return Err(DecodeError::role(role, Dialect::Anthropic, "user, assistant and system")),
    })
}

/// Reads a system message among the messages. Without content, it may set the configuration for later messages.
fn system_parts(fields: &Fields<'_>) -> Result<Vec<SystemPart>, DecodeError> {
    let mut parts = parts(fields, system_part)?;
    if parts.is_empty()
        && let Some(config) = fields.get(CONFIG)
    {
        parts.push(SystemPart::Opaque(opaque(CONFIG, config)));
    }
    Ok(parts)
}

/// Reads the content. A string is one block of text.
fn parts<T>(fields: &Fields<'_>, part: fn(&str, &Fields<'_>, &RawValue) -> T) -> Result<Vec<T>, DecodeError> {
    let expected = "a string or a list of blocks";
    let content = fields.get("content").ok_or_else(|| DecodeError::member("content", expected))?;
    if json::text(content).is_none() && json::array(content).is_none() {
        return Err(DecodeError::member("content", expected));
    }
    let read = |(index, block): (usize, Cow<'_, RawValue>)| {
        let fields =
            Fields::read(&block).ok_or_else(|| DecodeError::member(format!("content[{index}]"), "an object"))?;
        let kind = fields.text("type").unwrap_or_default();
        Ok(part(&kind, &fields, &block))
    };
    blocks::blocks(content).into_iter().enumerate().map(read).collect()
}

fn opaque(kind: &str, raw: &RawValue) -> Opaque {
    Opaque { kind: kind.to_owned(), raw: raw.to_owned() }
}

fn text(fields: &Fields<'_>, key: &str) -> Option<String> {
    fields.text(key).map(Cow::into_owned)
}

fn system_part(kind: &str, fields: &Fields<'_>, raw: &RawValue) -> SystemPart {
    let known = if kind == "text" { text(fields, "text").map(SystemPart::Text) } else { None };
    known.unwrap_or_else(|| SystemPart::Opaque(opaque(kind, raw)))
}

fn user_part(kind: &str, fields: &Fields<'_>, raw: &RawValue) -> UserPart {
    let known = match kind {
        "text" => text(fields, "text").map(UserPart::Text),
        "image" => media(fields).map(UserPart::Image),
        "document" => media(fields).map(UserPart::Document),
        "tool_result" => tool_result(fields).map(UserPart::ToolResult),
        _ => None,
    };
    known.unwrap_or_else(|| UserPart::Opaque(opaque(kind, raw)))
}

fn assistant_part(kind: &str, fields: &Fields<'_>, raw: &RawValue) -> AssistantPart {
    let known = match kind {
        "text" => text(fields, "text").map(AssistantPart::Text),
        "thinking" => text(fields, "thinking")
            .map(|text| AssistantPart::Reasoning(Reasoning { text, signature: signature(fields) })),
        "redacted_thinking" => text(fields, "data")
            .map(|data| AssistantPart::Reasoning(Reasoning { text: String::new(), signature: Some(data) })),
        "tool_use" => tool_use(fields).map(AssistantPart::ToolCall),
        _ => None,
    };
    known.unwrap_or_else(|| AssistantPart::Opaque(opaque(kind, raw)))
}

/// Returns the signature of thinking. An empty signature counts as none.
fn signature(fields: &Fields<'_>) -> Option<String> {
    text(fields, "signature").filter(|signature| !signature.is_empty())
}

fn tool_use(fields: &Fields<'_>) -> Option<ToolCall> {
    let input = fields.get("input").map_or("null", RawValue::get);
    Some(ToolCall::new(text(fields, "id")?, text(fields, "name")?, input))
}

fn tool_result(fields: &Fields<'_>) -> Option<ToolResult> {
    let item = |block: Cow<'_, RawValue>| {
        let fields = Fields::read(&block)?;
        let kind = fields.text("type").unwrap_or_default();
        let known = match &*kind {
            "text" => text(&fields, "text").map(ResultItem::Text),
            "image" => media(&fields).map(ResultItem::Image),
            "document" => media(&fields).map(ResultItem::Document),
            _ => None,
        };
        Some(known.unwrap_or_else(|| ResultItem::Opaque(opaque(&kind, &block))))
    };
    let content = fields.get("content").filter(|content| content.get() != "null");
    let content = content.map(blocks::blocks).unwrap_or_default().into_iter().map(item).collect::<Option<_>>()?;
    let error = fields.get("is_error").is_some_and(|error| error.get() == "true");
    Some(ToolResult::from_items(text(fields, "tool_use_id")?, content).with_error(error))
}

fn media(fields: &Fields<'_>) -> Option<Media> {
    let source = fields.get("source").and_then(Fields::read)?;
    let data = |key| text(&source, key);
    let from = match &*source.text("type")? {
        "base64" => MediaSource::Base64(data("data")?),
        "text" => MediaSource::Text(data("data")?),
        "url" => MediaSource::Url(data("url")?),
        "file" => MediaSource::Id(data("file_id")?),
        _ => return None,
    };
    Some(Media { mime: data("media_type"), name: text(fields, "title"), source: from })
}

/// Reads a response. Its body is the message, with members that a request may not have.
pub(super) fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
    let role = fields.get("role").ok_or_else(|| DecodeError::member("role", "a string"))?;
    let content = fields.get("content").ok_or_else(|| DecodeError::member("content", "a list of blocks"))?;
    let message = json::object([("role", role.to_owned()), ("content", content.to_owned())]);
    let usage = fields.get("usage").and_then(Fields::read).unwrap_or_default();
    let input = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    Ok(Response {
        message: Dialect::Anthropic.decode_raw(&message)?,
        model: text(fields, "model"),
        input: response::tokens(&usage, &input),
        cached: response::tokens(&usage, &["cache_read_input_tokens"]),
        written: response::tokens(&usage, &["cache_creation_input_tokens"]),
        output: response::tokens(&usage, &["output_tokens"]),
        fills_window: fields.text("stop_reason").is_some_and(|reason| reason == "model_context_window_exceeded"),
        lost_reasoning: response::left_out(fields, "thinking_dropped"),
    })
}
