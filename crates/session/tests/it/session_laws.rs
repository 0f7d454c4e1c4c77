//! The laws of a session under random operations in any order: its window can always be sent, and its history has every
//! message since it was last replaced.

#![allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use lookback_engine::policy::{Keep, Tokens};
use lookback_engine::view::Item;
use lookback_engine::{
    Settings,
    policy::{Limits, Mode, Pace, Policy, Stage, Summarize, SystemRule},
    transcript::Entry,
};
use lookback_session::Batch;
use lookback_session::SummaryOptions;
use lookback_session::adapter;
use lookback_session::{ErasedContents, OldContents, SourceKind};
use lookback_session::{Error, Session, Window};
use lookback_store::{MemoryStore, Store};
use lookback_summarize::Function;
use lookback_summarize::Job;
use lookback_tokens::cut::Truncation;
use lookback_wire::{
    Start,
    dialect::{Dialect, Preamble, Request, TooLong},
    message::{Message, ToolCall},
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

#[derive(Debug, Clone)]
enum Op {
    User(usize),
    Assistant(usize),
    Call(u8),
    Result(usize),
    System,
    Preamble(u8),
    Window,
    EnforceLimits,
    Usage(u64),
    Overflow(Option<u64>),
    Policy(u8),
    Replace(usize),
    Sync {
        keep: usize,
        new: usize,
    },
    Reopen,
    /// Another session of the same name pushes.
    Other,
    /// From now on, summaries are made at once, or only by `Make`.
    Instant(bool),
    /// Waiting summaries are made.
    Make,
    /// Waiting summaries are dropped.
    Kill,
    Settled,
    /// All old messages are erased, or only those from before the running summary was made.
    Erase {
        summarized: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1usize..80).prop_map(Op::User),
        8 => (1usize..80).prop_map(Op::Assistant),
        6 => (1u8..4).prop_map(Op::Call),
        8 => (1usize..400).prop_map(Op::Result),
        1 => Just(Op::System),
        1 => (0u8..3).prop_map(Op::Preamble),
        12 => Just(Op::Window),
        2 => Just(Op::EnforceLimits),
        1 => (20u64..300).prop_map(Op::Usage),
        2 => prop_oneof![Just(None), (10u64..600).prop_map(Some)].prop_map(Op::Overflow),
        2 => (0u8..9).prop_map(Op::Policy),
        1 => (0usize..5).prop_map(Op::Replace),
        2 => (0usize..30, 0usize..4).prop_map(|(keep, new)| Op::Sync { keep, new }),
        2 => Just(Op::Reopen),
        2 => Just(Op::Other),
        1 => any::<bool>().prop_map(Op::Instant),
        2 => Just(Op::Make),
        1 => Just(Op::Kill),
        2 => Just(Op::Settled),
        1 => any::<bool>().prop_map(|summarized| Op::Erase { summarized }),
    ]
}

fn policy(number: u8, one: bool) -> Policy {
    let summarize = Stage::Summarize(Summarize { budget: 60, ..Summarize::default() });
    let system = SystemRule { one, first: one, counted: !one };
    let plain = Policy { system, ..Policy::unlimited() };
    let summed = Policy { stages: vec![summarize.clone()], ..plain.clone() };
    let shorten =
        Stage::TruncateResults { to: Truncation { head: 40, tail: 40, ..Truncation::default() }, except_newest: 1 };
    match number {
        0 => Policy { limits: Limits::messages(6), ..summed },
        1 => Policy { limits: Limits::messages(8), target: Some(Limits::messages(4)), ..summed },
        2 => Policy { limits: Limits { tokens: Some(Tokens::Count(300)), ..Limits::default() }, ..summed },
        3 => Policy { limits: Limits::messages(4), hard: Some(Limits::messages(9)), ..summed },
        4 => Policy { limits: Limits::messages(4), pace: Pace::Turn, start: Start::User, ..plain },
        5 => Policy { limits: Limits::messages(5), mode: Mode::OnRead, ..plain },
        6 => Policy { limits: Limits::messages(6), stages: vec![shorten, summarize, Stage::Drop], ..plain },
        7 => Policy {
            limits: Limits { turns: Some(2), ..Limits::default() },
            keep: Keep { first: 1, last: 2, task: false, system: true, people: 400, work: true },
            ..summed
        },
        _ => plain,
    }
}

struct Life {
    dialect: Dialect,
    store: Arc<dyn Store>,
    session: Session,
    jobs: Arc<Mutex<Vec<Job>>>,
    instant: Arc<AtomicBool>,
    policy: Policy,
    one: bool,
    expected: Vec<Message>,
    open: Vec<String>,
    number: usize,
    /// The digests of the messages that were erased.
    erased: HashSet<u128>,
    /// Whether messages have left the window only for summaries so far.
    only_summaries: bool,
}

