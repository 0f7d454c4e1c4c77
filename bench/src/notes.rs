//! Measures the cost of notes to the model, in several places of the requests of real transcripts.
//!
//! The notes are a fact sheet and a nudge. A fact changes every 10 calls, and every 15th call has a nudge. Lookback's
//! notes come from the middleware `FactSheet` in a session. For the other places, the benchmark inserts the same texts
//! into that session's windows without notes, for one call or into the system prompt.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_agent::{Event, FactSheet, Middleware, Run};
use lookback_engine::transcript::{Entry, Millis, Origin};
use lookback_engine::view::chain;
use lookback_engine::{Engine, Settings, policy::Policy};
use lookback_facts::{Memory, Scope, SheetOptions, Speaker, Statement};
use lookback_models::Models;
use lookback_presets::named;
use lookback_recordings::Recording;
use lookback_replay::cache::{Block, Cache};
use lookback_replay::prices::{Price, Prices};
use lookback_replay::replay::{ReplayedCall, Report, blocks, replay};
use lookback_session::Batch;
use lookback_session::RecordedMessage;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_tokens::TokenCounter;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, Role},
};

/// The token limits of a sheet.
const BUDGETS: [u64; 2] = [500, 2_000];
/// The number of calls between two changes of a fact.
const CHANGE: u64 = 10;
/// The number of calls between two nudges.
const NUDGE: u64 = 15;
const PRICES: [&str; 2] = ["anthropic-5m", "openai"];
const PLACES: [&str; 7] = [
    "no notes",
    "notes that stay",
    "notes that stay, marker before them too",
    "put in for a call, marker before it",
    "put in for a call, marker behind it",
    "in the system prompt",
    "there, with a status block",
];
/// The places where the texts are notes of a session.
const OURS: [usize; 2] = [1, 2];
const NUDGED: &str = "Token budget: most of the tokens are used. Bring the task to its end: answer with what you have, or make only \
                      the calls that the answer needs.";

/// Compares the places over a file of transcripts in the format of `lookback replay`, which may be gzipped.
pub fn run(file: &str) {
    let text = String::from_utf8(crate::corpus::read(file)).expect("UTF-8");
    let recordings = Recording::read(&text, "notes", Dialect::OpenAiChat).expect("transcripts");
    let default = named("default").expect("a preset");
    let window = |rounds: &str| {
        let filter = named(&format!("two-tier:sliding_window_size={rounds}")).expect("a preset");
        default.tightened(&filter, None)
    };
    let batches = "tokens:max_tokens=32000,target_tokens=16000";
    let policies = [
        ("none".to_owned(), named("none").expect("a preset")),
        ("default".to_owned(), default.clone()),
        (batches.to_owned(), named(batches).expect("a preset")),
        ("default, with the middleware ContextFilter::rounds(10)".to_owned(), window("10")),
        ("default, with the middleware ContextFilter::rounds(5)".to_owned(), window("5")),
        ("the same from 10 rounds down to 5".to_owned(), window("10,target_rounds=5")),
    ];
    let sheets = BUDGETS.map(Sheets::new);
    for sheets in &sheets {
        let tokens = sheets.texts.iter().map(|text| text.tokens);
        let (least, most) = (tokens.clone().min().unwrap_or(0), tokens.max().unwrap_or(0));
        println!("A sheet of at most {} tokens: {} facts, {least} to {most} tokens", sheets.budget, sheets.facts);
    }
    for (name, policy) in policies {
        let missed = missed(&recordings, &policy);
        println!("\n{name}: {missed:.2} % of the reused identifiers are missed, without notes");
        for sheets in &sheets {
            let mut totals = PLACES.map(|_| Total::default());
            for recording in &recordings {
                elsewhere(recording, &policy, sheets, &mut totals);
                ours(recording, &policy, sheets, &mut totals);
            }
            print(&name, sheets.budget, &totals);
        }
    }
}

/// Returns the percentage of reused identifiers that the window no longer had. An identifier is reused if the model
/// writes it and its history already has it.
fn missed(recordings: &[Recording], policy: &Policy) -> f64 {
    let prices = Prices::builtin();
    let price = prices.find(PRICES[0]).expect("a price");
    let mut total = Report::default();
    for recording in recordings {
        let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
        let replayed = block_on(replay(recording, settings(policy.clone()), price, 0, &mut on_call));
        total.add(&replayed.expect("a replay").report);
    }
    100.0 * total.missed_identifiers as f64 / total.reused_identifiers.max(1) as f64
}

fn print(policy: &str, budget: u64, totals: &[Total]) {
    println!("\n{policy}; a sheet of {budget} tokens\n");
    println!(
        "{:<40} {:>9} {:>8} {:>10} {:>8} {:>8} {:>12} {:>9} {:>8}",
        "notes", "cost, $", "beside", "sent, M", "read", "breaks", "a session", "openai, $", "beside"
    );
    for (place, total) in PLACES.iter().zip(totals) {
        println!(
            "{place:<40} {:>9.2} {:>8.3} {:>10.1} {:>6.1} % {:>8} {:>12.2} {:>9.2} {:>8.3}",
            total.cost[0],
            total.cost[0] / totals[0].cost[0],
            total.sent as f64 / 1e6,
            100.0 * total.read as f64 / total.sent as f64,
            total.breaks,
            total.breaks as f64 / total.sessions as f64,
            total.cost[1],
            total.cost[1] / totals[0].cost[1],
        );
    }
}

