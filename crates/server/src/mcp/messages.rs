//! The tool that keeps messages of a conversation in its session, where `recall` finds them when the client no longer shows them.
//!
//! A client of this protocol tells a server nothing of its conversation, so what is to be recalled is what its model passes on.

use lookback::memory::Memory;
use lookback::memory::tools::Reply;
use lookback::{Error, Message, Role, Session, Settings};
use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Its name.
pub(super) const NAME: &str = "remember_messages";
/// What it does, in the words that a model reads.
pub(super) const DESCRIPTION: &str = "\
Keep messages of this conversation word for word, in their order, so that recall finds them later. Call it with what was said since \
the last call when that may be needed again and could be lost: before the conversation grows long, or ends.";
/// The most messages of a call.
const MOST: usize = 50;
/// The most characters of a message.
const LONGEST: usize = 20_000;

/// The JSON Schema of its arguments.
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
        "description": "The messages, the oldest first. Those that were kept before are not kept twice.",
    });
    json!({
        "type": "object",
        "properties": {"messages": messages},
        "required": ["messages"],
        "additionalProperties": false,
    })
}

/// One message, as it compares.
type Said = (Role, String);

/// Keeps messages, and says where they stand.
pub(super) async fn remember(memory: &Memory, arguments: &JsonObject) -> Reply {
    match read(arguments) {
        Ok(given) => match keep(memory, given).await {
            Ok(text) => Reply { text, error: false },
            Err(error) => Reply { text: format!("nothing was kept: {error}"), error: true },
        },
        Err(wrong) => Reply { text: wrong, error: true },
    }
}

async fn keep(memory: &Memory, given: Vec<Said>) -> Result<String, Error> {
    let mut session = Session::open(memory.store().clone(), memory.session().as_str(), Settings::default()).await?;
    let past = session.newest(0..u64::MAX, given.len()).await?;
    let past: Vec<Said> = past.iter().map(|past| (past.arrival.message.role(), past.arrival.message.text())).collect();
    let known = overlap(&past, &given);
    let new: Vec<Message> = given.into_iter().skip(known).map(message).collect();
    let count = new.len();
    if count == 0 {
        return Ok("All of it was kept before.".to_owned());
    }
    session.extend(new).await?;
    let kept = session.newest(0..u64::MAX, count).await?;
    let ends = kept.first().zip(kept.last()).map(|(first, last)| (first.position, last.position));
    let place = match ends {
        Some((first, last)) if first == last => format!(" as #{first}"),
        Some((first, last)) => format!(" as #{first} to #{last}"),
        None => String::new(),
    };
    let before = if known > 0 { format!(" Before them {known} were kept already.") } else { String::new() };
    Ok(format!(
        "{} kept{place}; recall finds them.{before}",
        if count == 1 { "1 message is".to_owned() } else { format!("{count} messages are") }
    ))
}

/// How many of the first messages given are the last that are kept: a model that passes on where it left off says some again, and so does
/// a client that tries a call again.
fn overlap(past: &[Said], given: &[Said]) -> usize {
    let repeats = |count: &usize| given.get(..*count).is_some_and(|first| past.ends_with(first));
    (1..=given.len()).rev().find(repeats).unwrap_or(0)
}

fn message((role, text): Said) -> Message {
    if role == Role::Assistant { Message::assistant(text) } else { Message::user(text) }
}

/// The messages of a call, or what is wrong with it, in words for the model.
fn read(arguments: &JsonObject) -> Result<Vec<Said>, String> {
    if let Some(other) = arguments.keys().find(|name| *name != "messages") {
        return Err(format!("{NAME} has no argument {other:?}; it has messages"));
    }
    let messages = match arguments.get("messages") {
        Some(Value::Array(messages)) if messages.is_empty() => return Err("`messages` is empty".to_owned()),
        Some(Value::Array(messages)) if messages.len() > MOST => {
            let count = messages.len();
            return Err(format!("`messages` has {count} members, and may have {MOST}; send them in several calls"));
        }
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err("`messages` must be a list of {\"role\", \"text\"}".to_owned()),
        None => return Err("`messages` is missing: the messages to keep, the oldest first".to_owned()),
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
    // So it is called in requests, and models know those.
    let text = fields.get("text").or_else(|| fields.get("content")).and_then(Value::as_str);
    let text = text.ok_or_else(|| wrong("must have a `text`, which is a string"))?;
    let length = text.chars().count();
    if text.trim().is_empty() {
        return Err(wrong("has an empty `text`"));
    }
    if length > LONGEST {
        return Err(wrong(&format!("has {length} characters, and may have {LONGEST}")));
    }
    Ok((role, text.to_owned()))
}
