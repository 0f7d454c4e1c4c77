//! Messages of pydantic-ai, as `ModelMessagesTypeAdapter` writes them.

use lookback_content::json;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, Media, ResultItem, UserPart};
use serde_json::value::RawValue;

use super::parts::{call, media, reasoning, result, text, words};
use super::{Conversation, Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct PydanticAi;

impl Format for PydanticAi {
    fn name(&self) -> &'static str {
        "pydantic-ai"
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any_message(|message| {
            let has_kinds = message.first("parts").is_some_and(|part| part.has("part_kind"));
            matches!(&*message.text("kind"), "request" | "response") && (has_kinds || message.has("model_name"))
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        for Conversation { id, messages, .. } in source.conversations(reading.name) {
            let mut draft = Draft::new(id, Dialect::Anthropic);
            for (line, message) in messages {
                let Some(message) = Object::read(message) else { continue };
                match &*message.text("kind") {
                    "request" => request(&mut draft, line, &message),
                    "response" => response(&mut draft, line, &message),
                    _ => reading.leave_out(line, Reason::NoMessage),
                }
            }
            reading.push(draft)?;
        }
        Ok(())
    }
}

fn request<'a>(draft: &mut Draft<'a>, line: usize, message: &Object<'a>) {
    // The newest instructions replace all others.
    draft.system = message.get("instructions").or(draft.system);
    let parts = message.objects("parts");
    let time = parts.iter().find_map(|part| part.time("timestamp")).or_else(|| message.time("timestamp"));
    let mut said = Vec::new();
    for part in &parts {
        match &*part.text("part_kind") {
            "system-prompt" => draft.system_message(line, time, &part.text("content")),
            "user-prompt" => said.extend(user(part)),
            "tool-return" => {
                let failed = matches!(&*part.text("outcome"), "failed" | "retried");
                said.push(result(&part.text("tool_call_id"), returned(part), failed));
            }
            "retry-prompt" => {
                let content = part.get("content").map(text).unwrap_or_default();
                let content = format!("{content}\n\nFix the errors and try again.");
                said.push(if part.has("tool_name") {
                    result(&part.text("tool_call_id"), vec![ResultItem::Text(content)], true)
                } else {
                    UserPart::Text(content)
                });
            }
            "retry-feedback" | "speech" | "compaction" => {
                said.extend(part.get("content").and_then(|content| words(&text(content))).map(UserPart::Text));
            }
            _ => {}
        }
    }
    draft.user(line, time, said);
}

/// Returns what a tool returned: a text, JSON, or a list with pictures in it.
fn returned(part: &Object<'_>) -> Vec<ResultItem> {
    let Some(content) = part.get("content") else { return Vec::new() };
    let list = part.list("content").unwrap_or_default();
    if !list.iter().filter_map(|item| Object::read(item)).any(|item| item.text("kind") == "binary") {
        return words(&text(content)).map(ResultItem::Text).into_iter().collect();
    }
    let item = |item: &RawValue| match Object::read(item).and_then(|item| picture(&item)) {
        Some(picture) => Some(ResultItem::Image(picture)),
        None => words(&text(item)).map(ResultItem::Text),
    };
    list.into_iter().filter_map(item).collect()
}

fn picture(item: &Object<'_>) -> Option<Media> {
    match &*item.text("kind") {
        "image-url" => Some(media(&item.str("url")?, None)),
        "binary" if item.text("media_type").starts_with("image/") => {
            // It is written for URLs, with other letters.
            let data = item.str("data")?.replace('-', "+").replace('_', "/");
            Some(media(&data, item.str("media_type").as_deref()))
        }
        _ => None,
    }
}

fn user(part: &Object<'_>) -> Vec<UserPart> {
    if let Some(text) = part.str("content") {
        return words(&text).map(UserPart::Text).into_iter().collect();
    }
    let item = |item: &RawValue| {
        if let Some(text) = json::text(item) {
            return words(&text).map(UserPart::Text);
        }
        let item = Object::read(item)?;
        match &*item.text("kind") {
            "text-content" | "structured-content" => {
                item.get("content").and_then(|content| words(&text(content))).map(UserPart::Text)
            }
            _ => picture(&item).map(UserPart::Image),
        }
    };
    part.list("content").unwrap_or_default().into_iter().filter_map(item).collect()
}

fn response(draft: &mut Draft<'_>, line: usize, message: &Object<'_>) {
    let time = message.time("timestamp");
    let said = message.objects("parts").iter().filter_map(assistant).collect();
    let before = draft.elements.len();
    draft.assistant(line, time, said);
    let Some(reported) = message.object("usage") else { return };
    let mut usage = RecordedUsage::new(0);
    (usage.cache_read, usage.cache_write) =
        (reported.tokens("cache_read_tokens"), reported.tokens("cache_write_tokens"));
    // Versions before 1.0 have other names.
    let input = reported.tokens("input_tokens").max(reported.tokens("request_tokens"));
    usage.input = input.saturating_sub(usage.cache_read + usage.cache_write);
    usage.output = reported.tokens("output_tokens").max(reported.tokens("response_tokens"));
    usage.model = message.string("model_name");
    draft.used(draft.elements.len() > before, time, usage);
}

fn assistant(part: &Object<'_>) -> Option<AssistantPart> {
    match &*part.text("part_kind") {
        "text" => words(&part.text("content")).map(AssistantPart::Text),
        "thinking" => reasoning(&part.text("content"), part.str("signature").as_deref()),
        "tool-call" => Some(call(&part.text("tool_call_id"), &part.text("tool_name"), part.get("args"))),
        _ => None,
    }
}
