//! Bedrock Converse, the block format with `toolUse` and `toolResult` that Strands uses.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::api::{Api, openai_error};
use super::blocks::{BlockFormat, Merges, Outbound, PartRules};
use super::format::{Format, Rendered, Sending};
use super::pages;
use super::pairing::{self, PairingRules};
use super::{
    ConversionError, DecodeError, Dialect, Finding, Mend, Mended, Place, ProblemKind, Quirks, Request, Response, Rule,
    Target, blocks, convert, detect, provider_error, response, stream, tool_names,
};
use crate::cache_marker;
use crate::edit::{self, Edit};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Message, Opaque, PartRef, Reasoning, ResultItem, ToolCall, ToolResult,
    UserPart,
};
use crate::start::Start;
use crate::wire::Role;
use lookback_content::json::{self, Fields};

const RULES: &[Rule] = &[BC1, BC2, BC3, BC4, BC5, BC6, BC7, BC8, BC9, BC10, BC11, BC12, BC13];

/// Anthropic's and Qwen's models also accept an assistant message at the beginning.
const BC1: Rule = Rule::refused("BC1", "the request has at least one message, and the first is a user message");
const BC2: Rule = Rule::refused(
    "BC2",
    "user and assistant messages alternate; the results of an assistant message are in the next one",
);
const BC3: Rule = Rule::refused("BC3", "`toolConfig` is present if the history has tool uses or results");
const BC4: Rule = Rule::refused("BC4", "no text is blank, no message is empty, and no error result is without content");
const BC5: Rule = Rule::refused(
    "BC5",
    "the input of a tool use is an object, and a last assistant message does not end in white space",
);
const BC6: Rule = Rule::refused("BC6", "the request has at most 4 cache points");
const BC7: Rule = Rule::refused(
    "BC7",
    "identifiers of tool uses are unique in their message and have only letters, digits, _, ., : and -",
);
const BC8: Rule = Rule::refused("BC8", "no text has half of a surrogate pair");
const BC9: Rule = Rule::refused(
    "BC9",
    "the name of a file is its own, and has at most 200 letters, digits, single spaces, -, _, parentheses and brackets",
);
const BC10: Rule = Rule::refused("BC10", "Claude does not accept videos, or pictures and files from S3");
const BC11: Rule = Rule::refused("BC11", "only assistant messages have tool uses");
const BC13: Rule =
    Rule::refused("BC13", "names of tools have only letters, digits, `_` and `-`, and at most 64 characters");
const BC12: Rule = Rule::refused("BC12", "Claude takes at most 100 pages of PDF files");

/// The kinds of parts that a message of a role may not have.
const WRONG_ROLES: &[(Role, &str)] = &[(Role::User, "toolUse"), (Role::Assistant, STRAY_RESULT)];
/// The kind of a tool result in an assistant message without its call. Clients may not send one.
const STRAY_RESULT: &str = "stray toolResult";

const PAIRING: PairingRules = PairingRules {
    missing: BC2,
    orphan: BC2,
    duplicate_result: BC2,
    duplicate_call: BC7,
    results_first: Some(BC2),
    adjacent: true,
    merges_neighbors: true,
};

const PARTS: PartRules = PartRules { blank: BC4, trailing_space: BC5, id: BC7, arguments: BC5, valid_id };

const QUIRKS: Quirks = Quirks {
    merges_neighbors: true,
    valid_id,
    longest_id: 64,
    refuses_blank: true,
    takes_space_beside: false,
    refuses_empty: true,
    refuses_trailing_space: true,
    signed_reasoning: false,
    start: Start::UserOrToolPair,
    opens: Start::Any,
    marks_errors: true,
    system_follows_user: false,
    refuses_empty_error: true,
    has_refused_members: |_| false,
    results_by_name: false,
    results_anywhere: false,
    binds_reasoning: true,
    wrong_roles: WRONG_ROLES,
    compactions: &[],
    standing: &[],
};

const BLOCKS: BlockFormat = BlockFormat {
    dialect: Dialect::Bedrock,
    content: "content",
    edit,
    marker: Some(cache_marker::BLOCK),
    results_first: true,
    merges: Merges::All,
    mend,
};

