//! Reads the messages and responses of Gemini.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{ANONYMOUS, BESIDE, ERROR, OUTPUT, SPELLINGS, member};
use crate::dialect::{DecodeError, Dialect, Response, response};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Message, Opaque, PartRef, Reasoning, ResultItem, ToolCall, ToolResult,
    UserPart,
};
use crate::wire::Role;
use lookback_content::json::{self, Fields};

pub(super) fn text_of(fields: &Fields<'_>, name: &'static str) -> Option<String> {
    member(fields, name).and_then(json::text).map(Cow::into_owned)
}

pub(super) fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = crate::dialect::fields(raw)?;
    // A single content may leave out its role.
    let role = fields.text("role").unwrap_or(Cow::Borrowed("user"));
    Ok(match &*role {
        "user" | "function" => Content::User(parts(&fields, user_part)?),
        "model" => Content::Assistant(answer(&fields)?),
        role => return Err(DecodeError::role(role, Dialect::Gemini, "user, model and function")),
    })
}

fn parts<T>(fields: &Fields<'_>, part: fn(&Fields<'_>, &RawValue) -> T) -> Result<Vec<T>, DecodeError> {
    // An answer that was cut off before its first word has no parts.
    let Some(parts) = fields.get("parts") else { return Ok(Vec::new()) };
    let parts = json::array(parts).ok_or_else(|| DecodeError::member("parts", "a list of parts"))?;
    let read = |(index, raw): (usize, &RawValue)| {
        let fields = Fields::read(raw).ok_or_else(|| DecodeError::member(format!("parts[{index}]"), "an object"))?;
        Ok(part(&fields, raw))
    };
    parts.into_iter().enumerate().map(read).collect()
}

/// Reads an answer of the model.
///
/// It may have calls that the provider ran itself, together with their responses. The client does not answer these.
fn answer(fields: &Fields<'_>) -> Result<Vec<AssistantPart>, DecodeError> {
    let mut answer = parts(fields, assistant_part)?;
    let answers = |part: &AssistantPart| match part {
        AssistantPart::Opaque(opaque) => answered(opaque),
        _ => None,
    };
    let own: HashSet<String> = answer.iter().filter_map(answers).collect();
    if own.is_empty() {
        return Ok(answer);
    }
    let raws = fields.get("parts").and_then(json::array).unwrap_or_default();
    for (part, raw) in answer.iter_mut().zip(raws) {
        if let AssistantPart::ToolCall(call) = part
            && own.contains(&call.id)
        {
            *part = AssistantPart::Opaque(Opaque { kind: "functionCall".to_owned(), raw: raw.to_owned() });
        }
    }
    Ok(answer)
}

/// Returns the identifier of the call that a response among the model's own parts answers, or the name of the tool if
/// the response has no identifier.
fn answered(opaque: &Opaque) -> Option<String> {
    let place = ["functionResponse", "toolResponse"].into_iter().find(|place| *place == opaque.kind)?;
    let fields = Fields::read(&opaque.raw)?;
    let response = Fields::read(member(&fields, place)?)?;
    let named = response.text("id").filter(|id| !id.is_empty()).or_else(|| response.text("name"))?;
    Some(named.into_owned())
}

/// Returns the signatures of the parts that are not themselves reasoning.
pub(super) fn signatures(message: &Message) -> Option<Reasoning> {
    if message.role() != Role::Assistant {
        return None;
    }
    let raw = message.wire().map(|wire| &*wire.raw)?;
    if !["thoughtSignature", "thought_signature"].iter().any(|name| raw.get().contains(name)) {
        return None;
    }
    let fields = Fields::read(raw)?;
    let raws = fields.get("parts").and_then(json::array)?;
    let others = raws.iter().zip(message.parts()).filter(|(_, part)| !matches!(part, PartRef::Reasoning(_)));
    let signatures = others.filter_map(|(raw, _)| text_of(&Fields::read(raw)?, "thoughtSignature"));
    Some(Reasoning::new("").with_signature(signatures.collect::<String>()))
}

/// Returns a part that Lookback does not know, or `None` if it has no content at all.
fn opaque(fields: &Fields<'_>, raw: &RawValue) -> Option<Opaque> {
    // A part may have only members that describe content.
    let kind = fields.keys().find(|key| !BESIDE.contains(key)).or_else(|| fields.keys().next())?;
    let kind = SPELLINGS.iter().find(|(_, snake)| *snake == kind).map_or(kind, |(camel, _)| *camel);
    Some(Opaque { kind: kind.to_owned(), raw: raw.to_owned() })
}

fn user_part(fields: &Fields<'_>, raw: &RawValue) -> UserPart {
    let result = || member(fields, "functionResponse").and_then(tool_result).map(UserPart::ToolResult);
    let known = text_of(fields, "text").map(UserPart::Text).or_else(result).or_else(|| {
        let media = media(fields)?;
        Some(if is_image(&media) { UserPart::Image(media) } else { UserPart::Document(media) })
    });
    let unknown = || opaque(fields, raw).map(UserPart::Opaque);
    known.or_else(unknown).unwrap_or_else(|| UserPart::Text(String::new()))
}

