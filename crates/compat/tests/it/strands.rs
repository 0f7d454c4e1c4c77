//! Strands' conversation managers: the vectors of `corpus/systems/strands.json`, and a test for each fault that no
//! vector covers.

use crate::vectors;
use std::error::Error as _;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::vectors::{Step, Vector, assert_valid};
use futures_lite::future::block_on;
use lookback_compat::strands::{
    CompressionThreshold, ConversationManager, Error, HookRegistry, ModelError, NullConversationManager, PerTurn,
    ProactiveCompression, SlidingWindowConversationManager, SlidingWindowOptions, SummarizingConversationManager,
    SummarizingOptions, recover, without_incomplete_calls,
};
use lookback_engine::Settings;
use lookback_engine::transcript::Entry;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::{MemoryStore, Store};
use lookback_summarize::{Ask, Completion, Function, Summarizer, SummarizerError, SummaryTask};
use lookback_wire::dialect::Shown;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Bedrock;

#[derive(Debug, thiserror::Error)]
#[error("the model takes less than this")]
struct Refused;

/// A summarizer that always gives the same answer, or fails.
#[derive(Debug)]
struct Scripted(Result<String, String>);

impl Summarizer for Scripted {
    fn model(&self) -> &str {
        "scripted"
    }

    fn complete<'a>(&'a self, _: &'a SummaryTask) -> Completion<'a> {
        let failed = |reason: String| SummarizerError::failed("scripted", reason);
        Box::pin(async move { self.0.clone().map_err(failed) })
    }
}

/// Counts the warnings and errors that are logged.
#[derive(Clone, Default)]
struct LogCounter {
    warnings: Arc<AtomicUsize>,
    errors: Arc<AtomicUsize>,
}

