//! Anthropic's Messages.

use serde_json::{Value, json};

use super::Answer;

fn content(answer: Answer<'_>) -> Vec<Value> {
    let thinking = answer.said.signature.as_ref();
    let thinking = thinking.map(|signature| json!({"type": "thinking", "thinking": "", "signature": signature}));
    let text = (!answer.said.text.is_empty()).then(|| json!({"type": "text", "text": answer.said.text}));
    let call = |call: &crate::model::Call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments});
    thinking.into_iter().chain(text).chain(answer.said.calls.iter().map(call)).collect()
}

fn reason(answer: Answer<'_>) -> &'static str {
    if answer.said.calls.is_empty() { "end_turn" } else { "tool_use" }
}

fn usage(answer: Answer<'_>) -> Value {
    let usage = answer.usage;
    json!({
        "input_tokens": usage.input - usage.cached - usage.written, "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.written, "output_tokens": usage.output,
    })
}

fn message(answer: Answer<'_>, content: Vec<Value>, reason: Option<&str>) -> Value {
    json!({
        "id": format!("msg_{}", answer.number), "type": "message", "role": "assistant", "model": answer.model,
        "content": content, "stop_reason": reason, "stop_sequence": null, "usage": usage(answer),
    })
}

pub(super) fn whole(answer: Answer<'_>) -> Value {
    message(answer, content(answer), Some(reason(answer)))
}

pub(super) fn events(answer: Answer<'_>) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": message(answer, Vec::new(), None)})];
    for (index, block) in content(answer).into_iter().enumerate() {
        let mut begun = block.clone();
        let mut deltas = Vec::new();
        match block.get("type").and_then(Value::as_str) {
            Some("thinking") => {
                begun["signature"] = json!("");
                deltas.push(json!({"type": "signature_delta", "signature": block.get("signature")}));
            }
            Some("text") => {
                begun["text"] = json!("");
                let (one, two) = answer.halves();
                deltas.extend([one, two].map(|text| json!({"type": "text_delta", "text": text})));
            }
            _ => {
                begun["input"] = json!({});
                let input = block.get("input").map(Value::to_string);
                deltas.push(json!({"type": "input_json_delta", "partial_json": input}));
            }
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": reason(answer), "stop_sequence": null},
        "usage": usage(answer),
    }));
    events.push(json!({"type": "message_stop"}));
    events
}
