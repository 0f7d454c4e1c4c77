//! Compares the windows of other libraries, and of anybody's own program, with Lookback's on recorded sessions.
//!
//! `python -m venv bench/.venv && bench/.venv/bin/pip install -r bench/peers/requirements.txt` and
//! `npm install --prefix bench/peers` install the libraries. Then set `PYTHON=bench/.venv/bin/python`.
//!
//! A peer is a program. It reads a line of JSON for each session, and writes a line for each:
//!
//! - `{"messages": [...], "calls": [3, 5, ...]}` has the messages in OpenAI's Chat format, and the indices of the
//!   assistant messages that answer a call. Before the call that message `n` answers, the messages before `n` are known.
//! - `{"dialect": "openai-chat", "table": [...], "windows": [[0, 1], ...], "micros": [12, ...]}` has the dialect of what
//!   the peer sends, each message that it sends once, the messages of each call's window as indices of the table, and how
//!   long each window took. An element of the table is the index of a message that is sent unchanged, or an object
//!   `{"from": 7, "as": {...}}`: the message in the peer's dialect, and the index of the message that it is, unchanged in
//!   content, or `null`. A member `version` of the first answer is shown in the table.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::policy::Policy;
use lookback_recordings::Recording;
use lookback_replay::cache::{Block, Cache};
use lookback_replay::prices::{Price, Prices};
use lookback_replay::replay::{Misses, ReplayedCall, Uses, replay};
use lookback_tokens::{TokenCounter, measure};
use lookback_wire::dialect::{Dialect, Request, Severity};
use lookback_wire::message::{Message, Role};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::corpus::read;
use crate::median;

/// The programs of this folder, with the peers that each of them has.
const PYTHON: &str = "peers/peers.py";
const NODE: &str = "peers/peers.mjs";

/// What a peer did in all sessions.
#[derive(Default)]
struct Figures {
    version: String,
    calls: u64,
    refused: u64,
    cost: f64,
    uses: Uses,
    /// The time of each window, with the number of messages before it.
    micros: Vec<(usize, f64)>,
    /// Why the first window is refused.
    fault: Option<String>,
}

/// Replays a file of transcripts through peers: all of this folder, those with these names, or `NAME=COMMAND`.
pub fn run(file: &str, names: &[&str]) {
    let text = String::from_utf8(read(file)).expect("UTF-8");
    let recordings = Recording::read(&text, "peers", Dialect::OpenAiChat).expect("transcripts");
    let prices = Prices::builtin();
    let price = prices.find("anthropic-5m").expect("a built-in price");
    let base: f64 = recordings.iter().map(|recording| everything(recording, price)).sum();
    println!("| windows | version | refused | cost | missed, % | spans, % | 10 messages | 200 messages |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, mut command) in programs(names) {
        let mut peer = Peer::start(&mut command);
        let mut figures = Figures { version: peer.version(), ..Figures::default() };
        for recording in &recordings {
            peer.measure(recording, price, &mut figures);
        }
        peer.end();
        println!("{}", figures.row(&name, base));
        if let Some(fault) = figures.fault {
            eprintln!("{name}: the first request that is refused: {fault}");
        }
    }
}

/// Returns the programs with these names, or all of them.
fn programs(names: &[&str]) -> Vec<(String, Command)> {
    let interpreter = |variable, usual: &str| std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
    let own = [(interpreter("PYTHON", "python3"), PYTHON), (interpreter("NODE", "node"), NODE)];
    let own = own.iter().flat_map(|(interpreter, program)| listed(interpreter, program));
    let given = names.iter().filter_map(|name| name.split_once('=')).map(|(name, line)| {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        (name.to_owned(), command)
    });
    own.filter(|(name, _)| names.is_empty() || names.contains(&name.as_str())).chain(given).collect()
}

/// Returns the peers of a program of this folder, or none if its interpreter or packages are not there.
fn listed(interpreter: &str, program: &str) -> Vec<(String, Command)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
    let listed = match Command::new(interpreter).arg(&path).arg("--list").output() {
        Ok(listed) if listed.status.success() => String::from_utf8_lossy(&listed.stdout).into_owned(),
        _ => {
            eprintln!("skipped: {interpreter} cannot run {program}");
            return Vec::new();
        }
    };
    let command = |name: &str| {
        let mut command = Command::new(interpreter);
        command.arg(&path).arg(name);
        (name.to_owned(), command)
    };
    listed.lines().map(command).collect()
}

/// A running program.
struct Peer {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Peer {
    fn start(command: &mut Command) -> Peer {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the peer runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Peer { child, lines }
    }

