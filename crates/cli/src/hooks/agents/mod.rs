//! The agents that have hooks, a file each: their events, and the answers that they read.

mod claude_code;
mod codex;
mod gemini_cli;
mod plugin;
mod qwen_code;

use std::path::PathBuf;

use serde_json::Value;

use super::event::{Event, What};

/// The agents that have hooks. Add a line for each.
pub(crate) const ALL: &[&dyn Hooked] = &[
    &claude_code::ClaudeCode,
    &codex::Codex,
    &gemini_cli::GeminiCli,
    &qwen_code::QwenCode,
    &plugin::OPENCODE,
    &plugin::PI,
];

/// What a model reads before a shortened result that its agent shows as an error.
pub(super) const NO_ERROR: &str = "This is no error: the tool has succeeded, and its output was shortened.\n";

/// The hooks of an agent.
pub(crate) trait Hooked: Sync {
    /// The agent's name on the command line and in the names of sessions.
    fn slug(&self) -> &'static str;

    /// Reads an event. `None` for one that needs no answer and changes nothing.
    fn event(&self, input: &Value) -> Option<Event>;

    /// Returns the answer that replaces the text at a place of a tool's result.
    fn with_result(&self, input: &Value, pointer: &str, text: &str) -> String;

    /// Returns the answer that adds a text to the model's context.
    fn with_context(&self, input: &Value, text: &str) -> String;

    /// Whether all conversations are in one log.
    fn has_one_log(&self) -> bool {
        false
    }

    /// Whether only the log says that the agent has compacted its history.
    fn compacts_silently(&self) -> bool {
        false
    }
}

/// Returns the agent with this name.
pub(crate) fn find(slug: &str) -> Option<&'static dyn Hooked> {
    ALL.iter().copied().find(|agent| agent.slug() == slug)
}

/// Returns an event with the members that all agents name alike: `session_id`, `cwd` and `transcript_path`.
fn event(input: &Value, what: What) -> Option<Event> {
    /// The arguments with which tools name a file or a folder.
    const PATHS: [&str; 5] = ["file_path", "filePath", "absolute_path", "path", "notebook_path"];
    let folder = text(input, "cwd").map(PathBuf::from)?;
    let arguments = input.get("tool_input").or_else(|| input.get("arguments"));
    let files = PATHS.iter().filter_map(|name| Some(folder.join(text(arguments?, name)?)));
    Some(Event {
        places: files.chain([folder.clone()]).collect(),
        session: text(input, "session_id")?.to_owned(),
        folder,
        log: text(input, "transcript_path").map(PathBuf::from),
        what,
    })
}

/// Returns whether a tool reads what was cut, so that its results must not be cut again.
fn recalls(tool: &str) -> bool {
    tool.ends_with("recall")
}

/// Returns a member of an object that is a text.
fn text<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    input.get(name)?.as_str()
}

/// Finds the longest text in a value for which `may_be_shown` says that the model sees it, by the name of its member.
/// Returns its place as a JSON pointer.
fn longest(value: &Value, may_be_shown: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    let mut found = Vec::new();
    texts(value, String::new(), may_be_shown, &mut found);
    let (at, text) = found.into_iter().max_by_key(|(_, text)| text.len())?;
    Some((at, text.to_owned()))
}

/// Finds the texts in a value that `may_be_shown` lets pass, each with its place.
fn texts<'a>(value: &'a Value, at: String, may_be_shown: &dyn Fn(&str) -> bool, found: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => found.push((at, text)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| texts(item, format!("{at}/{index}"), may_be_shown, found));
        }
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| may_be_shown(name)) {
                let step = name.replace('~', "~0").replace('/', "~1");
                texts(value, format!("{at}/{step}"), may_be_shown, found);
            }
        }
        _ => {}
    }
}

/// Returns a value with another text at a place.
fn replaced(value: &Value, pointer: &str, text: &str) -> Value {
    let mut value = value.clone();
    if let Some(place) = value.pointer_mut(pointer) {
        *place = Value::String(text.to_owned());
    }
    value
}
