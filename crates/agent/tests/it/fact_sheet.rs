//! The fact sheet: the sheets that the model gets, and the facts that are extracted from messages that leave the
//! window.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::held::{Held, LONGEST};
use futures_lite::future::block_on;
use lookback_agent::{
    Budget, Call, CallUsage, ContextFilter, Event, FactSheet, Failure, Middleware, MiddlewareSettings, OnFailure,
    Pipeline, Reaction, Run, Stopped,
};
use lookback_engine::{Settings, policy::Policy};
use lookback_facts::{FactEntry, FactKind, Memory, Scope, Source, Speaker, Statement, Trust};
use lookback_presets as presets;
use lookback_session::Session;
use lookback_store::{Append, Record};
use lookback_store::{MemoryStore, Store};
use lookback_summarize::{Ask, Function};
use lookback_wire::size::Measure;
use lookback_wire::{
    dialect::{Request, TooLong},
    message::{Message, ToolCall},
};

type Shared = Arc<MemoryStore>;

fn said(kind: FactKind, text: &str) -> Statement {
    Statement::new(kind, text, Source::new(Speaker::Person))
}

async fn memory(store: &Shared) -> Memory {
    Memory::open(store.clone(), "run").await.unwrap()
}

async fn session(store: &Shared, policy: Policy) -> Session {
    Session::open(store.clone(), "run", Settings::default().policy(policy)).await.unwrap()
}

fn window(max_rounds: u64) -> Policy {
    presets::named(&format!("rounds:max_rounds={max_rounds}")).unwrap()
}

/// Begins a run with one middleware.
async fn begin(store: &Shared, policy: Policy, middleware: impl Middleware + 'static) -> Pipeline {
    let mut run = Pipeline::new(session(store, policy).await).with(middleware);
    run.start(Message::user("Read all pages.")).await.unwrap();
    run
}

/// A memory with a person's constraint that no files may be written.
async fn constrained() -> (Shared, Memory) {
    let store = Arc::new(MemoryStore::new());
    let memory = memory(&store).await;
    memory.state(Scope::Session, said(FactKind::Constraint, "Write no files.")).await.unwrap();
    (store, memory)
}

/// The messages of a call, each as JSON. They must be valid.
fn sent(call: &Call) -> Vec<String> {
    let request = Request::decode(call.to_json().unwrap(), Some(call.dialect)).unwrap();
    let findings = call.dialect.check(&request);
    assert!(findings.is_empty(), "{findings:?}");
    call.messages().unwrap().iter().map(|message| message.get().to_owned()).collect()
}