impl tracing::Subscriber for LogCounter {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        match *event.metadata().level() {
            tracing::Level::WARN => self.warnings.fetch_add(1, Ordering::SeqCst),
            tracing::Level::ERROR => self.errors.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

enum Manager {
    Sliding(SlidingWindowConversationManager),
    Summarizing(SummarizingConversationManager),
    Null(NullConversationManager),
}

/// Makes the same call on either manager.
macro_rules! each {
    ($manager:expr, $name:ident => $call:expr) => {
        match $manager {
            Manager::Sliding($name) => block_on($call),
            Manager::Summarizing($name) => block_on($call),
            Manager::Null($name) => block_on($call),
        }
    };
}

fn manager(options: &Value) -> Result<Manager, String> {
    let mut options = options.clone();
    if options.is_null() {
        options = json!({});
    }
    let members = options.as_object_mut().unwrap();
    let kind = members.remove("manager");
    let said = |error: &dyn Display| error.to_string();
    match kind.as_ref().and_then(Value::as_str).unwrap_or("sliding") {
        "sliding" => {
            let options: SlidingWindowOptions = serde_json::from_value(options).map_err(|error| said(&error))?;
            Ok(Manager::Sliding(SlidingWindowConversationManager::new(options).map_err(|error| said(&error))?))
        }
        "summarizing" => {
            let mut summarizing = SummarizingOptions::default();
            for (key, value) in members.iter() {
                match key.as_str() {
                    "summary_ratio" => summarizing.summary_ratio = value.as_f64().unwrap(),
                    "preserve_recent_messages" => {
                        summarizing.preserve_recent_messages = value.as_u64().unwrap().try_into().unwrap();
                    }
                    "summarizer" => {
                        let fails = |value: &Value| value["fails"].as_str().unwrap().to_owned();
                        let answer = value.as_str().map(str::to_owned).ok_or_else(|| fails(value));
                        summarizing.summarizer = Some(Arc::new(Scripted(answer)));
                    }
                    "summarization_system_prompt" => {
                        summarizing.summarization_system_prompt = value.as_str().map(str::to_owned);
                    }
                    "summary_budget" => summarizing.summary_budget = value.as_u64(),
                    "proactive_compression" => {
                        summarizing.proactive_compression = serde_json::from_value(value.clone()).unwrap();
                    }
                    _ => panic!("no option {key}"),
                }
            }
            let manager = SummarizingConversationManager::new(summarizing).map_err(|error| said(&error))?;
            Ok(Manager::Summarizing(manager))
        }
        "null" => Ok(Manager::Null(NullConversationManager)),
        other => panic!("no manager {other}"),
    }
}

/// Returns the request for a list. Neighbors with the same role are merged. A call at the end without a result is not
/// sent yet.
fn sent(list: &[Message]) -> Value {
    let waits = list.last().is_some_and(|last| last.tool_calls().next().is_some());
    let shown = list[..list.len() - usize::from(waits)].iter().map(|message| Shown { message, edits: &[] });
    let encoded = DIALECT.encode(shown).unwrap();
    encoded.iter().map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap()).collect()
}

fn is_valid(list: &[Message]) -> bool {
    let request = lookback_wire::dialect::Request::decode(sent(list).to_string(), Some(DIALECT)).unwrap();
    DIALECT.check(&request).is_empty()
}

struct Run {
    manager: Manager,
    list: Vec<Message>,
    told: LogCounter,
}

impl Run {
    fn step(&mut self, step: &Step, vector: &str) -> Result<Value, String> {
        let with = &step.with;
        let given = with.get("messages").map(|messages| vectors::messages(DIALECT, messages));
        let cause = || with.get("cause").map(|_| ModelError::from(Refused));
        let said = |error: Error| error.to_string();
        if let Some(given) = given {
            match step.call.as_str() {
                "append" => self.list.extend(given),
                _ => self.list = given,
            }
        }
        let before = self.list.clone();
        let list = &mut self.list;
        match step.call.as_str() {
            "append" | "list" => {}
            "apply_management" => each!(&self.manager, m => m.apply_management(list)).map_err(said)?,
            "reduce_context" => each!(&self.manager, m => m.reduce_context(list, cause())).map_err(said)?,
            "before_model_call" => {
                let number = |key: &str| with.get(key).and_then(Value::as_u64);
                let (projected, limit) = (number("projected_tokens"), number("context_window_limit"));
                each!(&self.manager, m => m.before_model_call(list, projected, limit)).map_err(said)?;
            }
            "removed_message_count" => {
                return Ok(each!(&self.manager, m => m.removed_message_count()).into());
            }
            "get_state" => return Ok(each!(&self.manager, m => m.get_state())),
            "restore_from_session" => {
                let restored = each!(&self.manager, m => m.restore_from_session(&with["state"])).map_err(said)?;
                return Ok(restored.map_or(Value::Null, |list| vectors::json(DIALECT, &list)));
            }
            "warnings" => return Ok(self.told.warnings.load(Ordering::SeqCst).into()),
            "errors" => return Ok(self.told.errors.load(Ordering::SeqCst).into()),
            "split_point" => {
                let n = with["n"].as_u64().unwrap().try_into().unwrap();
                let found = SummarizingConversationManager::split_point(list, n);
                return found.map(Value::from).map_err(|error| error.to_string());
            }
            "without_incomplete_calls" => {
                let message = &vectors::messages(DIALECT, &json!([with["message"]]))[0];
                return Ok(vectors::json(DIALECT, [&without_incomplete_calls(message)])[0].clone());
            }
            call => return self.call_one(call, with, vector),
        }
        let list = vectors::json(DIALECT, &self.list);
        if list != vectors::json(DIALECT, &before) && is_valid(&before) {
            assert_valid(DIALECT, &sent(&self.list), vector);
        }
        Ok(list)
    }

