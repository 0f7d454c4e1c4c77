//! The tool `remember_messages`, which keeps messages of a conversation in its session, so that `recall` finds them
//! later.
//!
//! The protocol does not show a server the conversation, so `recall` can find only messages that the model passes on.

use lookback_engine::Settings;
use lookback_facts::Memory;
use lookback_facts::tools::Reply;
use lookback_session::adapter;
use lookback_session::{Error, Session};
use lookback_wire::message::{Message, Role};
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::causes::chained;

/// The name of the tool.
pub(super) const NAME: &str = "remember_messages";
/// The description of the tool for the model.
pub(super) const DESCRIPTION: &str = "\
Keep messages of this conversation word for word and in order, so that recall finds them later. Call it with the \
messages since the last call if they may be needed again and could be lost: before the conversation becomes long, or \
ends.";
/// The maximum number of messages in a call.
const MOST: usize = 50;
/// The maximum length of a message in characters.
const LONGEST: usize = 20_000;

/// Returns the JSON Schema of the arguments.
pub(super) fn schema() -> Value {
    let message = json!({
        "type": "object",
        "properties": {
            "role": {"type": "string", "enum": ["user", "assistant"], "description": "Who said it."},
            "text": {"type": "string", "maxLength": LONGEST, "description": "What was said, word for word."},
        },
        "required": ["role", "text"],
        "additionalProperties": false,
    });
    let messages = json!({
        "type": "array",
        "items": message,
        "minItems": 1,
        "maxItems": MOST,
        "description": "The messages, oldest first. Messages that are already kept are not kept twice.",
    });
    json!({
        "type": "object",
        "properties": {"messages": messages},
        "required": ["messages"],
        "additionalProperties": false,
    })
}

/// One message in the form that is compared to recognize it.
type Said = (Role, String);

/// Keeps messages, and replies with their entries.
pub(super) async fn remember(memory: &Memory, arguments: &JsonObject) -> Reply {
    match read(arguments) {
        Ok(given) => match append_new(memory, given).await {
            Ok(text) => Reply::done(text),
            Err(error) => Reply::failed(format!("nothing was kept: {}", chained(&error))),
        },
        Err(wrong) => Reply::failed(wrong),
    }
}

async fn append_new(memory: &Memory, given: Vec<Said>) -> Result<String, Error> {
    let mut session = Session::open(memory.store().clone(), memory.session().as_str(), Settings::default()).await?;
    let newest = adapter::newest(&mut session, 0..u64::MAX, given.len()).await?;
    let newest = newest.iter().map(|entry| (entry.arrival.message.role(), entry.arrival.message.text()));
    let known = overlap(&newest.collect::<Vec<Said>>(), &given);
    let new: Vec<Message> = given.into_iter().skip(known).map(message).collect();
    let count = new.len();
    if count == 0 {
        return Ok("All of these messages were already kept.".to_owned());
    }
    session.append(new).await?;
    let kept = adapter::newest(&mut session, 0..u64::MAX, count).await?;
    let ends = kept.first().zip(kept.last()).map(|(first, last)| (first.position, last.position));
    let place = match ends {
        Some((first, last)) if first == last => format!(" as #{first}"),
        Some((first, last)) => format!(" as #{first} to #{last}"),
        None => String::new(),
    };
    let before = if known > 0 { format!(" The {known} before them were already kept.") } else { String::new() };
    Ok(format!(
        "{} kept{place}; recall finds them.{before}",
        if count == 1 { "1 message is".to_owned() } else { format!("{count} messages are") }
    ))
}

/// Returns how many of the given messages, from the first on, are the last ones in the session.
///
/// A model that continues where it left off repeats some messages, and so does a client that retries a call.
fn overlap(newest: &[Said], given: &[Said]) -> usize {
    let repeats = |count: &usize| given.get(..*count).is_some_and(|first| newest.ends_with(first));
    (1..=given.len()).rev().find(repeats).unwrap_or(0)
}

fn message((role, text): Said) -> Message {
    if role == Role::Assistant { Message::assistant(text) } else { Message::user(text) }
}

/// Parses the messages of a call. The error is a sentence for the model.
fn read(arguments: &JsonObject) -> Result<Vec<Said>, String> {
    if let Some(other) = arguments.keys().find(|name| *name != "messages") {
        return Err(format!("{NAME} has no argument {other:?}; its only argument is `messages`"));
    }
    let messages = match arguments.get("messages") {
        Some(Value::Array(messages)) if messages.is_empty() => return Err("`messages` is empty".to_owned()),
        Some(Value::Array(messages)) if messages.len() > MOST => {
            let count = messages.len();
            return Err(format!("`messages` has {count} messages, but at most {MOST} are allowed; use several calls"));
        }
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err("`messages` must be a list of {\"role\", \"text\"}".to_owned()),
        None => return Err("`messages` is missing; pass the messages to keep, oldest first".to_owned()),
    };
    messages.iter().enumerate().map(|(index, message)| said(index, message)).collect()
}

fn said(index: usize, message: &Value) -> Result<Said, String> {
    let wrong = |what: &str| format!("`messages[{index}]` {what}; nothing was kept");
    let fields = message.as_object().ok_or_else(|| wrong("must be {\"role\", \"text\"}"))?;
    if fields.keys().any(|name| !matches!(name.as_str(), "role" | "text" | "content")) {
        return Err(wrong("has a field besides `role` and `text`"));
    }
    let role = match fields.get("role").and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(wrong("must have the `role` `user` or `assistant`")),
    };
    // Requests call this member `content`, and models imitate them.
    let text = fields.get("text").or_else(|| fields.get("content")).and_then(Value::as_str);
    let text = text.ok_or_else(|| wrong("must have a `text` that is a string"))?;
    let length = text.chars().count();
    if text.trim().is_empty() {
        return Err(wrong("has an empty `text`"));
    }
    if length > LONGEST {
        return Err(wrong(&format!("has {length} characters, but at most {LONGEST} are allowed")));
    }
    Ok((role, text.to_owned()))
}
