//! OpenAI Chat Completions, which many other servers follow.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::api::{Api, openai_error};
use super::content::{edited, element, text, text_block};
use super::format::{Encoded, Format, Rendered, Sending};
use super::pairing::{self, PairingRules, long_ids};
use super::{
    ConversionError, DecodeError, Dialect, Finding, Place, ProblemKind, Quirks, Request, Response, Rule, Shown,
    convert, detect, provider_error, response, sampling, stitch, stream, tool_names,
};
use crate::edit::{self, Edit};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Message, Opaque, PartRef, Reasoning, ResultItem, SystemPart, ToolCall,
    ToolResult, UserPart,
};
use crate::start::Start;
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::Provider;

/// The rules of OpenAI, and of the stricter servers that follow its format.
const RULES: &[Rule] = &[OC1, OC2, OC3, OC4, OC5, OC6, OC7, OC8, OC9, OC10, OC11, OC12, OC13, OC0];

const OC1: Rule = Rule::refused(
    "OC1",
    "a tool message follows the assistant message whose call it answers; only tool messages are between",
);
const OC2: Rule = Rule::refused("OC2", "each tool call is answered before a message of any other role");
const OC3: Rule = Rule::refused("OC3", "the arguments of a call are a JSON object, and no call is answered twice");
const OC4: Rule = Rule::refused("OC4", "the calls of one message have different identifiers");
const OC5: Rule = Rule::refused(
    "OC5",
    "only an assistant message with tool calls, a refusal or audio may lack content, and `tool_calls` is never empty",
);
const OC6: Rule = Rule::refused("OC6", "at OpenAI, the identifiers of calls have at most 40 characters");
const OC7: Rule = Rule::refused("OC7", "at OpenAI, a message has at most 128 tool calls");
const OC8: Rule = Rule::refused("OC8", "at OpenAI, only audio models accept audio");
const OC9: Rule = Rule::refused("OC9", "o1-mini and o1-preview take no system or developer message");
const OC10: Rule = Rule::refused("OC10", "`temperature` is from 0 to 2, and `top_p` from 0 to 1");
const OC11: Rule = Rule::refused("OC11", "no text has half of a surrogate pair");
const OC12: Rule = Rule::refused(
    "OC12",
    "at OpenAI, names of tools have only letters, digits, `_`, `-` and `.`, and at most 128 characters",
);
const OC13: Rule = Rule::refused("OC13", "at OpenAI, only user messages have pictures");
const OC0: Rule = Rule::refused("OC0", "the request has at least one message");

const PAIRING: PairingRules = PairingRules {
    missing: OC2,
    orphan: OC1,
    duplicate_result: OC3,
    duplicate_call: OC4,
    results_first: None,
    adjacent: true,
    merges_neighbors: false,
};

const QUIRKS: Quirks = Quirks {
    merges_neighbors: false,
    valid_id: |_| true,
    longest_id: usize::MAX,
    refuses_blank: false,
    takes_space_beside: false,
    refuses_empty: true,
    refuses_trailing_space: false,
    signed_reasoning: false,
    start: Start::Any,
    opens: Start::Any,
    marks_errors: false,
    system_follows_user: false,
    refuses_empty_error: false,
    has_refused_members: has_empty_calls,
    results_by_name: false,
    results_anywhere: false,
    binds_reasoning: false,
    wrong_roles: &[],
    compactions: &[],
    standing: &[],
};

pub(super) static FORMAT: Format = Format {
    aliases: &[
        "openai",
        "openai-compatible",
        "openai-completions",
        "openai-chat-completions",
        "chat",
        "chat-completions",
        "chatgpt",
        "gpt",
        "azure",
        "azure-openai",
        "deepseek",
        "litellm",
        "llama.cpp",
        "mistral",
        "ollama",
        "openrouter",
        "vllm",
    ],
    provider: "openai",
    signs: &detect::OPENAI_CHAT,
    api: Api {
        calls: &["chat/completions"],
        stateless: &["completions", "embeddings"],
        others: &[],
        headers: &[],
        key: ("authorization", "Bearer "),
        error: openai_error,
    },
    rules: RULES,
    halves: OC11,
    quirks: |target| match target.is(Provider::OpenAi) {
        Some(true) => Quirks { longest_id: LONGEST_ID, ..QUIRKS },
        Some(false) | None => QUIRKS,
    },
    sayings: provider_error::OPENAI_CHAT,
    messages: "messages",
    system: None,
    tools: "tools",
    functions: &[],
    cache_marker: None,
    stored: &[],
    instead: &[],
    reference: None,
    thinking: &["reasoning", "thinking"],
    answer_forms: &[("response_format", &["json_schema", "json_object"])],
    shorteners: &[],
    call_bans: &[("tool_choice", &["\"none\""])],
    errors_in_streams: false,
    known: KNOWN,
    whole: &[],
    is_piece: |_| false,
    decode,
    render,
    encode,
    mends: |_, _| Ok(Vec::new()),
    response,
    pieces: || Box::<stream::openai_chat::Chunks>::default(),
    seam: Some(|| Box::<stitch::openai_chat::Chunks>::default()),
    resendable: |_, answer| answer,
    tool,
    check,
    paths: |place| {
        let place = *place;
        Box::new(move |part| path(&place, part))
    },
    reasoning_beside: reasoning,
};

fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = &super::fields(raw)?;
    Ok(match &*super::role(fields)? {
        "system" | "developer" => Content::System(parts(fields, system_part)?),
        "user" => Content::User(parts(fields, user_part)?),
        "assistant" => {
            let mut parts = parts(fields, assistant_part)?;
            if let Some(calls) = fields.get("tool_calls").filter(|calls| calls.get() != "null") {
                let calls = json::array(calls).ok_or_else(|| DecodeError::member("tool_calls", "a list"))?;
                for (index, call) in calls.into_iter().enumerate() {
                    parts.push(AssistantPart::ToolCall(tool_call(index, call)?));
                }
            }
            parts.extend(members(fields));
            Content::Assistant(parts)
        }
        "tool" => {
            let id = fields.text("tool_call_id").ok_or_else(|| DecodeError::member("tool_call_id", "a string"))?;
            let content = self::parts(fields, result_item)?;
            Content::User(vec![UserPart::ToolResult(ToolResult::from_items(id, content))])
        }
        // The result of a call in the member `function_call`, which has no identifier.
        "function" => Content::User(vec![UserPart::Opaque(opaque("function", raw))]),
        role => {
            return Err(DecodeError::role(role, Dialect::OpenAiChat, "system, developer, user, assistant and tool"));
        }
    })
}

/// Reads the members of an assistant message other than content and calls. The kind of each part is the name of its
/// member.
///
/// Without these parts, a refusal would be an empty message, because its content is `null`.
fn members(fields: &Fields<'_>) -> impl Iterator<Item = AssistantPart> {
    let present = |name: &str| fields.get(name).filter(|value| value.get() != "null").map(|value| opaque(name, value));
    ["refusal", "audio", "function_call"].into_iter().filter_map(present).map(AssistantPart::Opaque)
}

/// Reads the content. A string is one part of text, and `null` is no part.
fn parts<T>(fields: &Fields<'_>, part: fn(Part, &RawValue) -> T) -> Result<Vec<T>, DecodeError> {
    let Some(content) = fields.get("content").filter(|content| content.get() != "null") else { return Ok(Vec::new()) };
    if let Some(text) = json::text(content) {
        return Ok(vec![part(Part::Text(text.into_owned()), content)]);
    }
    let elements =
        json::array(content).ok_or_else(|| DecodeError::member("content", "a string, a list of parts or null"))?;
    let read = |(index, element): (usize, &RawValue)| {
        let fields =
            Fields::read(element).ok_or_else(|| DecodeError::member(format!("content[{index}]"), "an object"))?;
        Ok(part(read_part(&fields), element))
    };
    elements.into_iter().enumerate().map(read).collect()
}

enum Part {
    Text(String),
    Image(Media),
    Document(Media),
    Other(String),
}

fn read_part(fields: &Fields<'_>) -> Part {
    let kind = fields.text("type").unwrap_or_default();
    let inner = |key: &str| fields.get(key).and_then(Fields::read);
    let known = match &*kind {
        "text" => fields.text("text").map(|text| Part::Text(text.into_owned())),
        // Some clients write the URL without an object around it.
        "image_url" => {
            let url = inner("image_url").and_then(|image| image.text("url").map(Cow::into_owned));
            let url = url.or_else(|| fields.text("image_url").map(Cow::into_owned));
            url.map(|url| Part::Image(from_url(&url)))
        }
        "document_url" => fields.text("document_url").map(|url| Part::Document(from_url(&url))),
        "file" => inner("file").and_then(|file| {
            let name = file.text("filename").map(Cow::into_owned);
            let media = match (file.text("file_data"), file.text("file_id")) {
                (Some(data), _) => from_url(&data),
                (None, Some(id)) => Media { mime: None, name: None, source: MediaSource::Id(id.into_owned()) },
                (None, None) => return None,
            };
            Some(Part::Document(Media { name, ..media }))
        }),
        _ => None,
    };
    known.unwrap_or_else(|| Part::Other(kind.into_owned()))
}

