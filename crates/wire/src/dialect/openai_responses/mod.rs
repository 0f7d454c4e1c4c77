//! OpenAI Responses, whose input is a list of items, and whose assistant messages may be several items.

mod item;
mod stateless;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde_json::Value;
use serde_json::value::RawValue;

use self::stateless::{is_unreadable, resendable};
use super::api::{Api, openai_error};
use super::format::{Format, Mends, Paths, Rendered, Sending};
use super::pairing::{self, PairingRules, long_ids};
use super::{
    ConversionError, DecodeError, Dialect, Finding, Mend, Mended, Place, ProblemKind, Quirks, Request, Response, Rule,
    Severity, Shown, Target, convert, detect, openai_chat, provider_error, response, sampling, stream, tool_names,
};
use crate::edit::{self, Edit};
use crate::message::{AssistantPart, Content, Media, MediaSource, Message, PartRef, ResultItem, ToolCall, ToolResult};
use crate::start::Start;
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::Provider;

const RULES: &[Rule] = &[OR1, OR2, OR3, OR6, OR7, OR8, OR9, OR10, OR11, OR12, OR13, OR14, OR15, OR0];

const OR1: Rule = Rule::refused("OR1", "each call has one output after it, and each output has its call");
const OR2: Rule = Rule::refused(
    "OR2",
    "an item of the model follows reasoning, and if the reasoning has an `id`, that item has an `id` or a `type`",
);
const OR3: Rule = Rule::refused("OR3", "if `store` is false, reasoning has `encrypted_content`");
const OR6: Rule =
    Rule::refused("OR6", "the identifiers of items are unique and, at OpenAI, begin with the prefix of their type");
const OR7: Rule = Rule::refused("OR7", "reasoning has a `summary`, and no `status` of null");
const OR8: Rule = Rule::refused("OR8", "a compaction trigger is the last item");
const OR9: Rule = Rule::refused("OR9", "at OpenAI, the identifiers of calls have at most 64 characters");
const OR10: Rule = Rule::refused("OR10", "at DeepSeek, a call has its output before the next message");
const OR11: Rule = Rule::refused("OR11", "a file is not audio or video");
const OR12: Rule = Rule::refused("OR12", "`temperature` is from 0 to 2, and `top_p` from 0 to 1");
const OR13: Rule = Rule::refused("OR13", "no text has half of a surrogate pair");
const OR14: Rule = Rule::refused(
    "OR14",
    "texts of the assistant are `output_text`, and those of the user and of the system `input_text`",
);
const OR15: Rule = Rule::refused(
    "OR15",
    "at OpenAI, names of tools have only letters, digits, `_`, `-` and `.`, and at most 128 characters",
);
const OR0: Rule = Rule::refused("OR0", "the request has an item, or names a stored response, conversation or prompt");

const PAIRING: PairingRules = PairingRules {
    missing: OR1,
    orphan: OR1,
    duplicate_result: OR1,
    duplicate_call: OR1,
    results_first: None,
    adjacent: false,
    merges_neighbors: false,
};

const QUIRKS: Quirks = Quirks {
    // Neighboring items of the model are already one message.
    merges_neighbors: false,
    valid_id: |id| !id.is_empty(),
    longest_id: usize::MAX,
    refuses_blank: false,
    takes_space_beside: false,
    refuses_empty: false,
    refuses_trailing_space: false,
    signed_reasoning: false,
    start: Start::Any,
    opens: Start::Any,
    marks_errors: false,
    system_follows_user: false,
    refuses_empty_error: false,
    has_refused_members: |_| false,
    results_by_name: false,
    results_anywhere: true,
    // Newer models drop reasoning after a changed prefix, and do not refuse the request. A tool loop may be longer than
    // any window, so the whole loop is not kept for the sake of its reasoning.
    binds_reasoning: false,
    wrong_roles: &[],
    compactions: item::COMPACTIONS,
    standing: item::STANDING,
};

