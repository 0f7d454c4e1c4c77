//! A window: what one model call sends, and where each message of it comes from.

use lookback::session::{MessageSource, SourceKind, sources};
use lookback::size::Excess;
use lookback::transcript::Entry;
use lookback::{ConversionError, Dialect, Error, View};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::{errors, output};

/// The messages that one model call sends.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Window {
    view: View,
    dialect: Dialect,
    /// The tokens, with the system prompt and the tools, as Lookback counts them.
    #[pyo3(get)]
    tokens: u64,
    /// Whether this call cut the conversation.
    #[pyo3(get)]
    compacted: bool,
    over: Vec<Excess>,
    /// The messages, once somebody has read them.
    messages: PyOnceLock<Py<PyAny>>,
    /// What became of each message of the history, if it is known.
    told: Option<String>,
}

/// Where a message of a window comes from.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Source(MessageSource);

#[pymethods]
impl Source {
    /// `unchanged`: it has exactly the bytes of its entry. `changed`: it shows less, was repaired, or merged from several.
    /// `own`: Lookback made it.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind {
            SourceKind::Unchanged => "unchanged",
            SourceKind::Changed => "changed",
            SourceKind::Own => "own",
        }
    }

    /// The positions of its entries in the log.
    #[getter]
    fn positions(&self) -> Vec<u64> {
        self.0.positions.clone()
    }

    fn __repr__(&self) -> String {
        format!("Source(kind={:?}, positions={:?})", self.kind(), self.0.positions)
    }
}

impl Window {
    /// Takes over what a session made.
    pub(crate) fn of(window: &lookback::Window<'_>) -> Result<Window, Error> {
        let compacted = window.entries().iter().any(|entry| matches!(entry, Entry::Compaction(_)));
        let made = Window::new(window.view().clone(), window.dialect(), window.tokens(), window.over().to_vec());
        Ok(Window { compacted, ..made })
    }

    /// A window that cut nothing.
    pub(crate) fn new(view: View, dialect: Dialect, tokens: u64, over: Vec<Excess>) -> Window {
        let messages = PyOnceLock::new();
        Window { view, dialect, tokens, compacted: false, over, messages, told: None }
    }

    /// Adds whether the conversation was cut, and what became of each message, as JSON.
    pub(crate) fn told(self, compacted: bool, told: String) -> Window {
        Window { compacted, told: Some(told), ..self }
    }

    fn text(&self) -> Result<String, ConversionError> {
        Ok(lookback::dialect::json_list(&self.view.encode(self.dialect)?))
    }
}

#[pymethods]
impl Window {
    /// The messages, as dictionaries for a request. They are made when this is read first.
    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let made = self.messages.get_or_try_init(py, || {
            let text = py.detach(|| self.text()).map_err(|error| errors::conversion(py, &error))?;
            output::json(py, &text).map(Bound::unbind)
        });
        made.map(|messages| messages.clone_ref(py))
    }

    /// The messages as a JSON list. What is unchanged has the bytes with which it came.
    #[getter]
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = py.detach(|| self.text()).map_err(|error| errors::conversion(py, &error))?;
        Ok(PyBytes::new(py, text.as_bytes()))
    }

    /// Where each of the messages comes from, in the same order. No JSON is written for it.
    #[getter]
    fn sources(&self, py: Python<'_>) -> PyResult<Vec<Source>> {
        let sources = sources(&self.view, self.dialect).map_err(|error| errors::conversion(py, &error))?;
        Ok(sources.into_iter().map(Source).collect())
    }

    /// The limits that it exceeds, because what is left may not be dropped.
    #[getter]
    fn over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &json!(self.over).to_string())
    }

    /// Returns what became of every message of the history, and why. For the window of a session, ask the session.
    fn why<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.told {
            Some(told) => output::json(py, told),
            None => Err(errors::other(py, "the session knows why: session.why()")),
        }
    }

    fn __repr__(&self) -> String {
        let compacted = if self.compacted { ", compacted" } else { "" };
        format!("<Window of {} tokens{compacted}>", self.tokens)
    }
}
