//! The rules of Gemini, and the check of a request against them.

use serde_json::value::RawValue;

use super::reading::is_empty;
use super::writing::mend_content;
use super::{BESIDE, SPELLINGS, demands_signatures};
use crate::dialect::pages;
use crate::dialect::pairing::{self, PairingRules};
use crate::dialect::{Dialect, Finding, Mend, Place, ProblemKind, Request, Rule, Target, tool_names};
use crate::message::{Message, PartRef};
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::Provider;

pub(super) const RULES: &[Rule] = &[GM1, GM2, GM3, GM4, GM5, GM6, GM7, GM8, GM9, GM10, GM0];

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
pub(super) const GM8: Rule = Rule::refused("GM8", "no text has half of a surrogate pair");
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

pub(super) fn check(request: &Request) -> Vec<Finding> {
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

/// Returns whether blank text is refused, or `None` if that is unknown.
pub(super) fn refuses_blank(target: &Target) -> Option<bool> {
    target.is(Provider::Vertex)
}