pub(super) static FORMAT: Format = Format {
    aliases: &["responses", "open-responses", "openai-response", "codex"],
    provider: "openai",
    signs: &detect::OPENAI_RESPONSES,
    api: Api {
        calls: &["responses"],
        stateless: &["responses/input_tokens", "responses/compact"],
        others: &["responses/{id}"],
        headers: &[],
        key: ("authorization", "Bearer "),
        error: openai_error,
    },
    rules: RULES,
    halves: OR13,
    quirks: |target| match target.is(Provider::OpenAi) {
        Some(true) => Quirks { longest_id: LONGEST_ID, ..QUIRKS },
        Some(false) | None => QUIRKS,
    },
    sayings: provider_error::OPENAI_RESPONSES,
    messages: "input",
    system: Some("instructions"),
    tools: "tools",
    functions: &[],
    cache_marker: None,
    stored: &["previous_response_id", "conversation"],
    instead: &["previous_response_id", "conversation", "prompt"],
    reference: Some(item::REFERENCE),
    thinking: &["reasoning"],
    answer_forms: &[("text", &["json_schema", "json_object"])],
    shorteners: &[("context_management", &["\"compaction\""])],
    errors_in_streams: true,
    known: KNOWN,
    whole: &[],
    is_piece: item::is_models,
    decode,
    render,
    encode: |sending, shown| Ok(Outgoing::new(sending, shown)?.items.into_iter().map(|(_, raw)| raw).collect()),
    mends,
    response,
    pieces: || Box::<stream::openai_responses::Items>::default(),
    resendable,
    tool,
    check,
    paths,
    reasoning_beside: |_| None,
};

/// Reads an item, or a list of items of the model.
///
/// Such a list may have calls that the provider ran itself, together with their outputs. The client does not answer
/// these.
fn decode(raw: &RawValue) -> Result<Content, DecodeError> {
    let Some(pieces) = json::array(raw) else { return item::decode(raw) };
    let answered: HashSet<String> = pieces.iter().filter_map(|piece| item::answers(piece)).collect();
    let mut parts = Vec::new();
    for piece in &pieces {
        match item::decode(piece)? {
            Content::Assistant(own) => parts.extend(own.into_iter().map(|part| match part {
                AssistantPart::ToolCall(call) if answered.contains(&call.id) => item::opaque_part(piece),
                part => part,
            })),
            Content::System(_) | Content::User(_) => parts.push(item::opaque_part(piece)),
        }
    }
    if pieces.is_empty() {
        return Err(DecodeError::member("[0]", "an item"));
    }
    Ok(Content::Assistant(parts))
}

/// Returns the items of a message.
fn pieces(raw: &RawValue) -> Vec<&RawValue> {
    json::array(raw).unwrap_or_else(|| vec![raw])
}

/// The outgoing items, each with the index of its message, and the changes to them.
#[derive(Default)]
struct Outgoing<'a> {
    items: Vec<(usize, Cow<'a, RawValue>)>,
    mends: Vec<Mended>,
}

fn mends(sending: &Sending<'_>, shown: &[Shown<'_>]) -> Mends {
    let mut mends = Outgoing::new(sending, shown)?.mends;
    mends.sort_by_key(|mended| mended.message);
    Ok(mends)
}

