//! Large results, and calls of tools that were repeated.

use std::collections::HashMap;

use lookback_engine::transcript::Millis;
use lookback_recordings::Recording;
use lookback_tokens::TokenCounter;
use lookback_wire::message::{ResultItem, ToolCall, ToolResult};
use serde::Serialize;
use serde_json::Value;

use super::call::Call;

/// The fewest tokens of a large result.
const LARGE: u64 = 4_000;
/// Shorter texts than this, in bytes, have fewer tokens than a large result.
const SHORT: usize = 8_000;
/// The most large results and repeated calls of a conversation.
const MOST: usize = 20;
/// How often a call is made before it counts as repeated.
const OFTEN: u64 = 3;
/// The members of a call that say what it is about.
const ABOUT: [&str; 10] =
    ["file_path", "filePath", "absolute_path", "path", "target_file", "filename", "command", "cmd", "pattern", "query"];
/// The members of a call that writes.
const WRITES: [&str; 10] = [
    "content",
    "new_string",
    "newString",
    "old_string",
    "oldString",
    "edits",
    "diff",
    "patch",
    "file_text",
    "insert_text",
];

/// A result of a tool with many tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LargeResult {
    /// The index of its message.
    pub message: usize,
    /// The tool.
    pub tool: String,
    /// The file or command that it is about, if known.
    pub about: String,
    /// Its tokens.
    pub tokens: u64,
    /// The number of calls that sent it.
    pub calls: u64,
}

/// A call of a tool that was made several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repeat {
    /// The index of the message with the last call.
    pub message: usize,
    /// The tool.
    pub tool: String,
    /// The file or command that it is about.
    pub about: String,
    /// How often it was called.
    pub times: u64,
    /// The tokens of all results but the first, estimated from their bytes.
    pub tokens: u64,
}

/// Returns the large results of a recording, and its repeated calls. Those with the most tokens come first.
pub(super) fn results(
    recording: &Recording,
    calls: &[Call],
    counter: &dyn TokenCounter,
    is_new: impl Fn(Option<Millis>) -> bool,
) -> (Vec<LargeResult>, Vec<Repeat>) {
    let (mut made, mut large): (HashMap<&str, &ToolCall>, _) = (HashMap::new(), Vec::new());
    let mut repeats: HashMap<(&str, String), Repeat> = HashMap::new();
    for (message, recorded) in recording.messages.iter().enumerate() {
        made.extend(recorded.message.tool_calls().map(|(_, call)| (call.id.as_str(), call)));
        if !is_new(recorded.time) {
            continue;
        }
        for (_, result) in recorded.message.tool_results() {
            let Some(call) = made.get(result.call_id.as_str()) else { continue };
            let (about, is_read) = about(call);
            let bytes = bytes(result);
            if is_read && !about.is_empty() && !result.error {
                let repeat = repeats.entry((call.name.as_str(), about.clone())).or_insert_with(|| Repeat {
                    message,
                    tool: call.name.clone(),
                    about: about.clone(),
                    times: 0,
                    tokens: 0,
                });
                repeat.tokens += if repeat.times > 0 { bytes as u64 / 4 } else { 0 };
                (repeat.times, repeat.message) = (repeat.times + 1, message);
            }
            let tokens = if bytes < SHORT { 0 } else { result.content.iter().map(|item| tokens(item, counter)).sum() };
            if tokens >= LARGE {
                let until = recording.compactions.iter().copied().find(|summary| *summary > message);
                let is_carried =
                    |call: &&Call| call.message > message && until.is_none_or(|until| call.message < until);
                let calls = calls.iter().filter(is_carried).count() as u64;
                large.push(LargeResult { message, tool: call.name.clone(), about, tokens, calls });
            }
        }
    }
    large.sort_by_key(|result| std::cmp::Reverse((result.tokens * result.calls.max(1), result.message)));
    large.truncate(MOST);
    let mut repeats: Vec<Repeat> = repeats.into_values().filter(|repeat| repeat.times >= OFTEN).collect();
    repeats.sort_by_key(|repeat| std::cmp::Reverse((repeat.tokens, repeat.message)));
    repeats.truncate(MOST);
    (large, repeats)
}

fn bytes(result: &ToolResult) -> usize {
    let length = |item: &ResultItem| match item {
        ResultItem::Text(text) => text.len(),
        _ => 0,
    };
    result.content.iter().map(length).sum()
}

fn tokens(item: &ResultItem, counter: &dyn TokenCounter) -> u64 {
    match item {
        ResultItem::Text(text) => counter.text(text),
        _ => 0,
    }
}

/// Returns the file or the command that a call is about, and whether the call only reads.
fn about(call: &ToolCall) -> (String, bool) {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return (String::new(), false) };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        // Codex has the words of a command.
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    };
    let about = ABOUT.iter().find_map(|member| arguments.get(*member).and_then(text));
    let is_read = !WRITES.iter().any(|member| arguments.contains_key(*member));
    (about.unwrap_or_default(), is_read)
}
