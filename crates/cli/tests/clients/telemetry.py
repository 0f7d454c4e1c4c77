"""An OpenTelemetry collector: checks what the gateway exports of its calls, and what it does not."""

import http.server
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

from lab import LOOKBACK, Program, must
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "the heron is a secret"


class Collector(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies = {"/v1/traces": [], "/v1/metrics": []}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies[self.path].append(body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def ask(base, number, path="/v1/chat/completions"):
    messages = [{"role": "user", "content": f"{SECRET} {number}"}]
    body = json.dumps({"model": "gpt-5", "messages": messages, "stream": number % 2 == 0}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer sk-hidden", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers)) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.read()


def attributes(span):
    values = {item.key: item.value for item in span.attributes}
    return {key: value.string_value or value.int_value for key, value in values.items()}


def use(lab):
    collector = Collector()
    command = [LOOKBACK, "serve", "--upstream", lab.stand_in.base, "--listen", "127.0.0.1:0", "--store", lab.store]
    gateway = Program(command, str(lab.folder / "telemetry.log"), {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}"})
    for number in range(4):
        ask(gateway.base, number)
    lab.fail("500")
    ask(gateway.base, 5)
    gateway.stop()
    bodies = [body for some in collector.bodies.values() for body in some]
    must(bodies, Path(gateway.path).read_text())
    must(all(SECRET.encode() not in body and b"sk-hidden" not in body for body in bodies), "contents were exported")
    traces = [ExportTraceServiceRequest.FromString(body) for body in collector.bodies["/v1/traces"]]
    spans = [span for trace in traces for of in trace.resource_spans for scope in of.scope_spans for span in scope.spans]
    must(len(spans) == 5, f"{len(spans)} spans")
    must({span.name for span in spans} == {"chat gpt-5"}, spans)
    must({span.trace_id.hex() for span in spans} == {TRACE}, "the spans are not of the client's trace")
    good, bad = spans[:4], spans[4]
    for span in map(attributes, good):
        must(span["gen_ai.operation.name"] == "chat" and span["gen_ai.provider.name"] == "openai", span)
        must(span["gen_ai.request.model"] == "gpt-5" and span["gen_ai.conversation.id"], span)
        must(span["gen_ai.usage.input_tokens"] > 0 and span["gen_ai.usage.output_tokens"] > 0, span)
        must("error.type" not in span, span)
    must(attributes(bad)["error.type"] == "500" and bad.status.code == 2, bad)
    exported = [ExportMetricsServiceRequest.FromString(body) for body in collector.bodies["/v1/metrics"]]
    metrics = {
        metric.name: metric
        for request in exported
        for of in request.resource_metrics
        for scope in of.scope_metrics
        for metric in scope.metrics
    }
    durations = metrics["gen_ai.client.operation.duration"].histogram.data_points
    must(sum(point.count for point in durations) == 5, durations)
    must("gen_ai.client.token.usage" in metrics, metrics.keys())
    return f"{len(spans)} spans, {len(metrics)} metrics, no contents"