fn assistant_part(fields: &Fields<'_>, raw: &RawValue) -> AssistantPart {
    let is_thought = fields.get("thought").is_some_and(|thought| thought.get() == "true");
    let signature = text_of(fields, "thoughtSignature");
    let known = match text_of(fields, "text") {
        // The signature of an answer may arrive in a part without words.
        Some(text) if is_thought || (signature.is_some() && text.trim().is_empty()) => {
            Some(AssistantPart::Reasoning(Reasoning { text, signature: signature.clone() }))
        }
        Some(text) => Some(AssistantPart::Text(text)),
        None => member(fields, "functionCall").and_then(tool_call).map(AssistantPart::ToolCall),
    };
    // A thought may arrive without words, and a signature without any content.
    let is_bare = || fields.keys().all(|key| BESIDE.contains(&key)) && (is_thought || signature.is_some());
    let bare =
        || is_bare().then(|| AssistantPart::Reasoning(Reasoning { text: String::new(), signature: signature.clone() }));
    let known = known.or_else(bare);
    let unknown = || opaque(fields, raw).map(AssistantPart::Opaque);
    known.or_else(unknown).unwrap_or_else(|| AssistantPart::Text(String::new()))
}

fn media(fields: &Fields<'_>) -> Option<Media> {
    let (inner, data, from): (_, _, fn(String) -> MediaSource) = match member(fields, "inlineData") {
        Some(inner) => (inner, "data", MediaSource::Base64),
        None => (member(fields, "fileData")?, "fileUri", MediaSource::Url),
    };
    let inner = Fields::read(inner)?;
    let source = from(text_of(&inner, data)?);
    Some(Media { mime: text_of(&inner, "mimeType"), name: text_of(&inner, "displayName"), source })
}

fn is_image(media: &Media) -> bool {
    media.mime.as_deref().is_some_and(|mime| mime.starts_with("image/"))
}

fn tool_call(raw: &RawValue) -> Option<ToolCall> {
    let fields = Fields::read(raw)?;
    let name = fields.text("name")?;
    let arguments = fields.get("args").filter(|args| args.get() != "null").map_or("{}", RawValue::get);
    Some(match fields.text("id").filter(|id| !id.is_empty()) {
        Some(id) => ToolCall::new(id, &*name, arguments),
        None => ToolCall::new(&*name, &*name, arguments).with_form(ANONYMOUS),
    })
}

fn tool_result(raw: &RawValue) -> Option<ToolResult> {
    let fields = Fields::read(raw)?;
    let tool = fields.text("name")?.into_owned();
    let mut content = Vec::new();
    let mut error = false;
    if let Some(response) = fields.get("response").filter(|response| !is_empty(response)) {
        let only = only_text(response);
        error = only.as_ref().is_some_and(|(member, _)| *member == ERROR);
        content.push(match (only, json::text(response)) {
            (Some((_, text)), _) => ResultItem::Text(text),
            (None, Some(text)) => ResultItem::Text(text.into_owned()),
            (None, None) => ResultItem::Json(response.get().to_owned()),
        });
    }
    for part in fields.get("parts").and_then(json::array).unwrap_or_default() {
        let Some(fields) = Fields::read(part) else { continue };
        let unknown = || ResultItem::Opaque(Opaque { kind: String::new(), raw: part.to_owned() });
        content.push(match media(&fields) {
            Some(media) if is_image(&media) => ResultItem::Image(media),
            Some(media) => ResultItem::Document(media),
            None => opaque(&fields, part).map_or_else(unknown, ResultItem::Opaque),
        });
    }
    let id = fields.text("id").filter(|id| !id.is_empty()).map_or_else(|| tool.clone(), Cow::into_owned);
    Some(ToolResult { tool: Some(tool), error, ..ToolResult::from_items(id, content) })
}

/// Returns whether a response has no member.
pub(super) fn is_empty(response: &RawValue) -> bool {
    Fields::read(response).is_some_and(|fields| fields.is_empty())
}

/// Returns the only member of a response, if it is a text.
pub(super) fn only_text(response: &RawValue) -> Option<(&'static str, String)> {
    let fields = Fields::read(response)?;
    let mut members = fields.iter();
    let (key, value) = members.next()?;
    if members.next().is_some() {
        return None;
    }
    let known = [OUTPUT, ERROR, "result", "content"].into_iter().find(|known| *known == key)?;
    Some((known, json::text(value)?.into_owned()))
}

/// Reads a response: the content of its first candidate.
pub(super) fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
    let candidates = fields.get("candidates").and_then(json::array).unwrap_or_default();
    let candidate = candidates.first().and_then(|candidate| Fields::read(candidate)).unwrap_or_default();
    let content = candidate.get("content");
    let content = content.ok_or_else(|| DecodeError::member("candidates[0].content", "a content"))?;
    let usage = fields.get("usageMetadata").and_then(Fields::read).unwrap_or_default();
    Ok(Response {
        message: Dialect::Gemini.decode_raw(content)?,
        model: fields.text("modelVersion").map(Cow::into_owned),
        input: response::tokens(&usage, &["promptTokenCount"]),
        cached: response::tokens(&usage, &["cachedContentTokenCount"]),
        written: None,
        output: response::tokens(&usage, &["candidatesTokenCount", "thoughtsTokenCount"]),
        fills_window: false,
        lost_reasoning: 0,
    })
}
