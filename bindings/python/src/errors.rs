//! Errors of Lookback as exceptions of Python, with their values. The classes are in `lookback/_errors.py`.

use std::fmt::Display;

use lookback::presets::PolicyError;
use lookback::{ConversionError, Error, RequestError, StoreError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::output;

/// Raises an exception of this class, with these attributes.
fn raise(py: Python<'_>, class: &str, message: &str, values: &Value) -> PyErr {
    let made = || {
        let error = py.import("lookback._errors")?.getattr(class)?.call1((message,))?;
        for (name, value) in output::json(py, &values.to_string())?.cast::<PyDict>()? {
            error.setattr(name.extract::<String>()?.as_str(), value)?;
        }
        Ok(PyErr::from_value(error))
    };
    made().unwrap_or_else(|error: PyErr| error)
}

/// What Python gave has no meaning at this place.
pub(crate) fn decode(py: Python<'_>, place: &dyn Display, what: &str) -> PyErr {
    let place = place.to_string();
    raise(py, "DecodeError", &format!("{place}: {what}"), &json!({ "where": place }))
}

/// A request cannot be read.
pub(crate) fn request(py: Python<'_>, error: &RequestError) -> PyErr {
    let place = match error {
        RequestError::Message { list, index, .. } | RequestError::NoMessage { list, index } => {
            format!("{list}[{index}]")
        }
        _ => "request".to_owned(),
    };
    raise(py, "DecodeError", &error.to_string(), &json!({ "where": place }))
}

/// A message cannot be expressed in the format of the session.
pub(crate) fn conversion(py: Python<'_>, error: &ConversionError) -> PyErr {
    raise(py, "DecodeError", &error.to_string(), &json!({ "where": "messages" }))
}

/// A policy has a mistake.
pub(crate) fn policy(py: Python<'_>, error: &PolicyError) -> PyErr {
    raise(py, "PolicyError", &error.to_string(), &json!({}))
}

/// A store failed.
pub(crate) fn store(py: Python<'_>, error: &StoreError) -> PyErr {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |&error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    raise(py, "StoreError", &causes.join(": "), &json!({}))
}

/// A call of a session failed.
pub(crate) fn session(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Store(error) => store(py, error),
        Error::Conversion(error) => conversion(py, error),
        Error::Request(error) => self::request(py, error),
        Error::HardLimitExceeded(exceeded) => {
            let values = json!({ "excesses": exceeded.excesses, "pinned": exceeded.pinned });
            raise(py, "HardLimitExceeded", &exceeded.to_string(), &values)
        }
        Error::Irreducible(left) => {
            let values = json!({ "reductions": left.reductions, "tokens": left.tokens, "pinned": left.pinned });
            raise(py, "Irreducible", &left.to_string(), &values)
        }
        error => raise(py, "LookbackError", &error.to_string(), &json!({})),
    }
}

/// Something else that only Python can cause.
pub(crate) fn other(py: Python<'_>, what: &str) -> PyErr {
    raise(py, "LookbackError", what, &json!({}))
}
