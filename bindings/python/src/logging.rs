//! Forwards the library's log messages to Python's `logging`, under the name `lookback`.

use std::sync::Once;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tracing::Level;

use crate::interpreter;

/// Makes the library log to Python from now on. The command line prints its own messages, and does not call this.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| lookback_bindings::log_to(Level::INFO, log));
}

fn log(level: Level, sentence: String) {
    // The numbers of Python's levels.
    let level = match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        _ => 20,
    };
    interpreter::with(|py| {
        static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let logger = LOGGER.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("logging")?.call_method1("getLogger", ("lookback",))?.unbind())
        });
        // `logging` itself reports a handler that fails.
        let _ = logger.and_then(|logger| logger.call_method1(py, "log", (level, "%s", sentence)));
    });
}
