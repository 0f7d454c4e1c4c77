//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::Answer;

fn usage(answer: Answer<'_>) -> Value {
    let usage = answer.usage;
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached}, "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn reason(answer: Answer<'_>) -> &'static str {
    if answer.said.calls.is_empty() { "stop" } else { "tool_calls" }
}

pub(super) fn whole(answer: Answer<'_>) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.said.text, "refusal": null});
    if !answer.said.calls.is_empty() {
        let call = |call: &crate::model::Call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.to_string()}});
        message["tool_calls"] = answer.said.calls.iter().map(call).collect();
    }
    json!({
        "id": format!("chatcmpl-{}", answer.number), "object": "chat.completion", "created": 1, "model": answer.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason(answer)}],
        "usage": usage(answer),
    })
}

pub(super) fn events(answer: Answer<'_>) -> Vec<Value> {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{}", answer.number), "object": "chat.completion.chunk", "created": 1,
            "model": answer.model, "choices": choices,
        })
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    let (one, two) = answer.halves();
    let mut events = vec![
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": one})),
        delta(json!({"content": two})),
    ];
    for (index, call) in answer.said.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        events.push(delta(
            json!({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}),
        ));
        let function = json!({"arguments": call.arguments.to_string()});
        events.push(delta(json!({"tool_calls": [{"index": index, "function": function}]})));
    }
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason(answer)}])));
    let mut last = chunk(json!([]));
    last["usage"] = usage(answer);
    events.push(last);
    events
}