fn reads(number: u64) -> Message {
    Message::assistant_with_calls("", [ToolCall::new(format!("c{number}"), "read", format!(r#"{{"page":{number}}}"#))])
}

/// Plays an iteration in which the model reads another page. Returns the messages that were sent.
async fn read_on(run: &mut Pipeline) -> Vec<String> {
    let call = run.next().await.unwrap().unwrap();
    let usage = CallUsage::default().input(500 * call.iteration).output(100);
    for tool in run.answered(reads(call.iteration), Some(usage)).await.unwrap() {
        let text = format!("page {}", call.iteration);
        run.tool(&tool, |_| async { Ok::<_, String>(text) }).await.unwrap();
    }
    sent(&call)
}

/// Plays an iteration in which the model calls a tool that the memory answers.
async fn remember(run: &mut Pipeline, tool: &str, arguments: &str) -> Vec<String> {
    let call = run.next().await.unwrap().unwrap();
    let calls = Message::assistant_with_calls("", [ToolCall::new(format!("m{}", call.iteration), tool, arguments)]);
    for tool in run.answered(calls, None).await.unwrap() {
        run.tool(&tool, |_| async { Err::<String, _>("the memory did not answer") }).await.unwrap();
    }
    sent(&call)
}

fn sheets(messages: &[String]) -> usize {
    messages.iter().filter(|message| message.contains(r"<memory>\n")).count()
}

#[test]
fn all_five_send_the_filtered_window_with_nudges_and_fact_sheet_and_nothing_else() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = memory(&store).await;
        memory.state(Scope::Shared, said(FactKind::Constraint, "Write no files.")).await.unwrap();
        let filter = ContextFilter::rounds(5).unwrap();
        let policy = presets::named("two-tier:sliding_window_size=5").unwrap();
        // 19 calls have 96,900 tokens, which exceeds the soft limit.
        let budget = Budget::reported(120_000);
        let mut run = Pipeline::standard(session(&store, Policy::unlimited()).await, budget, filter, memory.clone())
            .with_iterations(21);
        // A session with the same policy and no middleware.
        let mut alone = Session::open(MemoryStore::new(), "alone", Settings::default().policy(policy)).await.unwrap();
        let task = Message::user("Read all pages.");
        alone.push(task.clone()).await.unwrap();
        run.start(task).await.unwrap();
        let mut nudged = Vec::new();
        for round in 1..=20 {
            let messages = read_on(&mut run).await;
            let window = alone.window().await.unwrap();
            let filtered: Vec<_> = window.messages().unwrap().iter().map(|message| message.get().to_owned()).collect();
            let (said, notes): (Vec<_>, Vec<_>) =
                messages.iter().cloned().partition(|message| filtered.contains(message));
            assert_eq!(said, filtered, "round {round}: the filtered window is sent, in its order");
            assert_eq!(sheets(&notes), 1, "round {round}: one sheet: {notes:?}");
            assert_eq!(notes.len(), 1 + usize::from(round == 20), "round {round}: and nothing else: {notes:?}");
            assert!(messages.iter().all(|message| !message.contains("page 1\"") || round <= 6), "round {round}");
            // From the sixth round on, the window slides at each round and drops the earlier notes.
            if round > 6 {
                assert_eq!(messages[..filtered.len()], filtered, "round {round}: the notes stand behind it");
            }
            nudged.extend(notes.iter().filter(|note| note.contains("Token budget")).map(|_| round));
            alone.push(reads(round)).await.unwrap();
            alone.push(Message::tool_result(format!("c{round}"), format!("page {round}"))).await.unwrap();
        }
        assert_eq!(nudged, [20], "the nudge comes once, beside window and sheet");
        // The last iteration has the note of `Progress` as well.
        let call = run.next().await.unwrap().unwrap();
        let messages = sent(&call);
        let window = alone.window().await.unwrap();
        let kept = window.messages().unwrap().len();
        let notes = &messages[kept..];
        assert_eq!(sheets(notes), 1);
        assert_eq!(notes.len(), 2, "{notes:?}");
        run.answered(Message::assistant("Done."), None).await.unwrap();
        assert!(matches!(run.stopped(), Some(Stopped::LastAnswer(_))), "{:?}", run.stopped());
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn between_two_compactions_facts_break_no_prefix() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = memory(&store).await;
        memory.state(Scope::Session, said(FactKind::Decision, "Postgres is used.")).await.unwrap();
        let middleware = FactSheet::new(memory.clone());
        let mut run = begin(&store, Policy::unlimited(), middleware).await;
        let mut before: Vec<String> = Vec::new();
        for round in 1..=12 {
            let messages = match round {
                3 => remember(&mut run, "memory_finding", r#"{"content":"The port is 5050.","confidence":0.9}"#).await,
                9 => remember(&mut run, "memory_forget", r#"{"id":"f1"}"#).await,
                _ => read_on(&mut run).await,
            };
            assert_eq!(messages.get(..before.len()), Some(before.as_slice()), "round {round} extends the one before");
            // A fact of another session comes as a change. The model's own fact is not repeated.
            let expected = if round <= 6 { 1 } else { 2 };
            assert_eq!(sheets(&messages), expected, "round {round}: {messages:#?}");
            before = messages;
            if round == 6 {
                memory.state(Scope::Shared, said(FactKind::Preference, "Use pnpm.")).await.unwrap();
            }
        }
        let history = memory.history("f1".parse().unwrap()).await.unwrap();
        let FactEntry::Stated(statement) = &history[0].entry else { panic!("{history:?}") };
        assert_eq!(statement.source.session.as_deref(), Some("run"));
        let message = run.session().view().messages().find(|item| Some(item.position()) == statement.source.message);
        assert!(message.unwrap().message().text().contains("memory_finding"), "a fact names the message that says it");
        let changes = before.iter().rfind(|message| message.contains("<memory>")).unwrap();
        assert!(changes.contains("Use pnpm.") && !changes.contains("Postgres"), "{changes}");
    });
}

#[test]
fn what_no_longer_stands_is_said() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = memory(&store).await;
        let stated = memory.state(Scope::Session, said(FactKind::Blocker, "API_KEY is missing.")).await.unwrap();
        let mut run = Pipeline::new(session(&store, Policy::unlimited()).await).with(FactSheet::new(memory.clone()));
        run.start(Message::user("Deploy.")).await.unwrap();
        read_on(&mut run).await;
        memory.resolve(stated.id, "It is set.", Source::new(Speaker::Person)).await.unwrap();
        let messages = read_on(&mut run).await;
        assert!(messages.last().unwrap().contains("no longer so: f0"), "{messages:#?}");
        let next = read_on(&mut run).await;
        assert_eq!(next.iter().filter(|message| message.contains("no longer so")).count(), 1, "{next:#?}");
    });
}

