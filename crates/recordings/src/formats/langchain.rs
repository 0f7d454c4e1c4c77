//! Messages of LangChain and LangGraph, in the forms in which Python and JavaScript write them.

use lookback_content::json;
use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, UserPart};

use super::parts::{Block, blocks, call, media, reasoning, result};
use super::{Conversation, Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct LangChain;

impl Format for LangChain {
    fn name(&self) -> &'static str {
        "LangChain"
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        let is_providers = |message: &Object<'_>| message.has("role") && Message::read(message).is_none();
        !source.any_message(is_providers) && source.any_message(|message| Message::read(message).is_some())
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        for Conversation { id, messages, .. } in source.conversations(reading.name) {
            let mut draft = Draft::new(id, Dialect::Anthropic);
            for (line, value) in messages {
                let Some(object) = Object::read(value) else { continue };
                match Message::read(&object) {
                    Some(message) => message.add(&mut draft, line),
                    None => reading.leave_out(line, Reason::NoMessage),
                }
            }
            reading.push(draft)?;
        }
        Ok(())
    }
}

/// A message, out of the envelope in which it was written.
struct Message<'a> {
    kind: &'static str,
    body: Object<'a>,
}

impl<'a> Message<'a> {
    fn read(object: &Object<'a>) -> Option<Self> {
        if object.has("lc") && object.text("type") == "constructor" {
            let class = object.list("id")?.into_iter().rev().find_map(json::text)?;
            let body = object.object("kwargs")?;
            return Some(Message { kind: of_role(kind(&class)?, &body), body });
        }
        let kind = kind(&object.text("type"))?;
        if object.has("role") && kind != "chat" {
            return None;
        }
        let body = match object.object("data") {
            Some(body) => body,
            None => Object::read(object.whole()).filter(|body| body.has("content"))?,
        };
        Some(Message { kind: of_role(kind, &body), body })
    }

    fn add(&self, draft: &mut Draft<'_>, line: usize) {
        let Message { kind, body } = self;
        let metadata = body.object("response_metadata");
        let time: Option<Millis> =
            metadata.as_ref().and_then(|it| it.time("created_at").or_else(|| it.time("created")));
        // JavaScript writes the second version of blocks under another name.
        let content = body.get("content").or(body.get("content_blocks"));
        let said = content.map(|content| blocks(content, block)).unwrap_or_default();
        match *kind {
            "system" => {
                let texts = said.into_iter().filter_map(|block| match block {
                    Block::Text(text) => Some(text),
                    Block::Image(_) => None,
                });
                draft.system_message(line, time, &texts.collect::<Vec<_>>().join("\n"));
            }
            "tool" => {
                let items = said.into_iter().map(Block::result).collect();
                let is_error = body.text("status") == "error";
                // The result of a function, in the first versions, has only its name.
                let id = body.str("tool_call_id").unwrap_or(body.text("name"));
                draft.user(line, time, vec![result(&id, items, is_error)]);
            }
            "ai" => {
                let own = content.and_then(json::array).unwrap_or_default();
                let own: Vec<Object<'_>> = own.into_iter().filter_map(Object::read).collect();
                let mut parts: Vec<AssistantPart> = own.iter().filter_map(thinking).collect();
                parts.extend(said.into_iter().filter_map(|block| match block {
                    Block::Text(text) => Some(AssistantPart::Text(text)),
                    Block::Image(_) => None,
                }));
                parts.extend(self.calls(&own));
                let before = draft.elements.len();
                draft.assistant(line, time, parts);
                if let Some(usage) = usage(body) {
                    draft.used(draft.elements.len() > before, time, usage);
                }
            }
            _ => draft.user(line, time, said.into_iter().map(Block::user).collect::<Vec<UserPart>>()),
        }
    }