/// Reads a URL. A `data:` URL has the bytes. The provider fetches any other.
pub(super) fn from_url(url: &str) -> Media {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((mime, data)) => {
            Media { mime: Some(mime.to_owned()), name: None, source: MediaSource::Base64(data.to_owned()) }
        }
        None => Media { mime: None, name: None, source: MediaSource::Url(url.to_owned()) },
    }
}

fn opaque(kind: &str, raw: &RawValue) -> Opaque {
    Opaque { kind: kind.to_owned(), raw: raw.to_owned() }
}

fn system_part(part: Part, raw: &RawValue) -> SystemPart {
    match part {
        Part::Text(text) => SystemPart::Text(text),
        Part::Image(_) => SystemPart::Opaque(opaque("image_url", raw)),
        Part::Document(_) => SystemPart::Opaque(opaque("file", raw)),
        Part::Other(kind) => SystemPart::Opaque(opaque(&kind, raw)),
    }
}

fn user_part(part: Part, raw: &RawValue) -> UserPart {
    match part {
        Part::Text(text) => UserPart::Text(text),
        Part::Image(media) => UserPart::Image(media),
        Part::Document(media) => UserPart::Document(media),
        Part::Other(kind) => UserPart::Opaque(opaque(&kind, raw)),
    }
}

fn assistant_part(part: Part, raw: &RawValue) -> AssistantPart {
    match part {
        Part::Text(text) => AssistantPart::Text(text),
        Part::Image(_) => AssistantPart::Opaque(opaque("image_url", raw)),
        Part::Document(_) => AssistantPart::Opaque(opaque("file", raw)),
        Part::Other(kind) => AssistantPart::Opaque(opaque(&kind, raw)),
    }
}

fn result_item(part: Part, raw: &RawValue) -> ResultItem {
    match part {
        Part::Text(text) => ResultItem::Text(text),
        Part::Image(media) => ResultItem::Image(media),
        Part::Document(media) => ResultItem::Document(media),
        Part::Other(kind) => ResultItem::Opaque(opaque(&kind, raw)),
    }
}

fn tool_call(index: usize, raw: &RawValue) -> Result<ToolCall, DecodeError> {
    let fault = |member: &str, expected| DecodeError::member(format!("tool_calls[{index}]{member}"), expected);
    let fields = Fields::read(raw).ok_or_else(|| fault("", "an object"))?;
    let id = fields.text("id").ok_or_else(|| fault(".id", "a string"))?;
    if let Some(custom) = fields.get("custom").and_then(Fields::read) {
        // A custom tool takes free text, which is read as its only argument.
        let name = custom.text("name").ok_or_else(|| fault(".custom.name", "a string"))?;
        let input = custom.get("input").map_or("null", RawValue::get);
        return Ok(ToolCall::new(id, name, format!("{{\"input\":{input}}}")));
    }
    let function = fields.get("function").and_then(Fields::read).ok_or_else(|| fault(".function", "an object"))?;
    let name = function.text("name").ok_or_else(|| fault(".function.name", "a string"))?;
    let arguments = function.get("arguments").ok_or_else(|| fault(".function.arguments", "a string"))?;
    // Mistral also accepts an object instead of a string.
    let object = || Fields::read(arguments).map(|_| Cow::Borrowed(arguments.get()));
    let arguments = json::text(arguments).or_else(object);
    Ok(ToolCall::new(id, name, arguments.ok_or_else(|| fault(".function.arguments", "a string"))?))
}

