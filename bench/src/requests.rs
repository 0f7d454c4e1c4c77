//! Checks real requests against the rules, and compares token counts with the tokens that the providers reported.
//!
//! The file is gzipped. Each line is a JSON object with `dialect`, `path` (of the URL), `status`, `body` (the text that
//! the client sent) and `usage` (as the provider reported it).

use std::collections::BTreeMap;

use lookback_engine::{Engine, Settings, policy::Policy};
use lookback_wire::dialect::Severity;
use lookback_wire::dialect::{Dialect, RawRequest, Request};
use serde_json::Value;

use crate::{median, mutants};

/// A request, with the status and the usage from its provider.
struct Recorded {
    status: u64,
    dialect: Dialect,
    path: String,
    body: String,
    /// The input tokens that the provider reported, or 0.
    reported: u64,
}

/// The families of models. A model belongs to the first family whose word is in the model's name.
const FAMILIES: [&str; 24] = [
    "claude",
    "gpt-oss",
    "gpt-3",
    "gpt-4",
    "gpt-5",
    "gpt-6",
    "o1",
    "o3",
    "o4",
    "gemini-1",
    "gemini-2",
    "gemini-3",
    "gemma",
    "nova",
    "deepseek-r1",
    "deepseek",
    "qwen",
    "mistral",
    "llama",
    "grok",
    "sonar",
    "kimi",
    "glm",
    "minimax",
];

/// Keys of a body with which the provider uses more than the request shows.
const STORED: [&str; 11] = [
    "container",
    "mcp_servers",
    "models",
    "web_search_options",
    "preset",
    "plugins",
    "conversation",
    "cachedContent",
    "previous_response_id",
    "prompt",
    "fallbacks",
];

pub fn run(file: &str) {
    let with =
        |status: u64| read(file).into_iter().filter(move |recorded| recorded.status == status).collect::<Vec<_>>();
    let (accepted, refused) = (with(200), with(400));
    judge(&accepted);
    let found = |recorded: &&Recorded| !recorded.dialect.check(&decoded(recorded)).is_empty();
    println!(
        "\nOf {} requests that a provider refused, the rules find {}",
        refused.len(),
        refused.iter().filter(found).count()
    );
    break_them(&accepted);
    count(&accepted);
}

/// Checks the requests, and compares each with the window of a session that drops nothing.
fn judge(requests: &[Recorded]) {
    println!("Accepted requests, with and without the path of their URL\n");
    println!("{:<28} {:>8} {:>13} {:>8} {:>8}", "", "requests", "false alarms", "warned", "changed");
    for (name, knows_path) in [("with", true), ("without", false)] {
        let (mut alarms, mut warned, mut changed) = (0, 0, 0);
        for recorded in requests {
            let request = if knows_path { decoded(recorded) } else { bare(recorded) };
            let found = recorded.dialect.check(&request);
            let refused = found.iter().any(|finding| finding.severity != Severity::Degraded);
            alarms += u32::from(refused);
            warned += u32::from(!refused && !found.is_empty());
            changed += u32::from(window(&request, recorded) != recorded.body);
        }
        println!("{name:<28} {:>8} {alarms:>13} {warned:>8} {changed:>8}", requests.len());
    }
}

/// Breaks the requests in the ways that rules forbid, and checks the mutants.
fn break_them(requests: &[Recorded]) {
    println!("\nThe same requests, each with one defect\n");
    println!("{:<60} {:>8} {:>8} {:>8}", "", "mutants", "found", "warned");
    let mut unreadable = 0;
    let mut rows: BTreeMap<String, [u32; 3]> = BTreeMap::new();
    for recorded in requests {
        let body: Value = serde_json::from_str(&recorded.body).expect("JSON");
        for mutant in mutants::all(recorded.dialect, &recorded.path, &body) {
            let text = mutant.body.replace(mutants::HALF, "half: \\ud83d");
            let found = match Request::decode(text.as_bytes(), Some(recorded.dialect)) {
                Ok(request) => recorded.dialect.check(&request.with_path(&recorded.path)),
                // `lookback check` also reports that such a body is not a request.
                Err(_) => {
                    unreadable += 1;
                    continue;
                }
            };
            let refused = found.iter().any(|finding| finding.severity != Severity::Degraded);
            for name in [format!("{}: {}", recorded.dialect, mutant.kind), "~ all".to_owned()] {
                let [made, caught, warned] = rows.entry(name).or_default();
                (*made, *caught) = (*made + 1, *caught + u32::from(refused));
                *warned += u32::from(!refused && !found.is_empty());
            }
        }
    }
    for (name, [made, found, warned]) in rows {
        println!("{name:<60} {made:>8} {found:>8} {warned:>8}");
    }
    println!("{unreadable} more mutants cannot be decoded");
}

/// Returns the body with the messages of a window that drops nothing.
fn window(request: &Request, recorded: &Recorded) -> String {
    let mut engine = engine(request);
    engine.window();
    let sent = engine.view().encode(engine.target().clone()).expect("messages of their dialect");
    let raw = RawRequest::read(&recorded.body, Some(recorded.dialect)).expect("a request");
    raw.change().messages(&sent).write()
}