    /// Makes a call that only one of the managers has.
    fn call_one(&self, call: &str, with: &Value, vector: &str) -> Result<Value, String> {
        match (call, &self.manager) {
            ("set_per_turn", Manager::Sliding(manager)) => {
                let per_turn: PerTurn = serde_json::from_value(with["per_turn"].clone()).unwrap();
                block_on(manager.set_per_turn(per_turn)).map_err(|error| error.to_string())?;
                Ok(Value::Null)
            }
            ("summary_ratio", Manager::Summarizing(manager)) => Ok(manager.summary_ratio().into()),
            ("search", Manager::Sliding(manager)) => {
                Ok(block_on(manager.search(with["query"].as_str().unwrap(), 99)).unwrap().len().into())
            }
            ("search", Manager::Summarizing(manager)) => {
                Ok(block_on(manager.search(with["query"].as_str().unwrap(), 99)).unwrap().len().into())
            }
            _ => panic!("{vector}: no call {call}"),
        }
    }
}

fn run(vector: &Vector) {
    let name = &vector.name;
    let told = LogCounter::default();
    let made = manager(&vector.options);
    if vector.steps[0].call == "new" {
        assert_eq!(made.err(), vector.steps[0].fails, "{name}");
        return;
    }
    let manager = made.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut run = Run { manager, list: Vec::new(), told: told.clone() };
    let work = || {
        for (index, step) in vector.steps.iter().enumerate() {
            if step.call == "restart" {
                // Another process continues with the state that the caller has kept.
                let options = step.with.get("options").unwrap_or(&vector.options);
                run.manager = self::manager(options).unwrap();
                continue;
            }
            match (run.step(step, name), &step.fails) {
                (Err(error), Some(fails)) => assert_eq!(&error, fails, "{name}, step {index}"),
                (Ok(gives), None) => {
                    if let Some(wanted) = &step.gives {
                        assert_eq!(&gives, wanted, "{name}, step {index}");
                    }
                }
                (result, fails) => panic!("{name}, step {index}: {result:?}, and not {fails:?}"),
            }
        }
    };
    tracing::subscriber::with_default(told, work);
}

#[test]
fn the_table_holds() {
    vectors::vectors("strands.json").iter().for_each(run);
}

/// Each fault has a vector, a test below, or a reason.
#[test]
fn every_fault_is_covered() {
    let vectors = vectors::vectors("strands.json");
    let told = |fault: &str| vectors.iter().any(|vector| vector.source == format!("fault {fault}"));
    for fault in ["S1", "S2", "S4", "S5", "S6", "S7", "S9", "S10"] {
        assert!(told(fault), "{fault}");
    }
    // S3 and the other half of S8 are tests below. The original requires that a window may be much smaller than its
    // size:
    let required = "a window may be much smaller than its size, to begin at a user's words";
    assert!(vectors.iter().any(|vector| vector.name == required));
}

fn user(index: usize) -> Message {
    Message::user(format!("question {index}, which is long enough to be worth a summary of its own"))
}

fn exchange(index: usize, text: &str) -> [Message; 2] {
    let id = format!("c{index}");
    [Message::assistant_with_calls("", [ToolCall::new(id.clone(), "look", "{}")]), Message::tool_result(id, text)]
}

/// Returns a task and `exchanges` tool exchanges with long results. After every tenth, an answer and another task
/// follow.
fn conversation(exchanges: usize) -> Vec<Message> {
    let mut list = vec![user(0)];
    for index in 1..=exchanges {
        list.extend(exchange(index, &"a long line of what was found there. ".repeat(40)));
        if index.is_multiple_of(10) {
            list.extend([Message::assistant(format!("answer {index}")), user(index)]);
        }
    }
    list
}

fn attempts(manager: &impl ConversationManager, list: &mut Vec<Message>) -> (usize, Error) {
    let mut attempts = 0;
    let mut lengths = vec![];
    let result = block_on(recover(
        manager,
        list,
        |_: &Refused| true,
        async |list| {
            attempts += 1;
            lengths.push(sent(list).to_string().len());
            Err::<(), _>(Refused)
        },
    ));
    assert!(lengths.is_sorted_by(|a, b| a > b), "each attempt is smaller than the one before: {lengths:?}");
    (attempts, result.unwrap_err())
}

#[test]
fn s1_recovery_ends_with_a_typed_error_once_nothing_is_left_to_reduce() {
    for exchanges in [0, 1, 5, 100] {
        let sliding = SlidingWindowConversationManager::default();
        let summarizing = SummarizingConversationManager::default();
        let results =
            [attempts(&sliding, &mut conversation(exchanges)), attempts(&summarizing, &mut conversation(exchanges))];
        for (attempts, error) in results {
            // Each exchange is shortened once, and leaves once.
            assert!(attempts <= 3 * exchanges + 2, "{attempts}");
            let Error::Overflow(overflow) = &error else { panic!("{error}") };
            assert!(overflow.source().unwrap().is::<Refused>());
        }
    }
}

#[test]
fn recovery_goes_on_as_long_as_each_list_is_smaller() {
    let manager = SlidingWindowConversationManager::default();
    let mut list: Vec<_> = (0..39).map(user).collect();
    for index in (1..39).step_by(2) {
        list[index] = Message::assistant(format!("answer {index}"));
    }
    let answer = recover(
        &manager,
        &mut list,
        |_: &Refused| true,
        async |list| {
            if list.len() <= 5 { Ok(list.len()) } else { Err(Refused) }
        },
    );
    assert_eq!(block_on(answer).unwrap(), 5);
    assert_eq!(list[4].text(), user(38).text());
}

/// A user's own manager, which reduces nothing.
#[derive(Default)]
struct Idle {
    threshold: Option<CompressionThreshold>,
    reductions: AtomicUsize,
}

impl ConversationManager for Idle {
    fn name(&self) -> &str {
        "Idle"
    }

