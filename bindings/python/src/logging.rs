//! What the library logs, as records of Python's `logging`, under the name `lookback`.

use std::fmt::{self, Write as _};
use std::sync::Once;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::interpreter;

/// Has the library log to Python from now on. The command line prints by itself, and does not call this.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // It fails if something else in the process has set one, which is then the right one.
        let _ =
            tracing::subscriber::set_global_default(Registry::default().with(ToPython.with_filter(LevelFilter::INFO)));
    });
}

struct ToPython;

impl<S: Subscriber> Layer<S> for ToPython {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("lookback") {
            return;
        }
        let mut record = Record::default();
        event.record(&mut record);
        // Python's own numbers.
        let level = match *event.metadata().level() {
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
            let _ = logger.and_then(|logger| logger.call_method1(py, "log", (level, "%s", record.sentence())));
        });
    }
}

/// What happened, and the values that belong to it.
#[derive(Default)]
struct Record {
    message: String,
    values: String,
}

impl Record {
    fn sentence(self) -> String {
        if self.values.is_empty() { self.message } else { format!("{} ({})", self.message, self.values) }
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let separator = if self.values.is_empty() { "" } else { "; " };
        // Writing to memory does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.values, "{separator}{name}: {value:?}"),
        };
    }
}
