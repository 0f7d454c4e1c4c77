//! OpenTelemetry metrics: the tokens, the duration and the cost of calls, and the content of windows.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};

use super::cost::CallCost;
use super::{CallUsage, ContentKind, semconv};

/// The instruments.
#[derive(Debug)]
pub(super) struct Metrics {
    tokens: Histogram<u64>,
    duration: Histogram<f64>,
    window: Histogram<u64>,
    compactions: Counter<u64>,
    cost: Counter<f64>,
    cost_without_window: Counter<f64>,
}

impl Default for Metrics {
    /// Returns instruments of the current global meter.
    fn default() -> Self {
        Metrics::new(&global::meter("lookback"))
    }
}

/// The attributes of a measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
    pub(super) operation: &'static str,
    pub(super) provider: Option<&'a str>,
    pub(super) request_model: Option<&'a str>,
    pub(super) response_model: Option<&'a str>,
    pub(super) tool: Option<&'a str>,
    pub(super) error: Option<&'a str>,
}

impl About<'_> {
    fn attributes(&self) -> Vec<KeyValue> {
        let known = [
            (semconv::PROVIDER_NAME, self.provider),
            (semconv::REQUEST_MODEL, self.request_model),
            (semconv::RESPONSE_MODEL, self.response_model),
            (semconv::TOOL_NAME, self.tool),
            (semconv::ERROR_TYPE, self.error),
        ];
        let known = known.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?.to_owned())));
        std::iter::once(KeyValue::new(semconv::OPERATION_NAME, self.operation)).chain(known).collect()
    }
}

impl Metrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let histogram = |name: &'static str, about: &'static str| {
            let histogram = meter.u64_histogram(name).with_unit("{token}").with_description(about);
            histogram.with_boundaries(semconv::tokens()).build()
        };
        let dollars = |name: &'static str, about: &'static str| {
            meter.f64_counter(name).with_unit("{USD}").with_description(about).build()
        };
        Metrics {
            cost: dollars(semconv::COST, "The cost of calls, in US dollars"),
            cost_without_window: dollars(
                semconv::COST_WITHOUT_WINDOW,
                "The cost of the input of calls without a window, in US dollars",
            ),
            tokens: histogram(semconv::TOKEN_USAGE, "Tokens of a call, as the provider reported them"),
            window: histogram(semconv::WINDOW_TOKENS, "Tokens of the window of a call, by kind of content"),
            duration: meter
                .f64_histogram(semconv::OPERATION_DURATION)
                .with_unit("s")
                .with_description("How long a call took")
                .with_boundaries(semconv::seconds())
                .build(),
            compactions: meter
                .u64_counter(semconv::COMPACTIONS)
                .with_description("Calls whose window was made smaller")
                .build(),
        }
    }

    /// Records a model call that is done.
    pub(super) fn call(
        &self,
        about: &About<'_>,
        duration: Duration,
        usage: Option<&CallUsage>,
        kinds: &BTreeMap<ContentKind, u64>,
        compacted: bool,
    ) {
        let attributes = about.attributes();
        let with =
            |key: &'static str, value: &'static str| [attributes.as_slice(), &[KeyValue::new(key, value)]].concat();
        self.duration.record(duration.as_secs_f64(), &attributes);
        if let Some(usage) = usage {
            self.tokens.record(usage.input, &with(semconv::TOKEN_TYPE, "input"));
            self.tokens.record(usage.output, &with(semconv::TOKEN_TYPE, "output"));
        }
        for (kind, tokens) in kinds {
            self.window.record(*tokens, &with(semconv::KIND, kind.name()));
        }
        if compacted {
            self.compactions.add(1, &attributes);
        }
    }

    /// Records the cost of a model call.
    pub(super) fn cost(&self, about: &About<'_>, cost: &CallCost) {
        let attributes = about.attributes();
        let of = |kind: &'static str| [attributes.as_slice(), &[KeyValue::new(semconv::TOKEN_TYPE, kind)]].concat();
        self.cost.add(cost.input, &of("input"));
        if cost.output > 0.0 {
            self.cost.add(cost.output, &of("output"));
        }
        self.cost_without_window.add(cost.without_window, &attributes);
    }

    /// Records a tool that is done.
    pub(super) fn tool(&self, about: &About<'_>, duration: Duration) {
        self.duration.record(duration.as_secs_f64(), &about.attributes());
    }
}