    async fn apply_management(&self, _: &mut Vec<Message>) -> Result<(), Error> {
        Ok(())
    }

    async fn reduce_context(&self, _: &mut Vec<Message>, _: Option<ModelError>) -> Result<(), Error> {
        self.reductions.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn proactive_compression(&self) -> Option<&CompressionThreshold> {
        self.threshold.as_ref()
    }
}

#[test]
fn recovery_ends_with_a_manager_that_reduces_nothing() {
    let (manager, mut calls) = (Idle::default(), 0);
    let mut list = conversation(3);
    let result = block_on(recover(
        &manager,
        &mut list,
        |_: &Refused| true,
        async |_| {
            calls += 1;
            Err::<(), _>(Refused)
        },
    ));
    let Err(Error::Overflow(overflow)) = &result else { panic!("{result:?}") };
    assert_eq!(overflow.source().unwrap().to_string(), Refused.to_string());
    assert_eq!(calls, 1);
}

#[test]
fn a_manager_of_ones_own_has_the_rest_by_default() {
    let threshold = CompressionThreshold::new(Some(ProactiveCompression::Is(true))).unwrap();
    let manager = Arc::new(Idle { threshold, ..Idle::default() });
    let state = block_on(manager.get_state());
    assert_eq!(state, json!({"__name__": "Idle", "removed_message_count": 0}));
    assert!(block_on(manager.restore_from_session(&state)).unwrap().is_none());
    assert!(matches!(block_on(manager.restore_from_session(&json!({"__name__": "Other"}))), Err(Error::State)));

    let mut registry = HookRegistry::default();
    manager.clone().register_hooks(&mut registry);
    let mut list = conversation(1);
    for projected in [Some(100), None, Some(800)] {
        block_on(registry.before_model_call(&mut list, projected, Some(1_000))).unwrap();
    }
    assert_eq!(manager.reductions.load(Ordering::SeqCst), 1);
}

#[test]
fn hooks_are_called_in_the_order_in_which_they_were_registered() {
    let window = |window_size| {
        let options = SlidingWindowOptions::default().window_size(window_size).per_turn(true);
        Arc::new(SlidingWindowConversationManager::new(options).unwrap())
    };
    let mut registry = HookRegistry::default();
    let (wide, narrow) = (window(5), window(1));
    wide.clone().register_hooks(&mut registry);
    narrow.clone().register_hooks(&mut registry);
    let mut list: Vec<_> = (0..9).map(user).collect();
    block_on(registry.before_model_call(&mut list, None, None)).unwrap();
    assert_eq!((list.len(), list[0].text()), (1, user(8).text()));
    assert_eq!(block_on(async { (wide.removed_message_count().await, narrow.removed_message_count().await) }), (4, 4));
}

#[test]
fn every_option_can_be_read_back() {
    let options = SlidingWindowOptions {
        window_size: 7,
        should_truncate_results: false,
        per_turn: PerTurn::Calls(3),
        proactive_compression: Some(ProactiveCompression::At { compression_threshold: 0.5 }),
        pin_first: 2,
    };
    let manager = SlidingWindowConversationManager::new(options).unwrap();
    assert_eq!((manager.window_size(), manager.should_truncate_results()), (7, false));
    assert_eq!(block_on(async { (manager.per_turn().await, manager.pin_first().await) }), (PerTurn::Calls(3), 2));
    assert_eq!(manager.proactive_compression().unwrap().share(), 0.5);

    let options = SummarizingOptions {
        summary_ratio: 0.5,
        preserve_recent_messages: 3,
        summarization_system_prompt: Some("Keep the ports.".to_owned()),
        summary_budget: Some(90),
        ..SummarizingOptions::default()
    };
    let manager = SummarizingConversationManager::new(options).unwrap();
    assert_eq!((manager.summary_ratio(), manager.preserve_recent_messages()), (0.5, 3));
    assert_eq!(manager.summarization_system_prompt(), Some("Keep the ports."));
    assert_eq!((manager.summary_budget(), manager.summarizer().model()), (Some(90), "extractive"));
    assert!(manager.proactive_compression().is_none());
}

#[test]
fn options_are_given_as_in_python() {
    let options = SlidingWindowOptions::default().window_size(7).should_truncate_results(false).pin_first(2);
    let options = options.per_turn(3).proactive_compression(ProactiveCompression::at(0.5));
    let expected = SlidingWindowOptions {
        window_size: 7,
        should_truncate_results: false,
        per_turn: PerTurn::Calls(3),
        proactive_compression: Some(ProactiveCompression::At { compression_threshold: 0.5 }),
        pin_first: 2,
    };
    assert_eq!(options, expected);
    assert_eq!([true, false].map(PerTurn::from), [PerTurn::Every(true), PerTurn::Every(false)]);
    assert_eq!(PerTurn::from(u64::MAX), PerTurn::Calls(i64::MAX));

    let manager = SlidingWindowConversationManager::new(options).unwrap();
    block_on(manager.set_per_turn(true)).unwrap();
    assert_eq!(block_on(manager.per_turn()), PerTurn::Every(true));
    let refused = block_on(manager.set_per_turn(0)).unwrap_err();
    assert_eq!(refused.to_string(), "per_turn must be a positive integer, True, or False, got 0");
    assert_eq!(block_on(manager.per_turn()), PerTurn::Every(true));

    let options = SummarizingOptions::default().summary_ratio(0.5).preserve_recent_messages(3).summary_budget(90);
    let options = options.summarization_system_prompt("Keep the ports.").proactive_compression(true);
    let manager = SummarizingConversationManager::new(options.summarizer(Scripted(Ok("ports".to_owned())))).unwrap();
    assert_eq!((manager.summary_ratio(), manager.preserve_recent_messages()), (0.5, 3));
    assert_eq!(manager.summarization_system_prompt(), Some("Keep the ports."));
    assert_eq!((manager.summary_budget(), manager.summarizer().model()), (Some(90), "scripted"));
    assert_eq!(manager.proactive_compression().unwrap().share(), 0.7);
}

#[test]
fn a_restored_window_is_valid_and_has_the_task() {
    let open = || {
        let options = SlidingWindowOptions { window_size: 4, ..SlidingWindowOptions::default() };
        SlidingWindowConversationManager::new(options).unwrap()
    };
    // `agent` has all messages of the agent's session, and `list` those that the manager keeps.
    let (mut agent, mut list, mut manager) = (vec![user(0)], vec![user(0)], open());
    for index in 1..20 {
        if index == 15 {
            let turn = [Message::assistant("answer"), user(index)];
            agent.extend(turn.clone());
            list.extend(turn);
        }
        let exchange = exchange(index, "found");
        agent.extend(exchange.clone());
        list.extend(exchange);
        block_on(manager.apply_management(&mut list)).unwrap();
        // The original restores a session like this: the manager's messages, and the agent's messages from its offset
        // on.
        let state = block_on(manager.get_state());
        let restored = open();
        let mut window = block_on(restored.restore_from_session(&state)).unwrap().unwrap_or_default();
        let offset = usize::try_from(block_on(restored.removed_message_count())).unwrap();
        window.extend(agent[offset..].iter().cloned());
        assert_eq!(vectors::json(DIALECT, &window), vectors::json(DIALECT, &list), "{index}");
        assert!(is_valid(&window), "{index}");
        let task = if index < 15 { user(0) } else { user(15) };
        assert!(window.iter().any(|message| message.digest() == task.digest()), "{index}");
        if index.is_multiple_of(4) {
            (manager, list) = (restored, window);
        }
    }
}

#[test]
fn a_ratio_that_is_no_number_is_refused() {
    let refused = SummarizingConversationManager::new(SummarizingOptions {
        summary_ratio: f64::NAN,
        ..SummarizingOptions::default()
    });
    assert_eq!(refused.unwrap_err().to_string(), "summary_ratio must be a number, got NaN");
}

#[test]
fn an_error_of_the_model_that_is_no_overflow_is_handed_on_at_once() {
    let manager = SlidingWindowConversationManager::default();
    let mut list = conversation(3);
    let call = async |_: &[Message]| Err::<(), _>(Refused);
    let error = block_on(recover(&manager, &mut list, |_| false, call)).unwrap_err();
    assert!(matches!(error, Error::Model(_)));
    assert_eq!(list.len(), 7);
}

#[test]
fn s3_one_message_that_is_larger_than_the_summarizers_window_is_split() {
    #[derive(Debug)]
    struct Small(Arc<AtomicUsize>);
    impl Summarizer for Small {
        fn model(&self) -> &str {
            "small"
        }
        fn window(&self) -> Option<u64> {
            Some(4_000)
        }
        fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
            assert!(task.prompt().len() < 4 * 4_000);
            let call = self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Ok(format!("part {call}")) })
        }
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let summarizer = Some(Arc::new(Small(calls.clone())) as Arc<dyn Summarizer>);
    let options = SummarizingOptions { summarizer, preserve_recent_messages: 1, ..SummarizingOptions::default() };
    let manager = SummarizingConversationManager::new(options).unwrap();
    let mut list = vec![Message::user("some words of a very long report. ".repeat(3_000)), Message::assistant("Well.")];
    block_on(manager.reduce_context(&mut list, Some(Refused.into()))).unwrap();
    assert!(calls.load(Ordering::SeqCst) > 5);
    assert_eq!((list.len(), list[0].text().starts_with("part ")), (2, true));
    // The summary alone is not summarized again.
    assert!(block_on(manager.reduce_context(&mut list, Some(Refused.into()))).is_err());
}

