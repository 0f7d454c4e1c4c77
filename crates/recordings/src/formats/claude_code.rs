//! Session files of Claude Code: a tree of lines, of which the newest branch is the conversation that the model saw.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use lookback_content::json;
use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::tree::{Node, Tree};
use super::{Format, Reading, Source, side_chain};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::{Object, millis, parse};
use crate::recording::RecordedUsage;

pub(super) struct ClaudeCode;

impl Format for ClaudeCode {
    fn name(&self) -> &'static str {
        "Claude Code"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        vec![home.below("CLAUDE_CONFIG_DIR", ".claude", "projects"), home.join(".config/claude/projects")]
    }

    /// Recognizes a message in its envelope, or one of many other kinds of lines.
    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any(|line| {
            let of_session = line.has_any(&["sessionId", "session_id"]);
            match &*line.text("type") {
                "" => false,
                "user" | "assistant" => line.has("message") && (of_session || line.has_any(&["uuid", "parentUuid"])),
                "summary" => line.has("leafUuid"),
                "file-history-snapshot" => line.has("snapshot"),
                // A line of the SDK's stream.
                "system" | "result" | "stream_event" if line.has("session_id") => line.has_any(&["subtype", "event"]),
                // Messages of others may also name their session.
                kind => {
                    let is_other = line.has_any(&["role", "messages", "call_id", "data", "content"]);
                    line.has("sessionId") && (line.has_any(&["uuid", "leafUuid"]) || kind.contains('-') || !is_other)
                }
            }
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let lines = lines(source, reading);
        let nodes: Vec<Node> = lines.iter().map(|line| line.node()).collect();
        let tree = Tree::new(&nodes, reading);
        let (shapes, mut drafts) = (shapes(source), Vec::new());
        for members in tree.members() {
            drafts.extend(draft(&lines, &tree, &members, &shapes, reading));
        }
        // Commands that never reached the model leave conversations without an answer.
        if drafts.iter().any(|(_, is_answered)| *is_answered) {
            drafts.retain(|(_, is_answered)| *is_answered);
        }
        drafts.into_iter().try_for_each(|(draft, _)| reading.push(draft))
    }
}

/// A line of the file. All members are optional, because older versions do not write them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    // In a compaction: the last line before it.
    logical_parent_uuid: Option<String>,
    is_sidechain: Option<bool>,
    agent_id: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    // The names of these two members in the SDK's stream.
    #[serde(rename = "parent_tool_use_id")]
    parent_tool: Option<String>,
    #[serde(rename = "session_id")]
    stream_session: Option<String>,
    is_visible_in_transcript_only: Option<bool>,
    is_compact_summary: Option<bool>,
    is_api_error_message: Option<bool>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    attachment: Option<&'a RawValue>,
    #[serde(borrow)]
    compact_metadata: Option<&'a RawValue>,
}

/// A provider's message, with the reported usage.
#[derive(Deserialize)]
struct Inner<'a> {
    id: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Attachment<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Deserialize)]
struct Reported {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation: Option<Creation>,
}

/// For how long tokens were written to the cache.
#[derive(Clone, Copy, Deserialize)]
struct Creation {
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    tool_use_id: Option<String>,
}

/// A line that has a place in the tree.
struct Line<'a> {
    line: usize,
    uuid: Option<String>,
    // The line before this one, under one of two names.
    parents: [Option<String>; 2],
    // The side chain that the line belongs to.
    side: Option<String>,
    session: Option<String>,
    project: Option<String>,
    time: Option<Millis>,
    said: Option<Said<'a>>,
    /// About a compaction: which lines still stand behind the summary.
    compaction: Option<Object<'a>>,
}

impl Line<'_> {
    fn node(&self) -> Node {
        Node {
            line: self.line,
            id: self.uuid.clone(),
            parents: self.parents.iter().flatten().cloned().collect(),
            side: self.side.clone(),
            time: self.time,
        }
    }
}

