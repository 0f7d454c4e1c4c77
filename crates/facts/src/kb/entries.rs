//! The entries in the files of KB Labs, and the facts and messages that they become. Unknown fields are ignored.

use jiff::Timestamp;
use lookback_engine::transcript::Millis;
use lookback_wire::message::Message;
use serde_json::Value;

use crate::fact::{Confidence, FactKind, Source, Speaker, Statement};
use crate::transfer::Transferred;

/// A message and its time.
pub(super) type Turn = (Message, Option<Millis>);

/// A fact with its identifier at KB Labs, and the fact that it replaces there, given as an identifier or a text.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) id: Option<String>,
    pub(super) fact: Transferred,
    pub(super) replaces: Option<String>,
}

/// The contents of a shared memory.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) facts: Vec<Transferred>,
    // The learnings of sessions, by the sessions' names.
    pub(super) learnings: Vec<(String, Transferred)>,
    // How many entries have no text.
    pub(super) none: usize,
}

/// Reads `{preferences, constraints, sessions, projectContext}`, and the older `{facts}`. Returns `None` if it is not
/// an object.
pub(super) fn shared(json: &Value) -> Option<Shared> {
    json.as_object()?;
    let mut shared = Shared::default();
    let lists =
        [("facts", None), ("preferences", Some(FactKind::Preference)), ("constraints", Some(FactKind::Constraint))];
    for (key, kind) in lists {
        for item in list(json, key) {
            match entry(item, kind) {
                Some(named) => shared.facts.push(named.fact),
                None => shared.none += 1,
            }
        }
    }
    let project = json.get("projectContext");
    for (key, about) in [
        ("name", "the project's name"),
        ("description", "the project"),
        ("technologies", "the project's technologies"),
        ("structure", "the project's structure"),
    ] {
        let text = match project.and_then(|project| project.get(key)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            _ => String::new(),
        };
        if !text.trim().is_empty() {
            let statement = Statement::new(FactKind::Finding, text, Source::new(Speaker::Model));
            shared.facts.push(alone(Statement { about: Some(about.to_owned()), ..statement }));
        }
    }
    for session in list(json, "sessions") {
        let (Some(name), Some(learned)) = (text_of(session, &["sessionId", "id"]), text_of(session, &["learnings"]))
        else {
            continue;
        };
        let statement = Statement::new(FactKind::Finding, learned, Source::new(Speaker::Model));
        let tags = vec!["learning".to_owned()];
        shared.learnings.push((name, alone(Statement { tags, time: time(session), ..statement })));
    }
    Some(shared)
}

