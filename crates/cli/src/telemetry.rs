//! Exports spans and metrics of the gateway to the OpenTelemetry collectors that the environment names.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::global;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use ureq::http::{Request, Response};

/// The most time for the last export when the gateway stops.
const LAST: Duration = Duration::from_secs(5);
/// The default timeout of an export, in milliseconds. `OTEL_EXPORTER_OTLP_TIMEOUT` overrides it.
const PATIENCE: u64 = 10_000;

/// The exporters, which run until this is dropped.
pub(crate) struct Exporting {
    spans: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
}

/// Begins to export to the collectors that the environment names: `OTEL_EXPORTER_OTLP_ENDPOINT` for all, or
/// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`. Also respects
/// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` and
/// `OTEL_SDK_DISABLED`. The protocol is HTTP with Protocol Buffers.
///
/// # Errors
/// Returns an error if the value of a variable is invalid.
pub(crate) fn begin() -> Result<Exporting, opentelemetry_otlp::ExporterBuildError> {
    let says = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let is_off = says("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_named = |own: &str| !is_off && (says("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() || says(own).is_some());
    let resource = Resource::builder();
    let attributes = says("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let has_name = says("OTEL_SERVICE_NAME").is_some() || attributes.contains("service.name=");
    let resource = if has_name { resource } else { resource.with_service_name("lookback") }.build();
    let patience = says("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|value| value.parse().ok()).unwrap_or(PATIENCE);
    let agent = || ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    // A silent collector must not block the exporters' threads.
    let client = || Client(agent().timeout_global(Some(Duration::from_millis(patience))).build().into());
    let mut exporting = Exporting { spans: None, metrics: None };
    if is_named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        let exporter = SpanExporter::builder().with_http().with_http_client(client()).build()?;
        let spans = SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(exporter).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        global::set_tracer_provider(spans.clone());
        exporting.spans = Some(spans);
    }
    if is_named("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
        let exporter = MetricExporter::builder().with_http().with_http_client(client()).build()?;
        let metrics = SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(exporter).build();
        global::set_meter_provider(metrics.clone());
        exporting.metrics = Some(metrics);
    }
    Ok(exporting)
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // A collector that does not respond must not delay the exit.
        if let Some(spans) = &self.spans {
            let _ = spans.shutdown_with_timeout(LAST);
        }
        if let Some(metrics) = &self.metrics {
            let _ = metrics.shutdown_with_timeout(LAST);
        }
    }
}

/// An HTTP client for the collector. It runs on the exporters' own threads, which may block.
#[derive(Debug)]
struct Client(ureq::Agent);

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let answer = self.0.run(Request::from_parts(parts, body.to_vec()))?;
        let (parts, mut body) = answer.into_parts();
        Ok(Response::from_parts(parts, body.read_to_vec()?.into()))
    }
}