impl<'a> Outgoing<'a> {
    fn new(sending: &Sending<'_>, shown: &[Shown<'a>]) -> Result<Outgoing<'a>, ConversionError> {
        let mut out = Outgoing::default();
        for (index, Shown { message, edits }) in shown.iter().copied().enumerate() {
            let own = |raw: Box<RawValue>| (index, Cow::Owned(raw));
            match message.wire().filter(|wire| wire.dialect == Dialect::OpenAiResponses) {
                Some(wire) if edits.is_empty() => {
                    out.items.extend(pieces(&wire.raw).into_iter().map(|raw| (index, Cow::Borrowed(raw))));
                }
                Some(wire) => out.items.extend(edit(message, &wire.raw, edits).into_iter().map(own)),
                None => {
                    for message in Dialect::OpenAiResponses.convert(message)? {
                        let raw = message.wire().map(|wire| edit(&message, &wire.raw, edits));
                        out.items.extend(raw.unwrap_or_default().into_iter().map(own));
                    }
                }
            }
        }
        out.remove_refused(sending.target);
        out.mend_members(sending.target);
        if sending.target.is(Provider::DeepSeek) == Some(true) {
            out.answer_at_once();
        }
        Ok(out)
    }

    /// Removes reasoning without the following item that it needs (OR2), and triggers that are not the last item (OR8).
    fn remove_refused(&mut self, target: &Target) {
        let Outgoing { items, mends } = self;
        let mut kept: Vec<(usize, Cow<'a, RawValue>)> = Vec::with_capacity(items.len());
        // Backwards, because the last of several reasoning items decides about those before it.
        for (index, raw) in std::mem::take(items).into_iter().rev() {
            let next = kept.last().map(|(_, next)| &**next);
            let is_refused = match Kind::detect(&raw) {
                Kind::Reasoning => is_lone(target, &raw, next).is_some_and(|rule| rule.severity == Severity::Refused),
                Kind::Trigger => next.is_some(),
                Kind::Other => false,
            };
            if is_refused {
                mends.push(Mend::Removed { elements: 1 }.at(index));
            } else {
                kept.push((index, raw));
            }
        }
        kept.reverse();
        *items = kept;
    }

    /// Sends each output before the next message, if it comes later (OR10).
    fn answer_at_once(&mut self) {
        let Outgoing { items, mends } = self;
        let mut outputs: HashMap<String, VecDeque<usize>> = HashMap::new();
        for (place, (_, raw)) in items.iter().enumerate() {
            if let Some(id) = item::answers(raw) {
                outputs.entry(id).or_default().push_back(place);
            }
        }
        let mut left: Vec<Option<(usize, Cow<'a, RawValue>)>> = std::mem::take(items).into_iter().map(Some).collect();
        let mut open = Open::default();
        for place in 0..left.len() {
            let Some((index, raw)) = left.get_mut(place).and_then(Option::take) else { continue };
            if item::is_message(&raw) {
                for (_, id) in open.take() {
                    let output = outputs.get_mut(&id).and_then(VecDeque::pop_front);
                    let output = output.and_then(|output| left.get_mut(output)).and_then(Option::take);
                    mends.extend(output.iter().map(|(index, _)| Mend::Moved.at(*index)));
                    items.extend(output);
                }
            }
            if let Some(id) = item::answers(&raw) {
                open.answer(&id);
                outputs.entry(id).or_default().pop_front();
            }
            item::asks(&raw).into_iter().for_each(|id| open.ask(place, id));
            items.push((index, raw));
        }
    }

    /// Mends members that the provider refuses (OR6, OR7).
    fn mend_members(&mut self, target: &Target) {
        let Outgoing { items, mends } = self;
        let mut seen = HashSet::new();
        for (index, raw) in items {
            let mended = Fields::read(raw).and_then(|mut fields| {
                let mut faults = faults(&fields, &mut seen);
                faults.retain(|fault| fault.rule(target).is_some_and(|rule| rule.severity == Severity::Refused));
                faults.iter().for_each(|fault| fault.mend(&mut fields));
                (!faults.is_empty()).then(|| fields.write())
            });
            if let Some(mended) = mended {
                *raw = Cow::Owned(mended);
                if mends.last() != Some(&Mend::MembersMended.at(*index)) {
                    mends.push(Mend::MembersMended.at(*index));
                }
            }
        }
    }
}

/// The kinds of items that are allowed only at some places.
#[derive(PartialEq)]
enum Kind {
    Reasoning,
    Trigger,
    Other,
}

impl Kind {
    fn detect(raw: &RawValue) -> Kind {
        // Most items are neither, and need not be parsed.
        let has = |kind: &str| raw.get().contains(kind);
        if !has(item::REASONING) && !has(item::TRIGGER) {
            return Kind::Other;
        }
        match Fields::read(raw).as_ref().map(item::kind).as_deref() {
            Some(item::REASONING) => Kind::Reasoning,
            Some(item::TRIGGER) => Kind::Trigger,
            _ => Kind::Other,
        }
    }
}

/// A member of an item that the provider refuses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Another item has the same identifier.
    SameId,
    /// The identifier has another prefix than its type demands.
    IdPrefix,
    /// The `status` of reasoning is null, which is allowed in other items.
    NullStatus,
    /// Reasoning has no `summary`.
    NoSummary,
    /// The text of a message has the type of another role, or of another format.
    TextType,
}