/// Reads an entry of a memory: a text, or an object with one. `kind` is given if its place determines it. Returns
/// `None` if it has no text.
pub(super) fn entry(json: &Value, kind: Option<FactKind>) -> Option<Named> {
    let content = match json {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        _ => text_of(json, &["content", "text", "fact"]),
    }?;
    // Newer files have these fields in `metadata`, older ones next to the text.
    let field = |key: &str| json.get("metadata").and_then(|data| data.get(key)).or_else(|| json.get(key));
    let called = text_of(json, &["type"]);
    let (kind, tag) = match (kind, called.as_deref()) {
        (Some(kind), _) => (kind, None),
        (None, Some("blocker")) => (FactKind::Blocker, None),
        (None, Some("user_correction" | "correction")) => (FactKind::Correction, None),
        (None, Some("user_preference" | "preference")) => (FactKind::Preference, None),
        (None, Some("constraint")) => (FactKind::Constraint, None),
        (None, Some("decision")) => (FactKind::Decision, None),
        (None, Some("finding") | None) => (FactKind::Finding, None),
        (None, Some(_)) => (FactKind::Finding, called),
    };
    let by = match field("source").and_then(Value::as_str) {
        Some("user") => Speaker::Person,
        // An entry without a source was written by a tool of the agent, even if it is a preference.
        Some(_) | None => Speaker::Model,
    };
    let given = field("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let task = field("taskId").and_then(Value::as_str).map(|task| format!("task: {task}"));
    let tags = tags(tag.into_iter().chain(given.map(str::to_owned)).chain(task));
    let replaces = field("supersedes").and_then(Value::as_str).map(str::to_owned);
    let statement = Statement {
        confidence: field("confidence").and_then(Value::as_f64).map_or(Confidence::CERTAIN, Confidence::new),
        time: time(json),
        tags,
        ..Statement::new(kind, content, Source::new(by))
    };
    Some(Named { id: text_of(json, &["id"]), fact: alone(statement), replaces })
}

/// Reads `{facts: [[id, entry]], nextId}`, and counts the entries without a text. Returns `None` if it is not a fact
/// sheet.
pub(super) fn sheet(json: &Value) -> Option<(Vec<Named>, usize)> {
    let facts = json.get("facts")?.as_array()?;
    let read = |pair: &Value| {
        let (id, entry) = (pair.get(0)?.as_str()?, pair.get(1)?);
        let text = text_of(entry, &["fact", "content", "text"])?;
        let category = text_of(entry, &["category"]).unwrap_or_default();
        // Entries of some categories were not written by a model: they are copies of tool results.
        let (kind, tag, is_output) = match category.as_str() {
            "correction" => (FactKind::Correction, None, false),
            "blocker" => (FactKind::Blocker, None, false),
            "decision" => (FactKind::Decision, None, false),
            "finding" | "" => (FactKind::Finding, None, false),
            "file_content" | "tool_result" | "environment" => (FactKind::Finding, Some(category.clone()), true),
            _ => (FactKind::Finding, Some(category.clone()), false),
        };
        let by = match text_of(entry, &["source"]) {
            Some(source) if source == "user" => Speaker::Person,
            Some(tool) if is_output && tool != "agent" => Speaker::Tool(tool),
            _ => Speaker::Model,
        };
        let about = if category == "file_content" { file(&text) } else { None };
        let confidence = entry.get("confidence").and_then(Value::as_f64);
        let statement = Statement {
            about: about.filter(|about| about.chars().count() <= Statement::LONGEST_NAME),
            confidence: confidence.map_or(Confidence::CERTAIN, Confidence::new),
            time: time(entry),
            tags: tags(tag.into_iter()),
            ..Statement::new(kind, text, Source::new(by))
        };
        let replaces = text_of(entry, &["supersedes"]);
        Some(Named { id: Some(id.to_owned()), fact: alone(statement), replaces })
    };
    let entries: Vec<Named> = facts.iter().filter_map(read).collect();
    let none = facts.len() - entries.len();
    Some((entries, none))
}

/// Reads a list of turns, or an object that has one: the texts of users and assistants. Returns `None` if there is no
/// such list.
pub(super) fn turns(json: &Value) -> Option<Vec<Turn>> {
    let turns = json.as_array().or_else(|| json.get("turns")?.as_array())?;
    let mut turns: Vec<&Value> = turns.iter().collect();
    turns.sort_by_key(|turn| turn.get("sequence").and_then(Value::as_i64));
    let message = |turn: &Value| {
        let steps = list(turn, "steps").filter(|step| step.get("type").and_then(Value::as_str) == Some("text"));
        let text = steps.filter_map(|step| text_of(step, &["content"])).collect::<Vec<_>>().join("\n\n");
        let message = match turn.get("type").and_then(Value::as_str) {
            _ if text.is_empty() => return None,
            Some("user") => Message::user(text),
            Some("assistant") => Message::assistant(text),
            _ => return None,
        };
        Some((message, time(turn)))
    };
    Some(turns.into_iter().filter_map(message).collect())
}

/// Returns the statements that a replaced text may have come from: one of each kind, without `about`.
pub(super) fn possible_statements(by: &Statement, text: &str) -> Vec<Statement> {
    FactKind::ALL.into_iter().map(|kind| Statement::new(kind, text, by.source.clone())).collect()
}

fn alone(statement: Statement) -> Transferred {
    Transferred { statement, replaces: Vec::new(), again: Vec::new() }
}

fn list<'a>(json: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the text of the first of these fields that has one.
fn text_of(json: &Value, keys: &[&str]) -> Option<String> {
    let mut texts = keys.iter().filter_map(|key| json.get(key)?.as_str());
    texts.find(|text| !text.trim().is_empty()).map(str::to_owned)
}

/// Reads a time: RFC 3339, or milliseconds since 1970.
fn time(json: &Value) -> Option<Millis> {
    let time = ["timestamp", "updatedAt", "startedAt", "createdAt"].iter().find_map(|key| json.get(key))?;
    let text = || time.as_str()?.parse().ok().map(Timestamp::as_millisecond);
    time.as_i64().or_else(text)
}

/// Returns the texts that can be tags, each once.
fn tags(given: impl Iterator<Item = String>) -> Vec<String> {
    let mut tags = Vec::new();
    for tag in given.filter(|tag| !tag.trim().is_empty() && tag.chars().count() <= Statement::LONGEST_NAME) {
        if tags.len() < Statement::MOST && !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// Returns the file of `Read src/main.rs (120 lines)`, so that the next reading of the file replaces this one.
fn file(text: &str) -> Option<String> {
    let (path, _) = text.strip_prefix("Read ")?.split_once(" (")?;
    Some(path.to_owned())
}
