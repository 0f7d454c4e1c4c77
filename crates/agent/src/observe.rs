//! Observability: a span for each model call and each tool, and the window's tokens by kind, without the content of any
//! message.

use tracing::Span;
use tracing::field::Empty;

use super::kinds::tokens_by_kind;
use super::{CallUsage, Event, Failure, Middleware, ModelAnswer, Reaction, Run, ToolOutcome};
#[cfg(feature = "otel")]
use super::{cost::ComparedCosts, metrics, semconv};
#[cfg(feature = "otel")]
use lookback_replay::prices::Price;

/// Records model calls and tools as `tracing` spans, with the names of OpenTelemetry's conventions for generative AI. With the feature
/// `otel`, also as metrics of OpenTelemetry's global meter.
#[derive(Debug, Default)]
pub struct Observe {
    provider: Option<String>,
    model: Option<String>,
    call: Option<Span>,
    tool: Option<Span>,
    #[cfg(feature = "otel")]
    metrics: metrics::Metrics,
    #[cfg(feature = "otel")]
    costs: Option<ComparedCosts>,
}

impl Observe {
    /// Creates a middleware for calls whose provider and model are known from their answers.
    pub fn new() -> Self {
        Observe::default()
    }

    /// Sets the meter of the metrics. The default is the global meter at the time of [`Observe::new`].
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn with_meter(self, meter: &opentelemetry::metrics::Meter) -> Self {
        Observe { metrics: metrics::Metrics::new(meter), ..self }
    }

    /// Records the cost of calls as metrics, at this price, and the cost of their input without a window. The
    /// difference of the inputs is the saving by the window.
    ///
    /// The prompt cache is simulated, and the usage that is reported with an answer corrects the cost, as in a
    /// [receipt](lookback_replay::receipt). The cost without a window is that of all messages as they were first sent
    /// to the model since this middleware was created. On another branch, or if the system prompt or the tools change,
    /// the comparison restarts.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn with_price(self, price: &Price) -> Self {
        Observe { costs: Some(ComparedCosts::new(price)), ..self }
    }

    /// Sets the provider of the calls, for example `openai`.
    #[must_use]
    pub fn with_provider(self, provider: impl Into<String>) -> Self {
        Observe { provider: Some(provider.into()), ..self }
    }

    /// Sets the model of the calls.
    #[must_use]
    pub fn with_model(self, model: impl Into<String>) -> Self {
        Observe { model: Some(model.into()), ..self }
    }

    fn begin_call(&mut self, run: &Run) {
        let span = tracing::info_span!(
            "chat",
            "otel.kind" = "client",
            "gen_ai.operation.name" = "chat",
            "gen_ai.conversation.id" = %run.session,
            "gen_ai.provider.name" = self.provider,
            "gen_ai.request.model" = self.model,
            "gen_ai.response.model" = Empty,
            "gen_ai.usage.input_tokens" = Empty,
            "gen_ai.usage.output_tokens" = Empty,
            "error.type" = Empty,
            "lookback.iteration" = run.iteration,
            "lookback.window.tokens" = Empty,
            "lookback.window.tokens.system" = Empty,
            "lookback.window.tokens.user" = Empty,
            "lookback.window.tokens.assistant" = Empty,
            "lookback.window.tokens.reasoning" = Empty,
            "lookback.window.tokens.tool_call" = Empty,
            "lookback.window.tokens.tool_result" = Empty,
            "lookback.window.tokens.media" = Empty,
            "lookback.window.tokens.note" = Empty,
            "lookback.window.tokens.summary" = Empty,
        );
        self.call = Some(span);
    }

    #[cfg_attr(not(feature = "otel"), allow(unused_variables, reason = "only metrics need the run"))]
    fn end_call(&mut self, answer: &ModelAnswer, run: &Run) {
        let kinds = tokens_by_kind(&answer.sent);
        if let Some(span) = self.call.take() {
            for (kind, tokens) in &kinds {
                span.record(kind.field(), tokens);
            }
            span.record("lookback.window.tokens", answer.sent.totals().size.tokens);
            if let Some(CallUsage { provider, model, input, output }) = &answer.usage {
                if let Some(provider) = provider {
                    span.record("gen_ai.provider.name", provider);
                }
                if let Some(model) = model {
                    span.record("gen_ai.response.model", model);
                }
                span.record("gen_ai.usage.input_tokens", input);
                span.record("gen_ai.usage.output_tokens", output);
            }
        }
        #[cfg(feature = "otel")]
        {
            let usage = answer.usage.as_ref();
            let provider = usage.and_then(|usage| usage.provider.as_ref()).or(self.provider.as_ref());
            let about = metrics::About {
                operation: semconv::CHAT,
                provider: provider.map(String::as_str),
                request_model: self.model.as_deref(),
                response_model: usage.and_then(|usage| usage.model.as_deref()),
                ..metrics::About::default()
            };
            self.metrics.call(&about, answer.duration, usage, &kinds, run.compaction.is_some());
            if let Some(costs) = &mut self.costs {
                self.metrics.cost(&about, &costs.add(answer));
            }
        }
    }

    fn begin_tool(&mut self, name: &str, id: &str, run: &Run) {
        let span = tracing::info_span!(
            "execute_tool",
            "gen_ai.operation.name" = "execute_tool",
            "gen_ai.conversation.id" = %run.session,
            "gen_ai.tool.name" = name,
            "gen_ai.tool.call.id" = id,
            "error.type" = Empty,
            "lookback.tool.ran" = Empty,
        );
        self.tool = Some(span);
    }

    fn end_tool(&mut self, outcome: &ToolOutcome) {
        if let Some(span) = self.tool.take() {
            span.record("lookback.tool.ran", outcome.status.is_run());
            if outcome.status.is_error() {
                span.record("error.type", ERROR);
            }
        }
        #[cfg(feature = "otel")]
        {
            let about = metrics::About {
                operation: semconv::EXECUTE_TOOL,
                provider: self.provider.as_deref(),
                tool: Some(&outcome.call.name),
                error: outcome.status.is_error().then_some(ERROR),
                ..metrics::About::default()
            };
            self.metrics.tool(&about, outcome.duration);
        }
    }
}

/// The `error.type` of a call that was refused as too long.
const TOO_LONG: &str = "context_too_long";
/// The `error.type` of a tool that failed.
const ERROR: &str = "tool_error";

impl Middleware for Observe {
    fn name(&self) -> &str {
        "observe"
    }

    fn order(&self) -> u32 {
        5
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        match event {
            Event::Start => (self.call, self.tool) = (None, None),
            Event::BeforeModel => self.begin_call(run),
            Event::AfterModel(answer) => self.end_call(answer, run),
            Event::BeforeTool(call) => self.begin_tool(&call.name, &call.id, run),
            Event::AfterTool(outcome) => self.end_tool(outcome),
            Event::Overflow(_) => {
                if let Some(span) = self.call.take() {
                    span.record("error.type", TOO_LONG);
                }
                // The call is made again.
                self.begin_call(run);
            }
            Event::Stop(stopped) => {
                tracing::debug!(session = %run.session, iterations = run.iteration, how = stopped.name(), "a run is over");
                (self.call, self.tool) = (None, None);
            }
            Event::BeforeIteration | Event::Compacted | Event::AfterIteration => {}
        }
        Ok(Reaction::none())
    }
}
