//! Parses JSON text from JavaScript.

use lookback_bindings::Failure;
use serde_json::value::RawValue;

/// Parses a list of messages, which keep their bytes.
pub(crate) fn messages(text: &str) -> Result<Vec<Box<RawValue>>, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::decode("messages", format_args!("not JSON: {error}")))
}

/// Parses a value.
pub(crate) fn value(text: Option<String>, name: &str) -> Result<Option<Box<RawValue>>, Failure> {
    let read = |text| RawValue::from_string(text);
    text.map(read).transpose().map_err(|error| Failure::decode(name, format_args!("not JSON: {error}")))
}
