//! Gemini's generateContent, whose contents have a role and parts, and whose results may name only their tool.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::Api;
use super::blocks::{BlockFormat, Merges, Outbound};
use super::format::{Format, Rendered, Sending};
use super::pages;
use super::pairing::{self, PairingRules};
use super::{
    ConversionError, DecodeError, Dialect, Finding, Mend, Mended, Place, ProblemKind, Quirks, Request, Response, Rule,
    Target, blocks, convert, detect, provider_error, response, stream, tool_names,
};
use crate::edit::{self, Edit};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Message, Opaque, PartRef, Reasoning, ResultItem, ToolCall, ToolResult,
    UserPart,
};
use crate::start::Start;
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::Provider;

const RULES: &[Rule] = &[GM1, GM2, GM3, GM4, GM5, GM6, GM7, GM8, GM9, GM10, GM0];

const GM1: Rule =
    Rule::refused("GM1", "the first content is a user's, and a content with function calls follows a user's content");
const GM2: Rule = Rule::refused("GM2", "the content after function calls has one response to each of them");
/// Models before Gemini 3 also sign their calls, but do not demand the signatures.
const GM3: Rule = Rule::refused(
    "GM3",
    "for Gemini 3 and later, the first call of each step of the turn has a signature, if the model signs its calls",
);
const GM4: Rule =
    Rule::refused("GM4", "contents and parts are not empty, and the arguments of a call and its response are objects");
const GM5: Rule =
    Rule::refused("GM5", "with `cachedContent`, the request has no system instruction, tools or tool configuration");
/// The Gemini API accepts what Vertex AI refuses.
const GM6: Rule = Rule::refused("GM6", "on Vertex AI, no text is blank");
/// Only a warning, because the API may get new members.
const GM7: Rule = Rule::degraded("GM7", "parts have only members that the API knows");
const GM8: Rule = Rule::refused("GM8", "no text has half of a surrogate pair");
const GM9: Rule = Rule::refused("GM9", "a PDF file has at most 1,000 pages");

/// The most pages of a PDF file.
const MOST_PAGES: u64 = 1_000;
const GM10: Rule = Rule::refused(
    "GM10",
    "names of functions begin with a letter or `_`, and have only letters, digits, `_`, `.`, `:` and `-`, and at most 128 characters",
);
const GM0: Rule = Rule::refused("GM0", "the request has at least one content");

const PAIRING: PairingRules = PairingRules {
    missing: GM2,
    orphan: GM2,
    duplicate_result: GM2,
    duplicate_call: GM2,
    results_first: None,
    adjacent: true,
    merges_neighbors: true,
};

const QUIRKS: Quirks = Quirks {
    merges_neighbors: true,
    valid_id: |id| !id.is_empty(),
    longest_id: usize::MAX,
    refuses_blank: false,
    takes_space_beside: false,
    refuses_empty: true,
    refuses_trailing_space: false,
    signed_reasoning: false,
    start: Start::User,
    opens: Start::User,
    marks_errors: true,
    system_follows_user: false,
    refuses_empty_error: false,
    has_refused_members: |_| false,
    results_by_name: true,
    results_anywhere: false,
    binds_reasoning: false,
    wrong_roles: &[],
    compactions: &[],
    standing: &[],
};

const BLOCKS: BlockFormat = BlockFormat {
    dialect: Dialect::Gemini,
    content: "parts",
    edit,
    marker: None,
    results_first: false,
    merges: Merges::Results,
    mend,
};