/// The totals of a place.
#[derive(Debug, Default)]
struct Total {
    cost: [f64; 2],
    /// The input tokens. `read` counts those that were in the cache, at the first price.
    sent: u64,
    read: u64,
    /// The number of prefix breaks.
    breaks: u64,
    sessions: u64,
}

/// Charges the requests of one session, with the notes in one place.
struct Meter {
    caches: [Cache; 2],
    prices: [Price; 2],
    last: Vec<u128>,
}

impl Meter {
    fn new() -> Self {
        let prices = PRICES.map(|name| Prices::builtin().find(name).expect("a price").clone());
        Meter { caches: prices.clone().map(Cache::new), prices, last: Vec::new() }
    }

    /// Charges one request: the blocks up to a cache marker, and the blocks after it, which are never cached.
    fn call(&mut self, cached: &[Block], after: &[Block], time: Option<Millis>, total: &mut Total) {
        let uncached: u64 = after.iter().map(|block| block.tokens).sum();
        for (index, cache) in self.caches.iter_mut().enumerate() {
            let charge = cache.call(cached, time);
            total.cost[index] += charge.cost + uncached as f64 * self.prices[index].input / 1e6;
            if index == 0 {
                total.sent += charge.sent() + uncached;
                total.read += charge.read;
            }
        }
        let request: Vec<u128> = cached.iter().chain(after).map(|block| block.digest).collect();
        total.breaks += u64::from(!request.starts_with(&self.last));
        self.last = request;
    }
}

/// A text that is inserted into a request.
#[derive(Debug, Clone, Copy)]
struct Text {
    digest: u128,
    tokens: u64,
}

impl Text {
    fn new(text: &str) -> Self {
        let mut engine = Engine::new(settings(Policy::unlimited()));
        let message = Message::user(text);
        let digest = message.digest();
        engine.push(message).expect("a text");
        Text { digest, tokens: engine.view().totals().size.tokens }
    }

    fn block(self) -> Block {
        Block::new(self.digest).tokens(self.tokens)
    }
}

/// A fact sheet after each change.
struct Sheets {
    budget: u64,
    facts: u64,
    texts: Vec<Text>,
}

impl Sheets {
    fn new(budget: u64) -> Self {
        let sheet = |memory: &Memory| block_on(memory.sheet(&options(budget), &*counter())).expect("a sheet");
        let memory = memory(0);
        let mut facts = 0;
        // The first sheet leaves some room, because identifiers grow longer.
        while sheet(&memory).tokens < budget * 95 / 100 {
            state(&memory, facts, 0);
            facts += 1;
        }
        let mut texts = vec![Text::new(&sheet(&memory).text)];
        for change in 1..100 {
            state(&memory, change % facts, change);
            texts.push(Text::new(&sheet(&memory).text));
        }
        Sheets { budget, facts, texts }
    }

    /// Returns the sheet at a call. The first call is 1.
    fn at(&self, call: u64) -> Text {
        self.texts[((call - 1) / CHANGE) as usize]
    }
}

fn options(budget: u64) -> SheetOptions {
    SheetOptions::default().budget(budget)
}

/// Opens the memory of a workspace with this many facts, which are not from the measured session.
fn memory(facts: u64) -> Memory {
    let memory = block_on(Memory::open(MemoryStore::new(), "notes")).expect("a memory");
    (0..facts).for_each(|thing| state(&memory, thing, 0));
    memory
}

fn state(memory: &Memory, thing: u64, change: u64) {
    let text = format!("The worker of queue {thing} takes {} jobs at a time, as the newest run shows.", 17 + change);
    let statement = Statement::finding(text).by(Speaker::Model).about(format!("queue {thing}"));
    block_on(memory.state(Scope::Shared, statement)).expect("a fact");
}

fn counter() -> Arc<dyn TokenCounter> {
    Models::builtin().find("gpt-4o").map(lookback_tokens::counter).expect("a model")
}

fn settings(policy: Policy) -> Settings {
    Settings::default().policy(policy).counter(counter())
}

/// Replays a recording into a session, and calls `on_call` before each model call, as `lookback replay` does.
fn play(recording: &Recording, policy: &Policy, mut on_call: impl FnMut(&mut Session, u64, Option<Millis>)) {
    block_on(async {
        let mut session = Session::open(MemoryStore::new(), "notes", settings(policy.clone())).await?;
        session.set_preamble(&recording.preamble).await?;
        let (mut call, mut now) = (0, None);
        for (index, RecordedMessage { message, time, .. }) in recording.messages.iter().enumerate() {
            now = time.or(now);
            if index > 0 && message.role() == Role::Assistant {
                call += 1;
                on_call(&mut session, call, now);
            }
            session.append(Batch::from(message.clone()).at(now)).await?;
        }
        Ok::<(), lookback_session::Error>(())
    })
    .expect("a session");
}