    /// Returns the calls. They are repeated in blocks of the content, and in the provider's own form. Those that LangChain
    /// could not parse have their arguments as text.
    fn calls(&self, content: &[Object<'_>]) -> Vec<AssistantPart> {
        let own = |of: &Object<'_>| {
            let (id, arguments) = (of.str("call_id").unwrap_or(of.text("id")), ["args", "input", "arguments"]);
            call(&id, &of.text("name"), arguments.into_iter().find_map(|key| of.get(key)))
        };
        let mut calls: Vec<_> = self.body.objects("tool_calls").iter().map(own).collect();
        calls.extend(self.body.objects("invalid_tool_calls").iter().map(own));
        if calls.is_empty() {
            let is_call =
                |block: &&Object<'_>| matches!(&*block.text("type"), "tool_use" | "function_call" | "tool_call");
            calls.extend(content.iter().filter(is_call).map(own));
        }
        if calls.is_empty()
            && let Some(more) = self.body.object("additional_kwargs")
        {
            let raw = more
                .objects("tool_calls")
                .into_iter()
                .filter_map(|raw| Some((raw.text("id"), raw.object("function")?)));
            let raw = raw.chain(more.object("function_call").map(|function| (function.text("name"), function)));
            calls.extend(raw.map(|(id, function)| call(&id, &function.text("name"), function.get("arguments"))));
        }
        calls
    }
}

/// Returns the kind of a message by its type or its class, also of a piece of a stream.
fn kind(name: &str) -> Option<&'static str> {
    Some(match name.trim_end_matches("Chunk") {
        "human" | "HumanMessage" => "human",
        "ai" | "AIMessage" => "ai",
        "system" | "developer" | "SystemMessage" => "system",
        "tool" | "function" | "ToolMessage" | "FunctionMessage" => "tool",
        "chat" | "generic" | "ChatMessage" => "chat",
        _ => return None,
    })
}

/// Returns the kind of a message that has its role as a name.
fn of_role(kind: &'static str, body: &Object<'_>) -> &'static str {
    match &*body.text("role") {
        "assistant" | "ai" | "model" if kind == "chat" => "ai",
        "system" | "developer" if kind == "chat" => "system",
        _ => kind,
    }
}

/// Reads a block that is a picture. All forms of it are known to LangChain: its own of two versions, and the providers'.
fn block(block: &Object<'_>) -> Option<Block> {
    let picture = |data: &str, mime: Option<&str>| Some(Block::Image(media(data, mime.or(Some("image/png")))));
    match &*block.text("type") {
        "image_url" => {
            let url = block.object("image_url").and_then(|image| image.str("url")).or(block.str("image_url"))?;
            picture(&url, None)
        }
        "image" => {
            let source = block.object("source");
            let source = source.as_ref().unwrap_or(block);
            let data = ["base64", "data", "url"].into_iter().find_map(|key| source.str(key))?;
            let mime = source.str("mime_type").or(source.str("media_type"));
            picture(&data, mime.as_deref())
        }
        _ => None,
    }
}

fn thinking(block: &Object<'_>) -> Option<AssistantPart> {
    let extras = block.object("extras");
    let signature = block.str("signature").or_else(|| extras.as_ref()?.str("signature"));
    let text = block.str("thinking").or(block.str("reasoning"))?;
    reasoning(&text, signature.as_deref())
}

fn usage(body: &Object<'_>) -> Option<RecordedUsage> {
    let metadata = body.object("response_metadata");
    let model = metadata.as_ref().and_then(|metadata| metadata.string("model_name").or(metadata.string("model")));
    let Some(reported) = body.object("usage_metadata") else {
        // The first versions have the report of OpenAI.
        let reported = metadata?.object("token_usage")?;
        let (input, output) = (reported.tokens("prompt_tokens"), reported.tokens("completion_tokens"));
        let cached = reported.object("prompt_tokens_details").map_or(0, |details| details.tokens("cached_tokens"));
        return Some(RecordedUsage::of_whole(input, cached, 0, output, model));
    };
    let details = reported.object("input_token_details");
    let detail = |key: &str| details.as_ref().map_or(0, |details| details.tokens(key));
    let (read, write) = (detail("cache_read"), detail("cache_creation"));
    let (input, output) = (reported.tokens("input_tokens"), reported.tokens("output_tokens"));
    Some(RecordedUsage::of_whole(input, read, write, output, model))
}
