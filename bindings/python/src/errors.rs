//! Errors of Lookback as Python exceptions with values. The classes are in `lookback/_errors.py`.

use std::fmt::Display;

use lookback_bindings::Failure;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::output;

/// Returns the exception for a failure.
pub(crate) fn raise(py: Python<'_>, failure: &Failure) -> PyErr {
    let made = || {
        let error = py.import("lookback._errors")?.getattr(failure.kind.name())?.call1((&failure.message,))?;
        for (name, value) in output::json(py, &failure.values.to_string())?.cast::<PyDict>()? {
            error.setattr(name.extract::<String>()?.as_str(), value)?;
        }
        Ok(PyErr::from_value(error))
    };
    made().unwrap_or_else(|error: PyErr| error)
}

/// Returns the exception for an argument that is invalid at a place.
pub(crate) fn decode(py: Python<'_>, place: &dyn Display, what: &str) -> PyErr {
    raise(py, &Failure::decode(place, what))
}

/// Runs work without the interpreter's lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    py.detach(work).map_err(|failure| raise(py, &failure))
}

/// Returns the exception for an error that only Python can cause.
pub(crate) fn other(py: Python<'_>, what: &str) -> PyErr {
    raise(py, &Failure::other(what))
}
