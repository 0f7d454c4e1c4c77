//! Anthropic Messages, the block format with system messages, signed thinking and cache markers.

mod hosted;
mod markers;

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::{Api, error_type};
use super::blocks::{BlockFormat, Merges, Outbound, PartRules};
use super::format::{Format, Rendered, Sending};
use super::pages;
use super::pairing::{self, PairingRules};
use super::{
    ConversionError, DecodeError, Dialect, Finding, Mend, Mended, Place, ProblemKind, Quirks, Request, Response, Rule,
    Target, blocks, convert, detect, provider_error, reasoning_prefix, response, stream, tool_names,
};
use crate::cache_marker;
use crate::edit::{self, Edit};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Message, Opaque, PartRef, Reasoning, ResultItem, SystemPart, ToolCall,
    ToolResult, UserPart,
};
use crate::start::Start;
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::{Models, Provider};

const RULES: &[Rule] =
    &[AM1, AM2, AM3, AM4, AM5, AM6, AM7, AM9, AM10, AM11, AM12, AM13, AM14, AM15, AM16, AM17, AM18, AM19];

const AM1: Rule = Rule::refused("AM1", "the request has 1 to 100,000 messages, and the first is a user message");
const AM2: Rule = Rule::refused("AM2", "each tool use has one result, at the beginning of the next user message");
const AM3: Rule = Rule::refused(
    "AM3",
    "identifiers of tool uses are unique in their message and have only letters, digits, _ and -; the input is an object",
);
const AM4: Rule = Rule::refused(
    "AM4",
    "no text is empty, no message or error result is blank, and a last assistant message does not end in white space",
);
const AM5: Rule = Rule::refused("AM5", "thinking has a signature");
const AM6: Rule = Rule::refused("AM6", "the system prompt, tools and messages before signed thinking do not change");
const AM7: Rule =
    Rule::refused("AM7", "a system message follows a user message, and comes last or before an assistant message");
const AM9: Rule = Rule::refused("AM9", "the request has at most 4 cache markers");
const AM10: Rule = Rule::refused(
    "AM10",
    "the request has at most 32 MB, and at most 600 pictures and files, or 100 for models with a context window of 200,000 tokens",
);

const AM11: Rule = Rule::refused(
    "AM11",
    "a tool use that the provider answers has its result in the same answer, and each such result has its tool use",
);
const AM12: Rule = Rule::refused(
    "AM12",
    "since version 2026-10-21, there is no sampling parameter, no document of the assistant and no citation of a user's text",
);
const AM13: Rule =
    Rule::refused("AM13", "a compaction block is the first block of an assistant message, and only one has content");
const AM14: Rule = Rule::refused("AM14", "no text has half of a surrogate pair");
const AM15: Rule = Rule::refused("AM15", "no cache marker for one hour comes after one for five minutes");
const AM16: Rule = Rule::refused(
    "AM16",
    "only assistant messages have tool uses and thinking, and only user messages have results of the client's tools",
);
const AM17: Rule = Rule::refused(
    "AM17",
    "PDF files have at most 600 pages in all, or 100 for models with a context window of 200,000 tokens",
);

const AM18: Rule =
    Rule::refused("AM18", "for Claude 4.6 and later, the last message is not the assistant's, unless a tool ran in it");
const AM19: Rule = Rule::refused(
    "AM19",
    "names of declared tools have only letters, digits, `_` and `-`, and at most 128 characters, and those of tool uses at most 200",
);

const PAIRING: PairingRules = PairingRules {
    missing: AM2,
    orphan: AM2,
    duplicate_result: AM2,
    duplicate_call: AM3,
    results_first: Some(AM2),
    adjacent: true,
    merges_neighbors: true,
};

const PARTS: PartRules = PartRules { blank: AM4, trailing_space: AM4, id: AM3, arguments: AM3, valid_id };

const QUIRKS: Quirks = Quirks {
    merges_neighbors: true,
    valid_id,
    longest_id: usize::MAX,
    refuses_blank: true,
    takes_space_beside: true,
    refuses_empty: true,
    refuses_trailing_space: true,
    signed_reasoning: true,
    start: Start::User,
    opens: Start::User,
    marks_errors: true,
    system_follows_user: true,
    refuses_empty_error: true,
    has_refused_members: |_| false,
    results_by_name: false,
    results_anywhere: false,
    binds_reasoning: true,
    wrong_roles: WRONG_ROLES,
    compactions: &[COMPACTION],
    standing: &["tool_addition", "tool_removal", CONFIG],
};

