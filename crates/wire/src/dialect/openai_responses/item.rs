//! Reads one item of the Responses format: its role and its contents.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::{DecodeError, Dialect, openai_chat};
use crate::message::{
    AssistantPart, Content, Media, MediaSource, Opaque, Reasoning, ResultItem, SystemPart, ToolCall, ToolResult,
    UserPart,
};
use crate::wire::Role;
use lookback_content::json::{self, Fields};

/// An item that asks the provider to compact the history. It is not part of the history.
pub(super) const TRIGGER: &str = "compaction_trigger";
/// Reasoning, which the provider binds to the item that follows it.
pub(super) const REASONING: &str = "reasoning";
/// An item that refers to another one, which the provider has stored.
pub(super) const REFERENCE: &str = "item_reference";

/// Items in which the provider compacted all earlier items.
pub(super) const COMPACTIONS: &[&str] = &["compaction", "compaction_summary"];
/// Items that apply to all later items.
pub(super) const STANDING: &[&str] = &["configuration_update", "additional_tools", "tool_search_output"];

/// The types of texts.
const INPUT_TEXT: &str = "input_text";
const OUTPUT_TEXT: &str = "output_text";

/// The end of the type of an item that answers a call.
const OUTPUT: &str = "_output";
/// The end of the type of an item that is a call.
const CALL: &str = "_call";
const FUNCTION: &str = "function_call";
/// The output of a program that the provider ran. It does not answer a call to the client.
const PROGRAM_OUTPUT: &str = "program_output";
const TOOL_SEARCH: &str = "tool_search_call";
pub(super) const LOCAL_SHELL_OUTPUT: &str = "local_shell_call_output";
const APPROVAL_REQUEST: &str = "mcp_approval_request";
const APPROVAL_RESPONSE: &str = "mcp_approval_response";

/// Returns the type of an item. A message may omit it.
pub(super) fn kind<'a>(fields: &'a Fields<'_>) -> Cow<'a, str> {
    fields.text("type").unwrap_or(Cow::Borrowed("message"))
}

/// Returns the role of an item, or `None` if it is a message with an unknown role.
fn role(kind: &str, fields: &Fields<'_>) -> Option<Role> {
    let named = |role: &str| match role {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "system" | "developer" => Some(Role::System),
        _ => None,
    };
    match kind {
        "message" => named(&fields.text("role")?),
        REASONING | REFERENCE | "configuration_update" => Some(Role::Assistant),
        _ if COMPACTIONS.contains(&kind) => Some(Role::Assistant),
        TRIGGER | APPROVAL_RESPONSE => Some(Role::User),
        _ if kind.ends_with(OUTPUT) && !is_hosted(fields) && answered(kind, fields).is_some() => Some(Role::User),
        // Items of tools that the provider runs itself are part of its response.
        _ => Some(fields.text("role").and_then(|role| named(&role)).unwrap_or(Role::Assistant)),
    }
}

/// Returns whether the provider runs the tool of an item itself.
fn is_hosted(fields: &Fields<'_>) -> bool {
    kind(fields) == PROGRAM_OUTPUT || fields.text("execution").is_some_and(|execution| execution == "server")
}

/// Returns the identifier of the call that an output answers. The output of a local shell has it in `id`.
fn answered<'a>(kind: &str, fields: &'a Fields<'_>) -> Option<Cow<'a, str>> {
    let own = || if kind == LOCAL_SHELL_OUTPUT { fields.text("id") } else { None };
    fields.text("call_id").or_else(own)
}

/// Returns whether an item is the model's. Neighboring items of the model are one message.
pub(super) fn is_models(raw: &RawValue) -> bool {
    Fields::read(raw).is_some_and(|fields| role(&kind(&fields), &fields) == Some(Role::Assistant))
}

/// Reads an item.
pub(super) fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let fields = super::super::fields(raw)?;
    let kind = kind(&fields);
    let opaque = || Opaque { kind: kind.clone().into_owned(), raw: raw.to_owned() };
    let Some(role) = role(&kind, &fields) else {
        let role = super::super::role(&fields)?;
        return Err(DecodeError::role(&role, Dialect::OpenAiResponses, "user, assistant, system and developer"));
    };
    if kind == "message" {
        return Ok(match role {
            Role::System => Content::System(parts(&fields, system_part)?),
            Role::User => Content::User(parts(&fields, user_part)?),
            Role::Assistant => Content::Assistant(parts(&fields, assistant_part)?),
        });
    }
    Ok(match role {
        Role::System => Content::System(vec![SystemPart::Opaque(opaque())]),
        Role::User => {
            let result = tool_result(&kind, &fields).map(UserPart::ToolResult);
            Content::User(vec![result.unwrap_or_else(|| UserPart::Opaque(opaque()))])
        }
        Role::Assistant if kind == REASONING => Content::Assistant(vec![AssistantPart::Reasoning(reasoning(&fields))]),
        Role::Assistant => {
            let call = tool_call(&kind, &fields)?.map(AssistantPart::ToolCall);
            Content::Assistant(vec![call.unwrap_or_else(|| AssistantPart::Opaque(opaque()))])
        }
    })
}

