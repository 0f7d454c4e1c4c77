//! Sends real transcripts through the gateway, and compares their costs with `lookback replay` and with no gateway.

use std::collections::{HashMap, HashSet};
use std::iter::Sum;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, header};
use futures_lite::future::block_on;
use lookback_engine::{Settings, policy::Policy};
use lookback_replay::cache::Cache;
use lookback_replay::recording::{RecordedMessage, Recording};
use lookback_replay::replay::{Misses, Uses};
use lookback_replay::{prices::Prices, replay};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Role,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::{model, proxies};

/// The header with the number of the transcript and the index of the answer that a request waits for.
const ANSWER: &str = "x-answer";
/// The model whose token counter all rows of the table use.
const MODEL: &str = "gpt-4.1";
const PRICES: &str = "anthropic-5m";

/// The models that requests name: one with a context window of a million tokens, and one of 200,000.
const MODELS: [&str; 2] = [MODEL, "o3"];

/// A model that returns the recorded answers of transcripts, and whose cache is simulated.
struct Recorded {
    recordings: Vec<Recording>,
    /// The figures of each transcript so far.
    figures: Mutex<HashMap<usize, Figures>>,
}

/// The figures of a transcript.
struct Figures {
    cache: Cache,
    cost: f64,
    calls: u64,
    misses: Misses,
    /// The number of messages that `misses` has.
    known: usize,
    uses: Uses,
}

pub fn run(file: &str) {
    let text = crate::corpus::read(file);
    let text = String::from_utf8(text).expect("text");
    let mut recordings = Recording::read(&text, "transcripts", None).expect("transcripts");
    recordings.retain(|recording| recording.dialect != Dialect::Bedrock);
    for recording in &mut recordings {
        // The gateway gets all calls without pauses, so no cache entry may expire in the replay either.
        recording.messages.iter_mut().for_each(|message| message.time = None);
        recording.usage.clear();
    }
    let model = Arc::new(Recorded { recordings, figures: Mutex::default() });
    let address = serve(model.clone());
    let replayed = |policy: &Policy| -> Total {
        let one = |recording: &Recording| {
            let settings = Settings::for_model(recording.dialect, MODEL).policy(policy.clone());
            let mut go_on = |_: &replay::ReplayedCall| ControlFlow::Continue(());
            let played = replay::replay(recording, settings, price(), 0, &mut go_on);
            let report = block_on(played).expect("a replay").report;
            let uses = Uses {
                identifiers: report.reused_identifiers,
                missed_identifiers: report.missed_identifiers,
                spans: report.copied_spans,
                missed_spans: report.missed_spans,
            };
            Total { cost: report.cost, calls: report.calls, uses }
        };
        model.recordings.iter().map(one).sum()
    };
    let whole = replayed(&Policy::never_compact());
    println!("{} transcripts at the prices {PRICES}, without pauses\n", model.recordings.len());
    println!("| | calls | cost | missed, % | spans, % |\n|---|---|---|---|---|");
    let row = |name: &str, total: &Total| {
        let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let Uses { identifiers, missed_identifiers, spans, missed_spans, .. } = total.uses;
        let (names, spans) = (share(missed_identifiers, identifiers), share(missed_spans, spans));
        println!("| {name} | {} | {:.3} | {names:.2} | {spans:.2} |", total.calls, total.cost / whole.cost);
    };
    row("no gateway", &whole);
    row("replay, `default`", &replayed(&Policy::production()));
    for (options, name) in [(&["--policy", "default"][..], "`--policy default`"), (&[], "no options")] {
        for asked in MODELS {
            let proxy = proxies::lookback_before(&address, options);
            model.figures.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            let Some(recording) = model.recordings.get(number) else { return };
                            talk(&proxy.base, number, recording, asked);
                        }
                    });
                }
            });
            let figures = model.figures.lock().unwrap_or_else(PoisonError::into_inner);
            row(&format!("gateway, {name}, {asked}"), &figures.values().map(Figures::total).sum());
        }
    }
}

/// The sums of some transcripts.
#[derive(Default)]
struct Total {
    cost: f64,
    calls: u64,
    uses: Uses,
}

impl Sum for Total {
    fn sum<I: Iterator<Item = Total>>(totals: I) -> Total {
        totals.fold(Total::default(), |mut sum, one| {
            sum.cost += one.cost;
            sum.calls += one.calls;
            sum.uses.identifiers += one.uses.identifiers;
            sum.uses.missed_identifiers += one.uses.missed_identifiers;
            sum.uses.spans += one.uses.spans;
            sum.uses.missed_spans += one.uses.missed_spans;
            sum
        })
    }
}

impl Figures {
    fn new() -> Figures {
        let (misses, uses) = (Misses::default(), Uses::default());
        Figures { cache: Cache::new(price().clone()), cost: 0.0, calls: 0, misses, known: 0, uses }
    }

    fn total(&self) -> Total {
        Total { cost: self.cost, calls: self.calls, uses: self.uses }
    }
}

fn price() -> &'static lookback_replay::prices::Price {
    Prices::builtin().find(PRICES).expect("a price of the table")
}

