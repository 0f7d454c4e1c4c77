//! Gemini's `generateContent`.

use serde_json::{Value, json};

use super::Answer;

fn calls(answer: Answer<'_>) -> Vec<Value> {
    let calls = answer.said.calls.iter().enumerate();
    let part = calls.map(|(index, call)| {
        let mut part = json!({"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}});
        // Only the first of parallel calls has a signature.
        if index == 0
            && let Some(signature) = answer.said.signature.as_ref()
        {
            part["thoughtSignature"] = json!(signature);
        }
        part
    });
    part.collect()
}

fn chunk(answer: Answer<'_>, parts: Vec<Value>, reason: Option<&str>) -> Value {
    let usage = answer.usage;
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({
        "candidates": [candidate], "modelVersion": answer.model, "responseId": format!("resp_{}", answer.number),
        "usageMetadata": {
            "promptTokenCount": usage.input, "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output, "totalTokenCount": usage.input + usage.output,
        },
    })
}

pub(super) fn whole(answer: Answer<'_>) -> Value {
    let text = json!({"text": answer.said.text});
    chunk(answer, std::iter::once(text).chain(calls(answer)).collect(), Some("STOP"))
}

pub(super) fn events(answer: Answer<'_>) -> Vec<Value> {
    let (one, two) = answer.halves();
    vec![
        chunk(answer, vec![json!({"text": one})], None),
        chunk(answer, vec![json!({"text": two})], None),
        chunk(answer, calls(answer), Some("STOP")),
    ]
}
