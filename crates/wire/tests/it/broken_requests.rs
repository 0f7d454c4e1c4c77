//! Breaks valid requests in every way that a rule forbids, and checks that each fault is found.

use lookback_wire::dialect::Severity;
use lookback_wire::dialect::{Dialect, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::mutants;

#[derive(Deserialize)]
struct Vector {
    name: String,
    #[serde(default)]
    path: Option<String>,
    request: Box<RawValue>,
    findings: Vec<Box<RawValue>>,
}

const FILES: [(Dialect, &str, &str); 5] = [
    (Dialect::OpenAiChat, "messages", include_str!("../../../../corpus/rules/openai-chat.json")),
    (Dialect::Anthropic, "messages", include_str!("../../../../corpus/rules/anthropic.json")),
    (Dialect::Bedrock, "messages", include_str!("../../../../corpus/rules/bedrock.json")),
    (Dialect::OpenAiResponses, "input", include_str!("../../../../corpus/rules/openai-responses.json")),
    (Dialect::Gemini, "contents", include_str!("../../../../corpus/rules/gemini.json")),
];

#[test]
fn a_sound_request_that_is_broken_in_any_way_is_found() {
    let mut missed = Vec::new();
    let mut kinds = std::collections::BTreeSet::new();
    for (dialect, list, text) in FILES {
        for vector in serde_json::from_str::<Vec<Vector>>(text).unwrap() {
            if !vector.findings.is_empty() {
                continue;
            }
            let request: Value = serde_json::from_str(vector.request.get()).unwrap();
            let body = if request.is_array() { json!({list: request}) } else { request };
            // Bedrock has the model in the path, and some rules apply only to some models.
            let nova =
                || if dialect == Dialect::Bedrock { "/model/amazon.nova-pro-v1:0/converse" } else { "" }.to_owned();
            let path = vector.path.unwrap_or_else(nova);
            for mutant in mutants::all(dialect, &path, &body) {
                let text = mutant.body.replace(mutants::HALF, "half: \\ud83d");
                // A request that cannot be read at all gives an error instead of findings.
                let Ok(request) = Request::decode(text.as_bytes(), Some(dialect)) else { continue };
                kinds.insert(mutant.kind);
                let found = dialect.check(&request.with_path(&path));
                if !found.iter().any(|finding| finding.severity == Severity::Refused) {
                    missed.push(format!("{dialect}: {}: {}: {text}", vector.name, mutant.kind));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} are missed:\n{}", missed.len(), missed.join("\n"));
    assert!(kinds.len() >= 18, "{kinds:?}");
}
