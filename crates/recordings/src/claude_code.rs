//! Session files of Claude Code: a tree of lines, of which the newest branch is the conversation that the model saw.

use std::collections::{BTreeMap, HashMap, HashSet};

use lookback_engine::transcript::Millis;
use lookback_wire::{dialect::Dialect, message::Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Draft, RecordedMessage, RecordedUsage, Recording, RecordingError, Undecoded, millis, most, parse, values};

/// Reads the conversations of a file. It skips all other lines: there are many kinds, and new versions add more.
pub(super) fn read(text: &str, name: &str) -> Result<Vec<Recording>, RecordingError> {
    let nodes = nodes(values::read_growing(text)?);
    let parents = parents(&nodes);
    let mut trees: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, root) in roots(&parents).into_iter().enumerate() {
        trees.entry(root).or_default().push(at);
    }
    let mut recordings = Vec::new();
    for members in trees.values() {
        if let Some(draft) = draft(&nodes, &parents, members, name) {
            recordings.push(draft.decode(Some(Dialect::Anthropic))?);
        }
    }
    // Commands that never reached the model leave conversations without an answer.
    let is_answer = |recorded: &RecordedMessage| recorded.message.role() == Role::Assistant;
    let is_answered = |recording: &Recording| recording.messages.iter().any(is_answer);
    if recordings.iter().any(is_answered) {
        recordings.retain(is_answered);
    }
    let mut names: HashMap<String, usize> = HashMap::new();
    for recording in &mut recordings {
        let count = names.entry(recording.id.clone()).or_default();
        *count += 1;
        if *count > 1 {
            recording.id = format!("{}-{count}", recording.id);
        }
    }
    Ok(recordings)
}

/// A line of the file. All members are optional, because older versions do not write them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    // In a compaction: the last line before it.
    logical_parent_uuid: Option<String>,
    is_sidechain: Option<bool>,
    agent_id: Option<String>,
    session_id: Option<String>,
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
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    tool_use_id: Option<String>,
}

/// A line that has a place in the tree.
struct Node<'a> {
    line: usize,
    uuid: Option<String>,
    // The line before this one, under one of two names.
    parents: [Option<String>; 2],
    // The side chain that the line belongs to.
    side: Option<String>,
    session: Option<String>,
    time: Option<Millis>,
    said: Option<Said<'a>>,
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
fn nodes<'a>(values: Vec<(usize, &'a RawValue)>) -> Vec<Node<'a>> {
    let mut known = HashSet::new();
    let node = |(line, value): (usize, &'a RawValue)| {
        let read: Line<'a> = parse(value)?;
        let said = said(&read);
        let is_new = read.uuid.as_ref().map_or(said.is_some(), |uuid| known.insert(uuid.clone()));
        let unnamed = (read.is_sidechain == Some(true)).then(String::new);
        is_new.then(|| Node {
            line,
            uuid: read.uuid,
            parents: [read.parent_uuid, read.logical_parent_uuid],
            side: read.agent_id.or(unnamed).or(read.parent_tool),
            session: read.session_id.or(read.stream_session),
            time: read.timestamp.and_then(millis),
            said,
        })
    };
    values.into_iter().filter_map(node).collect()
}

fn said<'a>(line: &Line<'a>) -> Option<Said<'a>> {
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
fn queued<'a>(line: &Line<'a>) -> Option<Said<'a>> {
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

/// Returns the parent of each line. A side chain never continues another chain, even if its lines say so.
fn parents(nodes: &[Node<'_>]) -> Vec<Option<usize>> {
    if !nodes.iter().any(|node| node.parents.iter().any(Option::is_some)) {
        // The SDK's stream names no parents: each line follows the one before it.
        let mut last = HashMap::new();
        return nodes.iter().enumerate().map(|(at, node)| last.insert(&node.side, at)).collect();
    }
    let places = nodes.iter().enumerate().filter_map(|(at, node)| Some((node.uuid.as_ref()?, (at, &node.side))));
    let places: HashMap<_, _> = places.collect();
    let parent = |node: &Node<'_>| {
        let found = |uuid: &String| places.get(uuid).filter(|(_, side)| **side == node.side).map(|(at, _)| *at);
        node.parents.iter().flatten().find_map(found)
    };
    nodes.iter().map(parent).collect()
}

