//! Sends real transcripts through the gateway, and compares their costs with `lookback replay` and with no gateway.
//!
//! The clock of the process follows the recorded times, so that cache entries expire as they did. The gateway is in this
//! process, and the transcripts are sent one after the other. Their answers have the usage of the simulated cache.

use std::collections::{HashMap, HashSet};
use std::iter::Sum;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, header};
use futures_lite::future::block_on;
use lookback_engine::transcript::Millis;
use lookback_engine::{Settings, policy::Policy};
use lookback_recordings::Recording;
use lookback_replay::cache::{Cache, Charge};
use lookback_replay::replay::{Misses, Uses};
use lookback_replay::{prices::Prices, replay};
use lookback_server::gateway::{Config, Gateway, Upstream};
use lookback_session::RecordedMessage;
use lookback_sqlite::SqliteStore;
use lookback_store::{now, set_now};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Role,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::model;
use crate::signed;

/// The header with the number of the transcript and the index of the answer that a request waits for.
const ANSWER: &str = "x-answer";
/// The model whose token counter all rows of the table use.
const MODEL: &str = "gpt-4.1";
const PRICES: &str = "anthropic-5m";
/// The tool with which the model reads what was shortened.
const RECALL: &str = "recall";

/// The models that requests name: one with a context window of a million tokens, and one of 200,000.
const MODELS: [&str; 2] = [MODEL, "o3"];
/// The first time, in milliseconds, of the first transcript: the beginning of 2026.
const BEGIN: Millis = 1_767_225_600_000;
/// A transcript is long if its largest request has more tokens.
const LARGE: u64 = 12_000;
/// The time between messages without recorded times, and that before a call for which the provider's cache was cold.
const SECOND: Millis = 1_000;
const LONG: Millis = 3_600 * SECOND;

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

/// Sends the transcripts of a file. `thinks` puts signed thinking into each answer that calls tools, which the
/// recordings have lost.
pub fn run(file: &str, thinks: bool) {
    let text = String::from_utf8(crate::corpus::read(file)).expect("text");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let text = if thinks {
        lines.map(|line| signed::converted(&line, Some(true)).to_string()).collect::<Vec<_>>().join("\n")
    } else {
        text
    };
    let mut recordings = Recording::read(&text, "transcripts", None).expect("transcripts");
    recordings.retain(|recording| recording.dialect != Dialect::Bedrock);
    let is_timed = |recording: &&Recording| recording.messages.iter().any(|recorded| recorded.time.is_some());
    let (timed, reported) =
        (recordings.iter().filter(is_timed).count(), recordings.iter().filter(|it| !it.usage.is_empty()).count());
    recordings.iter_mut().for_each(offer_recall);
    let mut clock = BEGIN;
    recordings.iter_mut().for_each(|recording| clock = set_times(recording, clock) + LONG);
    let model = Arc::new(Recorded { recordings, figures: Mutex::default() });
    let address = serve(model.clone());
    let replayed = |policy: &Policy| -> Vec<Total> {
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
            Total { count: 1, cost: report.cost, calls: report.calls, largest: report.max_window_tokens, uses }
        };
        model.recordings.iter().map(one).collect()
    };
    let whole = replayed(&Policy::never_compact());
    let is_long: Vec<bool> = whole.iter().map(|total| total.largest > LARGE).collect();
    let long = |totals: &[Total]| -> Total {
        totals.iter().zip(&is_long).filter(|(_, is_long)| **is_long).map(|(total, _)| *total).sum()
    };
    println!("{} transcripts at the prices {PRICES}: {timed} with times, {reported} with reported usage", whole.len());
    println!("{} of them are long: their largest request has over {LARGE} tokens\n", long(&whole).count);
    println!("| | calls | cost | missed, % | spans, % | cost of the long | missed, % | spans, % |");
    println!("|---|---|---|---|---|---|---|---|");
    let row = |name: &str, totals: &[Total]| {
        let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let figures = |total: Total, whole: Total| {
            let Uses { identifiers, missed_identifiers, spans, missed_spans, .. } = total.uses;
            let (names, spans) = (share(missed_identifiers, identifiers), share(missed_spans, spans));
            format!("{:.3} | {names:.2} | {spans:.2}", total.cost / whole.cost.max(f64::MIN_POSITIVE))
        };
        let (all, all_whole): (Total, Total) = (totals.iter().copied().sum(), whole.iter().copied().sum());
        println!("| {name} | {} | {} | {} |", all.calls, figures(all, all_whole), figures(long(totals), long(&whole)));
    };
    row("no gateway", &whole);
    row("replay, `default`", &replayed(&Policy::production()));
    let clients = [
        ("by default", None, true),
        ("`--policy default`", Some(Policy::production()), true),
        ("by default, cannot read back", None, false),
    ];
    for (name, policy, reads_back) in clients.into_iter().take(if thinks { 1 } else { 3 }) {
        for asked in MODELS {
            model.figures.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let base = gateway(&address, policy.clone());
            for (number, recording) in model.recordings.iter().enumerate() {
                talk(&base, number, recording, asked, reads_back);
            }
            let figures = model.figures.lock().unwrap_or_else(PoisonError::into_inner);
            let total = |number: usize| figures.get(&number).map(Figures::total).unwrap_or_default();
            let totals: Vec<Total> = (0..model.recordings.len()).map(total).collect();
            row(&format!("gateway, {name}, {asked}"), &totals);
        }
    }
}