#[test]
fn after_a_compaction_the_sheet_is_there_again_once() {
    block_on(async {
        let (store, memory) = constrained().await;
        let policy = presets::named("rounds:max_rounds=6,target_rounds=2").unwrap();
        let mut run = begin(&store, policy, FactSheet::new(memory.clone())).await;
        let mut lengths = Vec::new();
        for round in 1..=20 {
            let messages = match round {
                8 => remember(&mut run, "memory_finding", r#"{"content":"The port is 5050.","confidence":0.9}"#).await,
                _ => read_on(&mut run).await,
            };
            assert_eq!(sheets(&messages), 1, "round {round}: {messages:#?}");
            // The model's own fact is on the sheet once its call has left the window.
            let told = messages.iter().any(|message| message.contains("The port is 5050."));
            assert_eq!(told, round > 8, "round {round}");
            lengths.push(messages.len());
        }
        assert!(lengths.windows(2).any(|pair| pair[1] < pair[0]), "there were compactions: {lengths:?}");
    });
}

#[test]
fn where_room_for_changes_takes_the_sheet_it_is_said_again() {
    block_on(async {
        let (store, memory) = constrained().await;
        let policy = presets::named("messages:max_messages=8,target_messages=4").unwrap();
        let mut run = begin(&store, policy, FactSheet::new(memory.clone())).await;
        for _ in 1..=3 {
            read_on(&mut run).await;
        }
        // Task, sheet and three rounds fill the window, so the changes do not fit.
        memory.state(Scope::Shared, said(FactKind::Preference, "Use pnpm.")).await.unwrap();
        let messages = read_on(&mut run).await;
        assert!(messages.iter().any(|message| message.contains("Use pnpm.")), "{messages:#?}");
        assert!(messages.len() < 8, "room was made: {messages:#?}");
        assert!(messages.iter().any(|message| message.contains("Write no files.")), "in the same call: {messages:#?}");
        let next = read_on(&mut run).await;
        assert_eq!(next.get(..messages.len()), Some(messages.as_slice()), "and once");
    });
}

#[test]
fn after_an_overflow_the_sheet_is_there_again() {
    block_on(async {
        let (store, memory) = constrained().await;
        let mut run = begin(&store, Policy::unlimited(), FactSheet::new(memory.clone())).await;
        for _ in 1..=6 {
            read_on(&mut run).await;
        }
        run.next().await.unwrap().unwrap();
        run.overflow(TooLong::new(Measure::Tokens)).await.unwrap();
        read_on(&mut run).await;
        assert_eq!(sheets(&read_on(&mut run).await), 1);
        assert_eq!(sheets(&read_on(&mut run).await), 1);
    });
}

/// A fact sheet that exceeds its time limit once: it waits until its gate is opened.
struct Late(FactSheet, Option<Arc<Held>>);

impl Middleware for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        let reaction = self.0.on(event, run);
        if matches!(event, Event::BeforeModel)
            && let Some(held) = self.1.take()
        {
            held.wait();
        }
        reaction
    }

    fn order(&self) -> u32 {
        FactSheet::ORDER
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_millis(300))
    }
}