    /// Sends a line, and returns the answer.
    fn ask(&mut self, line: &Value) -> Value {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("the peer reads");
        let answer = self.lines.next().expect("an answer").expect("UTF-8");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// Asks for the version, with a session without calls.
    fn version(&mut self) -> String {
        let answer = self.ask(&json!({"messages": [], "calls": []}));
        answer["version"].as_str().unwrap_or("-").to_owned()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ran").success(), "the peer fails at its end");
    }

    fn measure(&mut self, recording: &Recording, price: &Price, figures: &mut Figures) {
        let calls = calls(recording);
        let raw: Vec<&RawValue> = recording.messages.iter().map(|recorded| raw(&recorded.message)).collect();
        let answer = self.ask(&json!({"messages": raw, "calls": calls}));
        let dialect: Dialect = answer["dialect"].as_str().unwrap_or("openai-chat").parse().expect("a dialect");
        let table = answer["table"].as_array().map(Vec::as_slice).unwrap_or_default();
        let table: Vec<Element> = table.iter().map(|element| Element::read(element, recording, dialect)).collect();
        let windows = answer["windows"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(windows.len(), calls.len(), "a window for each call");
        let (mut cache, cold) = (Cache::new(price.clone()), recording.cold_calls());
        let (mut misses, mut known, mut now) = (Misses::default(), 0, None);
        for (number, (window, call)) in windows.iter().zip(&calls).enumerate() {
            for (index, recorded) in recording.messages.iter().enumerate().take(*call).skip(known) {
                misses.push(index as u64, &recorded.message);
                now = recorded.time.or(now);
            }
            known = *call;
            if cold.contains(call) {
                cache.expire();
            }
            let indices = window.as_array().expect("a window").iter().filter_map(Value::as_u64);
            let window: Vec<&Element> = indices.filter_map(|index| table.get(usize::try_from(index).ok()?)).collect();
            let fault = fault(dialect, &window);
            figures.calls += 1;
            figures.refused += u64::from(fault.is_some());
            figures.fault = figures.fault.take().or(fault);
            let block = |element: &&Element| Block::new(element.digest).tokens(element.tokens).fixed(element.is_fixed);
            figures.cost += cache.call(&window.iter().map(block).collect::<Vec<_>>(), now).cost;
            let whole: HashSet<u64> = window.iter().filter_map(|element| element.from).collect();
            let shown = window.iter().flat_map(|element| &element.messages);
            if let Some(next) = recording.messages.get(*call) {
                let uses = misses.compare(&next.message, &whole, shown);
                figures.uses.identifiers += uses.identifiers;
                figures.uses.missed_identifiers += uses.missed_identifiers;
                figures.uses.spans += uses.spans;
                figures.uses.missed_spans += uses.missed_spans;
            }
            figures.micros.extend(answer["micros"][number].as_f64().map(|micros| (*call, micros)));
        }
    }
}

/// A message as a peer sends it.
struct Element {
    raw: Box<RawValue>,
    messages: Vec<Message>,
    /// The message of the history that it is.
    from: Option<u64>,
    digest: u128,
    tokens: u64,
    is_fixed: bool,
}

impl Element {
    fn read(element: &Value, recording: &Recording, dialect: Dialect) -> Element {
        let from = element.as_u64().or_else(|| element["from"].as_u64());
        let same = || {
            let index = usize::try_from(from.expect("an index")).expect("an index");
            raw(&recording.messages.get(index).expect("an index of a message").message).to_owned()
        };
        let raw = match element.get("as") {
            Some(message) => RawValue::from_string(message.to_string()).expect("JSON"),
            None => same(),
        };
        let messages = Request::from_raw(dialect, &[&raw]).map(Request::into_messages).unwrap_or_default();
        let tokens = |message: &Message| measure(message, &[], counter()).tokens;
        Element {
            digest: u128::from(xxh(raw.get())) << 64 | u128::from(xxh(&format!("{} ", raw.get()))),
            tokens: messages.iter().map(tokens).sum(),
            is_fixed: messages.iter().all(|message| message.role() == Role::System),
            messages,
            from,
            raw,
        }
    }
}

fn xxh(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn counter() -> &'static dyn TokenCounter {
    static COUNTER: std::sync::OnceLock<std::sync::Arc<dyn TokenCounter>> = std::sync::OnceLock::new();
    &**COUNTER.get_or_init(|| Settings::for_model(Dialect::OpenAiChat, "gpt-4o").counter)
}

fn raw(message: &Message) -> &RawValue {
    &message.wire().expect("a recorded message").raw
}

/// Returns the assistant messages that answer a call.
fn calls(recording: &Recording) -> Vec<usize> {
    let answers = recording.messages.iter().enumerate().skip(1);
    answers.filter(|(_, recorded)| recorded.message.role() == Role::Assistant).map(|(index, _)| index).collect()
}

/// Returns why a provider would refuse a window.
fn fault(dialect: Dialect, window: &[&Element]) -> Option<String> {
    let raw: Vec<Box<RawValue>> = window.iter().map(|element| element.raw.clone()).collect();
    let request = match Request::from_raw(dialect, &raw) {
        Ok(request) => request,
        Err(error) => return Some(error.to_string()),
    };
    if request.messages().is_empty() {
        return Some("no messages".to_owned());
    }
    let refused = |finding: &lookback_wire::dialect::Finding| finding.severity == Severity::Refused;
    dialect.check(&request).into_iter().find(refused).map(|finding| format!("{} at {}", finding.rule, finding.path))
}

/// Returns the cost of sending everything.
fn everything(recording: &Recording, price: &Price) -> f64 {
    let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").policy(Policy::never_compact());
    let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
    block_on(replay(recording, settings, price, 0, &mut on_call)).expect("a replay").report.cost
}

impl Figures {
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn row(&self, name: &str, base: f64) -> String {
        let percent = |part: u64, whole: u64| format!("{:.2}", 100.0 * part as f64 / (whole as f64).max(1.0));
        let at = |range: std::ops::Range<usize>| {
            let within: Vec<f64> =
                self.micros.iter().filter(|(call, _)| range.contains(call)).map(|(_, micros)| *micros).collect();
            if within.is_empty() { "-".to_owned() } else { format!("{:.0} µs", median(within)) }
        };
        let Uses { identifiers, missed_identifiers, spans, missed_spans } = self.uses;
        format!(
            "| {name} | {} | {} of {} | {:.3} | {} | {} | {} | {} |",
            self.version,
            self.refused,
            self.calls,
            self.cost / base,
            percent(missed_identifiers, identifiers),
            percent(missed_spans, spans),
            at(8..13),
            at(180..220),
        )
    }
}
