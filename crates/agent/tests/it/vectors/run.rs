//! Runs of an agent by vectors: the middleware, the answers of the model and its tools, and the expected outcome.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_agent::{
    AtHard, Budget, Call, CallUsage, ContextFilter, EndReason, Event, Failure, Middleware, MiddlewareSettings, Observe,
    OnFailure, Pipeline, Progress, Reaction, Run, Stopped, ToolUse,
};
use lookback_engine::policy::Policy;
use lookback_engine::transcript::{Entry, Origin};
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::MemoryStore;
use lookback_wire::dialect::TooLong;
use lookback_wire::size::Measure;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::assert_valid;

/// A run and its expected outcome.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// The behavior in words, unique in its file.
    pub name: String,
    /// The source of the behavior.
    #[serde(default)]
    pub source: String,
    /// The middleware, in the order in which it is added.
    pub middleware: Vec<Value>,
    /// The most iterations.
    pub iterations: Option<u64>,
    /// The model's answers, call by call. After those it answers `Done.`
    #[serde(default)]
    pub model: Vec<Value>,
    /// The expected outcome. Members that are missing are not compared.
    #[serde(default)]
    pub gives: BTreeMap<String, Value>,
}

/// Checks the vectors of a file, in every dialect.
pub fn hold(file: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/middleware").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let vectors: Vec<Vector> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut names = std::collections::BTreeSet::new();
    for vector in &vectors {
        let known = ["document", "tests", "behavior", "ours"].contains(&vector.source.as_str());
        assert!(known || vector.source.starts_with("fault "), "{file}: `{}`: {}?", vector.name, vector.source);
        assert!(names.insert(&vector.name), "{file}: `{}` stands twice", vector.name);
        // In parallel, because some wait for a time limit.
        std::thread::scope(|scope| {
            for dialect in Dialect::ALL {
                scope.spawn(move || {
                    let here = format!("{file}: {} ({dialect})", vector.name);
                    let found = play(vector, dialect, &here);
                    assert!(!vector.gives.is_empty(), "{here}: what comes of it?");
                    for (member, gives) in &vector.gives {
                        assert_eq!(found.get(member), Some(gives), "{here}: {member}");
                    }
                });
            }
        });
    }
}

