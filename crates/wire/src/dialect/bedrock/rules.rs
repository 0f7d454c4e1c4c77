//! The rules of Bedrock, and the check of a request against them.

use std::collections::HashSet;

use super::STRAY_RESULT;
use super::reading::owned;
use super::writing::allowed_name;
use crate::cache_marker;
use crate::dialect::blocks::PartRules;
use crate::dialect::pages;
use crate::dialect::pairing::{self, PairingRules};
use crate::dialect::{Dialect, Finding, Place, ProblemKind, Request, Rule, Target, blocks, tool_names};
use crate::message::Message;
use crate::wire::Role;
use lookback_content::json::{self, Fields};

pub(super) const RULES: &[Rule] = &[BC1, BC2, BC3, BC4, BC5, BC6, BC7, BC8, BC9, BC10, BC11, BC12, BC13];

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
pub(super) const BC8: Rule = Rule::refused("BC8", "no text has half of a surrogate pair");
const BC9: Rule = Rule::refused(
    "BC9",
    "each file has a different name, of at most 200 letters, digits, single spaces, -, _, parentheses and brackets",
);
const BC10: Rule = Rule::refused("BC10", "Claude does not accept videos, or pictures and files from S3");
const BC11: Rule = Rule::refused("BC11", "only assistant messages have tool uses");
const BC13: Rule =
    Rule::refused("BC13", "names of tools have only letters, digits, `_` and `-`, and at most 64 characters");
const BC12: Rule = Rule::refused("BC12", "Claude takes at most 100 pages of PDF files");

/// The kinds of parts that a message of a role may not have.
pub(super) const WRONG_ROLES: &[(Role, &str)] = &[(Role::User, "toolUse"), (Role::Assistant, STRAY_RESULT)];

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

/// Checks an identifier against the pattern that the API reference gives for `toolUseId`.
pub(super) fn valid_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    (1..=64).contains(&id.len()) && id.bytes().all(allowed)
}

pub(super) fn check(request: &Request) -> Vec<Finding> {
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
pub(super) fn begins_freely(target: &Target) -> Option<bool> {
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
