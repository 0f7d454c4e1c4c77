//! Spans and metrics of model calls, by OpenTelemetry's conventions for generative AI. They contain no contents and no
//! keys.

use std::sync::LazyLock;
use std::time::Instant;

use axum::http::{HeaderMap, StatusCode};
use lookback_agent::semconv;
use lookback_wire::dialect::{Dialect, Response};
use opentelemetry::global::{self, BoxedSpan};
use opentelemetry::metrics::Histogram;
use opentelemetry::propagation::Extractor;
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer as _};
use opentelemetry::{Context, KeyValue};

use crate::gateway::report::note::Note;

/// The name of the instrumentation scope.
const SCOPE: &str = "lookback";

/// The instruments. They are created at the first call, when the exporters have been set.
static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(Instruments::new);

struct Instruments {
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
}

impl Instruments {
    fn new() -> Instruments {
        let meter = global::meter(SCOPE);
        Instruments {
            duration: meter
                .f64_histogram(semconv::OPERATION_DURATION)
                .with_unit("s")
                .with_description("How long a call took")
                .with_boundaries(semconv::seconds())
                .build(),
            tokens: meter
                .u64_histogram(semconv::TOKEN_USAGE)
                .with_unit("{token}")
                .with_description("Tokens of a call, as the provider reported them")
                .with_boundaries(semconv::tokens())
                .build(),
        }
    }
}

/// The span of a model call, until its answer ends.
pub(crate) struct CallSpan {
    /// The span. `None` if the call is not reported.
    span: Option<BoxedSpan>,
    begun: Instant,
    /// The attributes of the metrics.
    attributes: Vec<KeyValue>,
}

/// The headers of a request, which may name its trace.
struct Carrier<'a>(&'a HeaderMap);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

impl CallSpan {
    /// Begins the span of a call. Its trace is the client's, if the client sends one.
    pub(crate) fn begin(dialect: Dialect, headers: &HeaderMap) -> CallSpan {
        let parent = global::get_text_map_propagator(|propagator| {
            propagator.extract_with_context(&Context::new(), &Carrier(headers))
        });
        let attributes = vec![
            KeyValue::new(semconv::OPERATION_NAME, semconv::CHAT),
            KeyValue::new(semconv::PROVIDER_NAME, dialect.provider()),
        ];
        let tracer = global::tracer(SCOPE);
        let builder =
            tracer.span_builder(semconv::CHAT).with_kind(SpanKind::Client).with_attributes(attributes.clone());
        CallSpan { span: Some(builder.start_with_context(&tracer, &parent)), begun: Instant::now(), attributes }
    }

    /// Begins a call that is not reported.
    pub(crate) fn untold() -> CallSpan {
        CallSpan { span: None, begun: Instant::now(), attributes: Vec::new() }
    }

    /// Sets the model of the request.
    pub(crate) fn asks(&mut self, model: &str) {
        if let Some(span) = &mut self.span {
            span.update_name(format!("{} {model}", semconv::CHAT));
        }
        self.attribute(KeyValue::new(semconv::REQUEST_MODEL, model.to_owned()));
    }

    /// Sets what was done with the request, and the status of the upstream's answer.
    pub(crate) fn noted(&mut self, note: &Note, status: StatusCode) {
        let Some(span) = &mut self.span else { return };
        if let Some(session) = &note.session {
            span.set_attribute(KeyValue::new(semconv::CONVERSATION_ID, session.clone()));
        }
        if let Some(tokens) = note.window {
            span.set_attribute(KeyValue::new(semconv::WINDOW_TOKENS, i64::try_from(tokens).unwrap_or(i64::MAX)));
        }
        let told = [
            ("lookback.cut", note.cut.map(|cut| cut.to_string())),
            ("lookback.compacted", note.compacted.map(|compacted| compacted.to_string())),
            ("lookback.passed", note.passed.map(|passed| passed.to_string())),
        ];
        for (name, value) in told.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            span.set_attribute(KeyValue::new(name, value));
        }
        if !status.is_success() {
            self.failed(status.as_str().to_owned());
        }
    }

    /// Sets the usage that the provider reported.
    pub(crate) fn answered(&mut self, response: &Response) {
        if let Some(model) = &response.model {
            self.attribute(KeyValue::new(semconv::RESPONSE_MODEL, model.clone()));
        }
        let reported =
            [(semconv::INPUT_TOKENS, "input", response.input), (semconv::OUTPUT_TOKENS, "output", response.output)];
        for (name, kind, tokens) in reported {
            let (Some(tokens), Some(span)) = (tokens, &mut self.span) else { continue };
            span.set_attribute(KeyValue::new(name, i64::try_from(tokens).unwrap_or(i64::MAX)));
            let attributes = [self.attributes.as_slice(), &[KeyValue::new(semconv::TOKEN_TYPE, kind)]].concat();
            INSTRUMENTS.tokens.record(tokens, &attributes);
        }
    }

    /// Sets the reason that the answer is missing or incomplete.
    pub(crate) fn failed(&mut self, why: impl Into<String>) {
        let why = why.into();
        if let Some(span) = &mut self.span {
            span.set_status(Status::error(why.clone()));
        }
        self.attribute(KeyValue::new(semconv::ERROR_TYPE, why));
    }

    fn attribute(&mut self, attribute: KeyValue) {
        if let Some(span) = &mut self.span {
            span.set_attribute(attribute.clone());
        }
        self.attributes.push(attribute);
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(span) = &mut self.span {
            INSTRUMENTS.duration.record(self.begun.elapsed().as_secs_f64(), &self.attributes);
            span.end();
        }
    }
}
