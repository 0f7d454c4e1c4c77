//! Access to the interpreter from foreign threads. They must not enter while it ends, because that would end the
//! process.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

/// How long an ending interpreter waits for threads that have entered.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Threads {
    inside: usize,
    has_ended: bool,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads { inside: 0, has_ended: false });
static LEFT: Condvar = Condvar::new();

/// A guard for a thread that has entered.
struct Inside;

impl Inside {
    fn enter() -> Option<Inside> {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.has_ended {
            return None;
        }
        threads.inside += 1;
        Some(Inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        THREADS.lock().unwrap_or_else(PoisonError::into_inner).inside -= 1;
        LEFT.notify_all();
    }
}

/// Runs work with the interpreter from any thread. Returns `None` if the interpreter is ending.
pub(crate) fn with<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = Inside::enter()?;
    Python::try_attach(work)
}

/// Stops threads from entering, and waits for those that have entered. Called when the interpreter begins to end.
#[pyfunction]
pub(crate) fn ends(py: Python<'_>) {
    py.detach(|| {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        threads.has_ended = true;
        let waited = LEFT.wait_timeout_while(threads, PATIENCE, |threads| threads.inside > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    });
}