fn encode<'a>(_: &Sending<'_>, shown: &[Shown<'a>]) -> Encoded<'a> {
    let mut out = Vec::new();
    for Shown { message, edits } in shown.iter().copied() {
        match message.wire().filter(|wire| wire.dialect == Dialect::OpenAiChat) {
            Some(wire) if edits.is_empty() => out.push(Cow::Borrowed(&*wire.raw)),
            Some(wire) => out.extend(edit(message, &wire.raw, edits).map(Cow::Owned)),
            None => {
                for message in Dialect::OpenAiChat.convert(message)? {
                    if let Some(wire) = message.wire() {
                        out.extend(edit(&message, &wire.raw, edits).map(Cow::Owned));
                    }
                }
            }
        }
    }
    Ok(out)
}

/// Returns the reasoning that some servers put next to the content. It is sent back to them, so it costs tokens.
fn reasoning(message: &Message) -> Option<Reasoning> {
    let raw = message.wire().map(|wire| &*wire.raw).filter(|raw| raw.get().contains("\"reasoning"))?;
    let fields = Fields::read(raw)?;
    ["reasoning_content", "reasoning"].into_iter().find_map(|key| fields.text(key).map(Reasoning::new))
}

/// Returns whether `tool_calls` is an empty list. The parts do not show the difference to an absent list, so the JSON
/// is read.
fn has_empty_calls(message: &Message) -> bool {
    if message.role() != Role::Assistant {
        return false;
    }
    let raw = message.wire().map(|wire| &*wire.raw);
    let fields = raw.filter(|raw| raw.get().contains("\"tool_calls\"")).and_then(Fields::read);
    message.tool_calls().next().is_none()
        && fields.is_some_and(|fields| fields.get("tool_calls").is_some_and(|calls| calls.get() != "null"))
}

/// Applies the edits of a message. Returns `None` if it becomes empty.
fn edit(message: &Message, raw: &RawValue, edits: &[Edit]) -> Option<Box<RawValue>> {
    if edit::hides_all(message, edits) {
        return None;
    }
    let mut fields = Fields::read(raw)?;
    let calls = message.tool_calls().next().map(|(part, _)| part);
    // The parts of the content come first, then the calls.
    let in_content = |part: usize| calls.is_none_or(|first| part < first);
    if let Some((_, result)) = message.tool_results().next() {
        if let Some(id) = edit::renamed(edits, 0) {
            fields.set("tool_call_id", json::string(id));
        }
        let shown = |item: usize| element(edits, 0, item, result.content.get(item).and_then(ResultItem::text));
        if let Some(content) = fields.get("content").and_then(|content| edited(content, shown, text_block)) {
            fields.set("content", content);
        }
    } else if edits.iter().any(|edit| in_content(edit.part) && edit.part < message.parts().count()) {
        let parts: Vec<_> = message.parts().collect();
        let shown = |part: usize| element(edits, part, 0, parts.get(part).and_then(text));
        let content = match fields.get("content").and_then(|content| edited(content, shown, text_block)) {
            Some(kept) if kept.get() != "[]" => kept,
            _ => RawValue::NULL.to_owned(),
        };
        fields.set("content", content);
    }
    if calls.is_none() {
        // An empty list is refused (OC5).
        fields.remove("tool_calls");
    }
    if let Some(first) = calls {
        let old = fields.get("tool_calls").and_then(json::array).unwrap_or_default();
        let new: Vec<_> =
            old.into_iter().enumerate().map(|(index, call)| edit_call(call, edits, first + index)).collect();
        fields.set("tool_calls", json::write_array(new.iter().map(AsRef::as_ref)));
    }
    Some(fields.write())
}

fn edit_call(raw: &RawValue, edits: &[Edit], part: usize) -> Box<RawValue> {
    let (id, arguments) = (edit::renamed(edits, part), edit::arguments(edits, part));
    if id.is_none() && arguments.is_none() {
        return raw.to_owned();
    }
    let Some(mut fields) = Fields::read(raw) else { return raw.to_owned() };
    if let Some(id) = id {
        fields.set("id", json::string(id));
    }
    let function = fields.get("function").map(ToOwned::to_owned);
    if let (Some(arguments), Some(mut function)) = (arguments, function.as_deref().and_then(Fields::read)) {
        function.set("arguments", json::string(arguments));
        fields.set("function", function.write());
    }
    fields.write()
}

fn render(message: &Message) -> Rendered {
    use serde_json::json;
    let mut out = Vec::new();
    let mut content = Vec::new();
    let mut calls = Vec::new();
    for part in message.parts() {
        match part {
            PartRef::Text(text) => content.push(json!({"type": "text", "text": text})),
            PartRef::Image(media) => content.push(image_part(media)?),
            PartRef::Document(media) => content.push(file_part(media)?),
            PartRef::ToolCall(call) => calls.push(json!({
                "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments},
            })),
            PartRef::ToolResult(result) => out.push(tool_message(result)?),
            PartRef::Reasoning(_) => return Err(loss("reasoning")),
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
            PartRef::Opaque(_) => return Err(loss("a part of a kind that only its own provider knows")),
        }
    }
    if out.is_empty() || !content.is_empty() || !calls.is_empty() {
        out.push(message_beside_results(message.role(), content, &calls));
    }
    Ok(out)
}

fn loss(what: &'static str) -> ConversionError {
    ConversionError::new(Dialect::OpenAiChat, what)
}

fn image_part(media: &Media) -> Result<Value, ConversionError> {
    let url = convert::url(media).ok_or_else(|| loss("an image by its identifier, or by this address"))?;
    Ok(serde_json::json!({"type": "image_url", "image_url": {"url": url}}))
}

fn file_part(media: &Media) -> Result<Value, ConversionError> {
    use serde_json::json;
    match (&media.source, convert::url(media)) {
        (MediaSource::Id(id), _) => Ok(json!({"type": "file", "file": {"file_id": id}})),
        (MediaSource::Base64(_), Some(url)) => {
            Ok(json!({"type": "file", "file": {"filename": media.name, "file_data": url}}))
        }
        _ => Err(loss("a document that is text or an address")),
    }
}

/// Writes a tool result, which is a separate message.
fn tool_message(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    use serde_json::json;
    if result.error {
        return Err(loss("that a tool result is an error"));
    }
    let mut texts = Vec::new();
    for item in &result.content {
        match item {
            ResultItem::Text(text) | ResultItem::Json(text) => texts.push(text.as_str()),
            ResultItem::Image(_) | ResultItem::Document(_) => {
                return Err(loss("a picture or file in a tool result"));
            }
            ResultItem::Opaque(_) => return Err(loss("an unknown item of a tool result")),
        }
    }
    let content = match texts.as_slice() {
        [text] => json!(text),
        texts => texts.iter().map(|text| json!({"type": "text", "text": text})).collect(),
    };
    Ok(json::value(&json!({"role": "tool", "tool_call_id": result.call_id, "content": content})))
}

/// Writes the message with the content and calls, without tool results.
fn message_beside_results(role: Role, content: Vec<Value>, calls: &[Value]) -> Box<RawValue> {
    let role = match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = match content.as_slice() {
        [] => Value::Null,
        [only] if only.get("type").is_some_and(|kind| kind == "text") => only.get("text").cloned().unwrap_or_default(),
        _ => Value::Array(content),
    };
    let mut body = Fields::default();
    body.set("role", json::string(role));
    body.set("content", json::value(&content));
    if !calls.is_empty() {
        body.set("tool_calls", json::value(calls));
    }
    body.write()
}

/// The members that other dialects can express, each as `parent.member`.
const KNOWN: &[&str] = &[
    ".role",
    ".content",
    ".tool_calls",
    ".tool_call_id",
    "content.type",
    "content.text",
    "content.image_url",
    "content.file",
    "image_url.url",
    "file.file_data",
    "file.filename",
    "tool_calls.id",
    "tool_calls.type",
    "tool_calls.function",
    "function.name",
    "function.arguments",
];

fn path(place: &Place<'_>, part: usize) -> String {
    let index = place.element;
    match place.first_call {
        Some(first) if part >= first => format!("messages[{index}].tool_calls[{}]", part - first),
        _ if place.is_result => format!("messages[{index}]"),
        _ => format!("messages[{index}].content[{part}]"),
    }
}

/// Reads a response: the message of its first choice.
fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
    let choices = fields.get("choices").and_then(json::array).unwrap_or_default();
    let choice = choices.first().and_then(|choice| Fields::read(choice)).unwrap_or_default();
    let message = choice.get("message").ok_or_else(|| DecodeError::member("choices[0].message", "a message"))?;
    let usage = fields.get("usage").and_then(Fields::read).unwrap_or_default();
    Ok(Response {
        message: Dialect::OpenAiChat.decode_raw(message)?,
        model: fields.text("model").map(Cow::into_owned),
        input: response::tokens(&usage, &["prompt_tokens"]),
        cached: response::detail(&usage, "prompt_tokens_details", "cached_tokens"),
        written: None,
        output: response::tokens(&usage, &["completion_tokens"]),
        fills_window: false,
        lost_reasoning: 0,
    })
}

fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

fn check(request: &Request) -> Vec<Finding> {
    let messages = request.messages();
    if messages.is_empty() {
        return vec![OC0.at(0, "messages".to_owned(), ProblemKind::NoMessages)];
    }
    let mut findings = pairing::check(Dialect::OpenAiChat, &PAIRING, messages);
    let target = request.target();
    let openai = |rule: Rule| rule.if_known(target.is(Provider::OpenAi));
    // The names of audio models show that they accept audio.
    let deaf = target.is_model(|model| !model.contains("audio") && !model.contains("realtime"));
    let deaf = if target.is(Provider::OpenAi) == Some(true) { OC8.if_known(deaf) } else { None };
    let takes_no_system = target.is_model(|model| model.starts_with("o1-mini") || model.starts_with("o1-preview"));
    for place in Place::all(messages) {
        let Place { index, message, .. } = place;
        for (part, call) in message.tool_calls().filter(|(_, call)| !call.has_object_arguments()) {
            findings.push(OC3.at(index, path(&place, part), ProblemKind::BadArguments { id: call.id.clone() }));
        }
        if let Some(rule) = openai(OC3) {
            let bare =
                bare_arguments(message).map(|(part, id)| (path(&place, part), ProblemKind::BareArguments { id }));
            findings.extend(bare.map(|(path, problem)| rule.at(index, path, problem)));
        }
        let whole = || format!("messages[{index}]");
        if has_empty_calls(message) {
            findings.push(OC5.at(index, whole() + ".tool_calls", ProblemKind::EmptyToolCalls));
        }
        if message.parts().next().is_none() {
            findings.push(OC5.at(index, whole(), ProblemKind::EmptyContent));
        }
        let count = message.tool_calls().count();
        if count > MOST_CALLS
            && let Some(rule) = openai(OC7)
        {
            let problem = ProblemKind::TooManyCalls { count, most: MOST_CALLS };
            findings.push(rule.at(index, whole() + ".tool_calls", problem));
        }
        let sounds = message.parts().enumerate().filter(|(_, part)| is_sound(part));
        findings
            .extend(sounds.filter_map(|(part, _)| Some(deaf?.at(index, path(&place, part), ProblemKind::NotForModel))));
        let picture = message.parts().position(|part| matches!(part, PartRef::Opaque(it) if it.kind == "image_url"));
        if message.role() != Role::User
            && let Some((part, rule)) = picture.zip(openai(OC13))
        {
            findings.push(rule.at(index, path(&place, part), ProblemKind::WrongRole { role: message.role() }));
        }
        if message.role() == Role::System && takes_no_system == Some(true) {
            findings.push(OC9.at(index, whole() + ".role", ProblemKind::NotForModel));
        }
    }
    findings.extend(long_ids(request, &openai(OC6), LONGEST_ID));
    if let Some(rule) = openai(OC12) {
        findings.extend(tool_names::declared(rule, request, is_tool_name));
        findings.extend(tool_names::called(rule, request, is_tool_name));
    }
    findings.extend(sampling::check(OC10, request));
    findings
}