/// Measures windows without notes, and windows into which the texts are inserted outside the session.
fn elsewhere(recording: &Recording, policy: &Policy, sheets: &Sheets, totals: &mut [Total; 7]) {
    let mut meters = PLACES.map(|_| Meter::new());
    let nudge = Text::new(NUDGED);
    totals.iter_mut().enumerate().filter(|(place, _)| !OURS.contains(place)).for_each(|(_, total)| total.sessions += 1);
    play(recording, policy, |session, call, now| {
        let window = blocks(&block_on(session.window()).expect("a window"));
        let sheet = sheets.at(call);
        let nudged = (call % NUDGE == 0).then(|| nudge.block());
        let put_in: Vec<Block> = [sheet.block()].into_iter().chain(nudged).collect();
        let with = |blocks: &[Block], more: &[Block]| [blocks, more].concat();
        let nudges: Vec<Block> = nudged.into_iter().collect();
        meters[0].call(&window, &[], now, &mut totals[0]);
        meters[3].call(&window, &put_in, now, &mut totals[3]);
        meters[4].call(&with(&window, &put_in), &[], now, &mut totals[4]);
        let known = in_system(&window, &[sheet]);
        meters[5].call(&with(&known, &nudges), &[], now, &mut totals[5]);
        let status = Text::new(&format!(
            "# Status\nIteration {call} of 200 ({} %)\nTokens: {} of 1,000,000 used [OK]\nProgress: {} of the last 5 calls \
             brought new evidence.\nWork on the task, and report when it is done.",
            call / 2,
            call * 4_000,
            call % 5
        ));
        let known = in_system(&window, &[sheet, status]);
        meters[6].call(&with(&known, &nudges), &[], now, &mut totals[6]);
    });
}

/// Returns the window with texts at the end of its first system message, or in a new one.
fn in_system(window: &[Block], texts: &[Text]) -> Vec<Block> {
    let mut blocks = window.to_vec();
    // A first block with this digest has the tools.
    let at = usize::from(blocks.first().is_some_and(|block| block.digest == u128::MAX));
    if !blocks.get(at).is_some_and(|block| block.fixed) {
        blocks.insert(at, Block::new(0).fixed(true));
    }
    for text in texts {
        blocks[at].digest = chain(blocks[at].digest, text.digest);
        blocks[at].tokens += text.tokens;
    }
    blocks
}

/// Measures windows with the middleware's notes in the session, which keeps them.
fn ours(recording: &Recording, policy: &Policy, sheets: &Sheets, totals: &mut [Total; 7]) {
    let mut meters = OURS.map(|_| Meter::new());
    let memory = memory(sheets.facts);
    let mut sheet = FactSheet::new(memory.clone()).with_options(options(sheets.budget)).with_counter(counter());
    OURS.iter().for_each(|place| totals[*place].sessions += 1);
    play(recording, policy, |session, call, now| {
        if call % CHANGE == 1 && call > 1 {
            let change = (call - 1) / CHANGE;
            state(&memory, change % sheets.facts, change);
        }
        let (run, _) = seen(session, call);
        let reaction = sheet.on(&Event::BeforeModel, &run).expect("a sheet, or none");
        let nudge = (call % NUDGE == 0).then(|| NUDGED.to_owned());
        for note in reaction.notes.into_iter().chain(nudge) {
            block_on(session.append(Batch::from(Message::user(note)).origin(Origin::Lookback).at(now)))
                .expect("a note");
        }
        // The notes can cause a compaction, which the middleware must see.
        let (run, mut window) = seen(session, call);
        sheet.on(&Event::AfterIteration, &run).expect("nothing");
        meters[0].call(&window, &[], now, &mut totals[OURS[0]]);
        let newest: Vec<bool> = run.view.messages().map(|item| item.is_note()).collect();
        let notes = newest.iter().rev().take_while(|is_note| **is_note).count();
        if notes > 0
            && let Some(before) = window.len().checked_sub(notes + 1)
        {
            // The cache has a marker after a fixed block.
            window[before].fixed = true;
        }
        meters[1].call(&window, &[], now, &mut totals[OURS[1]]);
    });
}

/// Makes the window of a call, and returns the run as a middleware sees it, with the blocks of the window.
fn seen(session: &mut Session, iteration: u64) -> (Run, Vec<Block>) {
    let (name, policy) = (session.name().clone(), session.settings().policy.clone());
    let window = block_on(session.window()).expect("a window");
    let compaction = window.entries().iter().rev().find_map(|entry| match entry {
        Entry::Compaction(compaction) => Some(Arc::new(compaction.clone())),
        _ => None,
    });
    let mut run = Run::new(name, window.view().clone(), Dialect::OpenAiChat, policy);
    (run.iteration, run.tokens, run.compaction) = (iteration, window.tokens(), compaction);
    (run, blocks(&window))
}