/// The message, or part of one, that a line adds to the conversation.
struct Said<'a> {
    role: &'static str,
    content: &'a RawValue,
    // The provider's message that it is a part of.
    id: Option<String>,
    model: Option<String>,
    usage: Option<Reported>,
    is_summary: bool,
    calls: Vec<String>,
    results: Vec<String>,
}

/// Returns the lines that have a place in the tree, each once: a resumed session may contain copies.
fn lines<'a>(source: &Source<'a>, reading: &mut Reading<'_>) -> Vec<Line<'a>> {
    let mut known = HashSet::new();
    let mut lines = Vec::new();
    for (line, value) in source.values() {
        let Some(read) = parse::<Read<'a>>(value) else {
            reading.leave_out(*line, Reason::Unknown);
            continue;
        };
        let said = said(&read);
        if said.is_none() {
            reading.leave_out(*line, if looks_said(value) { Reason::Unknown } else { Reason::NoMessage });
        }
        if !read.uuid.as_ref().map_or(said.is_some(), |uuid| known.insert(uuid.clone())) {
            if said.is_some() {
                reading.leave_out(*line, Reason::Copy);
            }
            continue;
        }
        let unnamed = (read.is_sidechain == Some(true)).then(String::new);
        lines.push(Line {
            line: *line,
            uuid: read.uuid,
            parents: [read.parent_uuid, read.logical_parent_uuid],
            side: read.agent_id.or(unnamed).or(read.parent_tool),
            session: read.session_id.or(read.stream_session),
            project: read.cwd,
            time: read.timestamp.and_then(millis),
            said,
            compaction: read.compact_metadata.and_then(Object::read),
        });
    }
    lines
}

/// Returns the newest system prompt and tools of the person's conversation and of each side chain, which newer versions
/// record.
fn shapes<'a>(source: &Source<'a>) -> HashMap<Option<String>, Object<'a>> {
    let of_line = |(_, value): &(usize, &'a RawValue)| {
        let is_shape = value.get().contains("\"api-request-shape\"");
        let line = is_shape.then(|| Object::read(value))??;
        Some((line.string("agentId"), line.object("shape")?))
    };
    source.values().iter().filter_map(of_line).collect()
}

/// Returns whether a line that is not read has a message in it, under a kind that is not known.
fn looks_said(value: &RawValue) -> bool {
    let known = ["user", "assistant", "progress", "system", "attachment", "api-request-blob"];
    let Some(line) = Object::read(value) else { return false };
    !known.contains(&&*line.text("type")) && line.object("message").is_some_and(|message| message.has("content"))
}

fn said<'a>(line: &Read<'a>) -> Option<Said<'a>> {
    let is_summary = line.is_compact_summary == Some(true);
    let role = match line.kind.as_deref()? {
        // A summary also has this mark, but it was sent to the model.
        "user" if line.is_visible_in_transcript_only == Some(true) && !is_summary => return None,
        "user" => "user",
        "assistant" => "assistant",
        "attachment" => return queued(line),
        _ => return None,
    };
    let inner: Inner<'a> = parse(line.message?)?;
    // Claude Code writes these instead of the model, for example after a failed request.
    if line.is_api_error_message == Some(true) || inner.model.as_deref() == Some("<synthetic>") {
        return None;
    }
    let content = inner.content?;
    let (calls, results) = pairs(content);
    let usage = inner.usage.and_then(parse);
    Some(Said { role, content, id: inner.id, model: inner.model, usage, is_summary, calls, results })
}

/// Returns a message that a person wrote while the model was working. It is only in an attachment.
fn queued<'a>(line: &Read<'a>) -> Option<Said<'a>> {
    let attachment: Attachment<'a> = parse(line.attachment?)?;
    if attachment.kind.as_deref() != Some("queued_command") {
        return None;
    }
    let content = attachment.prompt?;
    let (calls, results) = (Vec::new(), Vec::new());
    Some(Said { role: "user", content, id: None, model: None, usage: None, is_summary: false, calls, results })
}

