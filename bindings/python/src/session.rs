//! A session: the log of a conversation, and the window of each call.

use std::path::PathBuf;
use std::sync::Arc;

use lookback_bindings::{self as bindings, Failure, Model, Opening};
use lookback_wire::dialect::TooLong;
use lookback_wire::size::Measure;
use pyo3::exceptions::PyBaseException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::callbacks::Functions;
use crate::errors::detached;
use crate::memory::Memory;
use crate::window::Window;
use crate::{errors, input, interpreter, logging, output, policy};

/// A conversation with a log of every message, and a window for each model call.
///
/// Calls from several threads wait for each other. None of them holds the interpreter's lock while it works.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Session {
    session: bindings::Session,
    functions: Arc<Functions>,
}

impl Session {
    /// Runs work without the interpreter's lock, and returns its JSON as Python objects.
    fn detached_json<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&bindings::Session) -> Result<String, Failure> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        output::json(py, &detached(py, || work(&self.session))?)
    }
}

#[pymethods]
impl Session {
    /// Opens the session with this name, or creates it.
    #[new]
    #[pyo3(signature = (
        name, *, store=None, model=None, dialect=None, policy=None, summarizer=None,
        on_compact_start=None, on_compact_end=None, on_summary_refused=None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are named where it is called")]
    fn new(
        py: Python<'_>,
        name: String,
        store: Option<PathBuf>,
        model: Option<String>,
        dialect: Option<String>,
        policy: Option<&Bound<'_, PyAny>>,
        summarizer: Option<Bound<'_, PyAny>>,
        on_compact_start: Option<Bound<'_, PyAny>>,
        on_compact_end: Option<Bound<'_, PyAny>>,
        on_summary_refused: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Session> {
        logging::begin();
        let summarizer = input::function(summarizer, "summarizer")?;
        let listeners = [
            ("compact_start", input::function(on_compact_start, "on_compact_start")?),
            ("compact_end", input::function(on_compact_end, "on_compact_end")?),
            ("summary_refused", input::function(on_summary_refused, "on_summary_refused")?),
        ];
        let functions = Functions::new(summarizer, listeners);
        let callbacks = functions.callbacks();
        let model = Model { name: model, dialect, ..Model::default() };
        let opening = Opening { store, model, policy: policy::read(policy)?, callbacks };
        let session = detached(py, || bindings::Session::open(&name, opening))?;
        Ok(Session { session, functions })
    }

    /// The name of the session.
    #[getter]
    fn name(&self) -> &str {
        self.session.name()
    }

    /// The dialect of the messages, such as `openai-chat`.
    #[getter]
    fn dialect(&self) -> &'static str {
        self.session.dialect()
    }

    /// Appends a message or a list of messages, and returns the log position of each.
    fn push(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let messages = input::messages(messages)?;
        detached(py, || self.session.push(&messages))
    }