/// Plays a vector, checks each call against the provider's rules, and returns the outcome.
pub fn play(vector: &Vector, dialect: Dialect, here: &str) -> BTreeMap<String, Value> {
    block_on(async {
        let settings = lookback_engine::Settings::default().dialect(dialect);
        let session = Session::open(MemoryStore::new(), "run", settings).await.unwrap();
        let (asked, used) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        // The channels on which hanging middleware waits, kept until the end of the run.
        let mut held = Vec::new();
        let mut run = Pipeline::new(session);
        for middleware in &vector.middleware {
            run = place(run, middleware, &asked, &used, &mut held);
        }
        if let Some(most) = vector.iterations {
            run = run.with_iterations(most);
        }
        let model: Vec<Value> = vector.model.iter().flat_map(repeated).collect();
        let (mut calls, mut refused) = (Vec::<Call>::new(), Vec::new());
        let mut notes = BTreeMap::new();
        run.start(Message::user("Find out why the build fails.")).await.unwrap();
        while let Some(call) = run.next().await.unwrap() {
            let sent = serde_json::from_str(&call.to_json().unwrap()).unwrap();
            assert_valid(dialect, &sent, here);
            let iteration = usize::try_from(call.iteration).unwrap();
            let said = model.get(iteration - 1).cloned().unwrap_or_else(|| "Done.".into());
            collect_notes(&mut run, call.iteration, &mut notes).await;
            let first = calls.last().is_none_or(|last| last.iteration != call.iteration);
            calls.push(call);
            if said["too_long"] == true && first {
                refused.push(iteration);
                let cause = TooLong::new(Measure::Tokens);
                if run.overflow(cause).await.is_err() {
                    run.stop("nothing can be shortened").await.unwrap();
                }
                continue;
            }
            if let Some(tokens) = said["used"].as_u64() {
                used.store(tokens, Ordering::Relaxed);
            }
            let results = results(&said, iteration);
            let answer = match said.as_str() {
                Some(text) => Message::assistant(text),
                None => Message::assistant_with_calls("", results.iter().map(|(call, _)| call.clone())),
            };
            let usage = CallUsage::default().input(calls.last().unwrap().tokens).output(10);
            for call in run.answered(answer, Some(usage)).await.unwrap() {
                let (_, result) = results.iter().find(|(known, _)| *known == call).unwrap();
                run.tool(&call, |_| async { result.clone() }).await.unwrap();
            }
        }
        let stopped = match run.stopped().unwrap() {
            Stopped::Answered => "answered".to_owned(),
            Stopped::LastAnswer(reason) => format!("last answer: {reason}"),
            Stopped::NoAnswer(reason) => format!("no answer: {reason}"),
            Stopped::Cut(reason) => format!("cut: {reason}"),
            Stopped::Middleware(error) => format!("{error}: {}", error.cause),
            other => other.to_string(),
        };
        let failures: Vec<_> = run.failures().map(|error| format!("{error}: {}", error.cause)).collect();
        let without: Vec<_> =
            calls.iter().filter(|call| call.tools != ToolUse::Allowed).map(|call| call.iteration).collect();
        drop(held);
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        let mut session = run.into_session();
        let results: Vec<_> = adapter::entries(&mut session).await.unwrap().iter().filter_map(result_of).collect();
        // The session is valid and can continue.
        session.push(Message::user("Go on.")).await.unwrap();
        let sent = serde_json::from_str(&session.window().await.unwrap().to_json().unwrap()).unwrap();
        assert_valid(dialect, &sent, here);
        let told = json!({
            "stopped": stopped, "failures": failures, "asked": asked, "results": results, "calls": calls.len(),
            "without_tools": without, "notes": notes, "refused": refused,
            "shown": calls.iter().map(|call| call.view.messages().count()).collect::<Vec<_>>(),
        });
        told.as_object().unwrap().clone().into_iter().collect()
    })
}

/// Collects the notes in the log that are new.
async fn collect_notes(run: &mut Pipeline, iteration: u64, notes: &mut BTreeMap<u64, Vec<String>>) {
    let known: usize = notes.values().map(Vec::len).sum();
    let entries = run.session().store().read(run.session().name(), 0..u64::MAX).await.unwrap();
    let entries = entries.iter().map(|record| serde_json::from_str::<Entry>(record).unwrap());
    let said = entries.filter_map(|entry| match entry {
        Entry::Message(arrival) if arrival.origin == Origin::Lookback => Some(arrival.message.text()),
        _ => None,
    });
    for note in said.skip(known) {
        notes.entry(iteration).or_default().push(note);
    }
}

fn result_of(entry: &Entry) -> Option<String> {
    let Entry::Message(arrival) = entry else { return None };
    arrival.message.tool_results().next().map(|_| arrival.message.text())
}

/// Returns an answer as many times as its member `times` says.
fn repeated(said: &Value) -> Vec<Value> {
    let times = said["times"].as_u64().unwrap_or(1);
    std::iter::repeat_n(said.clone(), usize::try_from(times).unwrap()).collect()
}

