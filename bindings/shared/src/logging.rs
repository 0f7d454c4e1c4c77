//! The library's log messages, as sentences for the program's own log.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Calls a function for everything that the library logs from now on, at this level and more severe ones.
///
/// Does nothing if the process already has a global subscriber of `tracing`.
pub fn log_to(level: Level, tell: impl Fn(Level, String) + Send + Sync + 'static) {
    let layer = LogLayer(tell).with_filter(LevelFilter::from_level(level));
    // Fails only if there is one already.
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

/// The message of a log event and its values.
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
