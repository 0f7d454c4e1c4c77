//! What can be asked for, and the answers.

use lookback_engine::transcript::Entry;
use lookback_engine::{Engine, Settings, policy::Policy, view::View};
use lookback_wire::dialect::json_list;
use lookback_wire::{
    dialect::{Dialect, Finding, Request},
    message::Role,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A call, as JSON.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
enum Call {
    /// Which rules of its provider a request breaks.
    Check { request: String, dialect: Option<String>, model: Option<String>, path: Option<String> },
    /// The window of a request.
    Fit { request: String, dialect: Option<String>, model: Option<String>, policy: Option<Policy> },
    /// What would become of each group of a request.
    Plan { request: String, dialect: Option<String>, model: Option<String>, policy: Option<Policy> },
    /// The tokens of a text.
    Count { text: String, model: Option<String> },
}

/// The window of a request.
#[derive(Serialize)]
struct Fitted {
    messages: Box<RawValue>,
    tokens: u64,
    compacted: bool,
}

/// Why there is no answer: the place, and what is wrong there.
struct Wrong(&'static str, String);

/// Answers a call with `{"ok": …}`, or with `{"error": {"where": …, "message": …}}`.
pub(crate) fn answer(call: &str) -> String {
    let answered = match serde_json::from_str(call) {
        Ok(call) => carry_out(call),
        Err(error) => Err(Wrong("options", error.to_string())),
    };
    match answered {
        Ok(value) => format!("{{\"ok\":{value}}}"),
        Err(Wrong(place, message)) => json!({ "error": { "where": place, "message": message } }).to_string(),
    }
}

fn carry_out(call: Call) -> Result<String, Wrong> {
    match call {
        Call::Check { request, dialect, model, path } => {
            let request = read(request, dialect.as_deref())?;
            let request = path.iter().fold(request, |request, path| request.with_path(path));
            let request = model.into_iter().fold(request, Request::with_model);
            let findings: Vec<Finding> = request.dialect().check(&request);
            Ok(json!(findings).to_string())
        }
        Call::Fit { request, dialect, model, policy } => {
            let (engine, entries, on_read) = run(request, dialect.as_deref(), model, policy)?;
            let view = on_read.as_ref().unwrap_or(engine.view());
            let encoded = view.encode(engine.target().clone()).map_err(|error| wrong("request", &error))?;
            let messages = RawValue::from_string(json_list(&encoded)).map_err(|error| wrong("request", &error))?;
            let compacted = entries.iter().any(|entry| matches!(entry, Entry::Compaction(_)));
            let fitted = Fitted { messages, tokens: engine.tokens(view), compacted };
            serde_json::to_string(&fitted).map_err(|error| wrong("request", &error))
        }
        Call::Plan { request, dialect, model, policy } => {
            let (engine, ..) = run(request, dialect.as_deref(), model, policy)?;
            let group = |explained: &lookback_engine::ExplainedGroup| json!({ "entries": explained.entries, "decision": explained.decision });
            Ok(Value::from_iter(engine.explain().groups.iter().map(group)).to_string())
        }
        Call::Count { text, model } => {
            let counter = settings(Dialect::default(), model).counter;
            Ok(json!({ "tokens": counter.text(&text), "exact": counter.is_exact() }).to_string())
        }
    }
}

/// Runs a request as a session would have seen it: message by message, with a call before every assistant message except
/// one that comes first, and a call at the end. Returns the engine, its log, and the window if it is computed on read.
fn run(
    request: String,
    dialect: Option<&str>,
    model: Option<String>,
    policy: Option<Policy>,
) -> Result<(Engine, Vec<Entry>, Option<View>), Wrong> {
    let request = read(request, dialect)?;
    let model = model.or_else(|| request.model().map(str::to_owned));
    let settings = settings(request.dialect(), model).policy(policy.unwrap_or_else(Policy::production));
    let mut engine = Engine::new(settings);
    let mut entries = engine.set_preamble(request.preamble());
    for (index, message) in request.messages().iter().enumerate() {
        if index > 0 && message.role() == Role::Assistant {
            entries.extend(engine.window().entries);
        }
        entries.extend(engine.push(message.clone()).map_err(|error| wrong("request", &error))?);
    }
    let outcome = engine.window();
    entries.extend(outcome.entries);
    match outcome.exceeded {
        Some(exceeded) => Err(wrong("request", &exceeded)),
        None => Ok((engine, entries, outcome.on_read.map(|view| *view))),
    }
}

fn settings(dialect: Dialect, model: Option<String>) -> Settings {
    Settings::for_model(dialect, &model.unwrap_or_else(|| "gpt-4o".to_owned()))
}

fn read(request: String, dialect: Option<&str>) -> Result<Request, Wrong> {
    let dialect: Option<Dialect> = dialect
        .map(str::parse)
        .transpose()
        .map_err(|error: lookback_wire::dialect::UnknownDialect| wrong("dialect", &error))?;
    Request::decode(request, dialect).map_err(|error| wrong("request", &error))
}

fn wrong(place: &'static str, error: &dyn std::error::Error) -> Wrong {
    Wrong(place, error.to_string())
}
