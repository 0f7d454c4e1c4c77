//! The files of KB Labs, and the facts and messages that they become. Unknown fields are ignored.

use std::collections::HashMap;

use jiff::Timestamp;
use lookback_engine::transcript::Millis;
use lookback_wire::message::Message;
use serde::Deserialize;
use serde_json::{Value, from_slice};

use crate::fact::{Confidence, FactKind, Source, Speaker, Statement};
use crate::transfer::Transferred;

/// A message and its time.
pub(super) type Turn = (Message, Option<Millis>);

/// The facts and the messages in a file. An entry without a text is `None`.
pub(super) type Contents = (Vec<Option<Transferred>>, Vec<Turn>);

/// A shared memory. Older ones have `facts`.
#[derive(Deserialize)]
struct Shared {
    facts: Option<Vec<Value>>,
    preferences: Option<Vec<Value>>,
    constraints: Option<Vec<Value>>,
    sessions: Option<Vec<Value>>,
}

/// A fact sheet: pairs of an identifier and an entry.
#[derive(Deserialize)]
struct Sheet {
    facts: Vec<Value>,
}

/// An entry of a memory or of a fact sheet. Newer ones have their origin in `metadata`, others next to the text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    #[serde(alias = "text", alias = "fact", alias = "learnings")]
    content: String,
    r#type: Option<String>,
    category: Option<String>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
    #[serde(alias = "updatedAt")]
    timestamp: Value,
    metadata: Option<Origin>,
    #[serde(flatten)]
    beside: Origin,
}

#[derive(Default, Deserialize)]
struct Origin {
    source: Option<String>,
    confidence: Option<f64>,
    tags: Option<Vec<String>>,
    supersedes: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Turns {
    List(Vec<Spoken>),
    Object { turns: Vec<Spoken> },
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spoken {
    r#type: String,
    sequence: i64,
    started_at: Value,
    steps: Vec<Step>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Step {
    r#type: String,
    content: Value,
}

/// Reads a file by its name.
pub(super) fn read(name: &str, json: &[u8]) -> serde_json::Result<Contents> {
    Ok(match name {
        "memory.json" => (shared(from_slice(json)?), Vec::new()),
        "fact-sheet.json" => (sheet(&from_slice(json)?), Vec::new()),
        "turns.json" => {
            let (Turns::List(mut turns) | Turns::Object { mut turns }) = from_slice(json)?;
            turns.sort_by_key(|turn| turn.sequence);
            (Vec::new(), turns.iter().filter_map(message).collect())
        }
        _ => (vec![entry(&from_slice(json)?).and_then(|entry| fact(entry, None))], Vec::new()),
    })
}

fn shared(memory: Shared) -> Vec<Option<Transferred>> {
    let has_learned = |session: &Value| session.get("learnings").is_some();
    let learned = memory.sessions.map(|sessions| sessions.into_iter().filter(has_learned).collect());
    let lists = [
        (memory.facts, None),
        (memory.preferences, Some(FactKind::Preference)),
        (memory.constraints, Some(FactKind::Constraint)),
        (learned, Some(FactKind::Finding)),
    ];
    let read = |(list, kind): (Option<Vec<Value>>, Option<FactKind>)| {
        list.into_iter().flatten().map(move |json| fact(entry(&json)?, kind))
    };
    lists.into_iter().flat_map(read).collect()
}

/// Reads a fact sheet, in which facts name those that they replace by identifier.
fn sheet(sheet: &Sheet) -> Vec<Option<Transferred>> {
    let pairs: Vec<Option<(String, Entry)>> =
        sheet.facts.iter().map(|pair| Some((pair.get(0)?.as_str()?.to_owned(), entry(pair.get(1)?)?))).collect();
    let texts: HashMap<String, String> =
        pairs.iter().flatten().map(|(id, entry)| (id.clone(), entry.content.clone())).collect();
    let read = |pair: Option<(String, Entry)>| {
        let (_, mut entry) = pair?;
        entry.beside.supersedes = entry.beside.supersedes.map(|id| texts.get(&id).cloned().unwrap_or(id));
        fact(entry, None)
    };
    pairs.into_iter().map(read).collect()
}

/// Reads a text, or an object with one.
fn entry(json: &Value) -> Option<Entry> {
    match json {
        Value::String(text) => Some(Entry { content: text.clone(), ..Entry::default() }),
        json => Entry::deserialize(json).ok(),
    }
}

/// Returns the fact of an entry, if it has a text. `kind` is given if the place of the entry determines it.
fn fact(entry: Entry, kind: Option<FactKind>) -> Option<Transferred> {
    let Origin { source, confidence, tags, supersedes } = entry.metadata.unwrap_or(entry.beside);
    // Fact sheets have only a category.
    let name = entry.r#type.or(entry.category).unwrap_or_default();
    let kind = kind.or_else(|| name.strip_prefix("user_").unwrap_or(&name).parse().ok());
    let by = match source {
        Some(source) if source == "user" => Speaker::Person,
        // These are copies of tool results.
        Some(tool) if matches!(&*name, "file_content" | "tool_result" | "environment") && tool != "agent" => {
            Speaker::Tool(tool)
        }
        // An entry without a source was written by a tool of the agent, even if it is a preference.
        Some(_) | None => Speaker::Model,
    };
    let source = Source { session: entry.session, ..Source::new(by) };
    // The replaced text may be of any kind.
    let replaced = |text: String| FactKind::ALL.map(|kind| Statement::new(kind, &*text, source.clone()));
    let replaces = supersedes.into_iter().flat_map(replaced).collect();
    let tags = tags.into_iter().flatten().chain(kind.is_none().then_some(name));
    let statement = Statement {
        confidence: confidence.map_or(Confidence::CERTAIN, Confidence::new),
        time: time(&entry.timestamp),
        tags: tags.filter(|tag| !tag.trim().is_empty()).collect(),
        ..Statement::new(kind.unwrap_or(FactKind::Finding), entry.content, source)
    };
    (!statement.text.trim().is_empty()).then_some(Transferred { statement, replaces, again: Vec::new() })
}

/// Returns the text of a user's or an assistant's turn.
fn message(turn: &Spoken) -> Option<Turn> {
    let texts = turn.steps.iter().filter(|step| step.r#type == "text").filter_map(|step| step.content.as_str());
    let text = texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
    let message = match &*turn.r#type {
        _ if text.is_empty() => return None,
        "user" => Message::user(text),
        "assistant" => Message::assistant(text),
        _ => return None,
    };
    Some((message, time(&turn.started_at)))
}

/// Reads a time: RFC 3339, or milliseconds since 1970.
fn time(json: &Value) -> Option<Millis> {
    json.as_i64().or_else(|| json.as_str()?.parse().ok().map(Timestamp::as_millisecond))
}
