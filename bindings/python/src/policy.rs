//! A policy as a Python object.

use lookback_bindings as bindings;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::raise;
use crate::{input, output};

/// The limits of a window, the messages to keep, and the ways to make it smaller.
///
/// `source` is a preset with settings such as `"turns:max_turns=8"`, the path of a TOML or JSON file, or a dictionary
/// with the members of such a file. Without it, this is the default policy.
#[pyclass(frozen, eq, module = "lookback")]
#[derive(Clone, PartialEq)]
pub(crate) struct Policy(lookback_engine::policy::Policy);

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(signature = (source=None))]
    fn new(source: Option<&Bound<'_, PyAny>>) -> PyResult<Policy> {
        Ok(Policy(read(source)?.unwrap_or_else(lookback_engine::policy::Policy::production)))
    }

    /// Returns all members as a dictionary, including defaults.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &bindings::policy_document(&self.0))
    }

    /// Returns the policy as TOML.
    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        bindings::policy_toml(&self.0).map_err(|failure| raise(py, &failure))
    }

    fn __repr__(&self) -> String {
        format!("<Policy {}>", bindings::policy_document(&self.0))
    }
}

/// Reads a policy: a `Policy`, a preset with settings, a file, or a dictionary.
pub(crate) fn read(source: Option<&Bound<'_, PyAny>>) -> PyResult<Option<lookback_engine::policy::Policy>> {
    let Some(source) = source.filter(|source| !source.is_none()) else { return Ok(None) };
    let py = source.py();
    if let Ok(policy) = source.cast::<Policy>() {
        return Ok(Some(policy.get().0.clone()));
    }
    let text = match source.cast::<PyString>() {
        Ok(text) => text.to_str()?.to_owned(),
        Err(_) if source.cast::<PyDict>().is_ok() => input::object(source, "policy")?,
        Err(_) => source.str()?.to_str()?.to_owned(),
    };
    bindings::policy(&text).map(Some).map_err(|failure| raise(py, &failure))
}