impl Fault {
    fn mend(self, fields: &mut Fields<'_>) {
        match self {
            Fault::SameId | Fault::IdPrefix => fields.remove("id"),
            Fault::NullStatus => fields.remove("status"),
            Fault::NoSummary => fields.set("summary", json::write_array([])),
            Fault::TextType => item::mend_texts(fields),
        }
    }

    /// Returns the rule that the fault breaks, if it applies to the target.
    fn rule(self, target: &Target) -> Option<Rule> {
        match self {
            Fault::IdPrefix => OR6.if_known(target.is(Provider::OpenAi)),
            Fault::SameId => OR6.if_known(target.is_original(Provider::OpenAi)),
            Fault::TextType => OR14.if_known(target.is_original(Provider::OpenAi)),
            Fault::NullStatus | Fault::NoSummary => OR7.if_known(target.is_original(Provider::OpenAi)),
        }
    }

    fn finding(self, target: &Target, index: usize, path: &str, id: &str) -> Option<Finding> {
        let (id, at) = (id.to_owned(), |member: &str| format!("{path}.{member}"));
        let (member, problem) = match self {
            Fault::SameId => ("id", ProblemKind::DuplicateId { id }),
            Fault::IdPrefix => ("id", ProblemKind::BadId { id }),
            Fault::NullStatus => ("status", ProblemKind::NullMember),
            Fault::NoSummary => ("summary", ProblemKind::MissingMember),
            Fault::TextType => ("content", ProblemKind::TextType),
        };
        Some(self.rule(target)?.at(index, at(member), problem))
    }
}

/// The most characters of a call's identifier.
const LONGEST_ID: usize = 64;

/// The prefixes that the provider is known to demand for identifiers of items.
const PREFIXES: [(&str, &str); 3] = [("message", "msg"), ("function_call", "fc"), ("reasoning", "rs")];

/// Returns the members of an item that the provider refuses. `seen` has the identifiers of the earlier items.
fn faults(fields: &Fields<'_>, seen: &mut HashSet<String>) -> Vec<Fault> {
    let kind = item::kind(fields);
    let mut faults = Vec::new();
    // The identifiers of these items name other items.
    let names_other = [item::REFERENCE, item::LOCAL_SHELL_OUTPUT].contains(&&*kind);
    if !names_other && let Some(id) = fields.text("id") {
        let prefix = PREFIXES.iter().find(|(known, _)| *known == kind).map(|(_, prefix)| *prefix);
        if prefix.is_some_and(|prefix| !id.starts_with(prefix)) {
            faults.push(Fault::IdPrefix);
        } else if !seen.insert(id.into_owned()) {
            faults.push(Fault::SameId);
        }
    }
    if kind == item::REASONING && fields.get("status").is_some_and(|status| status.get() == "null") {
        faults.push(Fault::NullStatus);
    }
    if kind == item::REASONING && fields.get("summary").is_none() {
        faults.push(Fault::NoSummary);
    }
    if item::has_other_texts(fields) {
        faults.push(Fault::TextType);
    }
    faults
}

/// Applies the edits of a message. Returns the remaining items.
fn edit(message: &Message, raw: &RawValue, edits: &[Edit]) -> Vec<Box<RawValue>> {
    if edit::hides_all(message, edits) {
        return Vec::new();
    }
    let mut parts = message.parts();
    if json::array(raw).is_none() {
        let parts: Vec<_> = parts.collect();
        return edit_item(raw, 0, &parts, edits).into_iter().collect();
    }
    let mut first = 0;
    let edited = pieces(raw).into_iter().filter_map(|piece| {
        let at = first;
        let parts: Vec<_> = parts.by_ref().take(item::len(piece)).collect();
        first += parts.len();
        let changes = (at..first).any(|part| edit::touches(edits, part));
        if changes { edit_item(piece, at, &parts, edits) } else { Some(piece.to_owned()) }
    });
    edited.collect()
}

