//! Tasks of Cline and of its relatives, Roo Code and Kilo Code: lists of Anthropic's messages, with a few members more.

use std::path::{Path, PathBuf};

use lookback_content::json;
use lookback_wire::dialect::Dialect;
use serde_json::value::RawValue;

use super::{Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

/// The members of a block that were never sent.
const OWN: [&str; 4] = ["call_id", "ts", "reasoning_details", "metadata"];

pub(super) struct Cline;

impl Format for Cline {
    fn name(&self) -> &'static str {
        "Cline"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        const EXTENSIONS: [&str; 3] = ["saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"];
        const EDITORS: [&str; 4] = ["Code", "Code - Insiders", "VSCodium", "Cursor"];
        let mut folders = vec![home.below("CLINE_DIR", ".cline", "data")];
        for editor in EDITORS {
            for extension in EXTENSIONS {
                folders.extend(home.config(&format!("{editor}/User/globalStorage/{extension}/tasks")));
            }
        }
        folders
    }

    fn is_log(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name == "api_conversation_history.json" || name.ends_with(".messages.json")
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        // Other programs give messages of other providers a time.
        if source.any_message(|message| message.has("tool_calls") || message.text("role") == "tool") {
            return false;
        }
        source.any(|object| {
            let is_session = object.has_all(&["sessionId", "messages", "updated_at"]);
            is_session || (object.has_all(&["role", "content"]) && object.has_any(&["ts", "modelInfo"]))
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let mut loose = Draft::new(reading.task(), Dialect::Anthropic);
        for (line, value) in source.values() {
            let Some(object) = Object::read(value) else { continue };
            let Some(messages) = object.list("messages") else {
                add(&mut loose, *line, &object, reading);
                continue;
            };
            let mut draft =
                Draft::new(object.string("sessionId").unwrap_or_else(|| reading.task()), Dialect::Anthropic);
            draft.system = object.get("system_prompt");
            for message in messages.into_iter().filter_map(Object::read) {
                add(&mut draft, *line, &message, reading);
            }
            reading.push(draft)?;
        }
        reading.push(loose)
    }
}

fn add(draft: &mut Draft<'_>, line: usize, message: &Object<'_>, reading: &mut Reading<'_>) {
    let time = message.time("ts");
    let metadata = message.object("metadata");
    let is_summary = message.is("isSummary") || metadata.is_some_and(|data| data.text("kind") == "compaction");
    let Some(content) = content(message) else { return reading.leave_out(line, Reason::NoMessage) };
    if is_summary {
        draft.compactions.push(draft.elements.len());
    }
    let role = message.get("role").map_or("null", RawValue::get);
    match RawValue::from_string(format!(r#"{{"role":{role},"content":{content}}}"#)) {
        Ok(raw) => draft.raw(line, time, raw),
        Err(_) => return reading.leave_out(line, Reason::Damaged),
    }
    if let Some(reported) = message.object("metrics") {
        let model = message.object("modelInfo");
        let model = model.and_then(|model| model.string("id").or(model.string("modelId")));
        let usage = match reported.object("tokens") {
            // The extension's numbers: its input excludes what the cache had, which it adds up.
            Some(tokens) => {
                let cached = tokens.tokens("cached");
                let input = tokens.tokens("prompt") + cached;
                RecordedUsage::of_whole(input, cached, 0, tokens.tokens("completion"), model)
            }
            None => {
                let (read, write) = (reported.tokens("cacheReadTokens"), reported.tokens("cacheWriteTokens"));
                let (input, output) = (reported.tokens("inputTokens"), reported.tokens("outputTokens"));
                RecordedUsage::of_whole(input, read, write, output, model)
            }
        };
        draft.used(true, time, usage);
    }
}

/// Returns the content as it was sent: blocks without members of Cline's own.
fn content(message: &Object<'_>) -> Option<String> {
    let content = message.get("content")?;
    let Some(blocks) = json::array(content) else { return Some(content.get().to_owned()) };
    let block = |value: &RawValue| {
        let Some(block) = Object::read(value) else { return Some(value.get().to_owned()) };
        Some(match &*block.text("type") {
            "file" => {
                let (path, text) = (block.text("path"), block.text("content"));
                let text = json::string(&format!("<file_content path=\"{path}\">\n{text}\n</file_content>"));
                format!(r#"{{"type":"text","text":{}}}"#, text.get())
            }
            // Without a signature, thinking is not sent again.
            "thinking" if !block.has("signature") => return None,
            "reasoning" | "thoughtSignature" => return None,
            "text" if block.text("text").trim().is_empty() => return None,
            "tool_result" => tool_result(&block),
            "image" if !block.has("source") => {
                let (data, mime) = (block.get("data")?.get(), block.get("mediaType")?.get());
                format!(r#"{{"type":"image","source":{{"type":"base64","media_type":{mime},"data":{data}}}}}"#)
            }
            _ => block.write_without(&OWN).get().to_owned(),
        })
    };
    let blocks: Vec<String> = blocks.into_iter().filter_map(block).collect();
    (!blocks.is_empty()).then(|| format!("[{}]", blocks.join(",")))
}

/// Returns a result whose content a provider accepts. Cline's newer versions keep the result of a tool as it returned it.
fn tool_result(block: &Object<'_>) -> String {
    let id = block.get("tool_use_id").map_or("null", RawValue::get);
    let error = if block.is("is_error") { r#","is_error":true"# } else { "" };
    let content = block.get("content").map_or_else(
        || "\"\"".to_owned(),
        |content| {
            let is_blocks = json::array(content).is_some_and(|blocks| {
                blocks.iter().all(|block| Object::read(block).is_some_and(|block| block.has("type")))
            });
            if content.get().starts_with('"') || is_blocks {
                content.get().to_owned()
            } else {
                json::string(content.get()).get().to_owned()
            }
        },
    );
    format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{content}{error}}}"#)
}
