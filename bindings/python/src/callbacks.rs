//! Functions of Python that a session calls: one that makes summaries, and those that are told of compactions.

use std::sync::{Arc, Mutex, PoisonError};

use lookback_bindings as bindings;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::{interpreter, output};

/// What a function that makes summaries is asked.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Ask(bindings::Ask);

#[pymethods]
impl Ask {
    /// The system prompt.
    #[getter]
    fn system(&self) -> &str {
        &self.0.system
    }

    /// The user's message: the conversation.
    #[getter]
    fn prompt(&self) -> &str {
        &self.0.prompt
    }

    /// The most tokens of the answer.
    #[getter]
    fn budget(&self) -> u64 {
        self.0.budget
    }

    fn __repr__(&self) -> String {
        format!("<Ask of {} characters, for at most {} tokens>", self.0.prompt.chars().count(), self.0.budget)
    }
}

/// Where a summary goes.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Answer(Mutex<Option<bindings::Answer>>);

#[pymethods]
impl Answer {
    /// Gives the summary.
    fn give(&self, summary: String) {
        self.answer(Ok(summary));
    }

    /// Says why there is none.
    fn fail(&self, why: String) {
        self.answer(Err(why));
    }
}

impl Answer {
    fn answer(&self, answer: Result<String, String>) {
        if let Some(waiting) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waiting.give(answer);
        }
    }
}

/// The context variables of the call that asked for a window. What a summarizer does belongs to it.
#[derive(Default)]
pub(crate) struct Context(Mutex<Option<Py<PyAny>>>);

impl Context {
    /// Takes note of the context of this call.
    pub(crate) fn note(&self, py: Python<'_>) -> PyResult<()> {
        static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let context = COPY.import(py, "contextvars", "copy_context")?.call0()?.unbind();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(context);
        Ok(())
    }

    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|context| context.clone_ref(py))
    }
}

/// Returns a function that has Python's function make a summary, on a thread of Python's own.
pub(crate) fn summarizer(function: Py<PyAny>, context: Arc<Context>) -> bindings::Summarize {
    Arc::new(move |ask, answer| {
        let begun = interpreter::with(|py| -> PyResult<()> {
            static BEGIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let answer = Answer(Mutex::new(Some(answer)));
            let given = (&function, Ask(ask), answer, context.get(py));
            BEGIN.import(py, "lookback._callbacks", "begin")?.call1(given)?;
            Ok(())
        });
        // Without an answer the summary fails, and is tried again later.
        if let Some(Err(error)) = begun {
            report(error, &function);
        }
    })
}

/// The functions that are told of events, by the events' names.
pub(crate) struct Listeners {
    pub(crate) named: Vec<(&'static str, Py<PyAny>)>,
}

impl Listeners {
    /// Returns a function that tells them.
    pub(crate) fn tell(self) -> Option<bindings::Tell> {
        if self.named.is_empty() {
            return None;
        }
        Some(Arc::new(move |event: &str, told: String| {
            for (_, function) in self.named.iter().filter(|(name, _)| *name == event) {
                let called = interpreter::with(|py| function.call1(py, (output::json(py, &told)?,)).map(drop));
                if let Some(Err(error)) = called {
                    report(error, function);
                }
            }
        }))
    }
}

/// Reports an exception that nobody can catch, as Python does.
fn report(error: PyErr, function: &Py<PyAny>) {
    interpreter::with(|py| error.write_unraisable(py, Some(function.bind(py))));
}
