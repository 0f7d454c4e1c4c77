//! Reading the vectors of `corpus/systems/`, and checking what every window of any system must fulfill.

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
    /// Where it is known from: `document`, `tests`, `behavior`, or `fault B2`.
    pub source: String,
    /// Options, named as in the system's document.
    #[serde(default)]
    pub options: Value,
    /// What is done, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Why ours differs from the original, where it does.
    pub differs: Option<String>,
    /// What the original gives where ours differs.
    pub original: Option<Value>,
}

/// One call, and what comes of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The call, named as in the system's document.
    pub call: String,
    /// What it is given.
    #[serde(default)]
    pub with: Value,
    /// What it gives; absent, that does not matter.
    pub gives: Option<Value>,
    /// What its error says; absent, it succeeds.
    pub fails: Option<String>,
}

/// The vectors of a file of `corpus/systems/`.
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

/// A list of messages in a provider's JSON.
pub fn messages(dialect: Dialect, list: &Value) -> Vec<Message> {
    let of =
        |message: &Value| dialect.decode(&message.to_string()).unwrap_or_else(|error| panic!("{error}: {message}"));
    list.as_array().unwrap_or_else(|| panic!("no list of messages: {list}")).iter().map(of).collect()
}

/// What messages are in a provider's JSON.
pub fn json<'a>(dialect: Dialect, messages: impl IntoIterator<Item = &'a Message>) -> Value {
    let of = |message: &Message| -> Vec<Value> {
        let converted = dialect.convert(message).unwrap();
        converted.iter().map(|message| serde_json::from_str(message.wire().unwrap().raw.get()).unwrap()).collect()
    };
    messages.into_iter().flat_map(of).collect()
}

/// Holds a window to the rules of its provider.
pub fn assert_valid(dialect: Dialect, window: &Value, vector: &str) {
    if window.as_array().is_some_and(Vec::is_empty) {
        return;
    }
    let request =
        Request::decode(window.to_string(), Some(dialect)).unwrap_or_else(|error| panic!("{vector}: {error}"));
    let found = dialect.check(&request);
    assert!(found.is_empty(), "{vector}: a provider refuses {window}: {found:?}");
}
