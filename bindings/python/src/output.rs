//! What Python gets: JSON text as dictionaries and lists, with sentences for people.

use lookback::explain::MessageOutcome;
use lookback::words;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns a JSON text as objects. Python's own parser makes them, so a number keeps all of its digits.
pub(crate) fn json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

/// Returns a value as JSON, with what it says in words.
pub(crate) fn told(value: &impl Serialize, words: &str) -> Value {
    let mut value = json!(value);
    if let Some(members) = value.as_object_mut() {
        members.insert("words".to_owned(), words.into());
    }
    value
}

/// Returns what became of messages, as JSON.
pub(crate) fn why(outcomes: &[MessageOutcome]) -> String {
    let each = |outcome: &MessageOutcome| {
        let mends = outcome.mends.iter().map(|mend| words::mend(*mend));
        let words: Vec<String> = [words::reason(&outcome.reason)].into_iter().chain(mends).collect();
        told(outcome, &words.join("; "))
    };
    Value::from_iter(outcomes.iter().map(each)).to_string()
}
