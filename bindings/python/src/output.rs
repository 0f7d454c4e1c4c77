//! What Python gets: JSON text as dictionaries and lists.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Returns a JSON text as objects. Python's own parser makes them, so a number keeps all of its digits.
pub(crate) fn json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}
