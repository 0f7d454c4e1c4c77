//! Bedrock Converse, the block format with `toolUse` and `toolResult` that Strands uses.

mod reading;
mod rules;
mod writing;

use self::reading::{decode, response};
use self::rules::{BC8, RULES, WRONG_ROLES, begins_freely, check, valid_id};
use self::writing::{edit, mend, render, tool};
use super::api::{Api, openai_error};
use super::blocks::{BlockFormat, Merges};
use super::format::Format;
use super::{Dialect, Quirks, blocks, detect, provider_error, stream};
use crate::cache_marker;
use crate::start::Start;

/// The kind of a tool result in an assistant message without its call. Clients may not send one.
const STRAY_RESULT: &str = "stray toolResult";

const QUIRKS: Quirks = Quirks {
    merges_neighbors: true,
    valid_id,
    longest_id: 64,
    refuses_blank: true,
    takes_space_beside: false,
    refuses_empty: true,
    refuses_trailing_space: true,
    signed_reasoning: false,
    start: Start::UserOrToolPair,
    opens: Start::Any,
    marks_errors: true,
    system_follows_user: false,
    refuses_empty_error: true,
    has_refused_members: |_| false,
    results_by_name: false,
    results_anywhere: false,
    binds_reasoning: true,
    wrong_roles: WRONG_ROLES,
    compactions: &[],
    standing: &[],
};

const BLOCKS: BlockFormat = BlockFormat {
    dialect: Dialect::Bedrock,
    content: "content",
    edit,
    marker: Some(cache_marker::BLOCK),
    results_first: true,
    merges: Merges::All,
    mend,
};

pub(super) static FORMAT: Format = Format {
    aliases: &["bedrock-converse", "amazon-bedrock", "aws-bedrock", "aws", "converse"],
    provider: "aws.bedrock",
    signs: &detect::BEDROCK,
    // Requests are signed, so the gateway has no path for them.
    api: Api {
        calls: &[],
        stateless: &[],
        others: &[],
        headers: &[],
        key: ("authorization", "Bearer "),
        error: openai_error,
    },
    rules: RULES,
    halves: BC8,
    quirks: |target| match begins_freely(target) {
        Some(false) => Quirks { opens: Start::UserOrToolPair, ..QUIRKS },
        Some(true) | None => QUIRKS,
    },
    sayings: provider_error::BEDROCK,
    messages: "messages",
    system: Some("system"),
    tools: "toolConfig",
    functions: &[],
    cache_marker: None,
    stored: &[],
    instead: &[],
    reference: None,
    thinking: &["additionalModelRequestFields"],
    answer_forms: &[("outputConfig", &["json_schema"])],
    shorteners: &[],
    call_bans: &[],
    errors_in_streams: false,
    known: KNOWN,
    whole: &["input", "json", cache_marker::BLOCK],
    is_piece: |_| false,
    decode,
    render,
    encode: |sending, shown| blocks::encode(&BLOCKS, sending, shown),
    mends: |sending, shown| blocks::mends(&BLOCKS, sending, shown),
    response,
    pieces: || Box::<stream::bedrock::Blocks>::default(),
    seam: None,
    resendable: |_, answer| answer,
    tool,
    check,
    paths: blocks::paths,
    reasoning_beside: |_| None,
};

/// The formats of pictures, with their media types.
const IMAGES: &[(&str, &str)] =
    &[("png", "image/png"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

/// The formats of files, with their media types.
const DOCUMENTS: &[(&str, &str)] = &[
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("html", "text/html"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
];

/// The members that other dialects can express, each as `parent.member`.
const KNOWN: &[&str] = &[
    ".role",
    ".content",
    "content.text",
    "content.image",
    "content.document",
    "content.toolUse",
    "content.toolResult",
    "content.json",
    "content.reasoningContent",
    "content.cachePoint",
    "image.format",
    "image.source",
    "document.format",
    "document.name",
    "document.source",
    "source.bytes",
    "source.text",
    "source.s3Location",
    "s3Location.uri",
    "toolUse.toolUseId",
    "toolUse.name",
    "toolUse.input",
    "toolResult.toolUseId",
    "toolResult.content",
    "toolResult.status",
    "reasoningContent.reasoningText",
    "reasoningContent.redactedContent",
    "reasoningText.text",
    "reasoningText.signature",
];
