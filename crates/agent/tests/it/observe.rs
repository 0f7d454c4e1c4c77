//! The spans and metrics of a run: they have the names of the conventions, and no text of the conversation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use lookback_agent::{
    Budget, CallUsage, ContentKind, ContextFilter, Event, Failure, Middleware, Observe, Pipeline, Reaction, Run,
    semconv, tokens_by_kind,
};
use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy},
};
use lookback_presets as presets;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_summarize::calls;
use lookback_wire::{
    dialect::{Dialect, Request},
    message::{Message, ToolCall},
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A span or an event by its name, with its fields as text.
type Line = (String, BTreeMap<String, String>);

/// Every span and event.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Line>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// The index of a span in the list.
struct At(usize);

impl<S> Layer<S> for Recorder
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (mut told, mut fields) = (self.0.lock().unwrap(), BTreeMap::new());
        attributes.record(&mut Fields(&mut fields));
        context.span(id).unwrap().extensions_mut().insert(At(told.len()));
        told.push((attributes.metadata().name().to_owned(), fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let at = span.extensions().get::<At>().unwrap().0;
        values.record(&mut Fields(&mut self.0.lock().unwrap()[at].1));
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().push(("event".to_owned(), fields));
    }
}

/// A text that must not appear in any span or metric.
const SECRET: &str = "opensesame";

/// Fails with an error that quotes the conversation.
struct Blabber;

impl Middleware for Blabber {
    fn name(&self) -> &str {
        "blabber"
    }

    fn on(&mut self, _: &Event, _: &Run) -> Result<Reaction, Failure> {
        Err(SECRET.into())
    }
}

/// A run of three calls, with a tool that works and one that fails. The window of the third call is compacted.
fn observed(observe: Observe) -> Vec<Line> {
    let told = Recorder::default();
    let subscriber = tracing_subscriber::registry().with(told.clone());
    tracing::subscriber::with_default(subscriber, || {
        block_on(async {
            let session = Session::open(MemoryStore::new(), "agent-7", Settings::default()).await.unwrap();
            let mut run = Pipeline::new(session)
                .with(observe.with_provider("openai").with_model("gpt-5"))
                .with(ContextFilter::rounds(1).unwrap())
                .with(Budget::reported(7))
                .with(Blabber);
            run.start(Message::user(SECRET)).await.unwrap();
            for number in 1..=2 {
                run.next().await.unwrap().unwrap();
                let arguments = format!(r#"{{"word":"{SECRET}"}}"#);
                let answer =
                    Message::assistant_with_calls(SECRET, [ToolCall::new(format!("c{number}"), "read", arguments)]);
                let usage = CallUsage::default().input(1).output(2).model("gpt-5-2026");
                for tool in run.answered(answer, Some(usage)).await.unwrap() {
                    let result = if number == 1 { Ok(SECRET) } else { Err(SECRET) };
                    run.tool(&tool, |_| async { result }).await.unwrap();
                }
            }
            run.next().await.unwrap().unwrap();
            run.answered(Message::assistant(SECRET), None).await.unwrap();
        });
    });
    std::mem::take(&mut *told.0.lock().unwrap())
}

#[test]
fn each_call_and_each_tool_is_a_span_under_the_names_of_the_conventions() {
    let told = observed(Observe::new());
    let spans =
        |name: &str| told.iter().filter(|(known, _)| known == name).map(|(_, fields)| fields).collect::<Vec<_>>();
    let calls = spans("chat");
    assert_eq!(calls.len(), 3);
    let expected = [
        (semconv::OPERATION_NAME, semconv::CHAT),
        (semconv::CONVERSATION_ID, "agent-7"),
        (semconv::PROVIDER_NAME, "openai"),
        (semconv::REQUEST_MODEL, "gpt-5"),
        (semconv::RESPONSE_MODEL, "gpt-5-2026"),
        (semconv::INPUT_TOKENS, "1"),
        (semconv::OUTPUT_TOKENS, "2"),
    ];
    for (name, value) in expected {
        assert_eq!(calls[0].get(name).map(String::as_str), Some(value), "{name}");
    }
    let number =
        |fields: &BTreeMap<String, String>, name: &str| fields.get(name).map_or(0, |value| value.parse().unwrap());
    for call in &calls {
        let prefix = format!("{}.", semconv::WINDOW_TOKENS);
        let kinds: u64 = call.keys().filter(|name| name.starts_with(&prefix)).map(|name| number(call, name)).sum();
        assert_eq!(kinds, number(call, semconv::WINDOW_TOKENS));
        assert!(kinds > 0);
    }
    assert!(number(calls[2], "lookback.window.tokens.note") > 0, "the budget's words are a note");
    let tools = spans("execute_tool");
    let of = |name: &str| tools.iter().map(|fields| fields.get(name).map(String::as_str)).collect::<Vec<_>>();
    assert_eq!(of(semconv::TOOL_NAME), [Some("read"); 2]);
    assert_eq!(of(semconv::TOOL_CALL_ID), [Some("c1"), Some("c2")]);
    assert_eq!(of(semconv::ERROR_TYPE), [None, Some("tool_error")]);
}

#[test]
fn no_word_of_the_conversation_is_told() {
    let told = observed(Observe::new());
    let warned = told.iter().any(|(_, fields)| fields.get("middleware").is_some_and(|name| name == "blabber"));
    assert!(warned, "a failure is told of, without its words");
    for (name, fields) in told {
        assert!(fields.values().all(|value| !value.contains(SECRET)), "{name}: {fields:?}");
    }
}

#[test]
fn the_kinds_of_a_window_add_up_to_it() {
    let request = r#"{"system":"Be brief.","messages":[
        {"role":"user","content":[{"type":"text","text":"What is in it?"},
            {"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"Let me look at the file.","signature":"c2ln"},
            {"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"read","input":{"path":"a"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a long line, and one more"}]}]}"#;
    let request = Request::decode(request, Some(Dialect::Anthropic)).unwrap();
    let mut engine = Engine::new(Settings::default().dialect(Dialect::Anthropic));
    calls::run_request(&mut engine, &request, &mut |_| None, &mut |_| {}).unwrap();
    let kinds = tokens_by_kind(engine.view());
    assert_eq!(kinds.values().sum::<u64>(), engine.view().totals().size.tokens);
    let found: Vec<_> = kinds.keys().copied().collect();
    use ContentKind::*;
    assert_eq!(found, [System, User, Assistant, Reasoning, ToolCall, ToolResult, Media]);

    let policy = presets::named("rolling-summary:window_size=1").unwrap();
    let mut engine = Engine::new(Settings::default().policy(policy));
    for text in ["My name is Ada.", "And?", "What is it?"] {
        engine.push(Message::user(text)).unwrap();
    }
    calls::window(&mut engine, &mut |_| Some("Ada said her name.".to_owned()));
    let kinds = tokens_by_kind(engine.view());
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), [User, Summary]);
    assert_eq!(kinds[&Summary], engine.view().summary().unwrap().size.tokens);

    let policy = Policy { limits: Limits::messages(9), target: Some(Limits::messages(8)), ..Policy::production() };
    let mut engine = Engine::new(Settings::default().policy(policy));
    for number in 0..20 {
        let question = format!("How long is src/part_{number}.rs? {}", "And what is it for? ".repeat(40));
        engine.push(Message::user(question)).unwrap();
        calls::window(&mut engine, &mut |_| None);
    }
    let index = engine.view().index().expect("an index").size.tokens;
    assert_eq!(tokens_by_kind(engine.view()).get(&Note), Some(&index), "an index is no words of a user");
}

