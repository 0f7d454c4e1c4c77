//! Classifies the errors in the vectors of `corpus/errors`, and hostile input.

use std::collections::HashSet;

use lookback_wire::dialect::{Dialect, ProviderError};
use proptest::prelude::*;
use serde::Deserialize;

const FILES: [(Dialect, &str); 5] = [
    (Dialect::OpenAiChat, include_str!("../../../../corpus/errors/openai-chat.json")),
    (Dialect::Anthropic, include_str!("../../../../corpus/errors/anthropic.json")),
    (Dialect::Bedrock, include_str!("../../../../corpus/errors/bedrock.json")),
    (Dialect::OpenAiResponses, include_str!("../../../../corpus/errors/openai-responses.json")),
    (Dialect::Gemini, include_str!("../../../../corpus/errors/gemini.json")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    source: String,
    status: Option<u16>,
    body: String,
    error: serde_json::Value,
}

fn vectors() -> impl Iterator<Item = (Dialect, Vector)> {
    FILES.into_iter().flat_map(|(dialect, text)| {
        let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
        vectors.into_iter().map(move |vector| (dialect, vector))
    })
}

fn said(provider_error: &ProviderError) -> serde_json::Value {
    serde_json::to_value(provider_error).unwrap()
}

#[test]
fn errors_say_what_the_vectors_say() {
    let mut wrong = Vec::new();
    let mut names = HashSet::new();
    for (dialect, vector) in vectors() {
        assert!(!vector.source.is_empty(), "{dialect}: {} has no source", vector.name);
        assert!(names.insert((dialect, vector.name.clone())), "{dialect}: {} stands twice", vector.name);
        let found = said(&dialect.provider_error(vector.status, &vector.body));
        if found != vector.error {
            wrong.push(format!("{dialect}: {}\n  expected {}\n  found    {found}", vector.name, vector.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A gateway wraps the error of its upstream in its own format. The classification depends only on the words.
#[test]
fn the_kind_is_the_same_in_every_dialect_and_after_one_more_wrapping() {
    let without_rule = |provider_error: ProviderError| match provider_error {
        ProviderError::Malformed { .. } => ProviderError::Malformed { rule: None },
        other => other,
    };
    for (dialect, vector) in vectors() {
        let here = without_rule(dialect.provider_error(vector.status, &vector.body));
        let wrapped =
            serde_json::json!({"error": {"message": vector.body, "metadata": {"provider_name": "x"}}}).to_string();
        let printed = format!("gateway.BadRequestError: {wrapped:?}");
        for other in Dialect::ALL {
            for body in [&vector.body, &wrapped, &printed] {
                assert_eq!(without_rule(other.provider_error(vector.status, body)), here, "{other}: {}", vector.name);
            }
        }
    }
}

#[test]
fn an_error_of_many_megabytes_is_read_at_its_beginning() {
    let long = "prompt is too long: 210000 tokens > 200000 maximum";
    let after = format!("{long} {}", "é".repeat(8 << 20));
    assert!(matches!(Dialect::Anthropic.provider_error(Some(400), &after), ProviderError::TooLong(_)));
    let before = format!("{} {long}", "é".repeat(8 << 20));
    assert_eq!(Dialect::Anthropic.provider_error(Some(400), &before), ProviderError::Other);
    // Even for the beginnings of sayings, repeated many times, the work is bounded.
    for seed in ["messages.", "\\", "exceeds the available context size", "tool_call_id", "maximum context length is 1"]
    {
        Dialect::OpenAiChat.provider_error(None, &seed.repeat((1 << 20) / seed.len()));
    }
}

/// Generates texts from words of the vectors, cut anywhere and joined again.
fn scraps() -> impl Strategy<Value = String> {
    let bodies: Vec<String> = vectors().map(|(_, vector)| vector.body).collect();
    let scrap = (0..bodies.len(), any::<prop::sample::Index>(), 0..80usize).prop_map(move |(body, from, length)| {
        let chars: Vec<char> = bodies[body].chars().collect();
        let from = if chars.is_empty() { 0 } else { from.index(chars.len()) };
        chars.iter().skip(from).take(length).collect::<String>()
    });
    prop::collection::vec(prop_oneof![scrap, "\\PC{0,8}", "[0-9,]{0,30}"], 0..12).prop_map(|scraps| scraps.concat())
}

proptest! {
    #[test]
    fn nothing_panics(bytes: Vec<u8>, text in scraps(), status: Option<u16>) {
        for dialect in Dialect::ALL {
            for body in [&*String::from_utf8_lossy(&bytes), &text] {
                if let ProviderError::TooLong(long) = dialect.provider_error(status, body) {
                    prop_assert!(long.to_string().starts_with("the request is too long"));
                    prop_assert!(long.room() <= long.limit);
                }
            }
        }
    }

    /// Words that are in no saying.
    #[test]
    fn without_a_sign_of_length_or_history_it_is_other(
        words in prop::collection::vec("(error|server|please|retry|later|key|billing|policy|model|[0-9]{1,9}|[{}\":,])", 0..40),
        status in prop::sample::select(vec![None, Some(200), Some(400), Some(401), Some(404), Some(429), Some(500), Some(529)]),
    ) {
        for dialect in Dialect::ALL {
            prop_assert_eq!(dialect.provider_error(status, &words.join(" ")), ProviderError::Other);
        }
    }
}