/// Applies the edits of an item whose first part has this index. Returns `None` if the item becomes empty.
fn edit_item(raw: &RawValue, first: usize, parts: &[PartRef<'_>], edits: &[Edit]) -> Option<Box<RawValue>> {
    if (first..first + parts.len()).all(|part| edit::is_hidden(edits, part)) {
        return None;
    }
    let mut fields = Fields::read(raw)?;
    match *parts {
        [PartRef::ToolCall(_)] => {
            if let Some(id) = edit::renamed(edits, first) {
                fields.set(if fields.get("call_id").is_some() { "call_id" } else { "id" }, json::string(id));
            }
            if let Some(arguments) = edit::arguments(edits, first) {
                fields.set("arguments", json::string(arguments));
            }
        }
        [PartRef::ToolResult(result)] => {
            if let Some(id) = edit::renamed(edits, first) {
                let places = ["call_id", "approval_request_id"];
                let place = places.into_iter().find(|place| fields.get(place).is_some()).unwrap_or("id");
                fields.set(place, json::string(id));
            }
            if let Some(output) = fields.get("output").and_then(|output| edit_output(output, result, first, edits)) {
                fields.set("output", output);
            }
        }
        _ => {
            let content = fields.get("content")?.to_owned();
            let shown = |index: &usize| !edit::is_hidden(edits, first + index);
            if let Some(elements) = json::array(&content) {
                let kept = elements.into_iter().enumerate().filter(|(index, _)| shown(index)).map(|(_, raw)| raw);
                fields.set("content", json::write_array(kept));
            }
        }
    }
    Some(fields.write())
}

/// Applies the cuts of a result to its output.
fn edit_output(output: &RawValue, result: &ToolResult, part: usize, edits: &[Edit]) -> Option<Box<RawValue>> {
    let cut = |item| edit::cut_of(edits, part, item);
    let text = |item: usize| result.content.get(item).and_then(ResultItem::text).unwrap_or_default();
    let Some(items) = json::array(output) else { return cut(0).map(|cut| json::string(&cut.apply(text(0)))) };
    let items = items.into_iter().enumerate().filter_map(|(index, raw)| match cut(index) {
        None => Some(raw.to_owned()),
        Some(cut) => Some(cut.apply(text(index))).filter(|text| !text.is_empty()).map(|text| input_text(&text)),
    });
    let items: Vec<_> = items.collect();
    Some(json::write_array(items.iter().map(AsRef::as_ref)))
}

fn input_text(text: &str) -> Box<RawValue> {
    json::object([("type", json::string("input_text")), ("text", json::string(text))])
}

fn loss(what: &'static str) -> ConversionError {
    ConversionError::new(Dialect::OpenAiResponses, what)
}

fn render(message: &Message) -> Rendered {
    let mut items = Vec::new();
    let mut content = Vec::new();
    for part in message.parts() {
        match part {
            PartRef::Text(text) if message.role() == Role::Assistant => {
                items.push(said("assistant", json::string(text)));
            }
            PartRef::Text(text) => content.push(input_text(text)),
            PartRef::Image(media) => content.push(image(media)?),
            PartRef::Document(media) => content.push(file(media)?),
            PartRef::ToolCall(call) => items.push(function_call(call)?),
            PartRef::ToolResult(result) => items.push(tool_output(result)?),
            PartRef::Reasoning(_) => return Err(loss("reasoning")),
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
            PartRef::Opaque(_) => return Err(loss("a part of a kind that only its own provider knows")),
        }
    }
    let role = match message.role() {
        Role::Assistant => {
            return Ok(vec![match items.as_slice() {
                [only] => only.clone(),
                [] => said("assistant", json::string("")),
                several => json::write_array(several.iter().map(AsRef::as_ref)),
            }]);
        }
        Role::System => "system",
        Role::User => "user",
    };
    if !content.is_empty() || items.is_empty() {
        let only_text = match message.parts().next() {
            Some(PartRef::Text(text)) if message.parts().count() == 1 => Some(json::string(text)),
            _ => None,
        };
        let all = || json::write_array(content.iter().map(AsRef::as_ref));
        items.push(said(role, only_text.unwrap_or_else(all)));
    }
    Ok(items)
}

fn said(role: &str, content: Box<RawValue>) -> Box<RawValue> {
    // Some servers refuse a message without its type.
    json::object([("type", json::string("message")), ("role", json::string(role)), ("content", content)])
}

fn function_call(call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    if call.form.is_some() {
        return Err(loss("a call of a form that only its own provider knows"));
    }
    Ok(json::object([
        ("type", json::string("function_call")),
        ("call_id", json::string(&call.id)),
        ("name", json::string(&call.name)),
        ("arguments", json::string(&call.arguments)),
    ]))
}

fn tool_output(result: &ToolResult) -> Result<Box<RawValue>, ConversionError> {
    if result.error {
        return Err(loss("that a tool result is an error"));
    }
    let output = match result.content.as_slice() {
        [ResultItem::Text(text) | ResultItem::Json(text)] => json::string(text),
        items => {
            let items = items.iter().map(|item| match item {
                ResultItem::Text(text) | ResultItem::Json(text) => Ok(input_text(text)),
                ResultItem::Image(media) => image(media),
                ResultItem::Document(media) => file(media),
                ResultItem::Opaque(_) => Err(loss("an unknown item of a tool result")),
            });
            let items = items.collect::<Result<Vec<_>, _>>()?;
            json::write_array(items.iter().map(AsRef::as_ref))
        }
    };
    Ok(item::output(result, output))
}

fn image(media: &Media) -> Result<Box<RawValue>, ConversionError> {
    let url = convert::url(media).ok_or_else(|| loss("an image by its identifier, or by this address"))?;
    Ok(json::object([("type", json::string("input_image")), ("image_url", json::string(&url))]))
}

fn file(media: &Media) -> Result<Box<RawValue>, ConversionError> {
    let (member, value) = match (&media.source, convert::url(media)) {
        (MediaSource::Id(_), _) => return Err(loss(convert::IDENTIFIER)),
        (MediaSource::Url(_), Some(url)) => ("file_url", url),
        (MediaSource::Base64(_), Some(data)) => ("file_data", data),
        _ => return Err(loss("a document that is text, or without a media type")),
    };
    let mut part = Fields::default();
    part.set("type", json::string("input_file"));
    if let Some(name) = &media.name {
        part.set("filename", json::string(name));
    }
    part.set(member, json::string(&value));
    Ok(part.write())
}

/// The members that other dialects can express, each as `parent.member`, and members that mean nothing to the model.
const KNOWN: &[&str] = &[
    ".type",
    ".id",
    ".status",
    ".role",
    ".content",
    ".call_id",
    ".name",
    ".arguments",
    ".output",
    "content.type",
    "content.text",
    // These two are usually empty lists. The members of their elements are unknown.
    "content.annotations",
    "content.logprobs",
    "content.image_url",
    "content.file_data",
    "content.file_url",
    "content.filename",
    "output.type",
    "output.text",
    "output.image_url",
    "output.file_data",
    "output.file_url",
    "output.filename",
];

/// Returns a function that writes the paths of a message's parts.
fn paths<'a>(place: &Place<'a>) -> Paths<'a> {
    let Place { element, message, .. } = *place;
    let mut begun = 0;
    // For each item, the index of its first part, and whether it is a message.
    let items: Vec<(usize, bool)> = pieces_of(message)
        .into_iter()
        .map(|piece| {
            let next = begun + item::len(piece);
            (std::mem::replace(&mut begun, next), item::is_message(piece))
        })
        .collect();
    let count = message.parts().count();
    Box::new(move |part| {
        // An item without parts begins at the same part as the next one.
        let index = items.partition_point(|(begins, _)| *begins <= part).saturating_sub(1);
        let (begins, is_message) = items.get(index).copied().unwrap_or_default();
        let path = format!("input[{}]", element + index);
        if is_message && part < count { format!("{path}.content[{}]", part - begins) } else { path }
    })
}

