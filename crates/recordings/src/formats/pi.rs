//! Sessions of pi: a tree of lines, of which the newest branch is the conversation.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, UserPart};

use super::parts::{Block, blocks, call, reasoning, result, words};
use super::tree::{Node, Tree};
use super::{Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct Pi;

impl Format for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        vec![home.below("PI_CODING_AGENT_DIR", ".pi/agent", "sessions")]
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any(|line| match &*line.text("type") {
            "session" => line.has("id") && line.has_any(&["cwd", "provider"]),
            "message" => {
                let role = line.object("message").map(|message| message.text("role"));
                line.has("timestamp") && role.is_some_and(|role| matches!(&*role, "toolResult" | "bashExecution"))
            }
            _ => false,
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let mut draft = Draft::new(reading.name, Dialect::Anthropic);
        let (mut lines, mut nodes) = (Vec::new(), Vec::new());
        for (line, value) in source.values() {
            let Some(object) = Object::read(value) else { continue };
            if object.text("type") == "session" {
                draft.id = object.string("id").unwrap_or(draft.id);
                draft.project = object.string("cwd");
                reading.leave_out(*line, Reason::NoMessage);
                continue;
            }
            nodes.push(Node {
                line: *line,
                id: object.string("id"),
                parents: object.string("parentId").into_iter().collect(),
                side: None,
                time: object.time("timestamp"),
            });
            lines.push((*line, object));
        }
        let tree = Tree::new(&nodes, reading);
        let Some(newest) = tree.newest(0..lines.len(), reading) else { return Ok(()) };
        let seen: HashSet<usize> = tree.chain(newest).into_iter().collect();
        let mut places = HashMap::new();
        for (at, (line, object)) in lines.iter().enumerate() {
            // A branch begins at a line that it shares with the others, so its lines are in the order of the file.
            if seen.contains(&at) {
                places.insert(object.string("id"), draft.elements.len());
                if !add(&mut draft, *line, object) {
                    let is_failed = object.object("message").is_some_and(|message| !is_sent(&message));
                    reading.leave_out(*line, if is_failed { Reason::OtherBranch } else { Reason::NoMessage });
                }
                if let Some(first) = object.string("firstKeptEntryId").and_then(|id| places.get(&Some(id))) {
                    draft.kept(*first..draft.elements.len());
                }
            } else {
                let reported = object.object("message").and_then(|message| usage(&message));
                if let Some(usage) = reported.or_else(|| usage(object)) {
                    draft.used(false, object.time("timestamp"), usage);
                }
                reading.leave_out(*line, Reason::OtherBranch);
            }
        }
        reading.push(draft)
    }
}

/// Adds a line to the conversation. Returns whether it has a message.
fn add(draft: &mut Draft<'_>, line: usize, object: &Object<'_>) -> bool {
    let time = object.time("timestamp");
    match &*object.text("type") {
        "message" => object.object("message").is_some_and(|message| add_message(draft, line, time, &message)),
        "compaction" => {
            if let Some(usage) = usage(object) {
                draft.used(false, time, usage);
            }
            draft.summary(line, time, &object.text("summary"));
            true
        }
        // What was found out on a branch that the person has left. The conversation goes on behind it.
        "branch_summary" => {
            if let Some(usage) = usage(object) {
                draft.used(false, time, usage);
            }
            draft.user(line, time, words(&object.text("summary")).map(UserPart::Text).into_iter().collect());
            true
        }
        // An extension's message, which the model sees as a person's.
        "custom_message" => {
            draft.user(line, time, said(object));
            true
        }
        "usage" => {
            if let Some(usage) = usage(object) {
                draft.used(false, time, usage);
            }
            false
        }
        _ => false,
    }
}

fn said(message: &Object<'_>) -> Vec<UserPart> {
    let content = message.get("content").map(|content| blocks(content, |_| None)).unwrap_or_default();
    content.into_iter().map(Block::user).collect()
}

fn add_message(draft: &mut Draft<'_>, line: usize, time: Option<Millis>, message: &Object<'_>) -> bool {
    let content = message.get("content");
    match &*message.text("role") {
        // Those of extensions, under an earlier and a later name, the model sees as a person's.
        "user" | "custom" | "hookMessage" => draft.user(line, time, said(message)),
        "assistant" => {
            let is_sent = is_sent(message);
            // Other providers' signatures are no signatures of thinking.
            let is_signed = message.str("api").is_none_or(|api| api.starts_with("anthropic"));
            let parts = message.objects("content");
            let parts = parts.iter().filter(|_| is_sent).filter_map(|block| part(block, is_signed)).collect();
            let before = draft.elements.len();
            draft.assistant(line, time, parts);
            if let Some(usage) = usage(message) {
                draft.used(draft.elements.len() > before, time, usage);
            }
            return is_sent;
        }
        "toolResult" => {
            let content = content.map(|content| blocks(content, |_| None)).unwrap_or_default();
            let content = content.into_iter().map(Block::result).collect();
            draft.user(line, time, vec![result(&message.text("toolCallId"), content, message.is("isError"))]);
        }
        // A command of the person's, which the model sees with its output.
        "bashExecution" if !message.is("excludeFromContext") => {
            let text = format!("Ran `{}`\n```\n{}\n```", message.text("command"), message.text("output"));
            draft.user(line, time, vec![Block::Text(text).user()]);
        }
        _ => return false,
    }
    true
}

/// Returns whether pi sends a message again. It does not if the answer failed or was stopped.
fn is_sent(message: &Object<'_>) -> bool {
    !matches!(&*message.text("stopReason"), "error" | "aborted")
}

fn part(block: &Object<'_>, is_signed: bool) -> Option<AssistantPart> {
    match &*block.text("type") {
        "text" => words(&block.text("text")).map(AssistantPart::Text),
        "thinking" => {
            let signature = block.str("thinkingSignature").filter(|_| is_signed);
            reasoning(&block.text("thinking"), signature.as_deref())
        }
        "toolCall" => Some(call(&block.text("id"), &block.text("name"), block.get("arguments"))),
        _ => None,
    }
}

fn usage(message: &Object<'_>) -> Option<RecordedUsage> {
    let reported = message.object("usage")?;
    let mut usage = RecordedUsage::new(0);
    usage.input = reported.tokens("input");
    usage.cache_read = reported.tokens("cacheRead");
    usage.cache_write = reported.tokens("cacheWrite");
    usage.output = reported.tokens("output");
    usage.model = message.string("model");
    (usage.sent() > 0 || usage.output > 0).then_some(usage)
}
