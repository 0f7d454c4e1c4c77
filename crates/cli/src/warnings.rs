//! Prints the warnings that the library logs.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::output;

/// Prints all warnings of the library from now on.
pub(crate) fn print() {
    // Fails only if a subscriber has been set before, which is not the case.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(Printed));
}

struct Printed;

impl<S: Subscriber> Layer<S> for Printed {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN && event.metadata().target().starts_with("lookback") {
            let mut sentence = Sentence::default();
            event.record(&mut sentence);
            output::warning(&sentence.to_string());
        }
    }
}

/// The message of a warning and its values.
#[derive(Default)]
struct Sentence {
    message: String,
    values: Vec<String>,
}

impl Visit for Sentence {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.values.push(format!("{name}: {value:?}")),
        }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.values.is_empty() {
            write!(f, " ({})", self.values.join("; "))?;
        }
        Ok(())
    }
}