#[test]
fn a_summary_is_kept_word_for_word_unless_a_limit_is_set() {
    let said = "  They spoke of ports at length.\n".repeat(300);
    for (summary_budget, whole) in [(None, true), (Some(50), false)] {
        let summarizer: Option<Arc<dyn Summarizer>> = Some(Arc::new(Scripted(Ok(said.clone()))));
        let options = SummarizingOptions {
            summarizer,
            preserve_recent_messages: 1,
            summary_budget,
            ..SummarizingOptions::default()
        };
        let manager = SummarizingConversationManager::new(options).unwrap();
        let report = Message::user("some words of a very long report. ".repeat(3_000));
        let mut list = vec![report, Message::assistant("Well.")];
        block_on(manager.reduce_context(&mut list, None)).unwrap();
        assert_eq!(list[0].text() == said, whole);
        assert!(whole || list[0].text().len() < 400);
    }
    let refused = SummarizingConversationManager::new(SummarizingOptions {
        summary_budget: Some(0),
        ..SummarizingOptions::default()
    });
    assert_eq!(refused.unwrap_err().to_string(), "summary_budget must be a positive integer, got 0");
}

/// The original refuses a prompt together with an agent, because an agent has its own prompt. Here, a summarizer is a
/// model without its own prompt.
#[test]
fn a_prompt_is_the_summarizers_whole_system_prompt() {
    let asked = Arc::new(std::sync::Mutex::new(String::new()));
    let heard = asked.clone();
    let model = Function::new("scripted", move |ask: Ask| {
        *heard.lock().unwrap() = ask.system;
        async { Ok("They spoke of rivers.".to_owned()) }
    });
    let prompt = "Name every river, and nothing else.";
    let options = SummarizingOptions {
        summarizer: Some(Arc::new(model)),
        summarization_system_prompt: Some(prompt.to_owned()),
        preserve_recent_messages: 1,
        ..SummarizingOptions::default()
    };
    let manager = SummarizingConversationManager::new(options).unwrap();
    let mut list = conversation(2);
    block_on(manager.reduce_context(&mut list, None)).unwrap();
    assert_eq!(list[0].text(), "They spoke of rivers.");
    assert_eq!(*asked.lock().unwrap(), prompt);
}