impl Life {
    fn begin(dialect: Dialect, one: bool, first: u8) -> Life {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (jobs, instant) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        let policy = policy(first, one);
        let session = open(&store, dialect, &policy, &jobs, &instant);
        let only_summaries = first <= 2;
        let (expected, open, erased) = (Vec::new(), Vec::new(), HashSet::new());
        Life { dialect, store, session, jobs, instant, policy, one, expected, open, number: 0, erased, only_summaries }
    }

    fn words(&mut self, words: usize) -> String {
        self.number += 1;
        format!("message {} {}", self.number, "is longer than it need be ".repeat(words / 4)).trim_end().to_owned()
    }

    fn in_dialect(&self, message: &Message) -> Message {
        self.dialect.convert(message).unwrap().remove(0)
    }

    fn push(&mut self, message: &Message) {
        let message = self.in_dialect(message);
        block_on(self.session.push(message.clone())).unwrap();
        self.expected.push(message);
    }

    fn make(&self) {
        loop {
            let Some(job) = self.jobs.lock().unwrap().pop() else { return };
            block_on(job);
        }
    }

    fn window(&mut self) {
        let window = match block_on(self.session.window()) {
            Ok(window) => window,
            Err(Error::HardLimitExceeded(_)) => return,
            Err(error) => panic!("{error}"),
        };
        agree(&window);
        let json = window.to_json().unwrap();
        self.check(&json);
    }