/// Sends every model call of a transcript.
fn talk(base: &str, number: usize, recording: &Recording, model: &str) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let path = match recording.dialect {
        Dialect::Anthropic => "/v1/messages",
        Dialect::OpenAiResponses => "/v1/responses",
        Dialect::Gemini => &format!("/v1beta/models/{model}:generateContent"),
        _ => "/v1/chat/completions",
    };
    // The model can read what was shortened.
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let recall = recording.dialect.tool("recall", "Reads messages that have left the window.", &schema);
    let tools = match recording.preamble.tools.as_deref().map(RawValue::get) {
        Some(tools) if tools.starts_with("[{") => format!("[{recall},{}", &tools[1..]),
        _ => format!("[{recall}]"),
    };
    let raw: Vec<Vec<&RawValue>> = recording
        .messages
        .iter()
        .map(|recorded| recorded.message.wire().map(|wire| wire.elements()).unwrap_or_default())
        .collect();
    for (index, recorded) in recording.messages.iter().enumerate() {
        if index == 0 || recorded.message.role() != Role::Assistant {
            continue;
        }
        let sent: Vec<&str> = raw[..index].iter().flatten().map(|raw| raw.get()).collect();
        let (list, system) = match recording.dialect {
            Dialect::OpenAiResponses => ("input", "instructions"),
            Dialect::Gemini => ("contents", "systemInstruction"),
            _ => ("messages", "system"),
        };
        let mut body = format!("{{\"model\":\"{model}\",\"tools\":{tools}");
        if let Some(value) = &recording.preamble.system {
            body += &format!(",\"{system}\":{}", value.get());
        }
        body += &format!(",\"{list}\":[{}]}}", sent.join(","));
        let request = agent.post(format!("{base}{path}")).header("x-lookback-session", format!("recorded/{number}"));
        let request = request.header(ANSWER, format!("{number}/{index}")).header("content-type", "application/json");
        let mut answer = request.send(&body).expect("an answer");
        let said = answer.body_mut().with_config().limit(1 << 28).read_to_string().expect("text");
        assert_eq!(answer.status(), 200, "{} at {index}: {said}", recording.id);
    }
}

fn serve(model: Arc<Recorded>) -> String {
    let answer = move |headers: HeaderMap, body: Bytes| async move { model.answer(&headers, &body) };
    format!("http://{}", model::serve(Router::new().fallback(answer)))
}

impl Recorded {
    fn answer(&self, headers: &HeaderMap, body: &[u8]) -> Response<Body> {
        let asked = headers.get(ANSWER).and_then(|asked| asked.to_str().ok()?.split_once('/'));
        let (number, index): (usize, usize) = asked
            .map(|(number, index)| (number.parse().expect("a number"), index.parse().expect("a number")))
            .expect("a header");
        let recording = &self.recordings[number];
        let request = Request::decode(body.to_vec(), Some(recording.dialect)).expect("a request");
        let settings = Settings::for_model(recording.dialect, MODEL);
        let tokens = self.count((number, index), &request, &settings);
        let wire = recording.messages[index].message.wire().expect("it was recorded");
        let text = envelope(recording.dialect, &wire.elements(), tokens);
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        response
    }

    /// Records the cost and the misses of a request before an answer, and returns its input tokens.
    fn count(&self, (number, index): (usize, usize), request: &Request, settings: &Settings) -> u64 {
        let blocks = stand_in::blocks(request, settings);
        let mut all = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = all.entry(number).or_insert_with(Figures::new);
        let charge = figures.cache.call(&blocks, None);
        figures.cost += charge.cost;
        figures.calls += 1;
        let messages = &self.recordings[number].messages;
        for (position, recorded) in messages.iter().enumerate().take(index).skip(figures.known) {
            figures.misses.push(position as u64, &recorded.message);
        }
        figures.known = index;
        let shown: HashSet<u128> = request.messages().iter().map(|message| message.digest()).collect();
        let is_whole = |(_, recorded): &(usize, &RecordedMessage)| shown.contains(&recorded.message.digest());
        let whole = messages.iter().enumerate().take(index).filter(is_whole);
        let whole: HashSet<u64> = whole.map(|(position, _)| position as u64).collect();
        let uses = figures.misses.compare(&messages[index].message, &whole, request.messages());
        figures.uses.identifiers += uses.identifiers;
        figures.uses.missed_identifiers += uses.missed_identifiers;
        figures.uses.spans += uses.spans;
        figures.uses.missed_spans += uses.missed_spans;
        charge.sent()
    }
}

/// Returns the body of a response with a recorded message.
fn envelope(dialect: Dialect, elements: &[&RawValue], tokens: u64) -> String {
    let first = elements.first().map_or("null", |raw| raw.get());
    match dialect {
        Dialect::Anthropic => {
            let message: HashMap<String, Box<RawValue>> = serde_json::from_str(first).expect("a message");
            let content = message.get("content").map_or("[]", |content| content.get());
            let content = if content.starts_with('"') {
                format!("[{{\"type\":\"text\",\"text\":{content}}}]")
            } else {
                content.to_owned()
            };
            format!(
                "{{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"{MODEL}\",\"content\":{content},\"stop_reason\":\"end_turn\",\"usage\":{{\"input_tokens\":{tokens},\"output_tokens\":1}}}}"
            )
        }
        Dialect::OpenAiResponses => {
            let items: Vec<&str> = elements.iter().map(|raw| raw.get()).collect();
            format!(
                "{{\"id\":\"r\",\"object\":\"response\",\"status\":\"completed\",\"model\":\"{MODEL}\",\"output\":[{}],\"usage\":{{\"input_tokens\":{tokens},\"output_tokens\":1}}}}",
                items.join(",")
            )
        }
        Dialect::Gemini => format!(
            "{{\"candidates\":[{{\"content\":{first},\"finishReason\":\"STOP\"}}],\"usageMetadata\":{{\"promptTokenCount\":{tokens},\"candidatesTokenCount\":1}},\"modelVersion\":\"{MODEL}\"}}"
        ),
        _ => format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"{MODEL}\",\"choices\":[{{\"index\":0,\"message\":{first},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{tokens},\"completion_tokens\":1,\"total_tokens\":{tokens}}}}}"
        ),
    }
}