fn blocks(content: &RawValue) -> Vec<&RawValue> {
    parse(content).unwrap_or_default()
}

/// Returns the identifiers of a message's tool calls, and those of the calls that it answers.
fn pairs(content: &RawValue) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for block in blocks(content).into_iter().filter_map(parse::<Block>) {
        match block.kind.as_deref() {
            Some("tool_use") => calls.extend(block.id),
            Some("tool_result") => results.extend(block.tool_use_id),
            _ => {}
        }
    }
    (calls, results)
}

/// Builds a draft of a tree's newest branch.
///
/// The lines of one message may be on several branches: if it has several calls, each line is followed by its result,
/// and only one of these results by the next message. So the parts of a message are taken from all branches.
fn draft<'a>(
    lines: &[Line<'a>],
    tree: &Tree,
    members: &[usize],
    shapes: &HashMap<Option<String>, Object<'a>>,
    reading: &mut Reading<'_>,
) -> Option<(Draft<'a>, bool)> {
    let get = |at: usize| lines.get(at).and_then(|line| Some((line, line.said.as_ref()?)));
    let newest = tree.newest(members.iter().copied().filter(|at| get(*at).is_some()), reading)?;
    let chain = tree.chain(newest);
    let mut parts: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut results: HashMap<&str, usize> = HashMap::new();
    for at in members.iter().copied() {
        let Some((_, said)) = get(at) else { continue };
        if said.role == "assistant"
            && let Some(id) = said.id.as_deref()
        {
            parts.entry(id).or_default().push(at);
        }
        for call in &said.results {
            results.entry(call).or_insert(at);
        }
    }
    let on_chain = chain.iter().filter_map(|at| get(*at)).flat_map(|(_, said)| &said.results);
    let answered: HashSet<&str> = on_chain.map(String::as_str).collect();

    let mut draft = Draft::new("", Dialect::Anthropic);
    let (mut done, mut is_answered) = (HashSet::new(), false);
    let (mut places, mut compaction) = (HashMap::new(), None);
    for at in chain {
        compaction = lines.get(at).and_then(|line| line.compaction.as_ref()).or(compaction);
        let Some((line, said)) = get(at) else { continue };
        places.insert(line.uuid.as_deref(), draft.elements.len());
        if !done.insert(at) {
            continue;
        }
        if said.role == "user" {
            if said.is_summary {
                draft.compactions.push(draft.elements.len());
                draft.kept(preserved(compaction.take(), &places));
            }
            add(&mut draft, line, said.role, &[said.content]);
            continue;
        }
        is_answered = true;
        let own = [at];
        let parts = said.id.as_deref().and_then(|id| parts.get(id)).map_or(own.as_slice(), Vec::as_slice);
        done.extend(parts.iter().copied());
        let parts: Vec<_> = parts.iter().filter_map(|at| get(*at)).collect();
        let contents: Vec<_> = parts.iter().map(|(_, said)| said.content).collect();
        add(&mut draft, line, said.role, &contents);
        // The last line of a message has its final usage.
        if let Some(usage) = usage(parts.iter().map(|(_, said)| *said)) {
            draft.used(true, None, usage);
        }
        for call in parts.iter().flat_map(|(_, said)| &said.calls).filter(|call| !answered.contains(call.as_str())) {
            let result = results.get(call.as_str()).copied().filter(|at| done.insert(*at));
            if let Some((line, said)) = result.and_then(get) {
                add(&mut draft, line, said.role, &[said.content]);
            }
        }
    }
    leave_out_others(&mut draft, lines, members, &done, reading);
    let line = lines.get(newest)?;
    let session = line.session.as_deref().unwrap_or(reading.name);
    draft.id = match line.side.as_deref() {
        None => session.to_owned(),
        Some("") => side_chain(session, "unnamed"),
        Some(agent) => side_chain(session, agent),
    };
    if let Some(shape) = shapes.get(&line.side) {
        (draft.system, draft.tools) = (shape.get("system"), shape.get("tools"));
    }
    draft.project = members.iter().find_map(|at| lines.get(*at)?.project.clone());
    Some((draft, is_answered))
}

