//! The rules of the Responses API, and the check of a request against them.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::value::RawValue;

use super::faults::{OR6, OR7, OR14, faults};
use super::item;
use super::reading::{Kind, pieces_of};
use super::stateless::is_unreadable;
use super::{FORMAT, paths};
use crate::dialect::pairing::{self, PairingRules, long_ids};
use crate::dialect::{Dialect, Finding, Place, ProblemKind, Request, Rule, Target, openai_chat, sampling, tool_names};
use crate::message::{Media, MediaSource, Message, PartRef, ResultItem};
use lookback_content::json::Fields;
use lookback_models::Provider;

pub(super) const RULES: &[Rule] = &[OR1, OR2, OR3, OR6, OR7, OR8, OR9, OR10, OR11, OR12, OR13, OR14, OR15, OR0];

const OR1: Rule = Rule::refused("OR1", "each call has one output after it, and each output has its call");
const OR2: Rule = Rule::refused(
    "OR2",
    "an item of the model follows each reasoning item, and has an `id` or a `type` if the reasoning has an `id`",
);
const OR3: Rule = Rule::refused("OR3", "if `store` is false, reasoning has `encrypted_content`");
const OR8: Rule = Rule::refused("OR8", "a compaction trigger is the last item");
const OR9: Rule = Rule::refused("OR9", "at OpenAI, the identifiers of calls have at most 64 characters");
const OR10: Rule = Rule::refused("OR10", "at DeepSeek, a call has its output before the next message");
const OR11: Rule = Rule::refused("OR11", "a file is not audio or video");
const OR12: Rule = Rule::refused("OR12", "`temperature` is from 0 to 2, and `top_p` from 0 to 1");
pub(super) const OR13: Rule = Rule::refused("OR13", "no text has half of a surrogate pair");
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

/// The most characters of a call's identifier.
pub(super) const LONGEST_ID: usize = 64;

pub(super) fn check(request: &Request) -> Vec<Finding> {
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
pub(super) fn is_lone(target: &Target, raw: &RawValue, next: Option<&RawValue>) -> Option<Rule> {
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
pub(super) struct Open<P> {
    ids: BTreeMap<P, String>,
    places: HashMap<String, Vec<P>>,
}

impl<P: Copy + Ord> Open<P> {
    pub(super) fn ask(&mut self, place: P, id: String) {
        self.places.entry(id.clone()).or_default().push(place);
        self.ids.insert(place, id);
    }

    pub(super) fn answer(&mut self, id: &str) {
        for place in self.places.remove(id).unwrap_or_default() {
            self.ids.remove(&place);
        }
    }

    /// Takes the calls, in the order of their places.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (P, String)> + use<P> {
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