    fn check(&self, json: &str) {
        if !self.expected.is_empty() {
            let request = Request::decode(json, Some(self.dialect)).unwrap();
            let target = self.session.settings().target();
            let request = target.provider.into_iter().fold(request, Request::with_provider);
            let request = target.model.into_iter().fold(request, Request::with_model);
            let findings = self.dialect.check(&request);
            assert!(findings.is_empty(), "{findings:?}\n{json}");
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::User(words) => {
                let text = self.words(*words);
                self.push(&Message::user(text));
            }
            Op::Assistant(words) => {
                let text = self.words(*words);
                self.push(&Message::assistant(text));
            }
            Op::Call(calls) => {
                let text = self.words(1);
                let ids: Vec<_> = (0..*calls).map(|call| format!("call_{}_{call}", self.number)).collect();
                self.open.extend(ids.clone());
                self.push(&Message::assistant_with_calls(text, ids.iter().map(|id| ToolCall::new(id, "read", "{}"))));
            }
            Op::Result(words) => {
                if let Some(id) = self.open.pop() {
                    let text = self.words(*words);
                    self.push(&Message::tool_result(id, text));
                }
            }
            Op::System if self.dialect == Dialect::OpenAiChat => {
                let text = self.words(1);
                self.push(&Message::system(text));
            }
            Op::System => {}
            Op::Preamble(number) => {
                let body = format!(r#"{{"system":"preamble {number}","messages":[]}}"#);
                if self.dialect == Dialect::Anthropic
                    && let Ok(request) = Request::decode(body, Some(self.dialect))
                {
                    let preamble: &Preamble = request.preamble();
                    block_on(self.session.set_preamble(preamble)).unwrap();
                }
            }
            Op::Window => self.window(),
            Op::EnforceLimits => block_on(self.session.enforce_limits()).unwrap(),
            Op::Usage(percent) => {
                let tokens = self.session.view().totals().size.tokens * percent / 100;
                block_on(self.session.usage("m", tokens)).unwrap();
            }
            Op::Overflow(room) => {
                self.only_summaries = false;
                self.window();
                let tokens = |session: &Session| adapter::preview(session).tokens();
                let before = tokens(&self.session);
                let mut long = TooLong::new(lookback_wire::size::Measure::Tokens);
                long.limit = *room;
                match block_on(self.session.overflow(long)) {
                    Ok(()) => assert!(tokens(&self.session) < before, "{before}"),
                    Err(Error::Irreducible(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                self.window();
            }
            Op::Policy(number) => {
                self.only_summaries &= *number <= 2;
                self.policy = policy(*number, self.one);
                self.session.set_policy(self.policy.clone());
            }
            Op::Replace(count) => {
                let mut messages = Vec::new();
                for index in 0..*count {
                    let text = self.words(5);
                    let message = if index % 2 == 0 { Message::user(text) } else { Message::assistant(text) };
                    messages.push(self.in_dialect(&message));
                }
                self.open.clear();
                self.expected.clone_from(&messages);
                self.erased.clear();
                if messages.is_empty() {
                    block_on(self.session.replace(Batch::default())).unwrap();
                } else if count % 2 == 0 {
                    self.only_summaries &= self.policy.hard.is_none();
                    block_on(self.session.replace(Batch::from(messages).enforcing_limits())).unwrap();
                } else {
                    block_on(self.session.replace(messages)).unwrap();
                }
            }
            Op::Sync { keep, new } => {
                let keep = self.expected.len().saturating_sub(keep / 6);
                self.expected.truncate(keep);
                for _ in 0..*new {
                    let text = self.words(3);
                    let message = self.in_dialect(&Message::user(text));
                    self.expected.push(message);
                }
                let length = self.expected.len() as u64;
                let synced = block_on(self.session.sync(self.expected.clone())).unwrap();
                assert_eq!(synced.known + synced.new, length);
                if self.session.view().erased_before() == 0 || synced.known > 0 {
                    assert_eq!(synced.new, *new as u64);
                } else {
                    // The client went back to before an erasure, so the session restarted with the client's history.
                    self.erased.clear();
                }
                let again = block_on(self.session.sync(self.expected.clone())).unwrap();
                assert_eq!((again.known, again.new, again.left), (length, 0, 0));
            }
            Op::Reopen => {
                let before = adapter::preview(&self.session).to_json().unwrap();
                let totals = self.session.view().totals();
                self.session = open(&self.store, self.dialect, &self.policy, &self.jobs, &self.instant);
                assert_eq!(adapter::preview(&self.session).to_json().unwrap(), before);
                assert_eq!(self.session.view().totals(), totals);
            }
            Op::Other => {
                let text = self.words(2);
                let message = self.in_dialect(&Message::user(text));
                let mut other = open(&self.store, self.dialect, &self.policy, &self.jobs, &self.instant);
                block_on(other.push(message.clone())).unwrap();
                if self.number.is_multiple_of(3) {
                    _ = block_on(other.window());
                }
                self.expected.push(message);
                assert!(block_on(self.session.refresh()).unwrap());
            }
            Op::Erase { summarized } => {
                let before = adapter::preview(&self.session).to_json().unwrap();
                let said = self.said();
                let old = OldContents::default().summarized(*summarized);
                let old = if *summarized { old } else { old.before(i64::MAX) };
                let erasable = block_on(adapter::erasable(&mut self.session, &old)).unwrap();
                assert_eq!(block_on(self.session.erase(&old)).unwrap(), erasable);
                assert_eq!(block_on(adapter::erasable(&mut self.session, &old)).unwrap(), ErasedContents::default());
                if *summarized || erasable.bytes == 0 {
                    assert_eq!(adapter::preview(&self.session).to_json().unwrap(), before);
                }
                // Only texts that were made from the messages are rewritten.
                assert_eq!(self.said(), said);
                let left = block_on(self.session.history()).unwrap();
                let left: HashSet<u128> = left.iter().map(|entry| entry.arrival.message.digest()).collect();
                let known = self.expected.iter().map(Message::digest);
                self.erased = known.filter(|digest| !left.contains(digest)).collect();
                assert!(self.erased.len() as u64 <= self.expected.len() as u64);
                self.only_summaries &= erasable.bytes == 0;
            }
            Op::Instant(instant) => self.instant.store(*instant, Ordering::SeqCst),
            Op::Make => self.make(),
            Op::Kill => self.jobs.lock().unwrap().clear(),
            Op::Settled => {
                self.make();
                let before = self.instant.swap(true, Ordering::SeqCst);
                let settled = async {
                    self.session.wait_for_summary().await.unwrap();
                    true
                };
                let late = async {
                    async_io::Timer::after(std::time::Duration::from_secs(60)).await;
                    false
                };
                assert!(block_on(futures_lite::future::or(settled, late)), "settled does not return");
                self.instant.store(before, Ordering::SeqCst);
            }
        }
        self.holds();
    }

    /// The messages of the window that are not Lookback's own.
    fn said(&self) -> Vec<(u64, u128)> {
        let said = self.session.view().messages().filter(|item| !item.is_own());
        said.map(|item| (item.position(), item.message().digest())).collect()
    }

    fn holds(&mut self) {
        let preview = adapter::preview(&self.session);
        agree(&preview);
        self.check(&preview.to_json().unwrap());
        let history = block_on(self.session.history()).unwrap();
        let texts = |messages: &mut dyn Iterator<Item = &Message>| messages.map(Message::digest).collect::<Vec<_>>();
        assert_eq!(
            texts(&mut history.iter().map(|entry| &*entry.arrival.message)),
            texts(&mut self.expected.iter().filter(|message| !self.erased.contains(&message.digest()))),
            "the history"
        );
        assert_eq!(self.session.stats().messages, self.expected.len() as u64);
        if self.only_summaries {
            let entries = block_on(adapter::entries(&mut self.session)).unwrap();
            let (mut summaries, mut gone) = (HashMap::new(), HashSet::new());
            for (position, entry) in (0u64..).zip(&entries) {
                match entry {
                    Entry::Compaction(compaction) => {
                        _ = compaction.summary.as_ref().map(|s| summaries.insert(position, s));
                    }
                    Entry::Message(arrival) => gone.extend(arrival.replaces.iter().copied()),
                    _ => {}
                }
            }
            let mut at = self.session.view().summary_position();
            while let Some(position) = at {
                let summary = summaries[&position];
                gone.extend(summary.covers.iter().cloned().flatten());
                at = summary.replaces;
            }
            // A result that arrived after its stand-in had been sent is not in the window yet.
            for entry in history.iter().filter(|entry| entry.arrival.message.tool_results().count() == 0) {
                assert!(entry.shown || gone.contains(&entry.position), "{} is lost", entry.position);
            }
        }
    }
}

/// Checks the sources of a window: the entries of each message, and whether it is unchanged.
fn agree(window: &Window<'_>) {
    let (messages, sources) = (window.messages().unwrap(), window.sources().unwrap());
    assert_eq!(messages.len(), sources.len());
    let mut told: Vec<_> = sources.iter().flat_map(|source| source.positions.clone()).collect();
    let mut shown: Vec<_> = window.view().messages().map(|item| item.position()).collect();
    told.sort_unstable();
    shown.sort_unstable();
    assert_eq!(told, shown);
    for (raw, source) in messages.iter().zip(&sources) {
        let is_of_it = |item: &Item| source.positions.contains(&item.position());
        let items: Vec<_> = window.view().messages().filter(|item| is_of_it(item)).collect();
        let is_same = matches!(items[..], [item] if item.message().wire().unwrap().raw.get() == raw.get());
        match source.kind {
            SourceKind::Unchanged => assert!(is_same && !items[0].is_own(), "{raw}"),
            SourceKind::Changed => assert!(!is_same && items.iter().any(|item| !item.is_own()), "{raw}"),
            SourceKind::Own => assert!(items.iter().all(|item| item.is_own()), "{raw}"),
        }
        // An unedited message shows only its own words.
        for item in window.view().messages().filter(|item| item.edits().is_empty() && !item.is_own()) {
            let text = item.message().text();
            let words: Vec<_> = text.split_whitespace().take(2).collect();
            let says = |end: &str| raw.get().contains(&format!("{}{end}", words.join(" ")));
            assert_eq!(says(" ") || says("\""), is_of_it(item), "{words:?} in {raw}");
        }
    }
}

fn open(
    store: &Arc<dyn Store>,
    dialect: Dialect,
    policy: &Policy,
    jobs: &Arc<Mutex<Vec<Job>>>,
    instant: &Arc<AtomicBool>,
) -> Session {
    // A model of the provider, because the rules depend on the model.
    let model = match dialect {
        Dialect::Anthropic => "claude-opus-5",
        Dialect::Bedrock => "amazon.nova-pro-v1:0",
        Dialect::Gemini => "gemini-2.5-flash",
        _ => "gpt-5",
    };
    let settings = Settings::default().dialect(dialect).policy(policy.clone()).model(model);
    let (jobs, instant) = (jobs.clone(), instant.clone());
    block_on(Session::open(store.clone(), "life", settings)).unwrap().with_summarizer(
        SummaryOptions::new(Function::new("short", |_| async { Ok("In short.".to_owned()) })).spawner(move |job| {
            if instant.load(Ordering::SeqCst) { block_on(job) } else { jobs.lock().unwrap().push(job) }
        }),
    )
}

fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    Config {
        cases: number("PROPTEST_CASES").unwrap_or(256),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(7).into()),
        failure_persistence: None,
        max_shrink_iters: 3_000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_window_can_be_sent_and_no_message_is_lost_whatever_happens(
        dialect in prop::sample::select(vec![Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Bedrock]),
        one in any::<bool>(),
        first in 0u8..9,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut life = Life::begin(dialect, one, first);
        for op in &ops {
            life.step(op);
        }
        life.make();
        life.window();
        life.holds();
        crate::timelines::shows_what_each_call_saw(&*life.store, life.session.name());
    }
}
