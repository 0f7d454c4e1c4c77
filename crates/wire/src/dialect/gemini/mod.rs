//! Gemini's generateContent, whose contents have a role and parts, and whose results may name only their tool.

mod reading;
mod rules;
mod writing;

use serde_json::json;
use serde_json::value::RawValue;

use self::reading::{decode, response, signatures};
use self::rules::{GM8, RULES, check, refuses_blank};
use self::writing::{edit, mend, render, tool};
use super::api::Api;
use super::blocks::{BlockFormat, Merges};
use super::format::Format;
use super::{Dialect, Quirks, Target, blocks, detect, provider_error, stitch, stream};
use crate::start::Start;
use lookback_content::json::Fields;

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
    call_bans: &[("toolConfig", &["\"NONE\""]), ("tool_config", &["\"NONE\""])],
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
    seam: Some(|| Box::<stitch::gemini::Chunks>::default()),
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

/// The member of a response that has the result, if the result is only a text.
const OUTPUT: &str = "output";

/// The member of a response that says that the tool failed.
const ERROR: &str = "error";

/// Returns whether the model demands signatures of its calls, or `None` if that is unknown.
fn demands_signatures(target: &Target) -> Option<bool> {
    target.is_model(|model| {
        let version = model.split_once("gemini-").map(|(_, version)| version);
        let number = version.and_then(|version| version.split(|char: char| !char.is_ascii_digit()).next());
        // A name without a number, such as `gemini-flash-latest`, is the name of a newest model.
        number.is_some_and(|number| number.is_empty() || number.parse::<u32>().is_ok_and(|number| number >= 3))
    })
}

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