    /// Takes over a whole history: recognizes known messages and appends the rest.
    fn sync<'py>(&self, py: Python<'py>, history: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let history = input::messages(history)?;
        self.detached_json(py, |session| session.sync(&history))
    }

    /// Sets the tools and the system prompt that requests send outside the messages, because the provider counts them.
    #[pyo3(signature = (*, system=None, tools=None))]
    fn preamble(
        &self,
        py: Python<'_>,
        system: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let raw = |value: Option<&Bound<'_, PyAny>>, name| value.map(|value| input::value(value, name)).transpose();
        let (system, tools) = (raw(system, "system")?, raw(tools, "tools")?);
        detached(py, || self.session.preamble(system, tools))
    }

    /// Returns the window for the next model call. It is recorded before it is returned.
    fn window(&self, py: Python<'_>) -> PyResult<Window> {
        self.functions.note_context(py)?;
        detached(py, || self.session.window()).map(Window::from)
    }

    /// Records the model's answer: its message, and the tokens that the provider reports. Takes a whole response, not a
    /// stream.
    fn answered(&self, py: Python<'_>, response: &Bound<'_, PyAny>) -> PyResult<()> {
        let response = input::object(response, "response")?;
        detached(py, || self.session.answered(&response))
    }

    /// Records the input tokens that the provider reported for the last window, including cached ones.
    fn usage(&self, py: Python<'_>, model: &str, input_tokens: u64) -> PyResult<()> {
        detached(py, || self.session.usage(model, input_tokens))
    }

    /// Returns a smaller window, because the provider refused the last one as too long.
    fn overflow(&self, py: Python<'_>, error: Option<&Bound<'_, PyAny>>) -> PyResult<Window> {
        let cause = error.map_or(Ok(TooLong::new(Measure::Tokens)), |error| self.too_long(error))?;
        detached(py, || self.session.overflow(cause)).map(Window::from)
    }

    /// Finds messages by words, including those that have left the window. The best match comes first.
    #[pyo3(signature = (query, limit=10))]
    fn search<'py>(&self, py: Python<'py>, query: &str, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, |session| session.search(query, limit))
    }

    /// Returns the messages of the conversation with their log positions, and whether the window shows them.
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, bindings::Session::history)
    }

    /// Returns the messages of the conversation as they arrived, including those that have left the window.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, bindings::Session::messages)
    }

    /// Returns the treatment of every message and its reason.
    fn why<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, bindings::Session::why)
    }

    /// Returns what each call sent and cost, and what it would have cost without a window.
    #[pyo3(signature = (price="anthropic-5m"))]
    fn receipt<'py>(&self, py: Python<'py>, price: &str) -> PyResult<Bound<'py, PyAny>> {
        self.detached_json(py, |session| session.receipt(&bindings::price(price)?))
    }

    /// Changes the policy for the next window and later ones.
    fn set_policy(&self, py: Python<'_>, policy: &Bound<'_, PyAny>) -> PyResult<()> {
        let policy = policy::read(Some(policy))?.unwrap_or_else(lookback_engine::policy::Policy::production);
        detached(py, || self.session.set_policy(policy))
    }

    /// Continues the session of an earlier process: the last turns stay in the window, and the task follows them.
    #[pyo3(signature = (task, turns=None))]
    fn resume<'py>(
        &self,
        py: Python<'py>,
        task: &Bound<'py, PyAny>,
        turns: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let task = input::messages(task)?;
        self.detached_json(py, |session| session.resume(&task, turns))
    }

    /// Waits until the summary in progress is done.
    fn wait_for_summary(&self, py: Python<'_>) -> PyResult<()> {
        let mut interrupted = Ok(());
        detached(py, || {
            self.session.wait_for_summary(|| {
                // A signal such as Ctrl-C.
                interrupted = interpreter::with(|py| py.check_signals()).unwrap_or(Ok(()));
                interrupted.is_ok()
            })
        })?;
        interrupted
    }

    /// Opens the memory of the session: its facts, and those that it shares with its workspace.
    #[pyo3(signature = (workspace=None))]
    fn memory(&self, py: Python<'_>, workspace: Option<&str>) -> PyResult<Memory> {
        let memory = detached(py, || self.session.memory(workspace))?;
        Ok(Memory::new_in(memory, self.session.name()))
    }

    /// Visits the session's functions for Python's garbage collector, because they may hold the session.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(&visit)
    }

    fn __clear__(&self) {
        self.functions.clear();
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || self.session.html())
    }

    fn __repr__(&self) -> String {
        format!("Session({:?}, dialect={:?})", self.session.name(), self.session.dialect())
    }
}

impl Session {
    /// Parses a provider's error, and returns by how much a request was too long.
    fn too_long(&self, error: &Bound<'_, PyAny>) -> PyResult<TooLong> {
        let py = error.py();
        let number = |name| error.getattr_opt(name).ok().flatten().and_then(|value| value.extract::<u16>().ok());
        let status = number("status_code").or_else(|| number("code"));
        let body = match error.cast::<PyString>() {
            Ok(text) => text.to_str()?.to_owned(),
            Err(_) => {
                let response = error.getattr_opt("response")?;
                let text = response.and_then(|response| response.getattr_opt("text").ok().flatten());
                let text = text.and_then(|text| text.extract::<String>().ok());
                // A response that was already read has no text, but the exception's message has it.
                let text = text.filter(|text| !text.trim().is_empty());
                text.map_or_else(|| error.str()?.extract(), Ok)?
            }
        };
        match self.session.too_long(status, &body) {
            Some(cause) => Ok(cause),
            None if error.is_instance_of::<PyBaseException>() => Err(PyErr::from_value(error.clone())),
            None => Err(errors::other(py, "the provider does not say that the request is too long")),
        }
    }
}