/// Returns the items of a message.
fn pieces_of(message: &Message) -> Vec<&RawValue> {
    message.wire().map(|wire| pieces(&wire.raw)).unwrap_or_default()
}

/// Reads a response: all items of its output are one message.
fn response(fields: &Fields<'_>) -> Result<Response, DecodeError> {
    let output = fields.get("output").filter(|output| json::array(output).is_some());
    let output = output.ok_or_else(|| DecodeError::member("output", "a list of items"))?;
    // A single item is not a list, as in a request.
    let items = pieces(output);
    let message = if let [only] = items.as_slice() { only } else { output };
    let usage = fields.get("usage").and_then(Fields::read).unwrap_or_default();
    Ok(Response {
        message: Dialect::OpenAiResponses.decode_raw(message)?,
        model: fields.text("model").map(Cow::into_owned),
        input: response::tokens(&usage, &["input_tokens"]),
        cached: response::detail(&usage, "input_tokens_details", "cached_tokens"),
        written: response::detail(&usage, "input_tokens_details", "cache_write_tokens"),
        output: response::tokens(&usage, &["output_tokens"]),
        fills_window: false,
        lost_reasoning: response::left_out(fields, "reasoning"),
    })
}

fn tool(name: &str, description: &str, parameters: &Value) -> Value {
    serde_json::json!({"type": "function", "name": name, "description": description, "parameters": parameters})
}

