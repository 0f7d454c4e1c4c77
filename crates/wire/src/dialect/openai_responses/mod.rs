//! OpenAI Responses, whose input is a list of items, and whose assistant messages may be several items.

mod faults;
mod item;
mod reading;
mod rules;
mod stateless;
mod writing;

use self::reading::{decode, pieces_of, response};
use self::rules::{LONGEST_ID, OR13, RULES, check};
use self::stateless::resendable;
use self::writing::{Outgoing, mends, render, tool};
use super::api::{Api, openai_error};
use super::format::{Format, Paths};
use super::{Place, Quirks, detect, provider_error, stitch, stream};
use crate::start::Start;
use lookback_models::Provider;

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
    call_bans: &[("tool_choice", &["\"none\""])],
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
    seam: Some(|| Box::<stitch::openai_responses::Items>::default()),
    resendable,
    tool,
    check,
    paths,
    reasoning_beside: |_| None,
};

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