/// The demands of all servers that use this dialect.
const SHARED_QUIRKS: Quirks = Quirks {
    valid_id: |id| !id.is_empty(),
    refuses_blank: false,
    refuses_empty: false,
    refuses_trailing_space: false,
    signed_reasoning: false,
    opens: Start::Any,
    system_follows_user: false,
    refuses_empty_error: false,
    binds_reasoning: false,
    ..QUIRKS
};

/// Returns whether all servers that use this dialect have the broken rule. The other rules apply only to Claude.
fn is_shared(finding: &Finding) -> bool {
    let is_form = matches!(finding.problem.0, ProblemKind::BadId { .. });
    [AM2.id, AM3.id, AM14.id, AM16.id].contains(&finding.rule) && !is_form
}

const BLOCKS: BlockFormat = BlockFormat {
    dialect: Dialect::Anthropic,
    content: "content",
    edit,
    marker: Some(cache_marker::MEMBER),
    results_first: true,
    merges: Merges::Mixed,
    mend,
};

pub(super) static FORMAT: Format = Format {
    aliases: &["anthropic-messages", "messages", "claude", "claude-code"],
    provider: "anthropic",
    signs: &detect::ANTHROPIC,
    api: Api {
        calls: &["v1/messages"],
        stateless: &["messages/count_tokens"],
        others: &["messages/count_tokens", "messages/batches"],
        headers: &["anthropic-version", "anthropic-beta"],
        key: ("x-api-key", ""),
        error: |status, message| json!({"type": "error", "error": {"type": error_type(status), "message": message}}),
    },
    rules: RULES,
    halves: AM14,
    quirks: |target| if is_claude(target) == Some(true) { QUIRKS } else { SHARED_QUIRKS },
    sayings: provider_error::ANTHROPIC,
    messages: "messages",
    system: Some("system"),
    tools: "tools",
    functions: &[],
    cache_marker: Some(("cache_control", r#"{"type":"ephemeral"}"#)),
    stored: &[],
    instead: &[],
    reference: None,
    thinking: &["thinking"],
    answer_forms: &[("output_config", &["json_schema"]), ("output_format", &["json_schema"])],
    shorteners: &[("context_management", &["clear_tool_uses", "compact_"])],
    errors_in_streams: false,
    known: KNOWN,
    whole: &["input", cache_marker::MEMBER],
    is_piece: |_| false,
    decode,
    render,
    encode: |sending, shown| blocks::encode(&BLOCKS, sending, shown),
    mends: |sending, shown| blocks::mends(&BLOCKS, sending, shown),
    response,
    pieces: || Box::<stream::anthropic::Blocks>::default(),
    resendable: |_, answer| answer,
    tool,
    check,
    paths: blocks::paths,
    reasoning_beside: |_| None,
};

/// Returns whether the model is Claude, whose rules are the same at Anthropic and in the clouds, or `None` if that is
/// unknown. Other models with this dialect, for example, do not sign their thinking, and want it back unchanged. If
/// neither the provider nor the model is known, the model counts as Claude.
fn is_claude(target: &Target) -> Option<bool> {
    let is_named = target.is_model(|model| NAMES.iter().any(|name| model.contains(name)));
    match (target.provider, &target.model) {
        _ if is_named == Some(true) => Some(true),
        (Some(Provider::Anthropic | Provider::Bedrock | Provider::Vertex), _) | (None, None) => Some(true),
        (Some(_), _) => Some(false),
        // A known model is not Claude. An unknown name may be a client's alias for any model.
        (None, Some(model)) => Models::builtin().find(model).map(|_| false),
    }
}

/// Parts of the names of Claude's models, including short names that clients use.
const NAMES: [&str; 5] = ["claude", "anthropic", "opus", "sonnet", "haiku"];

/// The kinds of parts that a message of a role may not have.
const WRONG_ROLES: &[(Role, &str)] = &[
    (Role::Assistant, "tool_result"),
    (Role::User, "tool_use"),
    (Role::User, "thinking"),
    (Role::User, "redacted_thinking"),
];

/// The member of a system message that sets the configuration for later messages.
const CONFIG: &str = "output_config";

/// The kind of block in which the provider compacted all earlier messages.
const COMPACTION: &str = "compaction";

/// The first version of the API with the rules of AM12.
const STRICTER: &str = "2026-10-21";

const MOST_MESSAGES: usize = 100_000;
/// The most pictures and files, and the most pages of PDF files. Models with a window of 200,000 tokens accept fewer.
const MOST_MEDIA: u64 = 600;
const FEW_MEDIA: u64 = 100;
const MOST_BYTES: usize = 32 * 1024 * 1024;

fn valid_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = &super::fields(raw)?;
    Ok(match &*super::role(fields)? {
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

/// Applies the edits of one block.
fn edit(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    match part {
        PartRef::ToolCall(_) => {
            if let Some(id) = edit::renamed(edits, index) {
                fields.set("id", json::string(id));
            }
            if let Some(arguments) = edit::arguments(edits, index) {
                fields.set("input", serde_json::from_str(arguments).ok()?);
            }
        }
        PartRef::ToolResult(result) => {
            if let Some(id) = edit::renamed(edits, index) {
                fields.set("tool_use_id", json::string(id));
            }
            if let Some(note) = edit::note_of(result, edits, index) {
                fields.set("content", json::string(&note.marker));
            }
            let content = fields.get("content").map(ToOwned::to_owned);
            let blocks = content.as_deref().map(blocks::blocks).unwrap_or_default();
            if (0..result.content.len()).any(|item| edit::cut_of(edits, index, item).is_some()) {
                let shown: Vec<_> = blocks
                    .into_iter()
                    .zip(&result.content)
                    .enumerate()
                    .filter_map(|(at, (block, item))| match edit::cut_of(edits, index, at) {
                        None => Some(block.into_owned()),
                        Some(cut) => Some(cut.apply(item.text().unwrap_or_default()))
                            .filter(|text| !text.is_empty())
                            .map(|text| json::value(&serde_json::json!({"type": "text", "text": text}))),
                    })
                    .collect();
                fields.set("content", json::write_array(shown.iter().map(AsRef::as_ref)));
            }
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

fn render(message: &Message) -> Rendered {
    use serde_json::json;
    let loss = |what| Err(ConversionError::new(Dialect::Anthropic, what));
    let mut blocks = Vec::new();
    for part in message.parts() {
        blocks.push(json::value(&match part {
            PartRef::Text(text) => json!({"type": "text", "text": text}),
            PartRef::Image(media) => json!({"type": "image", "source": source(media)?}),
            PartRef::Document(media) => match &media.name {
                Some(name) => json!({"type": "document", "title": name, "source": source(media)?}),
                None => json!({"type": "document", "source": source(media)?}),
            },
            PartRef::Reasoning(Reasoning { text, signature: Some(signature) }) if text.is_empty() => {
                json!({"type": "redacted_thinking", "data": signature})
            }
            PartRef::Reasoning(Reasoning { text, signature: Some(signature) }) => {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            PartRef::Reasoning(Reasoning { signature: None, .. }) => return loss("reasoning without a signature"),
            PartRef::ToolCall(call) => {
                blocks.push(tool_use_block(call)?);
                continue;
            }
            PartRef::ToolResult(result) => {
                let mut items = Vec::new();
                for item in &result.content {
                    items.push(match item {
                        ResultItem::Text(text) | ResultItem::Json(text) => json!({"type": "text", "text": text}),
                        ResultItem::Image(media) => json!({"type": "image", "source": source(media)?}),
                        ResultItem::Document(media) => json!({"type": "document", "source": source(media)?}),
                        ResultItem::Opaque(_) => return loss("an unknown item of a tool result"),
                    });
                }
                let content = match &result.content[..] {
                    [ResultItem::Text(text) | ResultItem::Json(text)] => json!(text),
                    _ => serde_json::Value::Array(items),
                };
                let mut block = json!({"type": "tool_result", "tool_use_id": result.call_id, "content": content});
                if let (true, Some(object)) = (result.error, block.as_object_mut()) {
                    object.insert("is_error".to_owned(), json!(true));
                }
                block
            }
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => continue,
            PartRef::Opaque(_) => return loss("a part of a kind that only its own provider knows"),
        }));
    }
    let role = match message.role() {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = match message.parts().next() {
        Some(PartRef::Text(text)) if blocks.len() == 1 => json::string(text),
        _ => json::write_array(blocks.iter().map(AsRef::as_ref)),
    };
    Ok(vec![json::object([("role", json::string(role)), ("content", content)])])
}

/// Writes a tool call. Its input keeps its bytes, because a number of thirty digits would not survive a float.
fn tool_use_block(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let input = match serde_json::from_str::<Box<RawValue>>(&call.arguments) {
        Ok(input) if call.has_object_arguments() => input,
        _ => return Err(ConversionError::new(Dialect::Anthropic, convert::ARGUMENTS)),
    };
    let (id, name) = (json::string(&call.id), json::string(&call.name));
    Ok(json::object([("type", json::string("tool_use")), ("id", id), ("name", name), ("input", input)]))
}

fn source(media: &Media) -> Result<serde_json::Value, ConversionError> {
    use serde_json::json;
    let mime = media.mime.as_deref();
    Ok(match (&media.source, mime) {
        (MediaSource::Base64(data), Some(mime)) => json!({"type": "base64", "media_type": mime, "data": data}),
        (MediaSource::Base64(_), None) => {
            return Err(ConversionError::new(Dialect::Anthropic, "a picture or file without a media type"));
        }
        (MediaSource::Text(text), _) => {
            json!({"type": "text", "media_type": mime.unwrap_or("text/plain"), "data": text})
        }
        (MediaSource::Url(url), _) if convert::is_public(url) => json!({"type": "url", "url": url}),
        (MediaSource::Url(_), _) => return Err(ConversionError::new(Dialect::Anthropic, convert::ADDRESS)),
        (MediaSource::Id(_), _) => return Err(ConversionError::new(Dialect::Anthropic, convert::IDENTIFIER)),
    })
}

/// The members that other dialects can express, each as `parent.member`.
const KNOWN: &[&str] = &[
    ".role",
    ".content",
    "content.type",
    "content.text",
    "content.id",
    "content.name",
    "content.input",
    "content.tool_use_id",
    "content.content",
    "content.is_error",
    "content.source",
    "content.thinking",
    "content.signature",
    "content.data",
    "content.title",
    "content.cache_control",
    "source.type",
    "source.media_type",
    "source.data",
    "source.url",
];

/// Reads a response. Its body is the message, with members that a request may not have.
fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
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

fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"name": name, "description": description, "input_schema": parameters})
}

fn check(request: &Request) -> Vec<Finding> {
    let messages = request.messages();
    let whole = |rule: Rule, path: &str, problem| rule.at(messages.len(), path.to_owned(), problem);
    if messages.is_empty() {
        return vec![whole(AM1, "messages", ProblemKind::NoMessages)];
    }
    let mut findings = pairing::check(Dialect::Anthropic, &PAIRING, messages);
    // The provider ignores everything before a compaction.
    let is_compaction = |first: &Message| first.role() == Role::Assistant && compactions(first).next().is_some();
    let starts = |first: &&Message| first.role() == Role::User || is_compaction(first);
    let first = messages.iter().enumerate().find(|(_, message)| !is_config(message));
    if let Some((index, first)) = first.filter(|(_, first)| !starts(first)) {
        findings.push(AM1.at(index, format!("messages[{index}]"), ProblemKind::FirstMessage { role: first.role() }));
    }
    for place in Place::all(messages) {
        let Place { index, message, .. } = place;
        let path = |part| Dialect::Anthropic.path(&place, part);
        let is_last = index + 1 == messages.len();
        let trailing_space = is_last.then(|| message.ends_in_space(|_| true)).flatten();
        // An empty last message of the assistant is accepted, and is left out.
        let is_empty = is_last && message.role() == Role::Assistant && is_empty(message);
        let rule = if is_empty { AM4.as_warning() } else { AM4 };
        if message.parts().next().is_none() {
            findings.push(rule.at(index, format!("messages[{index}].content"), ProblemKind::EmptyContent));
        }
        let words = message.last_words();
        for (part, value) in message.parts().enumerate() {
            for (rule, problem) in blocks::part_faults(&PARTS, value, trailing_space == Some(part)) {
                let is_space = matches!(value, PartRef::Text(text) if !text.is_empty());
                let beside = if problem == ProblemKind::BlankText && is_space { words } else { None };
                match beside {
                    // White space is accepted if the message also has words or a tool use. It is unknown whether it is
                    // accepted after the last words of an assistant message.
                    Some(words) if message.role() != Role::Assistant || part < words => {}
                    Some(_) if !is_last => findings.push(rule.as_warning().at(index, path(part), problem)),
                    _ if is_empty => findings.push(rule.as_warning().at(index, path(part), problem)),
                    _ => findings.push(rule.at(index, path(part), problem)),
                }
            }
            if let PartRef::Reasoning(Reasoning { signature: None, .. }) = value {
                findings.push(AM5.at(index, path(part), ProblemKind::UnsignedReasoning));
            }
        }
        let before = index.checked_sub(1).and_then(|before| messages.get(before)).map(Message::role);
        let after = messages.get(index + 1).map(Message::role);
        if index > 0
            && message.role() == Role::System
            && !is_config(message)
            && (before != Some(Role::User) || after == Some(Role::User))
        {
            findings.push(AM7.at(index, format!("messages[{index}]"), ProblemKind::SystemPlace));
        }
    }
    findings.extend(blocks::wrong_roles(Dialect::Anthropic, AM16, WRONG_ROLES, messages));
    findings.extend(hosted_tools(messages));
    findings.extend(prefill(request));
    findings.extend(tool_names::declared(AM19, request, |name| tool_names::is_word(name, 128)));
    findings.extend(tool_names::called(AM19, request, |name| name.len() <= 200));
    findings.extend(marker_order(request));
    findings.extend(reasoning_prefix::check(Dialect::Anthropic, AM6, request, request.previous()));
    findings.extend(compaction_places(request));
    findings.extend(stricter(request, &whole));
    findings.extend(limits(request, &whole));
    match is_claude(request.target()) {
        Some(true) => {}
        Some(false) => findings.retain(is_shared),
        None => findings.iter_mut().filter(|finding| !is_shared(finding)).for_each(Finding::warn),
    }
    findings
}

/// Mends outgoing messages. Removes uses without a result, and results without a use, of tools that the provider runs.
/// Shortens cache markers with a longer lifetime than an earlier one.
fn mend(sending: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended> {
    let mut mends = Vec::new();
    if is_claude(sending.target) != Some(true) {
        return mends;
    }
    let faults = {
        let raws = messages.iter().map(|message| &*message.1);
        hosted::faults(raws)
    };
    for (place, elements) in hosted::by_message(faults) {
        if let Some((index, raw)) = messages.get_mut(place).map(|message| &mut **message)
            && let Some(left) = blocks::without(raw, &elements)
        {
            *raw = Cow::Owned(left);
            mends.push(Mend::Removed { elements: elements.len() }.at(*index));
        }
    }
    let mut order = markers::Order::default();
    sending.preamble.into_iter().for_each(|preamble| _ = order.read(preamble));
    for (index, raw) in messages.iter_mut().map(|message| &mut **message) {
        if let Some(mended) = order.mend(raw) {
            *raw = Cow::Owned(mended);
            mends.push(Mend::MembersMended.at(*index));
        }
    }
    mends
}

/// Returns whether a message has an empty list or an empty string as its content.
fn is_empty(message: &Message) -> bool {
    let fields = message.wire().and_then(|wire| Fields::read(&wire.raw));
    let content = fields.as_ref().and_then(|fields| fields.get("content"));
    message.parts().next().is_none() || content.and_then(json::text).is_some_and(|text| text.is_empty())
}

/// Finds a last assistant message that the model would have to continue, if the model refuses that (AM18).
fn prefill(request: &Request) -> Option<Finding> {
    let last = request.messages().last().filter(|last| last.role() == Role::Assistant)?;
    // A recording ends with an answer, and is not a request. An answer in which tools ran may continue.
    let is_request = request.member("max_tokens").is_some();
    let speaks = last.last_words().is_some();
    let runs = last.parts().any(|part| matches!(part, PartRef::ToolCall(_) | PartRef::Opaque(_)));
    let refuses = request.target().is_model(|model| version(model).is_some_and(|version| version >= (4, 6)));
    let index = request.messages().len() - 1;
    let finding = || AM18.at(index, format!("messages[{index}]"), ProblemKind::Prefill);
    (is_request && speaks && !runs && refuses == Some(true)).then(finding)
}

/// Returns the version in the name of a Claude model: `(4, 5)` for `claude-opus-4-5-20251101`, `(3, 5)` for
/// `claude-3-5-haiku`, `(5, 0)` for `claude-opus-5`.
fn version(model: &str) -> Option<(u32, u32)> {
    let (_, model) = model.split_once("claude")?;
    let words = model.split(|char: char| !char.is_ascii_alphanumeric());
    let numbers: Vec<Option<u32>> = words.map(|word| word.parse().ok().filter(|number| *number < 100)).collect();
    let major = numbers.iter().position(Option::is_some)?;
    let minor = numbers.get(major + 1).copied().flatten().unwrap_or(0);
    Some((numbers.get(major).copied().flatten()?, minor))
}

/// Finds uses without a result, and results without a use, of the provider's own tools (AM11).
fn hosted_tools(messages: &[Message]) -> Vec<Finding> {
    let raws = messages.iter().map(|message| message.wire().map_or(RawValue::NULL, |wire| &*wire.raw));
    let faults = hosted::faults(raws).into_iter();
    let places: Vec<Place<'_>> = Place::all(messages).collect();
    let finding = |fault: hosted::Fault| {
        let id = fault.id;
        let problem =
            if fault.is_result { ProblemKind::OrphanResult { id } } else { ProblemKind::MissingResult { id } };
        Some(AM11.at(fault.message, blocks::path(places.get(fault.message)?, fault.block), problem))
    };
    faults.filter_map(finding).collect()
}

/// Finds cache markers with a longer lifetime than an earlier one (AM15).
fn marker_order(request: &Request) -> Vec<Finding> {
    let mut order = markers::Order::default();
    let place = |path| format!("{path}.{}", cache_marker::MEMBER);
    let before = order.read(request.preamble()).into_iter();
    let before = before.map(|path| AM15.at(request.messages().len(), place(path), ProblemKind::MarkerOrder));
    let mut findings: Vec<Finding> = before.collect();
    for at in Place::all(request.messages()) {
        let refused = at.message.wire().map(|wire| order.refused(&wire.raw)).unwrap_or_default();
        findings.extend(
            refused
                .into_iter()
                .map(|block| AM15.at(at.index, place(blocks::path(&at, block)), ProblemKind::MarkerOrder)),
        );
    }
    findings
}

/// Returns whether a message only sets the configuration for later messages. Such a message is allowed anywhere.
fn is_config(message: &Message) -> bool {
    let Content::System(parts) = message.content() else { return false };
    matches!(parts.as_slice(), [SystemPart::Opaque(only)] if only.kind == CONFIG)
}

/// Returns the compaction blocks of a message: the index of each, and whether it has content.
fn compactions(message: &Message) -> impl Iterator<Item = (usize, bool)> {
    message.parts().enumerate().filter_map(|(index, part)| match part {
        PartRef::Opaque(opaque) if opaque.kind == COMPACTION => {
            let content = Fields::read(&opaque.raw).is_some_and(|fields| {
                ["content", "encrypted_content"]
                    .into_iter()
                    .any(|name| fields.get(name).is_some_and(|v| v.get() != "null"))
            });
            Some((index, content))
        }
        _ => None,
    })
}

/// Finds compaction blocks where none is allowed, or a second one with content (AM13).
fn compaction_places(request: &Request) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut has_content = false;
    // If the provider compacts the history itself, there may be several, of which it reads the newest.
    let may_repeat = request.member("context_management").is_some_and(|edits| edits.get().contains("compact_"));
    for place in Place::all(request.messages()) {
        for (part, content) in compactions(place.message) {
            let path = Dialect::Anthropic.path(&place, part);
            if part > 0 || place.message.role() != Role::Assistant {
                findings.push(AM13.at(place.index, path, ProblemKind::CompactionPlace));
            } else if has_content && content && !may_repeat {
                findings.push(AM13.at(place.index, path, ProblemKind::SecondCompaction));
            }
            has_content |= content;
        }
    }
    findings
}

/// Finds parameters and blocks that newer versions of the API refuse (AM12).
fn stricter(request: &Request, whole: &dyn Fn(Rule, &str, ProblemKind) -> Finding) -> Vec<Finding> {
    // Versions are dates, so they can be compared as strings. Versions of other clouds, such as `bedrock-2023-05-31`,
    // are older.
    let is_stricter = request.version().is_some_and(|version| version.starts_with("20") && version >= STRICTER);
    if !is_stricter {
        return Vec::new();
    }
    let sampling = ["temperature", "top_p", "top_k"].into_iter().filter(|name| request.member(name).is_some());
    let mut findings: Vec<_> = sampling.map(|name| whole(AM12, name, ProblemKind::Unsupported)).collect();
    for place in Place::all(request.messages()) {
        let raw = place.message.wire().and_then(|wire| Fields::read(&wire.raw));
        let content = raw.as_ref().and_then(|fields| fields.get("content")).and_then(json::array).unwrap_or_default();
        for (part, block) in content.into_iter().enumerate() {
            let Some(fields) = Fields::read(block) else { continue };
            let is_kind = |kind: &str| fields.text("type").is_some_and(|found| found == kind);
            let cites =
                || fields.get("citations").is_some_and(|list| json::array(list).is_some_and(|all| !all.is_empty()));
            let refused = match place.message.role() {
                Role::Assistant => is_kind("document"),
                Role::User => is_kind("text") && cites(),
                Role::System => false,
            };
            if refused {
                findings.push(AM12.at(place.index, Dialect::Anthropic.path(&place, part), ProblemKind::Unsupported));
            }
        }
    }
    findings
}

fn limits(request: &Request, whole: &dyn Fn(Rule, &str, ProblemKind) -> Finding) -> Vec<Finding> {
    let messages = request.messages();
    let mut findings = Vec::new();
    let mut over = |rule, path, count: usize, most: usize, problem: fn(usize, usize) -> ProblemKind| {
        if count > most {
            findings.push(whole(rule, path, problem(count, most)));
        }
    };
    over(AM1, "messages", messages.len(), MOST_MESSAGES, |count, most| ProblemKind::TooManyMessages { count, most });
    // A marker of the whole request is set on its last block, which may already have one.
    let of_request = request.member(cache_marker::MEMBER).is_some_and(|marker| marker.get() != "null");
    let markers = blocks::all_markers(cache_marker::MEMBER, request);
    let rule = if markers > blocks::MOST_MARKERS { AM9 } else { AM9.as_warning() };
    let markers = markers.saturating_add(of_request.into());
    over(rule, "messages", markers, blocks::MOST_MARKERS, |count, most| ProblemKind::CacheMarkers { count, most });
    over(AM10, "", request.bytes(), MOST_BYTES, |count, most| ProblemKind::TooManyBytes { count, most });
    // The window is unknown for unknown models, and for models with a larger window on request.
    let known = request.model().and_then(|model| Models::builtin().find(model)).filter(|model| model.wide.is_none());
    let is_small = known.map(|model| model.window <= 200_000);
    let exceeded = |rule: Rule, count: u64| match count {
        0..=FEW_MEDIA => None,
        _ if count > MOST_MEDIA => Some((rule, MOST_MEDIA)),
        _ => Some((rule.if_known(is_small)?, FEW_MEDIA)),
    };
    let media = messages.iter().flat_map(Message::parts).map(pictures_and_files).sum();
    let pages = pages::find(messages).map(|pages| pages.count).fold(0, u64::saturating_add);
    let too_much = exceeded(AM10, media).map(|(rule, most)| {
        whole(rule, "messages", ProblemKind::TooMuchMedia { count: narrow(media), most: narrow(most) })
    });
    let too_many = exceeded(AM17, pages)
        .map(|(rule, most)| whole(rule, "messages", ProblemKind::TooManyPages { count: pages, most }));
    findings.extend(too_much.into_iter().chain(too_many));
    findings
}

fn narrow(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns how many pictures and files a part has. A file that is plain text does not count.
fn pictures_and_files(part: PartRef<'_>) -> u64 {
    let is_file = |media: &Media| !matches!(media.source, MediaSource::Text(_));
    let is_media = |item: &&ResultItem| match item {
        ResultItem::Image(_) => true,
        ResultItem::Document(file) => is_file(file),
        ResultItem::Text(_) | ResultItem::Json(_) | ResultItem::Opaque(_) => false,
    };
    match part {
        PartRef::Image(_) => 1,
        PartRef::Document(file) => is_file(file).into(),
        PartRef::ToolResult(result) => result.content.iter().filter(is_media).count() as u64,
        PartRef::Text(_) | PartRef::Reasoning(_) | PartRef::ToolCall(_) | PartRef::Opaque(_) => 0,
    }
}