#[test]
fn a_sheet_that_came_too_late_is_said_at_a_later_call() {
    block_on(async {
        let (store, memory) = constrained().await;
        let held = Arc::<Held>::default();
        let middleware = Late(FactSheet::new(memory.clone()), Some(held.clone()));
        let mut run = begin(&store, Policy::unlimited(), middleware).await;
        assert_eq!(sheets(&read_on(&mut run).await), 0, "nobody waits for it");
        held.let_go();
        // The middleware returns at an unknown time.
        let begun = Instant::now();
        while sheets(&read_on(&mut run).await) == 0 {
            assert!(begun.elapsed() < LONGEST, "it is never said");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(sheets(&read_on(&mut run).await), 1);
    });
}

#[test]
fn what_failed_to_be_extracted_is_tried_once_more() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = memory(&store).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let model = Function::new("small-model", move |_| {
            let first = count.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                assert!(!first, "a summarizer that panics");
                let fact = r#"{"kind":"finding","text":"It is blank.","confidence":0.9,"message":2}"#;
                Ok(format!(r#"{{"facts":[{fact}]}}"#))
            }
        });
        let middleware = FactSheet::new(memory.clone()).with_extraction(model, LONGEST);
        let policy = presets::named("rounds:max_rounds=5,target_rounds=2").unwrap();
        let mut run = begin(&store, policy, middleware).await;
        for _ in 1..=8 {
            read_on(&mut run).await;
        }
        run.stop("enough").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(memory.facts().await.unwrap().len(), 1);
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn a_session_that_goes_on_has_its_sheet_once() {
    block_on(async {
        let (store, memory) = constrained().await;
        let go_on = async |task: &str| {
            let session = session(&store, Policy::unlimited()).await;
            let mut run = Pipeline::new(session).with(FactSheet::new(memory.clone()));
            run.start(Message::user(task)).await.unwrap();
            run
        };
        let mut run = go_on("Read page 1.").await;
        assert_eq!(sheets(&read_on(&mut run).await), 1);
        drop(run);
        let mut run = go_on("Read page 1.").await;
        assert_eq!(sheets(&read_on(&mut run).await), 1, "the sheet that stands is the one");
        drop(run);
        memory.state(Scope::Shared, said(FactKind::Preference, "Use pnpm.")).await.unwrap();
        let mut run = go_on("Read page 2.").await;
        let messages = read_on(&mut run).await;
        assert_eq!(sheets(&messages), 2);
        let newest = messages.last().unwrap();
        assert!(newest.contains("Use pnpm.") && newest.contains("Write no files."), "{newest}");
    });
}

#[test]
fn a_damaged_memory_is_told_to_the_model_once_and_the_run_goes_on() {
    block_on(async {
        let (store, memory) = constrained().await;
        let damaged = Record::new("{");
        store.append(&memory.session().facts_of(), Append::new(1, [damaged])).await.unwrap();
        // The agent starts anyway.
        let memory = Memory::open(store.clone(), "run").await.unwrap();
        let mut run = begin(&store, Policy::unlimited(), FactSheet::new(memory)).await;
        let told = |messages: &[String]| {
            messages.iter().filter(|message| message.contains("memory is not available now: ")).count()
        };
        assert_eq!(told(&read_on(&mut run).await), 1);
        assert_eq!(told(&remember(&mut run, "memory_finding", r#"{"content": "x", "confidence": 1}"#).await), 1);
        let messages = remember(&mut run, "memory_get", "{}").await;
        assert_eq!(told(&messages), 1, "once");
        let answer = messages.last().unwrap();
        assert!(answer.contains("memory is not available now; nothing was changed"), "{answer}");
        let call = run.next().await.unwrap().unwrap();
        assert!(sent(&call).last().unwrap().contains("memory is not available now; nothing was changed"));
        run.answered(Message::assistant("Done."), None).await.unwrap();
        assert_eq!(run.stopped(), Some(&Stopped::Answered));
        let why = run.failures().next().unwrap();
        assert_eq!((why.middleware.as_str(), why.event), ("fact_sheet", "before_iteration"));
    });
}

#[test]
fn a_run_that_is_not_to_go_on_without_its_memory_ends_in_order() {
    block_on(async {
        let (store, memory) = constrained().await;
        let damaged = Record::new("{");
        store.append(&memory.session().facts_of(), Append::new(1, [damaged])).await.unwrap();
        let closed = MiddlewareSettings::default().on_failure(OnFailure::Closed);
        let session = session(&store, Policy::unlimited()).await;
        let mut run = Pipeline::new(session).with_settings(FactSheet::new(memory), closed);
        run.start(Message::user("Read all pages.")).await.unwrap();
        assert!(run.next().await.unwrap().is_none(), "no call is made");
        assert!(matches!(run.stopped(), Some(Stopped::Middleware(_))), "{:?}", run.stopped());
    });
}

#[test]
fn facts_are_extracted_from_what_leaves_the_window_and_from_nothing_that_lookback_said() {
    block_on(async {
        let (store, memory) = constrained().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let seen_by = seen.clone();
        let model = Function::new("small-model", move |ask: Ask| {
            let prompt = ask.prompt;
            seen_by.lock().unwrap().push(prompt.clone());
            async move {
                let page =
                    prompt.lines().find_map(|line| line.split_once("page ")?.1.get(..1)).unwrap_or("0").to_owned();
                let text = format!("Page {page} is blank.");
                Ok(format!(r#"{{"facts":[{{"kind":"finding","text":"{text}","confidence":0.9,"message":2}}]}}"#))
            }
        });
        let middleware = FactSheet::new(memory.clone()).with_extraction(model, LONGEST);
        let mut run = begin(&store, window(3), middleware).await;
        for _ in 1..=8 {
            read_on(&mut run).await;
        }
        run.next().await.unwrap();
        run.answered(Message::assistant("All are blank."), None).await.unwrap();
        assert_eq!(run.stopped(), Some(&Stopped::Answered));
        let seen = seen.lock().unwrap().join("\n");
        assert!(seen.contains("page 1") && !seen.contains("<memory>") && !seen.contains("Write no files"), "{seen}");
        for page in 1..=4 {
            assert_eq!(
                seen.matches(&format!("[result of read] page {page}")).count(),
                1,
                "extracted from once: {seen}"
            );
        }
        let extracted = memory.facts().await.unwrap();
        let extracted: Vec<_> = extracted.iter().filter(|fact| fact.statement.kind == FactKind::Finding).collect();
        assert!(!extracted.is_empty());
        assert!(extracted.iter().all(|fact| fact.trust == Trust::Low && fact.statement.source.message.is_some()));
    });
}

#[test]
fn a_model_that_draws_no_facts_and_never_answers_holds_nobody_up() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = memory(&store).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let model = Function::new("small-model", move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
        let middleware = FactSheet::new(memory).with_extraction(model, Duration::from_millis(200));
        let mut run = begin(&store, window(2), middleware).await;
        for _ in 1..=6 {
            read_on(&mut run).await;
        }
        run.stop("enough").await.unwrap();
        assert!(run.next().await.unwrap().is_none());
        assert!(asked.load(Ordering::SeqCst) >= 1);
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn what_was_cut_can_be_recalled_to_its_end_in_the_stack_that_cuts_it() {
    block_on(async {
        let (store, memory) = constrained().await;
        let session = session(&store, Policy::unlimited()).await;
        let window = ContextFilter::rounds(5).unwrap();
        let mut run = Pipeline::standard(session, Budget::reported(1_000_000), window, memory);
        run.start(Message::user("Read it.")).await.unwrap();
        let long: String = (0..5_000).map(|number| format!("<{number}>\n")).collect();
        sent(&run.next().await.unwrap().unwrap());
        for tool in run.answered(reads(1), None).await.unwrap() {
            run.tool(&tool, |_| async { Ok::<_, String>(long.clone()) }).await.unwrap();
        }
        let mut messages = sent(&run.next().await.unwrap().unwrap());
        let cut = messages.iter().find_map(|message| message.split_once("cut; entry ")).unwrap().1;
        let entry: u64 = cut.split(' ').next().unwrap().parse().unwrap();
        // Like a model, it asks for the rest that each page names, and reads each page to its end.
        let (mut offset, mut pages) = (0, 0);
        loop {
            pages += 1;
            let arguments = format!(r#"{{"entry":{entry},"offset":{offset}}}"#);
            let asks = Message::assistant_with_calls("", [ToolCall::new(format!("r{pages}"), "recall", arguments)]);
            for tool in run.answered(asks, None).await.unwrap() {
                run.tool(&tool, |_| async { Err::<String, _>("the memory did not answer") }).await.unwrap();
            }
            messages = sent(&run.next().await.unwrap().unwrap());
            let page = messages.iter().rfind(|message| message.contains(r#""role":"tool""#)).unwrap();
            assert!(!page.contains("characters cut"), "page {pages} is whole");
            let Some((_, rest)) = page.rsplit_once("the rest: recall") else { break };
            let digits = rest.split_once("offset").unwrap().1.trim_start_matches(|c: char| !c.is_ascii_digit());
            offset = digits.split('}').next().unwrap().parse().unwrap();
        }
        assert!(pages > 3, "{pages}");
        assert!(messages.iter().any(|message| message.contains("4999")), "the end was read");
    });
}
