//! A memory: facts that outlive the window and the session.

use std::path::PathBuf;

use lookback_bindings as bindings;
use pyo3::prelude::*;

use crate::errors::detached;
use crate::{input, logging, output};

/// The memory of one session: its own facts, and those that all sessions of a workspace share.
///
/// Calls from several threads wait for each other. None of them holds the interpreter's lock while it works.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Memory {
    memory: bindings::Memory,
    /// The name of the session.
    #[pyo3(get)]
    name: String,
}

impl Memory {
    pub(crate) fn new_in(memory: bindings::Memory, name: &str) -> Memory {
        Memory { memory, name: name.to_owned() }
    }

    /// Runs work without the interpreter's lock, and returns its JSON as Python objects.
    fn detached_json<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&bindings::Memory) -> Result<String, bindings::Failure> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &detached(py, || work(&self.memory))?)
    }
}

#[pymethods]
impl Memory {
    /// Opens the memory of a session.
    #[new]
    #[pyo3(signature = (session, *, store=None, workspace=None))]
    fn new(py: Python<'_>, session: String, store: Option<PathBuf>, workspace: Option<String>) -> PyResult<Memory> {
        logging::begin();
        let memory = detached(py, || bindings::Memory::open(&session, store.as_deref(), workspace.as_deref()))?;
        Ok(Memory { memory, name: session })
    }

    /// Writes a fact, or confirms an existing one with the same content.
    #[pyo3(signature = (
        kind, text, *, about=None, confidence=None, by=None, trust=None, tags=None, supersedes=None, shared=None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are named where it is called")]
    fn remember<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        text: &str,
        about: Option<&str>,
        confidence: Option<f64>,
        by: Option<Bound<'py, PyAny>>,
        trust: Option<&str>,
        tags: Option<Vec<String>>,
        supersedes: Option<Vec<String>>,
        shared: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let by = by.map(|by| input::value(&by, "by")).transpose()?;
        if let Some(confidence) = confidence {
            // JSON has no NaN, so the value would be lost.
            input::finite(py, confidence, "confidence")?;
        }
        let statement = serde_json::json!({
            "kind": kind, "text": text, "about": about, "confidence": confidence, "by": by, "trust": trust,
            "tags": tags.unwrap_or_default(), "supersedes": supersedes.unwrap_or_default(), "shared": shared,
        });
        self.detached_json(py, move |memory| memory.remember(&statement.to_string()))
    }

    /// Returns the current facts: the session's, then the shared ones.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, bindings::Memory::facts)
    }

    /// Returns the current facts that contain any of these words, the best match first.
    #[pyo3(signature = (query, limit=10))]
    fn search<'py>(&self, py: Python<'py>, query: &str, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, |memory| memory.search(query, limit))
    }

    /// Marks a blocker as resolved, and records what resolved it.
    fn resolve(&self, py: Python<'_>, id: &str, by: &str) -> PyResult<()> {
        detached(py, || self.memory.resolve(id, by))
    }

    /// Removes a fact from the fact sheet. Its history stays readable.
    #[pyo3(signature = (id, why=None))]
    fn forget(&self, py: Python<'_>, id: &str, why: Option<&str>) -> PyResult<()> {
        detached(py, || self.memory.forget(id, why))
    }

    /// Returns the history of a fact, of those that it replaced, and of those that replaced it.
    fn history<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, |memory| memory.history(id))
    }

    /// Returns the fact sheet: a text for the model within a token budget, and the facts that it shows and leaves out.
    #[pyo3(signature = (*, budget=None, model=None))]
    fn sheet<'py>(&self, py: Python<'py>, budget: Option<u64>, model: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, |memory| memory.sheet(budget, model))
    }

    /// Returns the memory tools for a model, for the `tools` of a request.
    #[pyo3(signature = (dialect="openai-chat"))]
    fn tools<'py>(&self, py: Python<'py>, dialect: &str) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, |memory| memory.tools(dialect))
    }

    /// Runs a tool call of the model. Returns the text of the result, and whether it is an error.
    fn call<'py>(&self, py: Python<'py>, tool: &str, arguments: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let arguments = input::object(arguments, "arguments")?;
        self.detached_json(py, move |memory| memory.call(tool, &arguments))
    }

    fn __repr__(&self) -> String {
        format!("Memory({:?})", self.name)
    }
}