/// Returns the elements that stand behind a summary: all from one line to another, or those of some lines.
fn preserved(compaction: Option<&Object<'_>>, places: &HashMap<Option<&str>, usize>) -> Vec<usize> {
    let Some(compaction) = compaction else { return Vec::new() };
    let place = |uuid: &str| places.get(&Some(uuid)).copied();
    if let Some(segment) = compaction.object("preservedSegment") {
        let ends = (place(&segment.text("headUuid")), place(&segment.text("tailUuid")));
        return if let (Some(head), Some(tail)) = ends { (head..=tail).collect() } else { Vec::new() };
    }
    let messages = compaction.object("preservedMessages");
    let uuids = messages.and_then(|messages| messages.list("allUuids").or_else(|| messages.list("uuids")));
    uuids.unwrap_or_default().into_iter().filter_map(|uuid| place(&json::text(uuid)?)).collect()
}

/// Leaves out the messages of other branches. Their calls were paid for, too.
fn leave_out_others(
    draft: &mut Draft<'_>,
    lines: &[Line<'_>],
    members: &[usize],
    done: &HashSet<usize>,
    reading: &mut Reading<'_>,
) {
    let mut messages: HashMap<&str, Vec<&Said<'_>>> = HashMap::new();
    let mut times = Vec::new();
    for line in members.iter().filter(|at| !done.contains(at)).filter_map(|at| lines.get(*at)) {
        let Some(said) = &line.said else { continue };
        reading.leave_out(line.line, Reason::OtherBranch);
        if let Some(id) = said.id.as_deref() {
            let parts = messages.entry(id).or_default();
            if parts.is_empty() {
                times.push((id, line.time));
            }
            parts.push(said);
        }
    }
    for (id, time) in times {
        if let Some(usage) = messages.get(id).and_then(|parts| usage(parts.iter().copied())) {
            draft.used(false, time, usage);
        }
    }
}

/// Adds a message as the provider received or returned it, with the blocks of all its lines, each once.
fn add(draft: &mut Draft<'_>, line: &Line<'_>, role: &str, contents: &[&RawValue]) {
    let content = match contents {
        [only] => only.get().to_owned(),
        _ => {
            let own = |content: &&RawValue| -> Vec<String> {
                if content.get().starts_with('"') {
                    return vec![format!(r#"{{"type":"text","text":{}}}"#, content.get())];
                }
                blocks(content).into_iter().map(|block| block.get().to_owned()).collect()
            };
            let mut seen = HashSet::new();
            let all: Vec<String> = contents.iter().flat_map(own).filter(|block| seen.insert(block.clone())).collect();
            format!("[{}]", all.join(","))
        }
    };
    if let Ok(message) = RawValue::from_string(format!(r#"{{"role":"{role}","content":{content}}}"#)) {
        draft.raw(line.line, line.time, message);
    }
}

/// Returns the usage of a message, which its last line has.
fn usage<'a>(parts: impl DoubleEndedIterator<Item = &'a Said<'a>> + Clone) -> Option<RecordedUsage> {
    let reported = parts.clone().rev().find_map(|said| said.usage)?;
    let mut usage = RecordedUsage::new(0);
    usage.input = reported.input_tokens.unwrap_or(0);
    usage.cache_write = reported.cache_creation_input_tokens.unwrap_or(0);
    usage.cache_read = reported.cache_read_input_tokens.unwrap_or(0);
    usage.cache_write_hour = reported.cache_creation.and_then(|it| it.ephemeral_1h_input_tokens).unwrap_or(0);
    usage.output = reported.output_tokens.unwrap_or(0);
    usage.model = parts.rev().find_map(|said| said.model.clone());
    Some(usage)
}
