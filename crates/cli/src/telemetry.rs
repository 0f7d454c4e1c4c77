//! Exports what the gateway tells by OpenTelemetry, if the environment names a collector.

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

/// The variables that name a collector.
const COLLECTORS: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];
/// How long what is left has to be exported when the gateway stops.
const LAST: Duration = Duration::from_secs(5);

/// What is exported until it is dropped.
pub(crate) struct Exporting {
    spans: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

/// Begins to export, if a collector is named. The other variables of OpenTelemetry hold, too, such as
/// `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_SERVICE_NAME`. The protocol is HTTP with Protocol Buffers.
///
/// # Errors
/// Returns an error if what a variable says cannot be used.
pub(crate) fn begin() -> Result<Option<Exporting>, opentelemetry_otlp::ExporterBuildError> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_off = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    if is_off || !COLLECTORS.into_iter().any(is_set) {
        return Ok(None);
    }
    let named = is_set("OTEL_SERVICE_NAME");
    let resource = Resource::builder();
    let resource = if named { resource } else { resource.with_service_name("lookback") }.build();
    let client = || Client(ureq::Agent::config_builder().http_status_as_error(false).build().into());
    let spans = SpanExporter::builder().with_http().with_http_client(client()).build()?;
    let metrics = MetricExporter::builder().with_http().with_http_client(client()).build()?;
    let spans = SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(spans).build();
    let metrics = SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(metrics).build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    global::set_tracer_provider(spans.clone());
    global::set_meter_provider(metrics.clone());
    Ok(Some(Exporting { spans, metrics }))
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // A collector that does not answer keeps nobody.
        let _ = self.spans.shutdown_with_timeout(LAST);
        let _ = self.metrics.shutdown_with_timeout(LAST);
    }
}

/// Sends to the collector, on the threads of the exporters, which may block.
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
