//! The text of a message for comparisons, in which strings in the arguments of tool calls are not escaped as JSON.

use lookback_wire::message::Message;
use lookback_wire::message::PartRef;
use serde_json::Value;

/// Returns the text of a message. The arguments of a call are shown as their strings and numbers, one per line.
pub fn said(message: &Message) -> String {
    if message.tool_calls().next().is_none() {
        return message.text();
    }
    let mut lines = Vec::new();
    for part in message.parts() {
        match part {
            PartRef::Text(text) => lines.push(text.to_owned()),
            PartRef::Reasoning(reasoning) => lines.push(reasoning.text.clone()),
            PartRef::ToolCall(call) => {
                lines.push(call.name.clone());
                match serde_json::from_str(&call.arguments) {
                    Ok(arguments) => leaves(arguments, &mut lines),
                    Err(_) => lines.push(call.arguments.clone()),
                }
            }
            _ => {}
        }
    }
    lines.join("\n")
}

fn leaves(value: Value, lines: &mut Vec<String>) {
    match value {
        Value::String(text) => lines.push(text),
        Value::Number(number) => lines.push(number.to_string()),
        Value::Array(elements) => elements.into_iter().for_each(|element| leaves(element, lines)),
        Value::Object(members) => members.into_iter().for_each(|(_, value)| leaves(value, lines)),
        Value::Null | Value::Bool(_) => {}
    }
}
