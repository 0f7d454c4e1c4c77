//! Chats of Qwen Code: a tree of lines with messages in Gemini's format.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use lookback_wire::dialect::Dialect;
use serde_json::value::RawValue;

use super::tree::{Node, Tree};
use super::{Format, Reading, Source, gemini_cli};
use crate::draft::{Draft, Element};
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;

pub(super) struct QwenCode;

impl Format for QwenCode {
    fn name(&self) -> &'static str {
        "Qwen Code"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        let moved = [("QWEN_RUNTIME_DIR", ".qwen"), ("QWEN_HOME", ".qwen")];
        let mut folders: Vec<PathBuf> =
            moved.iter().map(|(variable, default)| home.below(variable, default, "projects")).collect();
        folders.dedup();
        folders.push(home.join(".qwen/tmp"));
        folders
    }

    /// The first versions kept chats as Gemini CLI does.
    fn is_log(&self, path: &Path) -> bool {
        let is_chat = path.components().any(|part| part.as_os_str() == "chats" || part.as_os_str() == "subagents");
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_session = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("session-"));
        is_chat && (ending == Some("jsonl") || (ending == Some("json") && is_session))
    }

    /// Recognizes Gemini's messages in an envelope like that of Claude Code.
    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any(|line| {
            line.has_all(&["uuid", "sessionId"]) && line.object("message").is_some_and(|message| message.has("parts"))
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let lines: Vec<_> =
            source.values().iter().filter_map(|(line, value)| Some((*line, Object::read(value)?))).collect();
        let node = |(line, object): &(usize, Object<'_>)| Node {
            line: *line,
            id: object.string("uuid"),
            parents: object.string("parentUuid").into_iter().collect(),
            side: None,
            time: object.time("timestamp"),
        };
        let nodes: Vec<Node> = lines.iter().map(node).collect();
        let tree = Tree::new(&nodes, reading);
        let mut newest = Vec::new();
        for members in tree.members() {
            newest.push((tree.newest(members.iter().copied(), reading), members));
        }
        for (newest, members) in newest {
            let Some(newest) = newest else { continue };
            // Lines of one name are parts of one message.
            let uuid = |at: usize| nodes.get(at).and_then(|node: &Node| node.id.as_deref());
            let chain = tree.chain(newest);
            let named: HashSet<&str> = chain.iter().filter_map(|at| uuid(*at)).collect();
            let chain: HashSet<usize> = chain.iter().copied().collect();
            let mut draft = Draft::new(reading.name, Dialect::Gemini);
            for at in members {
                let Some((line, object)) = lines.get(at) else { continue };
                let is_seen = chain.contains(&at) || uuid(at).is_some_and(|uuid| named.contains(uuid));
                if is_seen {
                    draft.id = object.string("sessionId").unwrap_or(draft.id);
                    draft.project = draft.project.or_else(|| object.string("cwd"));
                }
                if !add(&mut draft, *line, object, is_seen) {
                    reading.leave_out(*line, Reason::NoMessage);
                } else if !is_seen {
                    reading.leave_out(*line, Reason::OtherBranch);
                }
            }
            reading.push(draft)?;
        }
        Ok(())
    }
}

/// Adds a line to the conversation, or only its usage if the model did not see it later. Returns whether it has a message.
fn add(draft: &mut Draft<'_>, line: usize, object: &Object<'_>, is_seen: bool) -> bool {
    let time = object.time("timestamp");
    if object.text("subtype") == "chat_compression" {
        let payload = object.object("systemPayload");
        let history = payload.map(|payload| payload.objects("compressedHistory")).unwrap_or_default();
        // The new history begins with the summary.
        let summary = history.first().and_then(|first| Some(first.first("parts")?.text("text").into_owned()));
        if let Some(summary) = summary.filter(|_| is_seen) {
            draft.summary(line, time, &summary);
            let kept: HashSet<&str> = history.iter().skip(1).map(|message| message.whole().get()).collect();
            let is_kept = |(at, element): (usize, &Element)| kept.contains(element.message.get()).then_some(at);
            draft.kept(draft.elements.iter().enumerate().filter_map(is_kept).collect::<Vec<_>>());
        }
        return true;
    }
    if object.text("subtype") == "agent_bootstrap" {
        // An agent that was forked begins with the messages of the conversation that it left.
        let history = object.object("systemPayload").map(|payload| payload.objects("history")).unwrap_or_default();
        for message in history.iter().filter(|_| is_seen) {
            draft.raw(line, time, message.whole().to_owned());
        }
        return true;
    }
    let Some(message) = object.get("message").filter(|message| Object::read(message).is_some_and(|it| it.has("parts")))
    else {
        return false;
    };
    let is_answer = object.text("type") == "assistant";
    if is_seen {
        draft.raw(line, time, RawValue::to_owned(message));
    }
    if is_answer && let Some(metadata) = object.object("usageMetadata") {
        draft.used(is_seen, time, gemini_cli::metadata(&metadata, object.string("model")));
    }
    true
}