pub(super) static FORMAT: Format = Format {
    aliases: &["bedrock-converse", "amazon-bedrock", "aws-bedrock", "aws", "converse"],
    provider: "aws.bedrock",
    signs: &detect::BEDROCK,
    // Requests are signed, so the gateway has no path for them.
    api: Api {
        calls: &[],
        stateless: &[],
        others: &[],
        headers: &[],
        key: ("authorization", "Bearer "),
        error: openai_error,
    },
    rules: RULES,
    halves: BC8,
    quirks: |target| match begins_freely(target) {
        Some(false) => Quirks { opens: Start::UserOrToolPair, ..QUIRKS },
        Some(true) | None => QUIRKS,
    },
    sayings: provider_error::BEDROCK,
    messages: "messages",
    system: Some("system"),
    tools: "toolConfig",
    functions: &[],
    cache_marker: None,
    stored: &[],
    instead: &[],
    reference: None,
    thinking: &["additionalModelRequestFields"],
    answer_forms: &[("outputConfig", &["json_schema"])],
    shorteners: &[],
    errors_in_streams: false,
    known: KNOWN,
    whole: &["input", "json", cache_marker::BLOCK],
    is_piece: |_| false,
    decode,
    render,
    encode: |sending, shown| blocks::encode(&BLOCKS, sending, shown),
    mends: |sending, shown| blocks::mends(&BLOCKS, sending, shown),
    response,
    pieces: || Box::<stream::bedrock::Blocks>::default(),
    resendable: |_, answer| answer,
    tool,
    check,
    paths: blocks::paths,
    reasoning_beside: |_| None,
};

/// Checks an identifier against the pattern that the API reference gives for `toolUseId`.
fn valid_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    (1..=64).contains(&id.len()) && id.bytes().all(allowed)
}

fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = &super::fields(raw)?;
    Ok(match &*super::role(fields)? {
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

fn owned(text: Cow<'_, str>) -> String {
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

/// The formats of pictures, with their media types.
const IMAGES: &[(&str, &str)] =
    &[("png", "image/png"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

/// The formats of files, with their media types.
const DOCUMENTS: &[(&str, &str)] = &[
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("html", "text/html"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
];

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

/// Applies the edits of one block.
fn edit(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    match part {
        PartRef::ToolCall(_) => {
            let inner = fields.get("toolUse")?.to_owned();
            let mut inner = Fields::read(&inner)?;
            if let Some(id) = edit::renamed(edits, index) {
                inner.set("toolUseId", json::string(id));
            }
            if let Some(arguments) = edit::arguments(edits, index) {
                inner.set("input", serde_json::from_str(arguments).ok()?);
            }
            fields.set("toolUse", inner.write());
        }
        PartRef::ToolResult(result) => {
            let inner = fields.get("toolResult")?.to_owned();
            let mut inner = Fields::read(&inner)?;
            if let Some(id) = edit::renamed(edits, index) {
                inner.set("toolUseId", json::string(id));
            }
            let content = inner.get("content").map(ToOwned::to_owned);
            let items = content.as_deref().and_then(json::array).unwrap_or_default();
            let note =
                edit::note_of(result, edits, index).map(|note| json::value(&serde_json::json!({"text": note.marker})));
            let shown: Vec<_> = items
                .into_iter()
                .zip(&result.content)
                .enumerate()
                .filter_map(|(at, (raw, item))| match edit::cut_of(edits, index, at) {
                    None => Some(raw.to_owned()),
                    Some(cut) => Some(cut.apply(item.text().unwrap_or_default()))
                        .filter(|text| !text.is_empty())
                        .map(|text| json::value(&serde_json::json!({"text": text}))),
                })
                .chain(note)
                .collect();
            inner.set("content", json::write_array(shown.iter().map(AsRef::as_ref)));
            fields.set("toolResult", inner.write());
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
    let loss = |what| Err(ConversionError::new(Dialect::Bedrock, what));
    let mut blocks = Vec::new();
    for part in message.parts() {
        blocks.push(json::value(&match part {
            PartRef::Text(text) => json!({"text": text}),
            PartRef::Image(media) => json!({"image": block(media, IMAGES)?}),
            PartRef::Document(media) => json!({"document": block(media, DOCUMENTS)?}),
            PartRef::Reasoning(Reasoning { text, signature: Some(signature) }) if text.is_empty() => {
                json!({"reasoningContent": {"redactedContent": signature}})
            }
            PartRef::Reasoning(Reasoning { text, signature }) => match signature {
                Some(signature) => {
                    json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
                }
                None => json!({"reasoningContent": {"reasoningText": {"text": text}}}),
            },
            PartRef::ToolCall(call) => {
                blocks.push(tool_use_block(call)?);
                continue;
            }
            PartRef::ToolResult(result) => {
                blocks.push(tool_result_block(result)?);
                continue;
            }
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => continue,
            PartRef::Opaque(_) => return loss("a part of a kind that only its own provider knows"),
        }));
    }
    let role = match message.role() {
        Role::System => return loss("a system message among the messages"),
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = json::write_array(blocks.iter().map(AsRef::as_ref));
    Ok(vec![json::object([("role", json::string(role)), ("content", content)])])
}

/// Writes a tool call. Its input keeps its bytes, because a number of thirty digits would not survive a float.
fn tool_use_block(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let input = match serde_json::from_str::<Box<RawValue>>(&call.arguments) {
        Ok(input) if call.has_object_arguments() => input,
        _ => return Err(ConversionError::new(Dialect::Bedrock, convert::ARGUMENTS)),
    };
    let (id, name) = (json::string(&call.id), json::string(&call.name));
    Ok(json::object([("toolUse", json::object([("toolUseId", id), ("name", name), ("input", input)]))]))
}

fn tool_result_block(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    let item = |item: &ResultItem| {
        Ok(match item {
            ResultItem::Text(text) => json::object([("text", json::string(text))]),
            ResultItem::Json(text) => match serde_json::from_str::<Box<RawValue>>(text) {
                Ok(raw) => json::object([("json", raw)]),
                Err(_) => json::object([("text", json::string(text))]),
            },
            ResultItem::Image(media) => json::object([("image", json::value(&block(media, IMAGES)?))]),
            ResultItem::Document(media) => json::object([("document", json::value(&block(media, DOCUMENTS)?))]),
            ResultItem::Opaque(_) => {
                return Err(ConversionError::new(Dialect::Bedrock, "an unknown item of a tool result"));
            }
        })
    };
    let items = result.content.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let status = json::string(if result.error { "error" } else { "success" });
    let content = json::write_array(items.iter().map(AsRef::as_ref));
    let inner = json::object([("toolUseId", json::string(&result.call_id)), ("content", content), ("status", status)]);
    Ok(json::object([("toolResult", inner)]))
}

fn block(media: &Media, formats: &[(&str, &str)]) -> Result<serde_json::Value, ConversionError> {
    use serde_json::json;
    let loss = |what| ConversionError::new(Dialect::Bedrock, what);
    let mime = media.mime.as_deref().ok_or_else(|| loss("a picture or file without a media type"))?;
    let format = formats.iter().find(|(_, known)| *known == mime).map(|(name, _)| *name);
    let format = format.ok_or_else(|| loss("a picture or file of this media type"))?;
    let source = match &media.source {
        MediaSource::Base64(data) => json!({"bytes": data}),
        MediaSource::Text(text) => json!({"text": text}),
        MediaSource::Url(url) if url.starts_with("s3:") => json!({"s3Location": {"uri": url}}),
        MediaSource::Url(_) => return Err(loss(convert::ADDRESS)),
        MediaSource::Id(_) => return Err(loss(convert::IDENTIFIER)),
    };
    Ok(match &media.name {
        Some(name) => json!({"format": format, "name": name, "source": source}),
        None => json!({"format": format, "source": source}),
    })
}

/// The members that other dialects can express, each as `parent.member`.
const KNOWN: &[&str] = &[
    ".role",
    ".content",
    "content.text",
    "content.image",
    "content.document",
    "content.toolUse",
    "content.toolResult",
    "content.json",
    "content.reasoningContent",
    "content.cachePoint",
    "image.format",
    "image.source",
    "document.format",
    "document.name",
    "document.source",
    "source.bytes",
    "source.text",
    "source.s3Location",
    "s3Location.uri",
    "toolUse.toolUseId",
    "toolUse.name",
    "toolUse.input",
    "toolResult.toolUseId",
    "toolResult.content",
    "toolResult.status",
    "reasoningContent.reasoningText",
    "reasoningContent.redactedContent",
    "reasoningText.text",
    "reasoningText.signature",
];

/// Reads a response. Its body does not name the model.
fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
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

fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}})
}

fn check(request: &Request) -> Vec<Finding> {
    let messages = request.messages();
    let whole = |rule: Rule, path: &str, problem| rule.at(messages.len(), path.to_owned(), problem);
    if messages.is_empty() {
        return vec![whole(BC1, "messages", ProblemKind::NoMessages)];
    }
    let mut findings = pairing::check(Dialect::Bedrock, &PAIRING, messages);
    // Since 2025-05, the first message may also be a tool use, if its result follows.
    let starts = |first: &&Message| first.role() == Role::User || first.tool_calls().next().is_some();
    let target = request.target();
    let begins = BC1.if_known(begins_freely(target).map(|begins| !begins));
    if let Some((first, rule)) = messages.first().filter(|first| !starts(first)).zip(begins) {
        findings.push(rule.at(0, "messages[0]".to_owned(), ProblemKind::FirstMessage { role: first.role() }));
    }
    findings.extend(blocks::wrong_roles(Dialect::Bedrock, BC11, WRONG_ROLES, messages));
    let mut names = HashSet::new();
    for place in Place::all(messages) {
        let Place { index, message, .. } = place;
        let is_last = index + 1 == messages.len();
        let trailing_space = is_last.then(|| message.ends_in_space(|_| true)).flatten();
        let path = |part| Dialect::Bedrock.path(&place, part);
        if messages.get(index + 1).is_some_and(|next| next.role() == message.role()) {
            findings.push(BC2.at(
                index + 1,
                format!("messages[{}]", index + 1),
                ProblemKind::Alternation { role: message.role() },
            ));
        }
        if message.parts().all(|part| part.is_cache_marker()) {
            findings.push(BC4.at(index, format!("messages[{index}].content"), ProblemKind::EmptyContent));
        }
        for (part, media) in blocks_of_media(message) {
            if let Some(name) = media.name {
                if name != allowed_name(&name) {
                    findings.push(BC9.at(index, path(part), ProblemKind::BadName));
                }
                if !names.insert(name) {
                    findings.push(BC9.at(index, path(part), ProblemKind::DuplicateName));
                }
            }
            if is_claude(target) == Some(true) && (media.is_audio_or_video || media.is_in_s3) {
                findings.push(BC10.at(index, path(part), ProblemKind::NotForModel));
            }
        }
        for (part, value) in message.parts().enumerate() {
            for (rule, problem) in blocks::part_faults(&PARTS, value, trailing_space == Some(part)) {
                findings.push(rule.at(index, path(part), problem));
            }
        }
    }
    findings.extend(tool_names::declared(BC13, request, is_tool_name));
    findings.extend(tool_names::called(BC13, request, is_tool_name));
    let pages = pages::find(messages).map(|pages| pages.count).fold(0, u64::saturating_add);
    if pages > MOST_PAGES
        && let Some(rule) = BC12.if_known(is_claude(target))
    {
        findings.push(whole(rule, "messages", ProblemKind::TooManyPages { count: pages, most: MOST_PAGES }));
    }
    let tools = messages.iter().any(|m| m.tool_calls().next().is_some() || m.tool_results().next().is_some());
    // A bare list of messages does not show whether tools are declared.
    if tools && request.is_body() && request.preamble().tools.is_none() {
        findings.push(whole(BC3, "toolConfig", ProblemKind::ToolsNotDeclared));
    }
    let count = blocks::all_markers(cache_marker::BLOCK, request);
    if count > blocks::MOST_MARKERS {
        findings.push(whole(BC6, "messages", ProblemKind::CacheMarkers { count, most: blocks::MOST_MARKERS }));
    }
    findings
}

fn is_tool_name(name: &str) -> bool {
    tool_names::is_word(name, 64)
}

/// Returns whether a request to the model may begin with an assistant message, or `None` if that is unknown.
fn begins_freely(target: &Target) -> Option<bool> {
    is_of(target, &["anthropic", "claude", "qwen"])
}

/// Returns whether the model is one of Anthropic's, or `None` if that is unknown.
fn is_claude(target: &Target) -> Option<bool> {
    is_of(target, &["anthropic", "claude"])
}

/// Returns whether the model is of one of these families, or `None` if that is unknown. The name of a resource, such as
/// a client's own inference profile, may not show the family.
fn is_of(target: &Target, families: &[&str]) -> Option<bool> {
    let is_resource = target.is_model(|model| model.starts_with("arn:"));
    let is_one = target.is_model(|model| families.iter().any(|family| model.contains(family)));
    let is_named = |model: &str| model.contains(":foundation-model/") || model.contains(":inference-profile/");
    let tells = is_one == Some(true) || is_resource == Some(false) || target.is_model(is_named) == Some(true);
    if tells { is_one } else { None }
}

/// A picture, a video or a file, in a message or in a tool result.
struct Medium {
    /// The name of a file.
    name: Option<String>,
    is_audio_or_video: bool,
    /// Whether its source is in S3.
    is_in_s3: bool,
}

/// Returns the pictures, videos and files of a message, each with the index of its part.
fn blocks_of_media(message: &Message) -> Vec<(usize, Medium)> {
    let Some(fields) = message.wire().and_then(|wire| Fields::read(&wire.raw)) else { return Vec::new() };
    let mut found = Vec::new();
    for (part, block) in fields.get("content").and_then(json::array).unwrap_or_default().into_iter().enumerate() {
        let Some(block) = Fields::read(block) else { continue };
        found.extend(medium(&block).map(|medium| (part, medium)));
        let result = block.get("toolResult").and_then(Fields::read);
        let items = result.as_ref().and_then(|result| result.get("content")).and_then(json::array).unwrap_or_default();
        found.extend(items.into_iter().filter_map(|item| Some((part, medium(&Fields::read(item)?)?))));
    }
    found
}

fn medium(block: &Fields<'_>) -> Option<Medium> {
    let kind = ["image", "document", "video"].into_iter().find(|kind| block.get(kind).is_some())?;
    let inner = block.get(kind).and_then(Fields::read)?;
    let is_in_s3 = inner.get("source").and_then(Fields::read).is_some_and(|source| source.get("s3Location").is_some());
    Some(Medium { name: inner.text("name").map(owned), is_audio_or_video: kind == "video", is_in_s3 })
}

/// The most pages of PDF files for Claude.
const MOST_PAGES: u64 = 100;

/// The most characters in the name of a file.
const LONGEST_NAME: usize = 200;

/// Returns the name of a file with `-` for each character that is not allowed, and without spaces in a row.
fn allowed_name(name: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() || " -_()[]".contains(char) { char } else { '-' };
    let mut allowed = String::with_capacity(name.len());
    for char in name.chars().map(|char| if char.is_whitespace() { ' ' } else { plain(char) }).take(LONGEST_NAME) {
        if char != ' ' || !allowed.ends_with(' ') {
            allowed.push(char);
        }
    }
    if allowed.is_empty() { "file".to_owned() } else { allowed }
}

/// Mends the names of files in outgoing messages.
fn mend(_: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended> {
    let (mut mends, mut names) = (Vec::new(), Names::default());
    for (index, raw) in messages.iter_mut().map(|message| &mut **message) {
        if raw.get().contains("\"document\"")
            && let Some(mended) = names.mend(raw)
        {
            *raw = Cow::Owned(mended);
            mends.push(Mend::MembersMended.at(*index));
        }
    }
    mends
}

/// The names of the outgoing files, each with the number of files that wanted it.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// Returns a message with valid and unique file names, or `None` if its names are already valid and unique.
    fn mend(&mut self, message: &RawValue) -> Option<Box<RawValue>> {
        let mut fields = Fields::read(message)?;
        let content = self.mended(fields.get("content")?)?;
        fields.set("content", content);
        Some(fields.write())
    }

    /// Returns a list of blocks with mended names, or `None` if none needs one.
    fn mended(&mut self, content: &RawValue) -> Option<Box<RawValue>> {
        let blocks = json::array(content)?;
        let mended: Vec<Option<Box<RawValue>>> = blocks.iter().map(|block| self.block(block)).collect();
        if mended.iter().all(Option::is_none) {
            return None;
        }
        Some(json::write_array(
            blocks.into_iter().zip(&mended).map(|(block, mended)| mended.as_deref().unwrap_or(block)),
        ))
    }

    fn block(&mut self, block: &RawValue) -> Option<Box<RawValue>> {
        let mut fields = Fields::read(block)?;
        if let Some(result) = fields.get("toolResult").map(ToOwned::to_owned) {
            let mut inner = Fields::read(&result)?;
            let content = self.mended(inner.get("content")?)?;
            inner.set("content", content);
            fields.set("toolResult", inner.write());
            return Some(fields.write());
        }
        let document = fields.get("document")?.to_owned();
        let mut inner = Fields::read(&document)?;
        let name = inner.text("name").map(owned)?;
        let own = Some(self.own(&name)).filter(|own| *own != name)?;
        inner.set("name", json::string(&own));
        fields.set("document", inner.write());
        Some(fields.write())
    }

    /// Returns the name under which a file is sent: its own or, if an earlier file has that name, one with a number.
    fn own(&mut self, name: &str) -> String {
        let wanted = allowed_name(name);
        let mut own = wanted.clone();
        while self.0.contains_key(&own) {
            let number = self.0.entry(wanted.clone()).or_insert(1);
            *number += 1;
            let end = format!(" ({number})");
            own = wanted.chars().take(LONGEST_NAME - end.len()).collect::<String>().trim_end().to_owned() + &end;
        }
        self.0.insert(own.clone(), 1);
        own
    }
}