/// Counts the tokens of the requests, and compares the counts with the reported tokens.
fn count(requests: &[Recorded]) {
    println!("\nCounted tokens / reported tokens, of requests without stored contents and hosted tools\n");
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}", "", "requests", "median", "off 50 %", "off 95 %");
    let mut rows: BTreeMap<(u8, String), Vec<f64>> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.reported > 0 && is_whole(request)) {
        let decoded = decoded(request);
        let target = decoded.target().clone();
        let ratio = counted(&decoded) as f64 / request.reported as f64;
        rows.entry((0, request.dialect.to_string())).or_default().push(ratio);
        let model = target.model.unwrap_or_default().to_lowercase();
        let model = ["ministral", "codestral", "pixtral", "voxtral", "devstral"]
            .iter()
            .fold(model, |model, name| model.replace(name, "mistral"));
        let family = FAMILIES.iter().find(|family| model.contains(**family)).unwrap_or(&"other");
        rows.entry((1, family.to_string())).or_default().push(ratio);
    }
    for ((_, name), ratios) in rows.into_iter().filter(|(_, ratios)| ratios.len() >= 20) {
        let off = |share: f64| {
            let mut off: Vec<f64> = ratios.iter().map(|ratio| ratio.max(1.0 / ratio)).collect();
            off.sort_by(f64::total_cmp);
            off[((off.len() - 1) as f64 * share).round() as usize]
        };
        println!(
            "{name:<28} {:>8} {:>8.2} {:>8.2} {:>8.2}",
            ratios.len(),
            median(ratios.iter().copied()),
            off(0.5),
            off(0.95)
        );
    }
}

fn read(file: &str) -> Vec<Recorded> {
    let file = std::fs::File::open(file).expect("a file");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).expect("gzipped text");
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a JSON object");
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        Recorded {
            status: line["status"].as_u64().unwrap_or(0),
            dialect: text("dialect").parse().expect("a dialect"),
            path: text("path"),
            body: text("body"),
            reported: reported(&line["usage"]),
        }
    };
    text.lines().map(line).collect()
}

/// Returns the input tokens of a provider's usage, including cached ones.
fn reported(usage: &Value) -> u64 {
    let of = |names: &[&str]| names.iter().filter_map(|name| usage[name].as_u64()).sum::<u64>();
    let alone = of(&["prompt_tokens", "promptTokenCount"]);
    let cached =
        ["cache_creation_input_tokens", "cache_read_input_tokens", "cacheReadInputTokens", "cacheWriteInputTokens"];
    if alone > 0 { alone } else { of(&["input_tokens", "inputTokens"]) + of(&cached) }
}

fn decoded(recorded: &Recorded) -> Request {
    bare(recorded).with_path(&recorded.path)
}

fn bare(recorded: &Recorded) -> Request {
    Request::decode(recorded.body.as_bytes(), Some(recorded.dialect)).expect("a request")
}

/// Returns the tokens of a window that drops nothing from the request.
fn counted(request: &Request) -> u64 {
    engine(request).view().totals().size.tokens
}

fn engine(request: &Request) -> Engine {
    let settings = Settings::for_target(request.target()).policy(Policy::unlimited());
    let mut engine = Engine::new(settings);
    engine.set_target(request.target());
    engine.set_preamble(request.preamble());
    for message in request.messages() {
        engine.push(message.clone()).expect("a message of its dialect");
    }
    engine
}

/// Returns whether the model saw only the contents of the request, and nothing that the provider stored or added.
fn is_whole(request: &Recorded) -> bool {
    let body: Value = serde_json::from_str(&request.body).expect("JSON");
    let stored =
        STORED.iter().any(|name| body.get(name).is_some_and(|value| !value.is_null() && *value != Value::Bool(false)));
    let tools = body.get("tools").or_else(|| body.pointer("/toolConfig/tools"));
    let hosted = tools.is_some_and(|tools| match tools {
        Value::Array(tools) => tools.iter().any(is_hosted),
        tool => is_hosted(tool),
    });
    let messages = ["messages", "input", "contents"].iter().find_map(|name| body.get(name));
    !stored && !hosted && !messages.is_some_and(refers)
}

/// Returns whether a tool runs at the provider.
fn is_hosted(tool: &Value) -> bool {
    let Some(members) = tool.as_object() else { return false };
    let own = ["functionDeclarations", "function_declarations", "toolSpec", "cachePoint", "function"];
    match tool["type"].as_str() {
        Some(kind) => !["function", "custom"].contains(&kind),
        None => !members.contains_key("name") && !members.keys().all(|name| own.contains(&name.as_str())),
    }
}

/// Returns whether messages refer to contents at the provider, or show tools that ran there.
fn refers(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(refers),
        Value::Object(members) => members.iter().any(|(name, value)| match (name.as_str(), value.as_str()) {
            // The inputs and outputs of tools refer to nothing.
            ("input" | "args" | "arguments" | "response" | "json", _) if !value.is_array() => false,
            ("type", Some(kind)) => {
                let own = ["function_call", "custom_tool_call", "tool_search_call", "tool_call"];
                kind.ends_with("_call") && !own.contains(&kind)
                    || ["server_tool_use", "mcp_tool_use", "container_upload", "item_reference", "compaction"]
                        .contains(&kind)
            }
            ("file_id" | "s3Location", _) => true,
            // Only the provider knows the contents at these addresses, and the contents of its compactions.
            ("fileUri" | "file_uri" | "file_url" | "document_url" | "url", Some(uri)) => !uri.starts_with("data:"),
            ("image_url", Some(uri)) => !uri.starts_with("data:"),
            ("executableCode" | "codeExecutionResult" | "toolCall" | "toolResponse" | "s3_location", _) => true,
            _ => refers(value),
        }),
        _ => false,
    }
}