fn check(request: &Request) -> Vec<Finding> {
    let messages = request.messages();
    let is_named = || FORMAT.instead.iter().any(|name| request.member(name).is_some());
    let nothing = (messages.is_empty() && !is_named()).then(|| OR0.at(0, "input".to_owned(), ProblemKind::NoMessages));
    let mut findings = pairing::check(Dialect::OpenAiResponses, &PAIRING, messages);
    findings.extend(nothing);
    let is_stored = request.stored().is_some();
    // The stored items may have the calls.
    findings.retain(|finding| !(is_stored && matches!(finding.problem.0, ProblemKind::OrphanResult { .. })));
    let target = request.target();
    let places: Vec<Place<'_>> = Place::all(messages).collect();
    let items = places.iter().flat_map(|place| {
        pieces_of(place.message).into_iter().enumerate().map(|(at, raw)| (place.index, place.element + at, raw))
    });
    let mut items = items.peekable();
    let mut seen = HashSet::new();
    while let Some((index, element, raw)) = items.next() {
        let Some(fields) = Fields::read(raw) else { continue };
        let path = format!("input[{element}]");
        let id = fields.text("id").unwrap_or_default();
        findings.extend(
            faults(&fields, &mut seen).into_iter().filter_map(|fault| fault.finding(target, index, &path, &id)),
        );
        let next = items.peek().map(|(.., next)| *next);
        match Kind::detect(raw) {
            Kind::Reasoning => {
                let lone = is_lone(target, raw, next);
                findings.extend(lone.map(|rule| rule.at(index, path.clone(), ProblemKind::LoneReasoning)));
                let unread = OR3.if_known(target.is_original(Provider::OpenAi));
                if let Some(rule) = unread
                    && target.stateless
                    && is_unreadable(raw)
                {
                    findings.push(rule.at(index, path, ProblemKind::UnsignedReasoning));
                }
            }
            Kind::Trigger if next.is_some() => findings.push(OR8.at(index, path, ProblemKind::TriggerPlace)),
            Kind::Trigger | Kind::Other => {}
        }
    }
    findings.extend(long_ids(request, &OR9.if_known(target.is(Provider::OpenAi)), LONGEST_ID));
    findings.extend(late_outputs(target, messages));
    findings.extend(files(messages));
    if let Some(rule) = OR15.if_known(target.is(Provider::OpenAi)) {
        findings.extend(tool_names::declared(rule, request, openai_chat::is_tool_name));
        findings.extend(tool_names::called(rule, request, openai_chat::is_tool_name));
    }
    findings.extend(sampling::check(OR12, request));
    findings
}