/// Returns whether OpenAI allows the name of a tool. Not every model accepts a full stop, or more than 64 characters.
pub(super) fn is_tool_name(name: &str) -> bool {
    tool_names::is_word(&name.replace('.', "_"), 128)
}

/// The most characters of a call's identifier.
const LONGEST_ID: usize = 40;

/// The most tool calls of a message.
const MOST_CALLS: usize = 128;

/// Returns the calls whose arguments are an object instead of a string: the index of each part, and its identifier.
fn bare_arguments(message: &Message) -> impl Iterator<Item = (usize, String)> {
    let fields = message.wire().and_then(|wire| Fields::read(&wire.raw));
    let calls = fields.as_ref().and_then(|fields| fields.get("tool_calls")).and_then(json::array).unwrap_or_default();
    let is_bare = |call: &RawValue| {
        let function = Fields::read(call).and_then(|call| call.get("function").map(ToOwned::to_owned));
        let function = function.as_deref().and_then(Fields::read);
        function.is_some_and(|function| function.get("arguments").is_some_and(|raw| raw.get().starts_with('{')))
    };
    let are_bare: Vec<bool> = calls.into_iter().map(is_bare).collect();
    let bare = message.tool_calls().zip(are_bare).filter(|(_, is_bare)| *is_bare);
    bare.map(|((part, call), _)| (part, call.id.clone()))
}

/// Returns whether a part is audio.
fn is_sound(part: &PartRef<'_>) -> bool {
    matches!(part, PartRef::Opaque(opaque) if opaque.kind == "input_audio")
}
