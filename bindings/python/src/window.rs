//! A window: the messages that one model call sends, with their sources.

use lookback_bindings as bindings;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::errors::{detached, raise};
use crate::output;

/// The messages that one model call sends.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Window {
    window: bindings::Window,
    /// The messages, once they have been read.
    messages: PyOnceLock<Py<PyAny>>,
}

/// The source of a message in a window.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Source(bindings::Source);

#[pymethods]
impl Source {
    /// `unchanged` if it has exactly the bytes of its entry, `changed` if it was shortened, repaired or merged from
    /// several, and `own` if Lookback made it.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The positions of its entries in the log.
    #[getter]
    fn positions(&self) -> &[u64] {
        self.0.positions()
    }

    fn __repr__(&self) -> String {
        format!("Source(kind={:?}, positions={:?})", self.0.kind(), self.0.positions())
    }
}

impl From<bindings::Window> for Window {
    fn from(window: bindings::Window) -> Window {
        Window { window, messages: PyOnceLock::new() }
    }
}

#[pymethods]
impl Window {
    /// The messages, as dictionaries for a request. They are created when this is first read.
    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let made = self
            .messages
            .get_or_try_init(py, || output::json(py, &detached(py, || self.window.json())?).map(Bound::unbind));
        made.map(|messages| messages.clone_ref(py))
    }

    /// The messages as a JSON list. Unchanged messages have the bytes with which they arrived.
    #[getter]
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, detached(py, || self.window.json())?.as_bytes()))
    }

    /// The tokens as Lookback counts them, including the system prompt and the tools.
    #[getter]
    fn tokens(&self) -> u64 {
        self.window.tokens()
    }

    /// Whether this call compacted the conversation.
    #[getter]
    fn compacted(&self) -> bool {
        self.window.compacted()
    }

    /// The source of each message, in the same order. Faster than `messages`, because it writes no JSON.
    #[getter]
    fn sources(&self, py: Python<'_>) -> PyResult<Vec<Source>> {
        // Too fast to be worth releasing the interpreter's lock.
        let sources = self.window.sources().map_err(|failure| raise(py, &failure))?;
        Ok(sources.into_iter().map(Source).collect())
    }

    /// The limits that the window exceeds, because the rest may not be dropped.
    #[getter]
    fn over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &self.window.over())
    }

    /// Returns the treatment of every message of the history and its reason.
    fn why<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &detached(py, || self.window.why())?)
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || self.window.html())
    }

    fn __repr__(&self) -> String {
        let compacted = if self.compacted() { ", compacted" } else { "" };
        format!("<Window of {} tokens{compacted}>", self.tokens())
    }
}
