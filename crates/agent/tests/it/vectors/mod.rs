//! Reading the vectors of `corpus/systems/`, and checking the windows of all systems against the providers' rules.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

pub mod preset;
pub mod run;

use lookback_wire::{
    dialect::{Dialect, Request},
    message::Message,
};
use serde::Deserialize;
use serde_json::Value;

/// One behavior of a system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// The behavior in words, unique in its file.
    pub name: String,
    /// The source of the behavior: `document`, `tests`, `behavior`, or `fault B2`.
    pub source: String,
    /// Options, named as in the system's document.
    #[serde(default)]
    pub options: Value,
    /// The calls, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The reason why ours differs from the original, if it does.
    pub differs: Option<String>,
    /// The result of the original, if ours differs.
    pub original: Option<Value>,
}

/// One call, and its expected result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The call, named as in the system's document.
    pub call: String,
    /// The arguments.
    #[serde(default)]
    pub with: Value,
    /// The expected result. If it is absent, the result is not checked.
    pub gives: Option<Value>,
    /// The expected text of the error. If it is absent, the call must succeed.
    pub fails: Option<String>,
}

/// Reads the vectors of a file in `corpus/systems/`.
pub fn vectors(file: &str) -> Vec<Vector> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/systems").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let vectors: Vec<Vector> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut names = std::collections::BTreeSet::new();
    for vector in &vectors {
        let known = ["document", "tests", "behavior"].contains(&vector.source.as_str());
        assert!(known || vector.source.starts_with("fault "), "{file}: `{}`: {}?", vector.name, vector.source);
        assert!(names.insert(&vector.name), "{file}: `{}` stands twice", vector.name);
        assert_eq!(
            vector.differs.is_some(),
            vector.original.is_some(),
            "{file}: `{}`: differs from what?",
            vector.name
        );
    }
    vectors
}

/// Decodes a list of messages from a provider's JSON.
pub fn messages(dialect: Dialect, list: &Value) -> Vec<Message> {
    let of =
        |message: &Value| dialect.decode(&message.to_string()).unwrap_or_else(|error| panic!("{error}: {message}"));
    list.as_array().unwrap_or_else(|| panic!("no list of messages: {list}")).iter().map(of).collect()
}

/// Encodes messages as a provider's JSON.
pub fn json<'a>(dialect: Dialect, messages: impl IntoIterator<Item = &'a Message>) -> Value {
    let of = |message: &Message| -> Vec<Value> {
        let converted = dialect.convert(message).unwrap();
        converted.iter().map(|message| serde_json::from_str(message.wire().unwrap().raw.get()).unwrap()).collect()
    };
    messages.into_iter().flat_map(of).collect()
}

/// Asserts that a window meets the rules of its provider.
pub fn assert_valid(dialect: Dialect, window: &Value, vector: &str) {
    if window.as_array().is_some_and(Vec::is_empty) {
        return;
    }
    let request =
        Request::decode(window.to_string(), Some(dialect)).unwrap_or_else(|error| panic!("{vector}: {error}"));
    let found = dialect.check(&request);
    assert!(found.is_empty(), "{vector}: a provider refuses {window}: {found:?}");
}
