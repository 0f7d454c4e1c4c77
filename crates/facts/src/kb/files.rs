//! The files of KB Labs, and the facts and messages that they become. Unknown fields are ignored, and members of a
//! wrong type count as absent.

use std::collections::HashMap;

use jiff::Timestamp;
use lookback_engine::transcript::Millis;
use lookback_wire::message::Message;
use serde_json::Value;

use crate::fact::{Confidence, FactKind, Source, Speaker, Statement};
use crate::transfer::Transferred;

/// A message and its time.
pub(super) type Turn = (Message, Option<Millis>);

/// The facts and the messages in a file. An entry without a text is `None`.
pub(super) type Contents = (Vec<Option<Named>>, Vec<Turn>);

/// A fact, its identifier at KB Labs, and what it replaces there: an identifier or a text.
pub(super) struct Named {
    id: Option<String>,
    fact: Transferred,
    supersedes: Option<String>,
}

/// The members of an entry that can have its text, and those of an entry on a fact sheet.
const TEXTS: &[&str] = &["content", "text", "fact"];
const SHEET_TEXTS: &[&str] = &["fact", "content", "text"];

/// Reads a file by its name. Returns `None` if it is not in the form of KB Labs.
pub(super) fn read(name: &str, json: &Value) -> Option<Contents> {
    Some(match name {
        "memory.json" => (shared(json)?, Vec::new()),
        "fact-sheet.json" => (json.get("facts")?.as_array()?.iter().map(listed).collect(), Vec::new()),
        "turns.json" => (Vec::new(), turns(json)?),
        _ => (vec![entry(json, TEXTS, None)], Vec::new()),
    })
}

/// Resolves what facts replace: others of them, by identifier, or texts.
pub(super) fn resolved(facts: Vec<(String, Named)>) -> Vec<(String, Transferred)> {
    let by_id: HashMap<String, Statement> =
        facts.iter().filter_map(|(_, named)| Some((named.id.clone()?, named.fact.statement.clone()))).collect();
    let resolve = |(path, Named { mut fact, supersedes, .. }): (String, Named)| {
        let source = &fact.statement.source;
        // A text may be of any kind.
        let any = |text: String| FactKind::ALL.map(|kind| Statement::new(kind, &*text, source.clone())).to_vec();
        let replaced = |name: String| by_id.get(&name).map(|old| vec![old.clone()]).unwrap_or_else(|| any(name));
        fact.replaces = supersedes.map(replaced).unwrap_or_default();
        (path, fact)
    };
    facts.into_iter().map(resolve).collect()
}

/// Reads a shared memory. Older ones have `facts`.
fn shared(memory: &Value) -> Option<Vec<Option<Named>>> {
    memory.as_object()?;
    let lists =
        [("facts", None), ("preferences", Some(FactKind::Preference)), ("constraints", Some(FactKind::Constraint))];
    let entries = |(key, kind)| list(memory, key).map(move |json| entry(json, TEXTS, kind));
    let learned = list(memory, "sessions").map(|json| entry(json, &["learnings"], Some(FactKind::Finding)));
    // Most sessions have learned nothing.
    Some(lists.into_iter().flat_map(entries).chain(learned.filter(Option::is_some)).collect())
}

/// Reads a pair on a fact sheet: an identifier and an entry.
fn listed(pair: &Value) -> Option<Named> {
    let named = entry(pair.get(1)?, SHEET_TEXTS, None)?;
    Some(Named { id: pair.get(0).and_then(text).or(named.id), ..named })
}

/// Reads a text, or an object with one. `kind` is given if the place of the entry determines it.
fn entry(json: &Value, texts: &[&str], kind: Option<FactKind>) -> Option<Named> {
    let content = text(json).or_else(|| text_of(json, texts))?;
    // Fact sheets have only a category.
    let name = text_of(json, &["type", "category"]).unwrap_or_default();
    let kind = kind.or_else(|| name.strip_prefix("user_").unwrap_or(&name).parse().ok());
    let by = match origin(json, "source", text) {
        Some(source) if source == "user" => Speaker::Person,
        // These are copies of tool results.
        Some(tool) if matches!(&*name, "file_content" | "tool_result" | "environment") && tool != "agent" => {
            Speaker::Tool(tool)
        }
        // An entry without a source was written by a tool of the agent, even if it is a preference.
        Some(_) | None => Speaker::Model,
    };
    let source = Source { session: text_of(json, &["sessionId"]), ..Source::new(by) };
    let given = origin(json, "tags", Value::as_array).into_iter().flatten().filter_map(text);
    let statement = Statement {
        confidence: origin(json, "confidence", Value::as_f64).map_or(Confidence::CERTAIN, Confidence::new),
        time: time(json),
        tags: tags(given.chain(kind.is_none().then_some(name))),
        ..Statement::new(kind.unwrap_or(FactKind::Finding), content, source)
    };
    let fact = Transferred { statement, replaces: Vec::new(), again: Vec::new() };
    Some(Named { id: text_of(json, &["id"]), fact, supersedes: origin(json, "supersedes", text) })
}

/// Reads a list of turns, or an object with one.
fn turns(json: &Value) -> Option<Vec<Turn>> {
    let mut turns: Vec<&Value> = json.as_array().or_else(|| json.get("turns")?.as_array())?.iter().collect();
    turns.sort_by_key(|turn| turn.get("sequence").and_then(Value::as_i64));
    Some(turns.into_iter().filter_map(message).collect())
}

/// Returns the text of a user's or an assistant's turn.
fn message(turn: &Value) -> Option<Turn> {
    let steps = list(turn, "steps").filter(|step| step.get("type").and_then(Value::as_str) == Some("text"));
    let text = steps.filter_map(|step| text_of(step, &["content"])).collect::<Vec<_>>().join("\n\n");
    let message = match turn.get("type")?.as_str()? {
        _ if text.is_empty() => return None,
        "user" => Message::user(text),
        "assistant" => Message::assistant(text),
        _ => return None,
    };
    Some((message, time(turn)))
}

/// Reads a member that says where an entry is from. Newer ones are in `metadata`, others next to the text.
fn origin<'a, T>(json: &'a Value, key: &str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
    let places = [json.get("metadata"), Some(json)];
    places.into_iter().flatten().find_map(|place| read(place.get(key)?))
}

fn list<'a>(json: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(json: &Value) -> Option<String> {
    json.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

/// Returns the first of these members that is a text.
fn text_of(json: &Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| text(json.get(key)?))
}

/// Reads the first time of an object: RFC 3339, or milliseconds since 1970.
fn time(json: &Value) -> Option<Millis> {
    let read = |time: &Value| time.as_i64().or_else(|| time.as_str()?.parse().ok().map(Timestamp::as_millisecond));
    ["timestamp", "updatedAt", "startedAt", "createdAt"].iter().find_map(|key| read(json.get(key)?))
}

/// Returns the texts that can be tags, each once, so that no fact is refused for its tags.
fn tags(given: impl Iterator<Item = String>) -> Vec<String> {
    let mut tags = Vec::new();
    for tag in given.filter(|tag| !tag.trim().is_empty() && tag.chars().count() <= Statement::LONGEST_NAME) {
        if tags.len() < Statement::MOST && !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}
