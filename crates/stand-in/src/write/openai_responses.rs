//! OpenAI's Responses.

use serde_json::{Value, json};

use super::Answer;

/// Returns the items of an answer: reasoning, text and tool calls.
fn items(answer: Answer<'_>) -> Vec<Value> {
    let (said, number) = (answer.said, answer.number);
    if said.compacts {
        return vec![json!({"type": "compaction", "id": format!("cmp_{number}"), "encrypted_content": "Y29tcGFjdGVk"})];
    }
    let reasoning = (said.thinks || said.signature.is_some()).then(
        || json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [], "encrypted_content": said.signature}),
    );
    let text = json!({
        "type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}],
    });
    let call = |call: &crate::model::Call| {
        let mut item = json!({
            "type": "function_call", "id": format!("fc_{number}_{}", call.id), "call_id": call.id, "name": call.name,
            "arguments": call.arguments.to_string(), "status": "completed",
        });
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        item
    };
    reasoning.into_iter().chain([text]).chain(said.calls.iter().map(call)).collect()
}

fn response(answer: Answer<'_>, status: &str, output: Vec<Value>) -> Value {
    let usage = answer.usage;
    let usage = (status == "completed").then(|| {
        json!({
            "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        })
    });
    json!({
        "id": format!("resp_{}", answer.number), "object": "response", "created_at": 1, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "model": answer.model, "output": output,
        "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": usage,
    })
}

pub(super) fn whole(answer: Answer<'_>) -> Value {
    response(answer, "completed", items(answer))
}

pub(super) fn events(answer: Answer<'_>) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "response.created", "response": response(answer, "in_progress", Vec::new())}),
        json!({"type": "response.in_progress", "response": response(answer, "in_progress", Vec::new())}),
    ];
    for (index, item) in items(answer).into_iter().enumerate() {
        let mut begun = item.clone();
        let id = item.get("id").cloned().unwrap_or_default();
        let at = |kind: &str, more: Value| {
            let mut event = json!({"type": kind, "item_id": id, "output_index": index});
            if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
                event.extend(more);
            }
            event
        };
        let mut pieces = Vec::new();
        match item.get("type").and_then(Value::as_str) {
            Some("message") => {
                begun["content"] = json!([]);
                begun["status"] = json!("in_progress");
                let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
                pieces.push(at("response.content_part.added", json!({"content_index": 0, "part": part})));
                let (one, two) = answer.halves();
                for delta in [one, two] {
                    let delta = json!({"content_index": 0, "delta": delta, "logprobs": []});
                    pieces.push(at("response.output_text.delta", delta));
                }
                let done = json!({"content_index": 0, "text": answer.said.text, "logprobs": []});
                pieces.push(at("response.output_text.done", done));
                let part = item.pointer("/content/0").cloned();
                pieces.push(at("response.content_part.done", json!({"content_index": 0, "part": part})));
            }
            Some("function_call") => {
                let arguments = item.get("arguments").cloned();
                begun["arguments"] = json!("");
                begun["status"] = json!("in_progress");
                pieces.push(at("response.function_call_arguments.delta", json!({"delta": arguments})));
                let done = json!({"arguments": arguments, "name": item.get("name")});
                pieces.push(at("response.function_call_arguments.done", done));
            }
            _ => {}
        }
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        events.append(&mut pieces);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole(answer)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}