#[test]
fn s8_a_list_that_stays_over_its_window_is_told_of() {
    let told = LogCounter::default();
    tracing::subscriber::with_default(told.clone(), || {
        // A window of 2 has room for the exchange, and the task is kept before it.
        for window_size in [1, 2] {
            let options = SlidingWindowOptions { window_size, ..SlidingWindowOptions::default() };
            let manager = SlidingWindowConversationManager::new(options).unwrap();
            let mut list = vec![user(0)];
            list.extend(exchange(1, "found"));
            block_on(manager.apply_management(&mut list)).unwrap();
            assert_eq!(list.len(), 3);
        }
    });
    assert_eq!(told.warnings.load(Ordering::SeqCst), 1);
    // If anything can be dropped, even a history of tool calls alone gets down to its window size.
    let options = SlidingWindowOptions { window_size: 2, ..SlidingWindowOptions::default() };
    let manager = SlidingWindowConversationManager::new(options).unwrap();
    let mut list: Vec<_> = (0..9).flat_map(|index| exchange(index, "found")).collect();
    block_on(manager.apply_management(&mut list)).unwrap();
    assert_eq!(list.len(), 2);
    assert!(is_valid(&list));
}

#[test]
fn none_of_it_is_ever_lost() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let open = || {
        let options = SlidingWindowOptions { window_size: 4, ..SlidingWindowOptions::default() };
        SlidingWindowConversationManager::new(options).unwrap().with_store(store.clone(), "agent-1")
    };
    let mut manager = open();
    let mut list = Vec::new();
    for index in 0..50 {
        list.push(user(index));
        list.extend(exchange(index, &format!("result {index} {}", "and so on ".repeat(100))));
        if index == 20 {
            block_on(manager.reduce_context(&mut list, Some(Refused.into()))).unwrap();
        }
        list.push(Message::assistant(format!("answer {index}")));
        block_on(manager.apply_management(&mut list)).unwrap();
        if index == 25 {
            // After a restart, the list is recognized, and no message is written twice.
            manager = open();
        }
    }
    assert_eq!(list.len(), 4);
    assert!(is_valid(&list));
    let settings = Settings::default().dialect(DIALECT);
    let mut session = block_on(Session::open(store.clone(), "agent-1", settings)).unwrap();
    let entries = block_on(adapter::entries(&mut session)).unwrap();
    let messages = entries.iter().filter_map(|entry| match entry {
        Entry::Message(arrival) => Some(arrival.message.text()),
        _ => None,
    });
    let messages: Vec<_> = messages.collect();
    assert_eq!(messages.len(), 200);
    assert_eq!(messages[0], user(0).text());
    assert!(messages[82].ends_with("and so on "), "a shortened message is whole in the log");
    assert_eq!(block_on(manager.search("\"question 7\"", 99)).unwrap().len(), 1);
}

