//! What Python gets: JSON text as dictionaries and lists.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt};

/// Returns a JSON text as objects. Python's own parser makes them, so a number keeps all of its digits.
pub(crate) fn json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.import(py, "json", "loads")?;
    match loads.call1((text,)) {
        // A whole number may have more digits than Python reads. It has to be readable all the same.
        Err(error) if error.is_instance_of::<PyValueError>(py) => {
            let options = PyDict::new(py);
            options.set_item("parse_int", wrap_pyfunction!(whole, py)?)?;
            loads.call((text,), Some(&options))
        }
        read => read,
    }
}

/// Returns a whole number, as a `decimal.Decimal` if it is too long for an `int`.
#[pyfunction]
fn whole<'py>(digits: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = digits.py();
    py.get_type::<PyInt>().call1((digits,)).or_else(|_| py.import("decimal")?.getattr("Decimal")?.call1((digits,)))
}
