//! A window: what one model call sends, and where each message of it comes from.

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
    /// The messages, once somebody has read them.
    messages: PyOnceLock<Py<PyAny>>,
}

/// Where a message of a window comes from.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Source(bindings::Source);

#[pymethods]
impl Source {
    /// `unchanged`: it has exactly the bytes of its entry. `changed`: it shows less, was repaired, or merged from several.
    /// `own`: Lookback made it.
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
    /// The messages, as dictionaries for a request. They are made when this is read first.
    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let made = self
            .messages
            .get_or_try_init(py, || output::json(py, &detached(py, || self.window.json())?).map(Bound::unbind));
        made.map(|messages| messages.clone_ref(py))
    }

    /// The messages as a JSON list. What is unchanged has the bytes with which it came.
    #[getter]
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, detached(py, || self.window.json())?.as_bytes()))
    }

    /// The tokens, with the system prompt and the tools, as Lookback counts them.
    #[getter]
    fn tokens(&self) -> u64 {
        self.window.tokens()
    }

    /// Whether this call cut the conversation.
    #[getter]
    fn compacted(&self) -> bool {
        self.window.compacted()
    }

    /// Where each of the messages comes from, in the same order. No JSON is written for it.
    #[getter]
    fn sources(&self, py: Python<'_>) -> PyResult<Vec<Source>> {
        // It is done before the lock would be given back.
        let sources = self.window.sources().map_err(|failure| raise(py, &failure))?;
        Ok(sources.into_iter().map(Source).collect())
    }

    /// The limits that it exceeds, because what is left may not be dropped.
    #[getter]
    fn over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &self.window.over())
    }

    /// Returns what became of every message of the history, and why.
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
