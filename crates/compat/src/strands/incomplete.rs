//! Answers that ended at the output token limit, whose tool calls may be incomplete.

use std::collections::BTreeMap;

use lookback_wire::dialect::take_member;
use lookback_wire::message::{AssistantPart, Content};
use lookback_wire::{dialect::Dialect, message::Message};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Returns the message with each tool call replaced by a note.
///
/// Use it for an answer that ended at the model's output token limit, because its tool calls may be incomplete. A call
/// without an identifier or a name is also replaced. In Bedrock's JSON, everything else stays unchanged: the message's
/// other members, such as `metadata`, and unknown blocks.
///
/// ```
/// use lookback_wire::message::{Message, ToolCall};
/// use lookback_compat::strands::without_incomplete_calls;
///
/// let message = Message::assistant_with_calls("Let me look.", [ToolCall::new("c1", "read", "{\"pa")]);
/// let message = without_incomplete_calls(&message);
/// assert!(message.tool_calls().next().is_none());
/// assert!(message.text().ends_with("[The call of read was cut off at the limit of output tokens, and not made.]"));
/// ```
#[must_use]
pub fn without_incomplete_calls(message: &Message) -> Message {
    let Content::Assistant(parts) = message.content() else { return message.clone() };
    if let Some(wire) = message.wire().filter(|wire| wire.dialect == Dialect::Bedrock) {
        return in_json(&wire.raw).unwrap_or_else(|| message.clone());
    }
    if message.tool_calls().next().is_none() {
        return message.clone();
    }
    let told = |part: &AssistantPart| match part {
        AssistantPart::ToolCall(call) => AssistantPart::Text(note(&call.name)),
        _ => part.clone(),
    };
    Message::new(Content::Assistant(parts.iter().map(told).collect()))
}

/// Replaces the calls in a message's JSON. Returns `None` if there are no calls.
fn in_json(raw: &RawValue) -> Option<Message> {
    let mut rest = raw.to_owned();
    let content = take_member(&mut rest, "content")?;
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).ok()?;
    let notes: Vec<Option<String>> = blocks.iter().map(|block| note_of(block)).collect();
    if notes.iter().all(Option::is_none) {
        return None;
    }
    let told = blocks.iter().zip(notes).map(|(block, note)| note.unwrap_or_else(|| block.get().to_owned()));
    let told = told.collect::<Vec<_>>().join(",");
    // The message has a role, so there is a member before the comma.
    let rest = rest.get().trim_end().strip_suffix('}')?;
    Dialect::Bedrock.decode(&format!("{rest},\"content\":[{told}]}}")).ok()
}

/// Returns the note that replaces a block, or `None` if the block is not a call.
fn note_of(block: &RawValue) -> Option<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(block.get()).ok()?;
    let call: Value = serde_json::from_str(members.get("toolUse")?.get()).unwrap_or_default();
    let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
    Some(json!({"text": note(name)}).to_string())
}

fn note(name: &str) -> String {
    let name = if name.is_empty() { "<unknown>" } else { name };
    format!("[The call of {name} was cut off at the limit of output tokens, and not made.]")
}
