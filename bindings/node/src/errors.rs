//! Errors of Lookback, as JSON in the message of a JavaScript error: `ts/errors.ts` makes the classes of it.

use lookback_bindings::Failure;
use napi::Error;
use serde_json::json;

/// Returns a failure as an error.
pub(crate) fn raised(failure: &Failure) -> Error {
    let told = json!({ "kind": failure.kind.name(), "message": failure.message, "values": failure.values });
    Error::from_reason(told.to_string())
}

/// Returns the outcome of a call.
pub(crate) fn done<T>(outcome: Result<T, Failure>) -> napi::Result<T> {
    outcome.map_err(|failure| raised(&failure))
}
