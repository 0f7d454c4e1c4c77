//! The rules of Anthropic, and the check of a request against them.

use serde_json::value::RawValue;

use super::{COMPACTION, CONFIG, hosted, markers};
use crate::cache_marker;
use crate::dialect::blocks::PartRules;
use crate::dialect::pages;
use crate::dialect::pairing::{self, PairingRules};
use crate::dialect::{Dialect, Finding, Place, ProblemKind, Request, Rule, Target, blocks, tool_names};
use crate::message::{Content, Media, MediaSource, Message, PartRef, Reasoning, ResultItem, SystemPart};
use crate::wire::Role;
use lookback_content::json::{self, Fields};
use lookback_models::{Models, Provider};

pub(super) const RULES: &[Rule] =
    &[AM1, AM2, AM3, AM4, AM5, AM6, AM7, AM9, AM10, AM11, AM12, AM13, AM14, AM15, AM16, AM17, AM18, AM19, AM20];

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
const AM11: Rule =
    Rule::refused("AM11", "when the provider itself runs a tool, the tool use and its result are in the same answer");
const AM12: Rule = Rule::refused(
    "AM12",
    "from version 2026-10-21 on, requests have no sampling parameters, assistant messages no documents, and user messages no citations",
);
const AM13: Rule =
    Rule::refused("AM13", "a compaction block is the first block of an assistant message, and only one has content");
pub(super) const AM14: Rule = Rule::refused("AM14", "no text has half of a surrogate pair");
const AM15: Rule = Rule::refused("AM15", "no cache marker for one hour comes after one for five minutes");
const AM16: Rule = Rule::refused(
    "AM16",
    "only assistant messages have tool uses and thinking, and only user messages have results of the client's tools",
);
const AM17: Rule = Rule::refused(
    "AM17",
    "PDF files have at most 600 pages in all, or 100 for models with a context window of 200,000 tokens",
);
const AM18: Rule = Rule::refused(
    "AM18",
    "for Claude 4.6 and later, the last message is not an assistant message, unless the provider ran a tool in it",
);
const AM19: Rule = Rule::refused(
    "AM19",
    "names of declared tools have only letters, digits, `_` and `-`, and at most 128 characters, and those of tool uses at most 200",
);
const AM20: Rule = Rule::refused("AM20", "the request declares each tool that a message refers to");

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

/// Returns whether all servers that use this dialect have the broken rule. The other rules apply only to Claude.
fn is_shared(finding: &Finding) -> bool {
    let is_form = matches!(finding.problem.0, ProblemKind::BadId { .. });
    [AM2.id, AM3.id, AM14.id, AM16.id].contains(&finding.rule) && !is_form
}

/// Returns whether the model is Claude, whose rules are the same at Anthropic and in the clouds, or `None` if that is
/// unknown. Other models with this dialect, for example, do not sign their thinking, and want it back unchanged. If
/// neither the provider nor the model is known, the model counts as Claude.
pub(in crate::dialect) fn is_claude(target: &Target) -> Option<bool> {
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
pub(super) const WRONG_ROLES: &[(Role, &str)] = &[
    (Role::Assistant, "tool_result"),
    (Role::User, "tool_use"),
    (Role::User, "thinking"),
    (Role::User, "redacted_thinking"),
];

/// The first version of the API with the rules of AM12.
const STRICTER: &str = "2026-10-21";

const MOST_MESSAGES: usize = 100_000;

/// The most pictures and files, and the most pages of PDF files. Models with a window of 200,000 tokens accept fewer.
const MOST_MEDIA: u64 = 600;

const FEW_MEDIA: u64 = 100;

const MOST_BYTES: usize = 32 * 1024 * 1024;

pub(super) fn valid_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

pub(super) fn check(request: &Request) -> Vec<Finding> {
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
    findings.extend(tool_names::loaded(AM20, request));
    findings.extend(marker_order(request));
    findings.extend(request.changed_reasoning(AM6));
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