/// Reads the content of a message. A string is one part of text, and `null` is no part.
fn parts<T>(fields: &Fields<'_>, part: fn(PartOf<'_>) -> T) -> Result<Vec<T>, DecodeError> {
    let Some(content) = fields.get("content").filter(|content| content.get() != "null") else { return Ok(Vec::new()) };
    if let Some(text) = json::text(content) {
        return Ok(vec![part(PartOf::Text(text.into_owned()))]);
    }
    let elements = json::array(content);
    let elements = elements.ok_or_else(|| DecodeError::member("content", "a string, a list of parts or null"))?;
    let read = |(index, element): (usize, &RawValue)| {
        let fields =
            Fields::read(element).ok_or_else(|| DecodeError::member(format!("content[{index}]"), "an object"))?;
        Ok(part(read_part(&fields, element)))
    };
    elements.into_iter().enumerate().map(read).collect()
}

/// Returns the type that texts must have in a message of this role.
fn text_type(fields: &Fields<'_>) -> Option<&'static str> {
    if kind(fields) != "message" {
        return None;
    }
    let role = fields.text("role")?;
    Some(if role == "assistant" { OUTPUT_TEXT } else { INPUT_TEXT })
}

/// Returns whether a part is a text whose type is not `own`.
fn is_other_text(part: &RawValue, own: &str) -> bool {
    let is_text = |kind: &str| [INPUT_TEXT, OUTPUT_TEXT, "text"].contains(&kind);
    Fields::read(part).is_some_and(|part| part.text("type").is_some_and(|kind| is_text(&kind) && kind != own))
}

/// Returns whether a message has a text whose type does not match its role.
pub(super) fn has_other_texts(fields: &Fields<'_>) -> bool {
    let own = text_type(fields);
    let parts = own.and_then(|_| fields.get("content")).and_then(json::array).unwrap_or_default();
    own.is_some_and(|own| parts.into_iter().any(|part| is_other_text(part, own)))
}

/// Gives the texts of a message the type that its role demands.
pub(super) fn mend_texts(fields: &mut Fields<'_>) {
    let Some(own) = text_type(fields) else { return };
    let Some(parts) = fields.get("content").and_then(json::array) else { return };
    let mended = parts.into_iter().map(|part| match Fields::read(part) {
        Some(mut fields) if is_other_text(part, own) => {
            fields.set("type", json::string(own));
            Cow::Owned(fields.write())
        }
        _ => Cow::Borrowed(part),
    });
    let mended: Vec<_> = mended.collect();
    fields.set("content", json::write_array(mended.iter().map(AsRef::as_ref)));
}

/// A part of a message, or an item of a result, before its role is known.
enum PartOf<'a> {
    Text(String),
    Image(Media, &'a RawValue),
    Document(Media, &'a RawValue),
    Other(String, &'a RawValue),
}

fn read_part<'a>(fields: &Fields<'_>, raw: &'a RawValue) -> PartOf<'a> {
    let kind = fields.text("type").unwrap_or_default();
    let known = match &*kind {
        INPUT_TEXT | OUTPUT_TEXT | "text" => fields.text("text").map(|text| PartOf::Text(text.into_owned())),
        "input_image" => media(fields, "image_url", None).map(|media| PartOf::Image(media, raw)),
        "input_file" => media(fields, "file_data", Some("file_url")).map(|media| PartOf::Document(media, raw)),
        _ => None,
    };
    known.unwrap_or_else(|| PartOf::Other(kind.into_owned(), raw))
}

fn media(fields: &Fields<'_>, data: &str, url: Option<&str>) -> Option<Media> {
    let name = fields.text("filename").map(Cow::into_owned);
    let address = || fields.text(url?).map(Cow::into_owned);
    let found = match (fields.text(data), fields.text("file_id"), address()) {
        (Some(data), ..) => openai_chat::from_url(&data),
        (None, Some(id), _) => Media::new(MediaSource::Id(id.into_owned())),
        (None, None, Some(url)) => Media::new(MediaSource::Url(url)),
        (None, None, None) => return None,
    };
    Some(Media { name, ..found })
}

fn opaque(kind: String, raw: &RawValue) -> Opaque {
    Opaque { kind, raw: raw.to_owned() }
}

fn system_part(part: PartOf<'_>) -> SystemPart {
    match part {
        PartOf::Text(text) => SystemPart::Text(text),
        PartOf::Image(_, raw) => SystemPart::Opaque(opaque("input_image".to_owned(), raw)),
        PartOf::Document(_, raw) => SystemPart::Opaque(opaque("input_file".to_owned(), raw)),
        PartOf::Other(kind, raw) => SystemPart::Opaque(opaque(kind, raw)),
    }
}

fn user_part(part: PartOf<'_>) -> UserPart {
    match part {
        PartOf::Text(text) => UserPart::Text(text),
        PartOf::Image(media, _) => UserPart::Image(media),
        PartOf::Document(media, _) => UserPart::Document(media),
        PartOf::Other(kind, raw) => UserPart::Opaque(opaque(kind, raw)),
    }
}

fn assistant_part(part: PartOf<'_>) -> AssistantPart {
    match part {
        PartOf::Text(text) => AssistantPart::Text(text),
        PartOf::Image(_, raw) => AssistantPart::Opaque(opaque("input_image".to_owned(), raw)),
        PartOf::Document(_, raw) => AssistantPart::Opaque(opaque("input_file".to_owned(), raw)),
        PartOf::Other(kind, raw) => AssistantPart::Opaque(opaque(kind, raw)),
    }
}

fn result_item(part: PartOf<'_>) -> ResultItem {
    match part {
        PartOf::Text(text) => ResultItem::Text(text),
        PartOf::Image(media, _) => ResultItem::Image(media),
        PartOf::Document(media, _) => ResultItem::Document(media),
        PartOf::Other(kind, raw) => ResultItem::Opaque(opaque(kind, raw)),
    }
}

/// Reads reasoning. Its text is the reasoning itself, not the summary that the provider shows.
///
/// Its signature is the encrypted content or, without that, the identifier, by which the provider finds the stored
/// reasoning.
fn reasoning(fields: &Fields<'_>) -> Reasoning {
    let thought = fields.get("content").and_then(json::array).unwrap_or_default();
    let thought =
        thought.into_iter().filter_map(Fields::read).filter_map(|part| part.text("text").map(Cow::into_owned));
    let text = thought.collect::<Vec<_>>().join("\n");
    let signature = fields.text("encrypted_content").or_else(|| fields.text("id")).map(Cow::into_owned);
    Reasoning { text, signature }
}

/// Reads a call that the client answers. Returns `None` if the provider ran it itself.
fn tool_call(kind: &str, fields: &Fields<'_>) -> Result<Option<ToolCall>, DecodeError> {
    let is_function = kind == FUNCTION;
    let id = fields.text(if kind == APPROVAL_REQUEST { "id" } else { "call_id" });
    let id = match id {
        Some(id) => id,
        None if is_function => return Err(DecodeError::member("call_id", "a string")),
        None => return Ok(None),
    };
    if !kind.ends_with(CALL) && kind != APPROVAL_REQUEST || is_hosted(fields) {
        return Ok(None);
    }
    let name = match fields.text("name") {
        Some(name) => name,
        None if is_function => return Err(DecodeError::member("name", "a string")),
        None => Cow::Borrowed(kind.strip_suffix(CALL).unwrap_or(kind)),
    };
    let arguments = match fields.get("arguments") {
        Some(arguments) => json::text(arguments).unwrap_or(Cow::Borrowed(arguments.get())),
        None if is_function => return Err(DecodeError::member("arguments", "a string")),
        // A call of another form has one member with its input. It is read as the only argument.
        None => {
            let told = ["input", "action", "operation", "actions"];
            let told = told.into_iter().find_map(|member| Some((member, fields.get(member)?)));
            Cow::Owned(told.map_or("{}".to_owned(), |(member, value)| format!("{{\"{member}\":{}}}", value.get())))
        }
    };
    let call = ToolCall::new(id, name, arguments);
    Ok(Some(if is_function { call } else { call.with_form(kind) }))
}

fn tool_result(kind: &str, fields: &Fields<'_>) -> Option<ToolResult> {
    if kind == APPROVAL_RESPONSE {
        let answer = fields.get("approve").map_or("null", RawValue::get);
        let content = vec![ResultItem::Json(format!("{{\"approve\":{answer}}}"))];
        let mut result = ToolResult::from_items(fields.text("approval_request_id")?, content);
        result.form = Some(APPROVAL_REQUEST.to_owned());
        return Some(result);
    }
    let content = match fields.get("output").filter(|output| output.get() != "null") {
        // A search for tools has found these.
        None => {
            fields.get("tools").map(|tools| ResultItem::Opaque(opaque(kind.to_owned(), tools))).into_iter().collect()
        }
        Some(output) => match (json::text(output), json::array(output)) {
            (Some(text), _) => vec![ResultItem::Text(text.into_owned())],
            (None, Some(items)) => items.into_iter().map(output_item).collect(),
            (None, None) => vec![ResultItem::Opaque(opaque(item_type(output), output))],
        },
    };
    let form = kind.strip_suffix(OUTPUT).filter(|form| *form != FUNCTION).map(str::to_owned);
    let tool = fields.text("name").map(Cow::into_owned);
    Some(ToolResult { tool, form, ..ToolResult::from_items(answered(kind, fields)?, content) })
}

fn output_item(raw: &RawValue) -> ResultItem {
    match Fields::read(raw) {
        Some(fields) => result_item(read_part(&fields, raw)),
        None => ResultItem::Opaque(opaque(String::new(), raw)),
    }
}

fn item_type(raw: &RawValue) -> String {
    Fields::read(raw).and_then(|fields| fields.text("type").map(Cow::into_owned)).unwrap_or_default()
}

/// Writes a tool result as the item that answers a call of its form.
pub(super) fn output(result: &ToolResult, output: Box<RawValue>) -> Box<RawValue> {
    let form = result.form.as_deref().unwrap_or(FUNCTION);
    let call_id = json::string(&result.call_id);
    if form == APPROVAL_REQUEST {
        let denied = json::value(&false);
        let kind = json::string(APPROVAL_RESPONSE);
        return json::object([("type", kind), ("approval_request_id", call_id), ("approve", denied)]);
    }
    let kind = json::string(&format!("{form}{OUTPUT}"));
    match form {
        "apply_patch_call" => {
            let status = json::string("failed");
            json::object([("type", kind), ("call_id", call_id), ("status", status), ("output", output)])
        }
        "shell_call" => {
            let outcome = json::value(&serde_json::json!({"type": "exit", "exit_code": 1}));
            let said = json::object([("stdout", json::string("")), ("stderr", output), ("outcome", outcome)]);
            let output = json::write_array([&*said]);
            json::object([("type", kind), ("call_id", call_id), ("output", output)])
        }
        "computer_call" => {
            // The provider accepts only a picture. This is one pixel, because there was no screenshot.
            let screen = serde_json::json!({"type": "computer_screenshot", "image_url": PIXEL});
            json::object([("type", kind), ("call_id", call_id), ("output", json::value(&screen))])
        }
        TOOL_SEARCH => {
            // No tool was found.
            let (kind, execution) = (json::string("tool_search_output"), json::string("client"));
            let (status, tools) = (json::string("incomplete"), json::write_array([]));
            let (call_id, execution) = (("call_id", call_id), ("execution", execution));
            json::object([("type", kind), call_id, execution, ("status", status), ("tools", tools)])
        }
        "local_shell_call" => json::object([("type", kind), ("id", call_id), ("output", output)]),
        _ => json::object([("type", kind), ("call_id", call_id), ("output", output)]),
    }
}

/// A picture of one pixel.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";

/// Returns the identifier of the call that an item answers.
pub(super) fn answers(raw: &RawValue) -> Option<String> {
    let fields = Fields::read(raw)?;
    let kind = kind(&fields);
    if !kind.ends_with(OUTPUT) {
        return None;
    }
    let id = answered(&kind, &fields)?;
    Some(id.into_owned())
}

/// Returns the identifier of a call, if the item is a call that the client answers.
pub(super) fn asks(raw: &RawValue) -> Option<String> {
    let fields = Fields::read(raw)?;
    let kind = kind(&fields);
    if !kind.ends_with(CALL) || is_hosted(&fields) {
        return None;
    }
    let id = fields.text("call_id")?;
    Some(id.into_owned())
}

/// Returns whether an item is a message.
pub(super) fn is_message(raw: &RawValue) -> bool {
    Fields::read(raw).is_some_and(|fields| kind(&fields) == "message")
}

/// Returns whether an item is a message with neither type nor identifier.
pub(super) fn is_bare(raw: &RawValue) -> bool {
    Fields::read(raw).is_some_and(|fields| fields.text("type").is_none() && fields.text("id").is_none())
}

/// Returns an item as an opaque part of an assistant message.
pub(super) fn opaque_part(raw: &RawValue) -> AssistantPart {
    let kind = Fields::read(raw).map(|fields| kind(&fields).into_owned()).unwrap_or_default();
    AssistantPart::Opaque(opaque(kind, raw))
}

/// Returns the number of parts of an item in an assistant message.
pub(super) fn len(raw: &RawValue) -> usize {
    match decode(raw) {
        Ok(Content::Assistant(parts)) => parts.len(),
        Ok(Content::System(_) | Content::User(_)) => 1,
        Err(_) => 0,
    }
}