/// Gives each message of a recording a time from `begin` on, and returns the last one. The times between messages are
/// the recorded ones. Without them, a long pause comes before the question of a call for which the provider's cache was
/// cold.
fn set_times(recording: &mut Recording, begin: Millis) -> Millis {
    let answers = |recorded: &RecordedMessage| recorded.message.role() == Role::Assistant;
    let mut asked = 0;
    let mut pauses = HashSet::new();
    let cold = recording.cold_calls();
    for (index, _) in recording.messages.iter().enumerate().filter(|(_, recorded)| answers(recorded)) {
        if cold.contains(&index) {
            pauses.insert(asked);
        }
        asked = index + 1;
    }
    let (mut clock, mut before) = (begin, None);
    for (index, recorded) in recording.messages.iter_mut().enumerate() {
        let pause = match (before, recorded.time) {
            (Some(before), Some(time)) => time - before,
            _ if pauses.contains(&index) => LONG,
            _ => SECOND,
        };
        before = recorded.time.or(before);
        clock += pause.max(0);
        recorded.time = Some(clock);
    }
    recording.usage.clear();
    clock
}

/// Adds the tool [`RECALL`] to those of a recording.
fn offer_recall(recording: &mut Recording) {
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let tool = recording.dialect.tool(RECALL, "Reads messages that have left the window.", &schema);
    let tools = match recording.preamble.tools.as_deref().map(RawValue::get) {
        Some(tools) if tools.starts_with("[{") => format!("[{tool},{}", &tools[1..]),
        _ => format!("[{tool}]"),
    };
    recording.preamble.tools = Some(RawValue::from_string(tools).expect("JSON"));
}

/// Starts a gateway in this process, which serves until the process ends, and returns its address. Requests get no
/// additions, because they have the tool already.
fn gateway(upstream: &str, policy: Option<Policy>) -> String {
    let (tell, told) = mpsc::channel();
    let upstream: Upstream = upstream.parse().expect("an address");
    thread::spawn(move || {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(folder.path().join("memory.db")).expect("a store");
        let mut config = Config::default();
        config.adds = Some(Vec::new());
        let gateway = Gateway::new(store).with_config(config).with_upstream(upstream);
        let gateway = policy.into_iter().fold(gateway, Gateway::with_policy);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        gateway.serve(anywhere, move |address| tell.send(address).expect("the bench waits")).expect("it serves");
    });
    format!("http://{}", told.recv().expect("an address"))
}

/// The figures of a transcript, or the sums of some.
#[derive(Clone, Copy, Default)]
struct Total {
    /// The number of transcripts.
    count: u64,
    cost: f64,
    calls: u64,
    /// The tokens of the largest request.
    largest: u64,
    uses: Uses,
}