#[cfg(feature = "otel")]
#[test]
fn calls_are_metrics_under_the_names_of_the_conventions() {
    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    observed(Observe::new().with_meter(&provider.meter("lookback")));
    provider.force_flush().unwrap();
    let exported = exporter.get_finished_metrics().unwrap();
    let metrics: Vec<_> =
        exported.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics()).collect();
    let attribute = |attributes: Vec<&opentelemetry::KeyValue>, key: &str| {
        let found = attributes.into_iter().find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.to_string())
    };
    // For each metric, by the attribute that distinguishes its values: their number and their sum.
    let mut found: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for metric in metrics {
        let by = match metric.name() {
            semconv::TOKEN_USAGE => semconv::TOKEN_TYPE,
            semconv::WINDOW_TOKENS => semconv::KIND,
            _ => semconv::OPERATION_NAME,
        };
        let mut add = |by: Option<String>, count, sum| {
            let figures = found.entry((metric.name().to_owned(), by.unwrap_or_default())).or_default();
            *figures = (figures.0 + count, figures.1 + sum);
        };
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Histogram(data)) => data
                .data_points()
                .for_each(|point| add(attribute(point.attributes().collect(), by), point.count(), point.sum())),
            AggregatedMetrics::F64(MetricData::Histogram(data)) => {
                data.data_points().for_each(|point| add(attribute(point.attributes().collect(), by), point.count(), 0));
            }
            AggregatedMetrics::U64(MetricData::Sum(data)) => {
                data.data_points().for_each(|point| add(attribute(point.attributes().collect(), by), 1, point.value()));
            }
            other => panic!("{}: {other:?}", metric.name()),
        }
    }
    let figures = |name: &str, by: &str| found.get(&(name.to_owned(), by.to_owned())).copied();
    assert_eq!(figures(semconv::TOKEN_USAGE, "input"), Some((2, 2)));
    assert_eq!(figures(semconv::TOKEN_USAGE, "output"), Some((2, 4)));
    assert_eq!(figures(semconv::OPERATION_DURATION, semconv::CHAT), Some((3, 0)));
    assert_eq!(figures(semconv::OPERATION_DURATION, semconv::EXECUTE_TOOL), Some((2, 0)));
    assert_eq!(figures(semconv::COMPACTIONS, semconv::CHAT), Some((1, 1)));
    assert_eq!(figures(semconv::WINDOW_TOKENS, "tool_call").map(|(count, _)| count), Some(2));
}

#[cfg(feature = "otel")]
#[test]
fn what_calls_cost_is_a_metric_beside_what_they_would_have_cost_without_a_window() {
    use lookback_replay::prices::Prices;
    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    // Without a cache, a cost is proportional to the number of tokens.
    let price = Prices::builtin().find("uncached").unwrap().clone();
    observed(Observe::new().with_meter(&provider.meter("lookback")).with_price(&price));
    provider.force_flush().unwrap();
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for all in exporter.get_finished_metrics().unwrap() {
        for metric in all.scope_metrics().flat_map(|scope| scope.metrics()) {
            if let AggregatedMetrics::F64(MetricData::Sum(data)) = metric.data() {
                let sum: f64 = data.data_points().map(|point| point.value()).sum();
                *found.entry(metric.name().to_owned()).or_default() += sum;
            }
        }
    }
    let (cost, without) = (found[semconv::COST], found[semconv::COST_WITHOUT_WINDOW]);
    // One token was reported for each of two calls. The third was compacted, and nothing was reported.
    assert!(cost > 2.0 * 3.0 / 1e6, "{found:?}");
    assert!(without > cost, "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
}