/// Returns for each line the first line of its tree. A cycle, as in some real files, is a separate tree.
fn roots(parents: &[Option<usize>]) -> Vec<usize> {
    let mut roots: Vec<Option<usize>> = vec![None; parents.len()];
    for start in 0..parents.len() {
        let (mut path, mut at) = (Vec::new(), start);
        let root = loop {
            let Some(known) = roots.get_mut(at) else { break start };
            if let Some(root) = *known {
                break root;
            }
            *known = Some(start);
            path.push(at);
            match parents.get(at).copied().flatten() {
                Some(parent) => at = parent,
                None => break at,
            }
        };
        for at in path {
            if let Some(known) = roots.get_mut(at) {
                *known = Some(root);
            }
        }
    }
    roots.into_iter().enumerate().map(|(at, root)| root.unwrap_or(at)).collect()
}

/// Returns the lines from the first one to this one.
fn chain(parents: &[Option<usize>], newest: usize) -> Vec<usize> {
    let (mut chain, mut seen) = (vec![newest], HashSet::from([newest]));
    let mut at = newest;
    while let Some(parent) = parents.get(at).copied().flatten().filter(|parent| seen.insert(*parent)) {
        chain.push(parent);
        at = parent;
    }
    chain.reverse();
    chain
}

/// Builds a draft of a tree's newest branch.
///
/// The lines of one message may be on several branches: if it has several calls, each line is followed by its result,
/// and only one of these results by the next message. So the parts of a message are taken from all branches.
fn draft<'a>(nodes: &[Node<'a>], parents: &[Option<usize>], members: &[usize], name: &str) -> Option<Draft<'a>> {
    let get = |at: usize| nodes.get(at).and_then(|node| Some((node, node.said.as_ref()?)));
    let newest = members.iter().copied().rev().find(|at| get(*at).is_some())?;
    let chain = chain(parents, newest);
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

    let mut draft = Draft::default();
    let mut models: BTreeMap<String, u64> = BTreeMap::new();
    let mut done = HashSet::new();
    for at in chain {
        let Some((node, said)) = get(at) else { continue };
        if !done.insert(at) {
            continue;
        }
        if said.role == "user" {
            if said.is_summary {
                draft.compactions.push(draft.messages.len());
            }
            draft.messages.extend(message(node, said.role, &[said.content]));
            continue;
        }
        let own = [at];
        let lines = said.id.as_deref().and_then(|id| parts.get(id)).map_or(own.as_slice(), Vec::as_slice);
        done.extend(lines.iter().copied());
        let lines: Vec<_> = lines.iter().filter_map(|at| get(*at)).collect();
        // The last line of a message has its final usage.
        if let Some(reported) = lines.iter().rev().find_map(|(_, said)| said.usage) {
            draft.usage.push(usage(draft.messages.len(), reported));
        }
        if let Some(model) = lines.iter().find_map(|(_, said)| said.model.clone()) {
            *models.entry(model).or_default() += 1;
        }
        let contents: Vec<_> = lines.iter().map(|(_, said)| said.content).collect();
        draft.messages.extend(message(node, said.role, &contents));
        for call in lines.iter().flat_map(|(_, said)| &said.calls).filter(|call| !answered.contains(call.as_str())) {
            let result = results.get(call.as_str()).copied().filter(|at| done.insert(*at));
            if let Some((node, said)) = result.and_then(get) {
                draft.messages.extend(message(node, said.role, &[said.content]));
            }
        }
    }
    let node = nodes.get(newest)?;
    let session = node.session.as_deref().unwrap_or(name);
    draft.id = match node.side.as_deref() {
        None => session.to_owned(),
        Some("") => format!("{session}/side"),
        Some(agent) => format!("{session}/agent-{agent}"),
    };
    draft.model = most(models);
    Some(draft)
}

/// Builds a message as the provider received or returned it, with the blocks of all its lines, each once.
fn message(node: &Node<'_>, role: &str, contents: &[&RawValue]) -> Option<Undecoded> {
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
    let message = RawValue::from_string(format!(r#"{{"role":"{role}","content":{content}}}"#)).ok()?;
    Some(Undecoded { line: node.line, message, time: node.time })
}

fn usage(message: usize, reported: Reported) -> RecordedUsage {
    RecordedUsage {
        message,
        input: reported.input_tokens.unwrap_or(0),
        cache_write: reported.cache_creation_input_tokens.unwrap_or(0),
        cache_read: reported.cache_read_input_tokens.unwrap_or(0),
        output: reported.output_tokens.unwrap_or(0),
    }
}
