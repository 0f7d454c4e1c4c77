//! Python functions that a session calls: a summarizer, and listeners to compactions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_bindings as bindings;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::{interpreter, output};

/// A request for a summary.
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

/// Receives the answer of a summarizer.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Answer(Mutex<Option<bindings::Answer>>);

#[pymethods]
impl Answer {
    /// Gives the summary.
    fn give(&self, summary: String) {
        self.answer(Ok(summary));
    }

    /// Reports why there is no summary.
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

/// The functions of one session. They may hold the session, so Python's garbage collector must be able to clear them.
pub(crate) struct Functions {
    summarizer: Mutex<Option<Py<PyAny>>>,
    /// The listeners, by the names of their events.
    listeners: Mutex<Vec<(&'static str, Py<PyAny>)>>,
    /// The context variables of the call that requested a window. The summarizer runs in this context.
    context: Mutex<Option<Py<PyAny>>>,
}

impl Functions {
    pub(crate) fn new<const N: usize>(
        summarizer: Option<Py<PyAny>>,
        listeners: [(&'static str, Option<Py<PyAny>>); N],
    ) -> Arc<Functions> {
        let listeners = listeners.into_iter().filter_map(|(name, function)| Some((name, function?))).collect();
        let (summarizer, listeners) = (Mutex::new(summarizer), Mutex::new(listeners));
        Arc::new(Functions { summarizer, listeners, context: Mutex::default() })
    }

    /// Returns the callbacks for a session.
    pub(crate) fn callbacks(self: &Arc<Self>) -> bindings::Callbacks {
        let mut callbacks = bindings::Callbacks::default();
        if locked(&self.summarizer).is_some() {
            let functions = self.clone();
            callbacks.summarizer = Some(Arc::new(move |ask, answer| functions.summarize(ask, answer)));
        }
        if !locked(&self.listeners).is_empty() {
            let functions = self.clone();
            callbacks.on_event = Some(Arc::new(move |event: &str, told: String| functions.emit(event, &told)));
        }
        callbacks
    }

    /// Records the context of this call, if there is a summarizer.
    pub(crate) fn note_context(&self, py: Python<'_>) -> PyResult<()> {
        static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if locked(&self.summarizer).is_some() {
            let context = COPY.import(py, "contextvars", "copy_context")?.call0()?.unbind();
            // Dropped after the lock is released, because dropping a Python object may run any code.
            drop(locked(&self.context).replace(context));
        }
        Ok(())
    }

    /// Calls the Python summarizer on a Python thread.
    fn summarize(&self, ask: bindings::Ask, answer: bindings::Answer) {
        interpreter::with(|py| {
            static BEGIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let Some(function) = copied(py, &self.summarizer) else { return };
            let begun = || -> PyResult<()> {
                let answer = Answer(Mutex::new(Some(answer)));
                let given = (&function, Ask(ask), answer, copied(py, &self.context));
                BEGIN.import(py, "lookback._callbacks", "begin")?.call1(given)?;
                Ok(())
            };
            // Without an answer, the summary fails and is tried again later.
            if let Err(error) = begun() {
                error.write_unraisable(py, Some(function.bind(py)));
            }
        });
    }

    /// Emits an event.
    fn emit(&self, event: &str, told: &str) {
        interpreter::with(|py| {
            let listeners: Vec<_> = locked(&self.listeners)
                .iter()
                .filter(|(name, _)| *name == event)
                .map(|(_, function)| function.clone_ref(py))
                .collect();
            for function in listeners {
                let called = output::json(py, told).and_then(|told| function.call1(py, (told,)));
                // No caller could catch this error.
                if let Err(error) = called {
                    error.write_unraisable(py, Some(function.bind(py)));
                }
            }
        });
    }

    /// Visits all objects that are held. Skips those that another thread is changing; the next collection will visit
    /// them.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for held in [&self.summarizer, &self.context] {
            if let Some(function) = held.try_lock().ok().as_deref().and_then(Option::as_ref) {
                visit.call(function)?;
            }
        }
        let listeners = self.listeners.try_lock();
        listeners.iter().flat_map(|held| held.iter()).try_for_each(|(_, function)| visit.call(function))
    }

    /// Drops all objects that are held.
    pub(crate) fn clear(&self) {
        let summarizer = locked(&self.summarizer).take();
        let context = locked(&self.context).take();
        let listeners = std::mem::take(&mut *locked(&self.listeners));
        drop((summarizer, context, listeners));
    }
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copied(py: Python<'_>, held: &Mutex<Option<Py<PyAny>>>) -> Option<Py<PyAny>> {
    locked(held).as_ref().map(|function| function.clone_ref(py))
}
