//! Anthropic Messages, the block format with system messages, signed thinking and cache markers.

mod hosted;
mod markers;
mod reading;
pub(super) mod rules;
mod writing;

use serde_json::json;

use self::reading::{decode, response};
use self::rules::{AM14, RULES, WRONG_ROLES, check, is_claude, valid_id};
use self::writing::{edit, mend, render, tool};
use super::api::{Api, error_type};
use super::blocks::{BlockFormat, Merges};
use super::format::Format;
use super::{Dialect, Quirks, blocks, detect, provider_error, stitch, stream};
use crate::cache_marker;
use crate::start::Start;

const QUIRKS: Quirks = Quirks {
    merges_neighbors: true,
    valid_id,
    longest_id: usize::MAX,
    refuses_blank: true,
    takes_space_beside: true,
    refuses_empty: true,
    refuses_trailing_space: true,
    signed_reasoning: true,
    start: Start::User,
    opens: Start::User,
    marks_errors: true,
    system_follows_user: true,
    refuses_empty_error: true,
    has_refused_members: |_| false,
    results_by_name: false,
    results_anywhere: false,
    binds_reasoning: true,
    wrong_roles: WRONG_ROLES,
    compactions: &[COMPACTION],
    standing: &["tool_addition", "tool_removal", "tool_reference", "tool_search_tool_result", CONFIG],
};

/// The demands of all servers that use this dialect.
const SHARED_QUIRKS: Quirks = Quirks {
    valid_id: |id| !id.is_empty(),
    refuses_blank: false,
    refuses_empty: false,
    refuses_trailing_space: false,
    signed_reasoning: false,
    opens: Start::Any,
    system_follows_user: false,
    refuses_empty_error: false,
    binds_reasoning: false,
    ..QUIRKS
};

const BLOCKS: BlockFormat = BlockFormat {
    dialect: Dialect::Anthropic,
    content: "content",
    edit,
    marker: Some(cache_marker::MEMBER),
    results_first: true,
    merges: Merges::Mixed,
    mend,
};

pub(super) static FORMAT: Format = Format {
    aliases: &["anthropic-messages", "messages", "claude", "claude-code"],
    provider: "anthropic",
    signs: &detect::ANTHROPIC,
    api: Api {
        calls: &[
            "v1/messages",
            // Claude on Google's Vertex AI.
            "publishers/anthropic/models/claude{model}:rawPredict",
            "publishers/anthropic/models/claude{model}:streamRawPredict",
        ],
        stateless: &["messages/count_tokens", "publishers/anthropic/models/count-tokens:rawPredict"],
        others: &["messages/count_tokens", "messages/batches", "publishers/anthropic/models/count-tokens:rawPredict"],
        headers: &["anthropic-version", "anthropic-beta"],
        key: ("x-api-key", ""),
        error: |status, message| json!({"type": "error", "error": {"type": error_type(status), "message": message}}),
    },
    rules: RULES,
    halves: AM14,
    quirks: |target| if is_claude(target) == Some(true) { QUIRKS } else { SHARED_QUIRKS },
    sayings: provider_error::ANTHROPIC,
    messages: "messages",
    system: Some("system"),
    tools: "tools",
    functions: &[],
    cache_marker: Some(("cache_control", r#"{"type":"ephemeral"}"#)),
    stored: &[],
    instead: &[],
    reference: None,
    thinking: &["thinking"],
    answer_forms: &[("output_config", &["json_schema"]), ("output_format", &["json_schema"])],
    shorteners: &[("context_management", &["clear_tool_uses", "compact_"])],
    call_bans: &[("tool_choice", &["\"none\""])],
    errors_in_streams: false,
    known: KNOWN,
    whole: &["input", cache_marker::MEMBER],
    is_piece: |_| false,
    decode,
    render,
    encode: |sending, shown| blocks::encode(&BLOCKS, sending, shown),
    mends: |sending, shown| blocks::mends(&BLOCKS, sending, shown),
    response,
    pieces: || Box::<stream::anthropic::Blocks>::default(),
    seam: Some(|| Box::<stitch::anthropic::Blocks>::default()),
    resendable: |_, answer| answer,
    tool,
    check,
    paths: blocks::paths,
    reasoning_beside: |_| None,
};

/// The member of a system message that sets the configuration for later messages.
const CONFIG: &str = "output_config";

/// The kind of block in which the provider compacted all earlier messages.
const COMPACTION: &str = "compaction";

/// The members that other dialects can express, each as `parent.member`.
const KNOWN: &[&str] = &[
    ".role",
    ".content",
    "content.type",
    "content.text",
    "content.id",
    "content.name",
    "content.input",
    "content.tool_use_id",
    "content.content",
    "content.is_error",
    "content.source",
    "content.thinking",
    "content.signature",
    "content.data",
    "content.title",
    "content.cache_control",
    "source.type",
    "source.media_type",
    "source.data",
    "source.url",
];