/// Returns the calls of an answer, with their results. `{n}` in a text is replaced by the iteration.
fn results(said: &Value, iteration: usize) -> Vec<(ToolCall, Result<String, String>)> {
    let calls = said["calls"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().replace("{n}", &iteration.to_string());
    let of = |(index, call): (usize, &Value)| {
        let arguments =
            call.get("with").map_or("{}".to_owned(), Value::to_string).replace("{n}", &iteration.to_string());
        let result = match call.get("error") {
            Some(error) => Err(text(error)),
            None => Ok(text(&call["result"])),
        };
        (ToolCall::new(format!("c{iteration}x{index}"), text(&call["tool"]), arguments), result)
    };
    calls.iter().enumerate().map(of).collect()
}

/// Adds a middleware.
fn place(
    run: Pipeline,
    middleware: &Value,
    asked: &Arc<Mutex<Vec<String>>>,
    used: &Arc<AtomicU64>,
    held: &mut Vec<mpsc::Sender<()>>,
) -> Pipeline {
    if let Some(options) = middleware.get("budget") {
        let used = used.clone();
        let mut budget = Budget::new(options["max"].as_u64().unwrap(), move || used.load(Ordering::Relaxed));
        if let Some(ratio) = options["soft"].as_f64() {
            budget = budget.with_soft(ratio).unwrap();
        }
        if let Some(ratio) = options["hard"].as_f64() {
            budget = budget.with_hard(ratio).unwrap();
        }
        if options["stop"] == true {
            budget = budget.with_at_hard(AtHard::Stop);
        }
        return run.with(if options["active"] == false { budget.disabled() } else { budget });
    }
    if let Some(options) = middleware.get("window") {
        return run.with(ContextFilter::rounds(options["rounds"].as_u64().unwrap()).unwrap());
    }
    if middleware.get("progress").is_some() {
        return run.with(Progress::new());
    }
    if middleware.get("observe").is_some() {
        return run.with(Observe::new());
    }
    let (sender, wait) = mpsc::channel();
    held.push(sender);
    let closed = middleware["on_failure"] == "closed";
    let time_limit = Duration::from_millis(middleware["time_limit"].as_u64().unwrap_or(0));
    let mut settings = MiddlewareSettings::default().time_limit(time_limit);
    settings.order = middleware["order"].as_u64().map(|order| u32::try_from(order).unwrap());
    settings.on_failure =
        middleware.get("on_failure").map(|_| if closed { OnFailure::Closed } else { OnFailure::Open });
    let (middleware, asked) = (middleware.clone(), asked.clone());
    run.with_settings(Probe { middleware, asked, wait: Mutex::new(wait) }, settings)
}

/// A middleware that behaves as its vector specifies, and records its events.
struct Probe {
    middleware: Value,
    asked: Arc<Mutex<Vec<String>>>,
    wait: Mutex<mpsc::Receiver<()>>,
}

impl Middleware for Probe {
    fn name(&self) -> &str {
        self.middleware["name"].as_str().unwrap()
    }

    fn is_enabled(&self) -> bool {
        self.middleware["enabled"] != false
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        let (name, moment) = (self.name().to_owned(), event.name());
        let at = &self.middleware["at"];
        let wanted = [format!("{moment}@{}", run.iteration), moment.to_owned()].into_iter().find_map(|key| at.get(key));
        self.asked.lock().unwrap().push(format!("{name} {moment}"));
        let Some(wanted) = wanted else { return Ok(Reaction::none()) };
        match wanted.as_str() {
            Some("fail") => return Err("out of order".into()),
            Some("panic") => panic!("a middleware that panics, as its vector says"),
            Some("hang") => _ = self.wait.lock().unwrap().recv(),
            Some("pending") => {
                // A future that is not ready before the run is over.
                let mut waiting = Box::pin(async { _ = self.wait.lock().unwrap().recv() });
                block_on(&mut waiting);
            }
            _ => {}
        }
        let text = |key: &str| wanted.get(key).and_then(Value::as_str);
        let mut reaction = Reaction::none();
        if let Some(note) = text("note") {
            reaction = reaction.note(note.replace("{notes}", &run.notes.len().to_string()));
        }
        if let Some(policy) = wanted.get("tighten") {
            reaction = reaction.tighten(serde_json::from_value::<Policy>(policy.clone()).unwrap());
        }
        if let Some(reason) = text("stop") {
            reaction = reaction.stop(EndReason::Said(reason.to_owned()));
        }
        if let Some(reason) = text("last_answer") {
            reaction = reaction.last_answer(EndReason::Said(reason.to_owned()));
        }
        if let Some(answer) = text("answer") {
            reaction = reaction.answer(answer);
        }
        if let Some(answer) = text("refuse") {
            reaction = reaction.refuse(answer);
        }
        Ok(reaction)
    }
}
