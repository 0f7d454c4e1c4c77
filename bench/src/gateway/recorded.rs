//! Sends real transcripts through the gateway, and compares their costs with `lookback replay` and with no gateway.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, header};
use futures_lite::future::block_on;
use lookback_engine::{Settings, policy::Policy};
use lookback_replay::cache::Cache;
use lookback_replay::recording::Recording;
use lookback_replay::{prices::Prices, replay};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Role,
};
use serde_json::value::RawValue;

use super::{model, proxies};

/// The header with the number of the transcript and the index of the answer that a request waits for.
const ANSWER: &str = "x-answer";
/// The model whose token counter all rows of the table use.
const MODEL: &str = "gpt-4.1";
const PRICES: &str = "anthropic-5m";

/// A model that returns the recorded answers of transcripts, and whose cache is simulated.
struct Recorded {
    recordings: Vec<Recording>,
    /// The cache, the cost and the number of calls of each transcript so far.
    caches: Mutex<HashMap<usize, (Cache, f64, u64)>>,
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
    let model = Arc::new(Recorded { recordings, caches: Mutex::default() });
    let proxy = proxies::lookback_before(&serve(model.clone()), &["--policy", "default"]);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(recording) = model.recordings.get(number) else { return };
                    talk(&proxy.base, number, recording);
                }
            });
        }
    });
    let production = Policy { arrival: None, caps: None, repeats: None, ..Policy::production() };
    let replayed = |policy: &Policy| -> Vec<(f64, u64)> {
        let one = |recording: &Recording| {
            let settings = Settings::for_model(recording.dialect, MODEL).policy(policy.clone());
            let mut go_on = |_: &replay::ReplayedCall| ControlFlow::Continue(());
            let played = replay::replay(recording, settings, price(), 0, &mut go_on);
            let report = block_on(played).expect("a replay").report;
            (report.cost, report.calls)
        };
        model.recordings.iter().map(one).collect()
    };
    let (replay, without) = (replayed(&production), replayed(&Policy::never_compact()));
    let caches = model.caches.lock().unwrap_or_else(PoisonError::into_inner);
    let gateway = |number: usize| caches.get(&number).map_or((0.0, 0), |(_, cost, calls)| (*cost, *calls));
    let numbers = 0..model.recordings.len();
    let sum = |of: &dyn Fn(usize) -> (f64, u64)| {
        numbers.clone().map(of).fold((0.0, 0), |(cost, calls), (more, again)| (cost + more, calls + again))
    };
    let rows = [
        ("no gateway", sum(&|number| without[number])),
        ("replay", sum(&|number| replay[number])),
        ("gateway", sum(&gateway)),
    ];
    println!("{} transcripts at the prices {PRICES}, with the policy `default`\n", model.recordings.len());
    println!("{:>12} {:>10} {:>12} {:>12}", "", "calls", "cost, $", "x replay");
    for (name, (cost, calls)) in rows {
        println!("{name:>12} {calls:>10} {cost:>12.4} {:>12.4}", cost / rows[1].1.0);
    }
    let far = |number: &usize| {
        let (there, here) = (replay[*number].0, gateway(*number).0);
        (here - there).abs() > 0.02 * there
    };
    let far: Vec<usize> = numbers.clone().filter(far).collect();
    println!("\n{} transcripts differ by more than 2 %", far.len());
    for number in far.iter().take(20) {
        let recording = &model.recordings[*number];
        println!(
            "{:>40} {:?} {} messages: {:?} by replay, {:?} through the gateway",
            recording.id,
            recording.dialect,
            recording.messages.len(),
            replay[*number],
            gateway(*number)
        );
    }
}

fn price() -> &'static lookback_replay::prices::Price {
    Prices::builtin().find(PRICES).expect("a price of the table")
}

/// Sends every model call of a transcript.
fn talk(base: &str, number: usize, recording: &Recording) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let path = match recording.dialect {
        Dialect::Anthropic => "/v1/messages",
        Dialect::OpenAiResponses => "/v1/responses",
        Dialect::Gemini => "/v1beta/models/gpt-4.1:generateContent",
        _ => "/v1/chat/completions",
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
        let mut body = format!("{{\"model\":\"{MODEL}\"");
        for (name, value) in [(system, &recording.preamble.system), ("tools", &recording.preamble.tools)] {
            if let Some(value) = value {
                body += &format!(",\"{name}\":{}", value.get());
            }
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
        let tokens = self.charge(number, &request, &settings);
        let wire = recording.messages[index].message.wire().expect("it was recorded");
        let text = envelope(recording.dialect, &wire.elements(), tokens);
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        response
    }

    /// Records the cost of a request, and returns its input tokens.
    fn charge(&self, number: usize, request: &Request, settings: &Settings) -> u64 {
        let blocks = stand_in::blocks(request, settings);
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let (cache, cost, calls) = caches.entry(number).or_insert_with(|| (Cache::new(price().clone()), 0.0, 0));
        let charge = cache.call(&blocks, None);
        *cost += charge.cost;
        *calls += 1;
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
