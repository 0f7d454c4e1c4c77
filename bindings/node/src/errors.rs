//! Errors of Lookback as JavaScript errors. The message is JSON, from which `ts/errors.ts` creates the exceptions.

use lookback_bindings::Failure;
use napi::Error;
use serde_json::json;

/// Returns the JavaScript error for a failure.
pub(crate) fn raised(failure: &Failure) -> Error {
    let told = json!({ "kind": failure.kind.name(), "message": failure.message, "values": failure.values });
    Error::from_reason(told.to_string())
}

/// Converts the result of a call.
pub(crate) fn done<T>(outcome: Result<T, Failure>) -> napi::Result<T> {
    outcome.map_err(|failure| raised(&failure))
}
