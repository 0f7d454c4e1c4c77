//! What the library logs, as records of Python's `logging`, under the name `lookback`.

use std::sync::Once;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tracing::Level;

use crate::interpreter;

/// Has the library log to Python from now on. The command line prints by itself, and does not call this.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| lookback_bindings::log_to(Level::INFO, log));
}

fn log(level: Level, sentence: String) {
    // Python's own numbers.
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
        // A handler that fails is reported by `logging` itself.
        let _ = logger.and_then(|logger| logger.call_method1(py, "log", (level, "%s", sentence)));
    });
}