pub(super) static FORMAT: Format = Format {
    aliases: &["google", "google-gemini", "google-genai", "generate-content", "vertex", "vertex-ai", "ai-studio"],
    provider: "gcp.gemini",
    signs: &detect::GEMINI,
    api: Api {
        calls: &["models/{model}:generateContent", "models/{model}:streamGenerateContent"],
        stateless: &["models/{model}:countTokens", "models/{model}:embedContent", "models/{model}:batchEmbedContents"],
        others: &["models/{model}:{verb}", "v1beta/"],
        headers: &["x-goog-api-key"],
        key: ("x-goog-api-key", ""),
        error: |status, message| json!({"error": {"code": status, "message": message, "status": canonical(status)}}),
    },
    rules: RULES,
    halves: GM8,
    quirks: |target| Quirks { refuses_blank: refuses_blank(target) == Some(true), ..QUIRKS },
    sayings: provider_error::GEMINI,
    messages: "contents",
    system: Some("systemInstruction"),
    tools: "tools",
    functions: &["functionDeclarations", "function_declarations"],
    cache_marker: None,
    stored: &["cachedContent", "cached_content"],
    instead: &[],
    reference: None,
    thinking: &[],
    answer_forms: &[(
        "generationConfig",
        &["responseSchema", "responseJsonSchema", "response_schema", "application/json"],
    )],
    shorteners: &[],
    errors_in_streams: false,
    known: KNOWN,
    whole: &["args", "response"],
    is_piece: |_| false,
    decode,
    render,
    encode: |sending, shown| blocks::encode(&BLOCKS, sending, shown),
    mends: |sending, shown| blocks::mends(&BLOCKS, sending, shown),
    response,
    pieces: || Box::<stream::gemini::Chunks>::default(),
    resendable: |_, answer| answer,
    tool,
    check,
    paths: |place| {
        let element = place.element;
        Box::new(move |part| format!("contents[{element}].parts[{part}]"))
    },
    reasoning_beside: signatures,
};

/// The form of a call without an identifier. The name of its tool is used instead, and its response has no identifier,
/// either.
const ANONYMOUS: &str = "functionCall without id";

/// The signature that clients should send, according to Google's documentation, for a call that the model did not sign.
const UNCHECKED: &str = "skip_thought_signature_validator";

/// The member of a response that has the result, if the result is only a text.
const OUTPUT: &str = "output";

/// The member of a response that says that the tool failed.
const ERROR: &str = "error";

/// Returns whether blank text is refused, or `None` if that is unknown.
fn refuses_blank(target: &Target) -> Option<bool> {
    target.is(Provider::Vertex)
}

/// Returns whether the model demands signatures of its calls, or `None` if that is unknown.
fn demands_signatures(target: &Target) -> Option<bool> {
    target.is_model(|model| {
        let version = model.split_once("gemini-").map(|(_, version)| version);
        let number = version.and_then(|version| version.split(|char: char| !char.is_ascii_digit()).next());
        // A name without a number, such as `gemini-flash-latest`, is the name of a newest model.
        number.is_some_and(|number| number.is_empty() || number.parse::<u32>().is_ok_and(|number| number >= 3))
    })
}

/// Members that a part can have.
const MEMBERS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

/// Members of a part that describe its content.
const BESIDE: &[&str] = &[
    "thought",
    "thoughtSignature",
    "thought_signature",
    "partMetadata",
    "part_metadata",
    "videoMetadata",
    "video_metadata",
    "mediaResolution",
    "media_resolution",
];

/// Members with two spellings: in camel case, and as protocol buffers spell them.
const SPELLINGS: &[(&str, &str)] = &[
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("mimeType", "mime_type"),
    ("fileUri", "file_uri"),
    ("displayName", "display_name"),
    ("thoughtSignature", "thought_signature"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("toolCall", "tool_call"),
    ("toolResponse", "tool_response"),
];

/// Returns the spelling that an object uses for a member.
fn spelled(fields: &Fields<'_>, name: &'static str) -> &'static str {
    let other = SPELLINGS.iter().find(|(camel, _)| *camel == name).map(|(_, snake)| *snake);
    other.filter(|other| fields.get(other).is_some()).unwrap_or(name)
}

fn member<'a>(fields: &'a Fields<'_>, name: &'static str) -> Option<&'a RawValue> {
    fields.get(spelled(fields, name))
}

fn text_of(fields: &Fields<'_>, name: &'static str) -> Option<String> {
    member(fields, name).and_then(json::text).map(Cow::into_owned)
}

fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = super::fields(raw)?;
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
fn signatures(message: &Message) -> Option<Reasoning> {
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
fn is_empty(response: &RawValue) -> bool {
    Fields::read(response).is_some_and(|fields| fields.is_empty())
}

/// Returns the only member of a response, if it is a text.
fn only_text(response: &RawValue) -> Option<(&'static str, String)> {
    let fields = Fields::read(response)?;
    let mut members = fields.iter();
    let (key, value) = members.next()?;
    if members.next().is_some() {
        return None;
    }
    let known = [OUTPUT, ERROR, "result", "content"].into_iter().find(|known| *known == key)?;
    Some((known, json::text(value)?.into_owned()))
}

/// Applies the edits of one part.
fn edit(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    match part {
        PartRef::ToolCall(_) => {
            let place = spelled(&fields, "functionCall");
            let inner = fields.get(place)?.to_owned();
            let mut inner = Fields::read(&inner)?;
            let is_renamed = rename(&mut inner, edits, index);
            match edit::arguments(edits, index) {
                Some(arguments) => inner.set("args", serde_json::from_str(arguments).ok()?),
                None if !is_renamed => return Some(block.to_owned()),
                None => {}
            }
            fields.set(place, inner.write());
        }
        PartRef::ToolResult(result) => {
            let place = spelled(&fields, "functionResponse");
            let inner = fields.get(place)?.to_owned();
            let mut inner = Fields::read(&inner)?;
            let is_renamed = rename(&mut inner, edits, index);
            if !cut_result(&mut inner, result, edits, index) && !is_renamed {
                return Some(block.to_owned());
            }
            fields.set(place, inner.write());
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

/// Writes a new identifier, and returns whether there was one. Calls and responses without an identifier are matched by
/// their order.
fn rename(fields: &mut Fields<'_>, edits: &[Edit], part: usize) -> bool {
    match edit::renamed(edits, part) {
        Some(id) if fields.text("id").is_some_and(|id| !id.is_empty()) => {
            fields.set("id", json::string(id));
            true
        }
        _ => false,
    }
}

/// Applies the cuts of a result: the first item is the response, and the others are its pictures and files. Returns
/// whether there were any cuts.
fn cut_result(fields: &mut Fields<'_>, result: &ToolResult, edits: &[Edit], part: usize) -> bool {
    let response = fields.get("response").filter(|response| !is_empty(response)).map(ToOwned::to_owned);
    let first = usize::from(response.is_some());
    let cut = if first == 1 { edit::cut_of(edits, part, 0) } else { None };
    let cut = cut.or_else(|| edit::note_of(result, edits, part));
    if let Some(cut) = cut {
        let text = result.content.first().and_then(ResultItem::text).unwrap_or_default();
        let place = response.as_deref().and_then(only_text).map_or(OUTPUT, |(member, _)| member);
        fields.set("response", json::object([(place, json::string(&cut.apply(text)))]));
    }
    let is_cut = cut.is_some();
    let Some(media) = fields.get("parts").map(ToOwned::to_owned) else { return is_cut };
    let mut notes = Vec::new();
    let kept = json::array(&media).unwrap_or_default().into_iter().enumerate().filter(|(index, _)| {
        let cut = edit::cut_of(edits, part, first + index);
        notes.extend(cut.map(|cut| cut.marker.clone()));
        cut.is_none()
    });
    let kept: Vec<_> = kept.map(|(_, raw)| raw).collect();
    if notes.is_empty() {
        return is_cut;
    }
    fields.set("parts", json::write_array(kept));
    // A note about removed pictures and files must be in the response.
    let response = fields.get("response").map(ToOwned::to_owned);
    let mut response = response.as_deref().and_then(Fields::read).unwrap_or_default();
    response.set("omitted", json::string(&notes.join("\n")));
    fields.set("response", response.write());
    true
}

/// Mends outgoing contents. Calls are only signed if the model is known to demand signatures.
fn mend(sending: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended> {
    let signs = demands_signatures(sending.target) == Some(true);
    // The provider does not check earlier turns.
    let turn = messages.iter().rposition(|message| begins_turn(&message.1)).unwrap_or(0);
    let (mut signed, mut mends) = (false, Vec::new());
    for (place, (index, raw)) in messages.iter_mut().map(|message| &mut **message).enumerate() {
        if let Some((mended, done)) = mend_content(signs && place >= turn, raw, &mut signed) {
            *raw = Cow::Owned(mended);
            mends.extend(done.into_iter().map(|mend| mend.at(*index)));
        }
    }
    mends
}

/// Returns whether a content begins a turn: it is a user's content without responses.
fn begins_turn(raw: &RawValue) -> bool {
    let message = Dialect::Gemini.decode_raw(raw);
    message.is_ok_and(|message| message.role() == Role::User && message.tool_results().next().is_none())
}

/// Mends a content: wraps a response that is not an object in one, removes empty parts and, if the model `signs`, marks
/// calls without a signature. `signed` is whether an earlier part has a signature.
///
/// A call is only marked if an earlier content has a signature.
fn mend_content(signs: bool, raw: &RawValue, signed: &mut bool) -> Option<(Box<RawValue>, Vec<Mend>)> {
    let fields = Fields::read(raw)?;
    let content = fields.get("parts")?.to_owned();
    let parts = json::array(&content)?;
    let was_signed = *signed;
    let mut is_first_call = true;
    let (mut new, mut mends) = (Vec::with_capacity(parts.len()), Vec::new());
    let empty = parts.iter().filter(|part| is_empty(part)).count();
    let leaves_out = empty > 0 && empty < parts.len();
    if leaves_out {
        mends.push(Mend::Removed { elements: empty });
    }
    for part in parts.into_iter().filter(|part| !leaves_out || !is_empty(part)) {
        let Some(mut fields) = Fields::read(part) else { continue };
        let mended = mends.len();
        let is_signed = text_of(&fields, "thoughtSignature").is_some_and(|signature| !signature.is_empty());
        *signed |= is_signed;
        let is_call = member(&fields, "functionCall").is_some();
        if signs && is_call && is_first_call && !is_signed && was_signed {
            fields.set("thoughtSignature", json::string(UNCHECKED));
            mends.push(Mend::Signed);
        }
        is_first_call &= !is_call;
        if let Some(response) = bare_response(&fields) {
            let place = spelled(&fields, "functionResponse");
            let inner = fields.get(place)?.to_owned();
            let mut inner = Fields::read(&inner)?;
            inner.set("response", json::object([(OUTPUT, response)]));
            fields.set(place, inner.write());
            mends.push(Mend::MembersMended);
        }
        new.push(if mends.len() > mended { Cow::Owned(fields.write()) } else { Cow::Borrowed(part) });
    }
    if mends.is_empty() {
        return None;
    }
    mends.dedup();
    let mut fields = fields;
    fields.set("parts", json::write_array(new.iter().map(AsRef::as_ref)));
    Some((fields.write(), mends))
}

/// Returns the response of a part if it is not an object.
fn bare_response(part: &Fields<'_>) -> Option<Box<RawValue>> {
    let inner = Fields::read(member(part, "functionResponse")?)?;
    inner.get("response").filter(|response| !response.get().starts_with('{')).map(ToOwned::to_owned)
}

fn render(message: &Message) -> Rendered {
    use serde_json::json;
    let loss = |what| Err(ConversionError::new(Dialect::Gemini, what));
    let mut parts = Vec::new();
    for part in message.parts() {
        parts.push(match part {
            PartRef::Text(text) => json::object([("text", json::string(text))]),
            PartRef::Image(media) | PartRef::Document(media) => json::value(&media_part(media)?),
            PartRef::Reasoning(_) => return loss("reasoning"),
            PartRef::ToolCall(call) => function_call(call)?,
            PartRef::ToolResult(result) => function_response(result)?,
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => continue,
            PartRef::Opaque(_) => return loss("a part of a kind that only its own provider knows"),
        });
    }
    let role = match message.role() {
        Role::System => return loss("a system message among the messages"),
        Role::User => "user",
        Role::Assistant => "model",
    };
    let parts = json::write_array(parts.iter().map(AsRef::as_ref));
    Ok(vec![json::object([("role", json::value(&json!(role))), ("parts", parts)])])
}

/// Writes a tool call. Its arguments keep their bytes, because a number of thirty digits would not survive a float.
fn function_call(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let args = match serde_json::from_str::<Box<RawValue>>(&call.arguments) {
        Ok(args) if call.has_object_arguments() => args,
        _ => return Err(ConversionError::new(Dialect::Gemini, convert::ARGUMENTS)),
    };
    if call.form.as_deref().is_some_and(|form| form != ANONYMOUS) {
        return Err(ConversionError::new(Dialect::Gemini, "a call of a form that only its own provider knows"));
    }
    let inner = [("id", json::string(&call.id)), ("name", json::string(&call.name)), ("args", args)];
    Ok(json::object([("functionCall", json::object(inner))]))
}

fn function_response(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    let loss = |what| Err(ConversionError::new(Dialect::Gemini, what));
    let Some(tool) = &result.tool else { return loss("a tool result without the name of its tool") };
    let place = if result.error { ERROR } else { OUTPUT };
    let (mut texts, mut media) = (Vec::new(), Vec::new());
    for item in &result.content {
        match item {
            ResultItem::Text(text) | ResultItem::Json(text) => texts.push(text.as_str()),
            ResultItem::Image(item) | ResultItem::Document(item) => media.push(media_part(item)?),
            ResultItem::Opaque(_) => return loss("an unknown item of a tool result"),
        }
    }
    let text = match texts.as_slice() {
        [] => json::string(""),
        [text] => json::string(text),
        several => json::value(several),
    };
    let mut inner = Fields::default();
    if result.form.is_none() {
        inner.set("id", json::string(&result.call_id));
    }
    inner.set("name", json::string(tool));
    let response =
        if texts.is_empty() && !result.error { Fields::default().write() } else { json::object([(place, text)]) };
    inner.set("response", response);
    if !media.is_empty() {
        inner.set("parts", json::value(&media));
    }
    Ok(json::object([("functionResponse", inner.write())]))
}

fn media_part(media: &Media) -> Result<Value, ConversionError> {
    use serde_json::json;
    let loss = |what| ConversionError::new(Dialect::Gemini, what);
    let mime = media.mime.as_deref().ok_or_else(|| loss("a picture or file without a media type"))?;
    let (member, mut inner) = match &media.source {
        MediaSource::Base64(data) => ("inlineData", json!({"mimeType": mime, "data": data})),
        MediaSource::Url(url) if !url.starts_with("s3:") => ("fileData", json!({"mimeType": mime, "fileUri": url})),
        MediaSource::Url(_) => return Err(loss(convert::ADDRESS)),
        MediaSource::Text(_) => return Err(loss("a document that is text")),
        MediaSource::Id(_) => return Err(loss(convert::IDENTIFIER)),
    };
    if let (Some(name), Some(inner)) = (&media.name, inner.as_object_mut()) {
        inner.insert("displayName".to_owned(), json!(name));
    }
    Ok(json!({ member: inner }))
}

/// The members that other dialects can express, each as `parent.member`.
const KNOWN: &[&str] = &[
    ".role",
    ".parts",
    "parts.text",
    "parts.inlineData",
    "parts.fileData",
    "parts.functionCall",
    "parts.functionResponse",
    "inlineData.mimeType",
    "inlineData.data",
    "inlineData.displayName",
    "fileData.mimeType",
    "fileData.fileUri",
    "fileData.displayName",
    "functionCall.id",
    "functionCall.name",
    "functionCall.args",
    "functionResponse.id",
    "functionResponse.name",
    "functionResponse.response",
    "functionResponse.parts",
];

/// Reads a response: the content of its first candidate.
fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
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

fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    use serde_json::json;

    json!({"functionDeclarations": [{"name": name, "description": description, "parametersJsonSchema": parameters}]})
}

fn check(request: &Request) -> Vec<Finding> {
    let messages = request.messages();
    let mut findings = cached_preamble(request);
    if messages.is_empty() {
        findings.push(GM0.at(0, "contents".to_owned(), ProblemKind::NoMessages));
        return findings;
    }
    findings.extend(pairing::check(Dialect::Gemini, &PAIRING, messages));
    findings.extend(tool_names::declared(GM10, request, is_function_name));
    let places: Vec<Place<'_>> = Place::all(messages).collect();
    for file in pages::find(messages).filter(|file| file.count > MOST_PAGES) {
        let path = places.get(file.message).map(|place| Dialect::Gemini.path(place, file.part)).unwrap_or_default();
        findings.push(GM9.at(file.message, path, ProblemKind::TooManyPages { count: file.count, most: MOST_PAGES }));
    }
    let mut signed = false;
    let unsigned = GM3.if_known(demands_signatures(request.target()));
    let blank = GM6.if_known(refuses_blank(request.target()));
    for place in Place::all(messages) {
        let Place { index, message, .. } = place;
        let whole = format!("contents[{index}]");
        let path = |part| Dialect::Gemini.path(&place, part);
        let before = index.checked_sub(1).and_then(|before| messages.get(before));
        match before {
            None if message.role() != Role::User => {
                findings.push(GM1.at(index, whole.clone(), ProblemKind::FirstMessage { role: message.role() }));
            }
            Some(before)
                if before.role() == message.role()
                    && message.tool_results().next().is_some()
                    && before.tool_results().next().is_some() =>
            {
                // A Gemini 2 model was observed to accept it.
                let is_second = request.target().is_model(|model| model.contains("gemini-2")) == Some(true);
                let rule = if is_second { GM2.as_warning() } else { GM2 };
                findings.push(rule.at(index, whole.clone(), ProblemKind::Alternation { role: message.role() }));
            }
            _ => {}
        }
        if message.parts().next().is_none() {
            findings.push(GM4.at(index, whole + ".parts", ProblemKind::EmptyContent));
        }
        let raw = message.wire().map(|wire| &*wire.raw);
        let empty = raw.map(empty_parts).unwrap_or_default();
        for (part, value) in message.parts().enumerate() {
            match value {
                PartRef::Text(text) if text.trim().is_empty() && empty.binary_search(&part).is_err() => {
                    findings.extend(blank.map(|rule| rule.at(index, path(part), ProblemKind::BlankText)));
                }
                PartRef::ToolCall(call) if !call.has_object_arguments() => {
                    findings.push(GM4.at(index, path(part), ProblemKind::BadArguments { id: call.id.clone() }));
                }
                _ => {}
            }
        }
        findings.extend(empty.into_iter().map(|part| GM4.at(index, path(part), ProblemKind::EmptyPart)));
        findings.extend(
            raw.into_iter()
                .flat_map(unknown_members)
                .map(|(part, member)| GM7.at(index, format!("{}.{member}", path(part)), ProblemKind::UnknownMember)),
        );
        for mend in raw
            .and_then(|raw| mend_content(unsigned.is_some(), raw, &mut signed))
            .map(|(_, mends)| mends)
            .unwrap_or_default()
        {
            let first = |found: fn(&PartRef<'_>) -> bool| message.parts().position(|part| found(&part)).unwrap_or(0);
            match mend {
                // The provider does not check earlier turns.
                Mend::Signed if in_turn(messages, index) => {
                    let call = first(|part| matches!(part, PartRef::ToolCall(_)));
                    findings.extend(unsigned.map(|rule| rule.at(index, path(call), ProblemKind::UnsignedCall)));
                }
                Mend::MembersMended => {
                    let result = first(|part| matches!(part, PartRef::ToolResult(_)));
                    findings.push(GM4.at(index, path(result), ProblemKind::BareResponse));
                }
                _ => {}
            }
        }
    }
    findings
}

/// Returns whether Gemini allows the name of a function. Older models allow only 64 characters.
fn is_function_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && tool_names::is_word(&name.replace(['.', ':'], "_"), 128)
}

/// Returns the parts of a content that are an empty object.
fn empty_parts(content: &RawValue) -> Vec<usize> {
    let fields = Fields::read(content);
    let parts = fields.as_ref().and_then(|fields| fields.get("parts")).and_then(json::array).unwrap_or_default();
    let empty = parts.into_iter().enumerate().filter(|(_, part)| is_empty(part));
    empty.map(|(index, _)| index).collect()
}

/// Returns the members of parts that the API does not know, each with the index of its part.
fn unknown_members(content: &RawValue) -> Vec<(usize, String)> {
    let spelled =
        |key: &str| SPELLINGS.iter().find(|(_, snake)| *snake == key).map_or(key, |(camel, _)| *camel).to_owned();
    let is_known = |key: &str| BESIDE.contains(&key) || MEMBERS.contains(&&*spelled(key));
    let fields = Fields::read(content);
    let parts = fields.as_ref().and_then(|fields| fields.get("parts")).and_then(json::array).unwrap_or_default();
    let unknown = |(index, part): (usize, &RawValue)| {
        let fields = Fields::read(part).unwrap_or_default();
        fields
            .keys()
            .filter(|key| !is_known(key))
            .map(|key| (index, key.chars().take(40).collect()))
            .collect::<Vec<_>>()
    };
    parts.into_iter().enumerate().flat_map(unknown).collect()
}

/// Returns whether a content belongs to the current turn, which begins with the last user's content without responses.
fn in_turn(messages: &[Message], index: usize) -> bool {
    let later = messages.get(index..).unwrap_or_default();
    !later.iter().any(|message| message.role() == Role::User && message.tool_results().next().is_none())
}

/// Returns the members that a request with cached contents may not have.
fn cached_preamble(request: &Request) -> Vec<Finding> {
    if request.stored().is_none() {
        return Vec::new();
    }
    let refused = ["systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config"];
    let present = refused.into_iter().filter(|name| request.member(name).is_some());
    let end = request.messages().len();
    present.map(|name| GM5.at(end, name.to_owned(), ProblemKind::BesideCached)).collect()
}

/// Returns Google's name for an HTTP status.
fn canonical(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..500 => "INVALID_ARGUMENT",
        _ => "UNAVAILABLE",
    }
}
