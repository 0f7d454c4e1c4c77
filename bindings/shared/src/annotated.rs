//! JSON values with additional members, such as sentences for people.

use lookback_replay::explain::MessageOutcome;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns a value as JSON, with a member `words` that describes it.
pub(crate) fn with_words(value: &impl Serialize, words: &str) -> Value {
    with(json!(value), "words", words.into())
}

/// Returns a JSON object with one more member.
pub(crate) fn with(mut object: Value, name: &str, value: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    object
}

/// Returns the treatment of messages and its reasons as JSON.
pub(crate) fn why(outcomes: &[MessageOutcome]) -> String {
    Value::from_iter(outcomes.iter().map(|outcome| with_words(outcome, &in_words(outcome)))).to_string()
}

/// Returns the reason for the treatment of messages as a text.
pub(crate) fn in_words(outcome: &MessageOutcome) -> String {
    let mends = outcome.mends.iter().map(|mend| mend.to_string());
    let words: Vec<String> = [outcome.reason.to_string()].into_iter().chain(mends).collect();
    words.join("; ")
}