#[test]
fn a_large_result_of_json_is_shortened_too() {
    let manager = SlidingWindowConversationManager::default();
    let rows: Vec<_> = (0..500).map(|row| json!({"row": row})).collect();
    let block = json!({"toolUseId": "c1", "content": [{"json": {"rows": rows}}], "status": "success"});
    let result = json!({"role": "user", "content": [{"toolResult": block}]});
    let mut list = vec![user(0), exchange(1, "")[0].clone()];
    list.extend(vectors::messages(DIALECT, &json!([result])));
    block_on(manager.reduce_context(&mut list, Some(Refused.into()))).unwrap();
    assert!(list[2].text().contains("chars removed") && list[2].text().len() < 500);
    assert!(is_valid(&list));
}

#[test]
fn a_manager_may_be_shared_between_threads() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = SlidingWindowOptions::default().window_size(10).per_turn(true);
    let manager = SlidingWindowConversationManager::new(options).unwrap().with_store(store.clone(), "shared");
    let list = async_lock::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (manager, list) = (&manager, &list);
            scope.spawn(move || {
                for index in 0..250 {
                    block_on(async {
                        let mut list = list.lock().await;
                        list.push(Message::user(format!("{thread} says {index}")));
                        manager.before_model_call(&mut list, None, None).await.unwrap();
                    });
                }
            });
        }
    });
    let list = list.into_inner();
    assert_eq!(list.len(), 10);
    assert_eq!(block_on(manager.removed_message_count()), 1_990);
    let mut session = block_on(Session::open(store, "shared", Settings::default())).unwrap();
    let history = block_on(session.history()).unwrap();
    for thread in 0..8 {
        let prefix = format!("{thread} says ");
        let texts = history.iter().map(|entry| entry.arrival.message.text());
        let numbers: Vec<usize> = texts.filter_map(|text| text.strip_prefix(&prefix)?.parse().ok()).collect();
        assert_eq!(numbers, (0..250).collect::<Vec<_>>(), "nothing is lost, doubled or reordered");
    }
}

#[test]
fn what_a_manager_does_can_be_done_on_any_thread() {
    fn sent<T: Send>(_: T) {}
    let (sliding, summarizing) =
        (SlidingWindowConversationManager::default(), SummarizingConversationManager::default());
    let mut list = Vec::new();
    sent(sliding.apply_management(&mut list));
    sent(summarizing.reduce_context(&mut list, None));
    sent(sliding.before_model_call(&mut list, None, None));
    let on = serde_json::from_str::<ProactiveCompression>("true").unwrap();
    assert_eq!(on, ProactiveCompression::Is(true));
}