/// Returns the rule that reasoning breaks if the item that it needs does not follow.
fn is_lone(target: &Target, raw: &RawValue, next: Option<&RawValue>) -> Option<Rule> {
    // If the reasoning has an identifier, OpenAI knows which item followed it.
    let is_named = Fields::read(raw).is_some_and(|fields| fields.text("id").is_some_and(|id| !id.is_empty()));
    let by_id = || if is_named { OR2.if_known(target.is(Provider::OpenAi)) } else { None };
    let rule = match next {
        Some(next) if !item::is_models(next) => OR2.if_known(target.is_original(Provider::OpenAi)),
        Some(next) if item::is_bare(next) => by_id(),
        Some(_) => None,
        None => by_id(),
    };
    // If items are not stored, the reasoning may come from a stream that broke off.
    if target.stateless { rule.map(Rule::as_warning) } else { rule }
}

/// The calls that have no output yet, by place.
#[derive(Default)]
struct Open<P> {
    ids: BTreeMap<P, String>,
    places: HashMap<String, Vec<P>>,
}

impl<P: Copy + Ord> Open<P> {
    fn ask(&mut self, place: P, id: String) {
        self.places.entry(id.clone()).or_default().push(place);
        self.ids.insert(place, id);
    }

    fn answer(&mut self, id: &str) {
        for place in self.places.remove(id).unwrap_or_default() {
            self.ids.remove(&place);
        }
    }

    /// Takes the calls, in the order of their places.
    fn take(&mut self) -> impl Iterator<Item = (P, String)> + use<P> {
        self.places.clear();
        std::mem::take(&mut self.ids).into_iter()
    }
}

/// Finds calls whose output comes after a later message, if the provider demands it earlier (OR10).
fn late_outputs(target: &Target, messages: &[Message]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if target.is(Provider::DeepSeek) != Some(true) {
        return findings;
    }
    let mut open = Open::default();
    for place in Place::all(messages) {
        for (at, raw) in pieces_of(place.message).into_iter().enumerate() {
            if item::is_message(raw) {
                findings.extend(open.take().map(|((index, element), id)| {
                    OR10.at(index, format!("input[{element}]"), ProblemKind::MissingResult { id })
                }));
            }
            if let Some(id) = item::answers(raw) {
                open.answer(&id);
            }
            item::asks(raw).into_iter().for_each(|id| open.ask((place.index, place.element + at), id));
        }
    }
    findings
}

/// Finds files that are audio or video (OR11).
fn files(messages: &[Message]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in Place::all(messages) {
        let path = LazyCell::new(|| paths(&place));
        for (part, value) in place.message.parts().enumerate() {
            let is_refused = match value {
                PartRef::Document(media) => is_audio_or_video(media),
                PartRef::ToolResult(result) => result
                    .content
                    .iter()
                    .any(|item| matches!(item, ResultItem::Document(media) if is_audio_or_video(media))),
                _ => false,
            };
            if is_refused {
                findings.push(OR11.at(place.index, path(part), ProblemKind::NotForModel));
            }
        }
    }
    findings
}

/// Returns whether a file is audio or video, according to its media type or else the extension of its name or URL.
fn is_audio_or_video(media: &Media) -> bool {
    let by_type = |mime: &str| mime.starts_with("audio/") || mime.starts_with("video/");
    let address = match &media.source {
        MediaSource::Url(url) => Some(url.split(['?', '#']).next().unwrap_or_default()),
        MediaSource::Base64(_) | MediaSource::Text(_) | MediaSource::Id(_) => None,
    };
    let ending = media.name.as_deref().or(address).and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    let by_ending = |ending: &str| ["mp3", "wav", "mp4", "mov", "webm", "ogg", "flac", "m4a", "avi"].contains(&ending);
    media.mime.as_deref().map_or_else(|| ending.is_some_and(|e| by_ending(&e.to_ascii_lowercase())), by_type)
}
