//! Converts JSON text to Python dictionaries and lists.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt};

/// Parses a JSON text with Python's own parser, so that numbers keep all of their digits.
pub(crate) fn json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.import(py, "json", "loads")?;
    match loads.call1((text,)) {
        // A whole number may have more digits than Python's `int` accepts. It must be readable anyway.
        Err(error) if error.is_instance_of::<PyValueError>(py) => {
            let options = PyDict::new(py);
            options.set_item("parse_int", wrap_pyfunction!(whole, py)?)?;
            loads.call((text,), Some(&options))
        }
        read => read,
    }
}

/// Returns a whole number, or a `decimal.Decimal` if it is too long for an `int`.
#[pyfunction]
fn whole<'py>(digits: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = digits.py();
    py.get_type::<PyInt>().call1((digits,)).or_else(|_| py.import("decimal")?.getattr("Decimal")?.call1((digits,)))
}
