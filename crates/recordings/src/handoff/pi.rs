//! Sessions of pi: a header, and lines that name the line before them.

use std::collections::HashMap;

use lookback_wire::dialect::Dialect;
use lookback_wire::edit::Cut;
use lookback_wire::message::{Media, MediaSource, Message, PartRef, ResultItem, Role};
use serde_json::{Value, json};

use super::{Handoff, Resumable, Resume, command, lines};
use crate::home::Home;

pub(super) struct Pi;

impl Resume for Pi {
    fn agent(&self) -> &'static str {
        "pi"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn wants_model(&self) -> bool {
        true
    }

    fn write(&self, handoff: &Handoff<'_>, home: &Home) -> Resumable {
        let id = handoff.id;
        let mut values = vec![json!({
            "type": "session",
            "version": 3,
            "id": id,
            "timestamp": handoff.written_time(0),
            "cwd": handoff.project,
        })];
        let calls = handoff.messages.iter().flat_map(Message::tool_calls);
        let tools: HashMap<&str, &str> = calls.map(|(_, call)| (call.id.as_str(), call.name.as_str())).collect();
        for (index, message) in handoff.messages.iter().enumerate() {
            for message in messages(handoff, &tools, index, message) {
                let number = values.len();
                values.push(json!({
                    "type": "message",
                    "id": format!("{number:08x}"),
                    "parentId": number.checked_sub(1).filter(|before| *before > 0).map(|before| format!("{before:08x}")),
                    "timestamp": handoff.written_time(index),
                    "message": message,
                }));
            }
        }
        let path = handoff.project.to_string_lossy();
        let path = path.trim_start_matches(['/', '\\']).replace(['/', '\\', ':'], "-");
        let folder = home.below("PI_CODING_AGENT_DIR", ".pi/agent", "sessions").join(format!("--{path}--"));
        Resumable {
            place: Some(folder.join(format!("{}-000Z_{id}.jsonl", handoff.file_time()))),
            marker: None,
            text: lines(values),
            import: Vec::new(),
            resume: command(&["pi", "--session", id]),
        }
    }
}

/// Returns a message in pi's form. Each result is a message of its own.
fn messages(handoff: &Handoff<'_>, tools: &HashMap<&str, &str>, index: usize, message: &Message) -> Vec<Value> {
    let time = handoff.time_of(index).as_millisecond();
    if message.role() == Role::Assistant {
        let content: Vec<Value> = message.parts().filter_map(said).collect();
        let has_calls = message.tool_calls().next().is_some();
        let (provider, model) = handoff.model();
        let api = match provider {
            "openai" => "openai-responses",
            "google" => "google-generative-ai",
            _ => "anthropic-messages",
        };
        return vec![json!({
            "role": "assistant",
            "content": content,
            "api": api,
            "provider": provider,
            "model": model,
            "usage": {
                "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
            },
            "stopReason": if has_calls { "toolUse" } else { "stop" },
            "timestamp": time,
        })];
    }
    let results = message.tool_results().map(|(_, result)| {
        let items: Vec<Value> = result.content.iter().map(item).collect();
        json!({
            "role": "toolResult",
            "toolCallId": result.call_id,
            "toolName": tools.get(result.call_id.as_str()),
            "content": items,
            "isError": result.error,
            "timestamp": time,
        })
    });
    let mut all: Vec<Value> = results.collect();
    let words: Vec<Value> = message.parts().filter_map(said).collect();
    if !words.is_empty() {
        all.push(json!({"role": "user", "content": words, "timestamp": time}));
    }
    all
}

fn said(part: PartRef<'_>) -> Option<Value> {
    match part {
        PartRef::Text(text) => Some(json!({"type": "text", "text": text})),
        PartRef::Image(media) => Some(picture(media)),
        PartRef::ToolCall(call) => {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            Some(json!({"type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments}))
        }
        _ => None,
    }
}

fn item(item: &ResultItem) -> Value {
    match item {
        ResultItem::Text(text) => json!({"type": "text", "text": text}),
        ResultItem::Image(media) => picture(media),
        ResultItem::Document(media) => json!({"type": "text", "text": Cut::placeholder(media, "file").marker}),
        _ => json!({"type": "text", "text": ""}),
    }
}

/// Returns a picture. pi has only pictures in base64.
fn picture(media: &Media) -> Value {
    match &media.source {
        MediaSource::Base64(data) => {
            let mime = media.mime.as_deref().unwrap_or("image/png");
            json!({"type": "image", "data": data, "mimeType": mime})
        }
        _ => json!({"type": "text", "text": Cut::placeholder(media, "image").marker}),
    }
}
