//! Exports of opencode: messages with parts, in which a call has its result.

use std::collections::HashMap;

use lookback_wire::dialect::Dialect;
use lookback_wire::edit::Cut;
use lookback_wire::message::{Media, MediaSource, Message, PartRef, ResultItem, Role, ToolResult};
use serde_json::{Value, json};

use super::{Handoff, Resumable, Resume, command, put};
use crate::home::Home;

pub(super) struct Opencode;

impl Resume for Opencode {
    fn agent(&self) -> &'static str {
        "opencode"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn wants_model(&self) -> bool {
        true
    }

    fn write(&self, handoff: &Handoff<'_>, _: &Home) -> Resumable {
        let session = format!("ses_{}", handoff.id.replace('-', ""));
        let answers = handoff.messages.iter().flat_map(Message::tool_results);
        let results: HashMap<&str, &ToolResult> =
            answers.map(|(_, result)| (result.call_id.as_str(), result)).collect();
        let mut export = Export { handoff, session: &session, results, parent: None, messages: Vec::new() };
        for (index, message) in handoff.messages.iter().enumerate() {
            export.message(index, message);
        }
        let (first, last) = (handoff.time_of(0).as_millisecond(), handoff.time_of(handoff.elements.len()));
        let text = json!({
            "info": {
                "id": session,
                "slug": "handoff",
                "projectID": "global",
                "directory": handoff.project,
                "title": handoff.title(),
                "version": "1.0.0",
                "time": {"created": first, "updated": last.as_millisecond()},
            },
            "messages": export.messages,
        });
        let resume = command(&["opencode", "--session", &session]);
        Resumable {
            place: None,
            marker: None,
            text: format!("{text}\n"),
            import: command(&["opencode", "import"]),
            resume,
        }
    }
}

struct Export<'a> {
    handoff: &'a Handoff<'a>,
    session: &'a str,
    results: HashMap<&'a str, &'a ToolResult>,
    /// The person's message that the next answer is for.
    parent: Option<String>,
    messages: Vec<Value>,
}

impl Export<'_> {
    fn message(&mut self, index: usize, message: &Message) {
        let time = self.handoff.time_of(index).as_millisecond();
        // The order is that of times and of identifiers.
        let id = format!("msg_{}{index:06}", self.handoff.id.get(..8).unwrap_or_default());
        let is_answer = message.role() == Role::Assistant;
        let mut parts: Vec<Value> = message.parts().filter_map(|part| self.part(part, time)).collect();
        for (at, part) in parts.iter_mut().filter_map(Value::as_object_mut).enumerate() {
            let own = json!(format!("prt_{}{at:04}", id.trim_start_matches("msg_")));
            put(part, [("id", own), ("sessionID", json!(self.session)), ("messageID", json!(id))]);
        }
        // Results are with their calls.
        if parts.is_empty() {
            return;
        }
        let (provider, model) = self.handoff.model();
        let info = if is_answer {
            let has_calls = message.tool_calls().next().is_some();
            json!({
                "id": id,
                "sessionID": self.session,
                "role": "assistant",
                "time": {"created": time, "completed": time},
                "parentID": self.parent,
                "modelID": model,
                "providerID": provider,
                "mode": "build",
                "agent": "build",
                "path": {"cwd": self.handoff.project, "root": self.handoff.project},
                "cost": 0,
                "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
                "finish": if has_calls { "tool-calls" } else { "stop" },
            })
        } else {
            self.parent = Some(id.clone());
            json!({
                "id": id,
                "sessionID": self.session,
                "role": "user",
                "time": {"created": time},
                "agent": "build",
                "model": {"providerID": provider, "modelID": model},
            })
        };
        self.messages.push(json!({"info": info, "parts": parts}));
    }

    fn part(&self, part: PartRef<'_>, time: i64) -> Option<Value> {
        match part {
            PartRef::Text(text) => Some(json!({"type": "text", "text": text})),
            PartRef::Image(media) => Some(picture(media)),
            PartRef::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
                let result = self.results.get(call.id.as_str());
                let output = result.map(|result| output(result)).unwrap_or_default();
                let time = json!({"start": time, "end": time});
                let state = match result {
                    Some(result) if !result.error => json!({
                        "status": "completed", "input": input, "output": output, "title": "", "metadata": {}, "time": time,
                    }),
                    _ => json!({"status": "error", "input": input, "error": output, "time": time}),
                };
                Some(json!({"type": "tool", "tool": call.name, "callID": call.id, "state": state}))
            }
            _ => None,
        }
    }
}

fn output(result: &ToolResult) -> String {
    let text = |item: &ResultItem| match item {
        ResultItem::Text(text) => text.clone(),
        ResultItem::Image(media) => Cut::placeholder(media, "image").marker,
        ResultItem::Document(media) => Cut::placeholder(media, "file").marker,
        _ => String::new(),
    };
    result.content.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn picture(media: &Media) -> Value {
    let mime = media.mime.as_deref().unwrap_or("image/png");
    match &media.source {
        MediaSource::Base64(data) => {
            json!({"type": "file", "mime": mime, "filename": "picture", "url": format!("data:{mime};base64,{data}")})
        }
        MediaSource::Url(url) => json!({"type": "text", "text": url}),
        _ => json!({"type": "text", "text": Cut::placeholder(media, "image").marker}),
    }
}
