//! What the library logs, as sentences for the log of the program.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Has a function be told of what the library logs from now on: of this level, and of more severe ones.
///
/// If something in the process is told already, it stays that, and the function is not called.
pub fn log_to(level: Level, tell: impl Fn(Level, String) + Send + Sync + 'static) {
    let layer = LogLayer(tell).with_filter(LevelFilter::from_level(level));
    // It fails only in that case.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(layer));
}

struct LogLayer<F>(F);

impl<S: Subscriber, F: Fn(Level, String) + 'static> Layer<S> for LogLayer<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("lookback") {
            let mut sentence = Sentence::default();
            event.record(&mut sentence);
            (self.0)(*event.metadata().level(), sentence.to_string());
        }
    }
}

/// What happened, and the values that belong to it.
#[derive(Default)]
struct Sentence {
    message: String,
    values: String,
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sentence { message, values } = self;
        if values.is_empty() { f.write_str(message) } else { write!(f, "{message} ({values})") }
    }
}

impl Visit for Sentence {
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