impl Sum for Total {
    fn sum<I: Iterator<Item = Total>>(totals: I) -> Total {
        totals.fold(Total::default(), |mut sum, one| {
            sum.count += one.count;
            sum.largest = sum.largest.max(one.largest);
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
        Total { count: 1, cost: self.cost, calls: self.calls, largest: 0, uses: self.uses }
    }
}

fn price() -> &'static lookback_replay::prices::Price {
    Prices::builtin().find(PRICES).expect("a price of the table")
}

/// Sends every model call of a transcript. `reads_back` is whether the model has a tool with which it can read what was
/// shortened.
fn talk(base: &str, number: usize, recording: &Recording, model: &str, reads_back: bool) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let path = match recording.dialect {
        Dialect::Anthropic => "/v1/messages",
        Dialect::OpenAiResponses => "/v1/responses",
        Dialect::Gemini => &format!("/v1beta/models/{model}:generateContent"),
        _ => "/v1/chat/completions",
    };
    let tools = recording.preamble.tools.as_deref().map_or("[]", RawValue::get);
    let tools = if reads_back { tools.to_owned() } else { tools.replacen(RECALL, "look_up", 1) };
    let raw: Vec<Vec<&RawValue>> = recording
        .messages
        .iter()
        .map(|recorded| recorded.message.wire().map(|wire| wire.elements()).unwrap_or_default())
        .collect();
    for (index, recorded) in recording.messages.iter().enumerate() {
        if index == 0 || recorded.message.role() != Role::Assistant {
            continue;
        }
        set_now(recorded.time);
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
        let charge = self.count((number, index), &request, &settings);
        let wire = recording.messages[index].message.wire().expect("it was recorded");
        let text = envelope(recording.dialect, &wire.elements(), &charge);
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        response
    }

    /// Records the cost and the misses of a request before an answer, and returns its charge.
    fn count(&self, (number, index): (usize, usize), request: &Request, settings: &Settings) -> Charge {
        let blocks = stand_in::blocks(request, settings);
        let mut all = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = all.entry(number).or_insert_with(Figures::new);
        let charge = figures.cache.call(&blocks, now());
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
        charge
    }
}

/// Returns the body of a response with a recorded message, and with the usage that the cache has charged.
fn envelope(dialect: Dialect, elements: &[&RawValue], charge: &Charge) -> String {
    let first = elements.first().map_or("null", |raw| raw.get());
    let (sent, read) = (charge.sent(), charge.read);
    match dialect {
        Dialect::Anthropic => {
            let message: HashMap<String, Box<RawValue>> = serde_json::from_str(first).expect("a message");
            let content = message.get("content").map_or("[]", |content| content.get());
            let content = if content.starts_with('"') {
                format!("[{{\"type\":\"text\",\"text\":{content}}}]")
            } else {
                content.to_owned()
            };
            let usage = json!({
                "input_tokens": charge.uncached,
                "cache_creation_input_tokens": charge.written,
                "cache_read_input_tokens": read,
                "output_tokens": 1,
            });
            format!(
                "{{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"{MODEL}\",\"content\":{content},\"stop_reason\":\"end_turn\",\"usage\":{usage}}}"
            )
        }
        Dialect::OpenAiResponses => {
            let items: Vec<&str> = elements.iter().map(|raw| raw.get()).collect();
            let details = json!({"cached_tokens": read});
            let usage = json!({"input_tokens": sent, "input_tokens_details": details, "output_tokens": 1});
            format!(
                "{{\"id\":\"r\",\"object\":\"response\",\"status\":\"completed\",\"model\":\"{MODEL}\",\"output\":[{}],\"usage\":{usage}}}",
                items.join(",")
            )
        }
        Dialect::Gemini => {
            let usage = json!({"promptTokenCount": sent, "cachedContentTokenCount": read, "candidatesTokenCount": 1});
            format!(
                "{{\"candidates\":[{{\"content\":{first},\"finishReason\":\"STOP\"}}],\"usageMetadata\":{usage},\"modelVersion\":\"{MODEL}\"}}"
            )
        }
        _ => {
            let details = json!({"cached_tokens": read});
            let usage = json!({
                "prompt_tokens": sent,
                "prompt_tokens_details": details,
                "completion_tokens": 1,
                "total_tokens": sent,
            });
            format!(
                "{{\"id\":\"c\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"{MODEL}\",\"choices\":[{{\"index\":0,\"message\":{first},\"finish_reason\":\"stop\"}}],\"usage\":{usage}}}"
            )
        }
    }
}
