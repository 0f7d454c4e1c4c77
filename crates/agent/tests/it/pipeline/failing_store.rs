//! A store that fails, and a provider that refuses.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_agent::{CallUsage, Event, Failure, Middleware, Pipeline, Reaction, Run};
use lookback_engine::Settings;
use lookback_engine::transcript::Entry;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, StoreFuture};
use lookback_store::{LogName, MemoryStore, Store, StoreError};
use lookback_wire::dialect::TooLong;
use lookback_wire::size::Measure;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};

use super::{Slow, asks};

/// A store whose next writes fail as the test specifies.
#[derive(Debug, Default)]
struct Shaky(MemoryStore, std::sync::Mutex<VecDeque<Fault>>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The write fails before it is made.
    Before,
    /// The write is made, but reported as failed.
    After,
}

impl Shaky {
    fn next_writes(&self, faults: impl IntoIterator<Item = Fault>) {
        self.1.lock().unwrap().extend(faults);
    }
}

impl Store for Shaky {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        let fault = self.1.lock().unwrap().pop_front().unwrap_or(Fault::None);
        Box::pin(async move {
            if fault != Fault::Before {
                self.0.append(log, append).await?;
            }
            match fault {
                Fault::None => Ok(()),
                _ => Err(StoreError::Backend { place: "shaky".into(), source: "told to".into() }),
            }
        })
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: i64) -> StoreFuture<'a, bool> {
        self.0.touch(log, time)
    }
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.0.read(log, span)
    }
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.0.head(log, before)
    }
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.0.info(log)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.0.list(prefix)
    }
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.0.delete(logs)
    }
    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<lookback_store::Tombstone>) -> StoreFuture<'a, ()> {
        self.0.erase(log, tombstones)
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.0.clear()
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        self.0.search(log, query, most)
    }
}

/// Repeats a call until the store accepts the write.
macro_rules! stubborn {
    ($failed:ident, $call:expr) => {
        loop {
            match $call.await {
                Ok(done) => break done,
                Err(_) => $failed += 1,
            }
        }
    };
}

#[test]
fn a_call_that_failed_in_the_store_goes_on_when_it_is_made_again_and_nothing_doubles() {
    block_on(async {
        let store = Shaky::default();
        for fault in [Fault::Before, Fault::After].repeat(50) {
            store.next_writes([Fault::None, Fault::None, fault]);
        }
        let session = Session::open(store, "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Slow).with_iterations(4);
        let mut failed = 0;
        stubborn!(failed, run.start(Message::user("Read every page.")));
        while let Some(call) = stubborn!(failed, run.next()) {
            for tool in stubborn!(failed, run.answered(asks(call.iteration), None)) {
                stubborn!(failed, run.tool(&tool, |_| async { Ok::<_, String>("a page") }));
            }
        }
        assert!(failed >= 4, "{failed}");
        let texts: Vec<_> = run.into_session().view().messages().map(|item| item.message().text()).collect();
        let of = |number| {
            let call = format!("read\n{{\"page\":{number}}}");
            [format!("This is iteration {number}."), call, "a page".to_owned()]
        };
        let expected: Vec<_> = ["Read every page.".to_owned()].into_iter().chain((1..=4).flat_map(of)).collect();
        assert_eq!(texts, expected);
    });
}

#[test]
fn results_of_the_same_words_are_not_taken_for_one_another() {
    for dialect in Dialect::ALL {
        block_on(async {
            let store = Arc::new(Shaky::default());
            let settings = Settings::default().dialect(dialect);
            let session = Session::open(store.clone(), "run", settings).await.unwrap();
            let mut run = Pipeline::new(session);
            run.start(Message::user("Write both pages.")).await.unwrap();
            run.next().await.unwrap();
            let [one, two] = ["c1", "c2"].map(|id| ToolCall::new(id, "write", "{}"));
            run.answered(Message::assistant_with_calls("", [one.clone(), two.clone()]), None).await.unwrap();
            let ok = |_: ToolCall| async { Ok::<_, String>("ok") };
            // The store fails for the second, while another process writes the first.
            store.next_writes([Fault::Before]);
            run.tool(&two, ok).await.unwrap_err();
            let mut other = Session::open(store.clone(), "run", Settings::default().dialect(dialect)).await.unwrap();
            other.push(Message::tool_result("c1", "ok")).await.unwrap();
            run.tool(&two, ok).await.unwrap();
            let entries = adapter::entries(&mut run.into_session()).await.unwrap();
            let results: Vec<_> = entries.iter().filter_map(result_of).collect();
            assert_eq!(results, ["c1", "c2"], "{dialect}");
        });
    }
}

/// Returns the identifier of the call whose result an entry has.
fn result_of(entry: &Entry) -> Option<String> {
    let Entry::Message(arrival) = entry else { return None };
    arrival.message.tool_results().next().map(|(_, result)| result.call_id.clone())
}

#[test]
fn a_result_that_was_given_stands_there_once_whatever_is_asked_for_next() {
    for fault in [Fault::Before, Fault::After] {
        for stop in [false, true] {
            block_on(async {
                let store = Arc::new(Shaky::default());
                let session = Session::open(store.clone(), "run", Settings::default()).await.unwrap();
                let mut run = Pipeline::new(session);
                run.start(Message::user("Write both pages.")).await.unwrap();
                run.next().await.unwrap();
                let [one, two] = ["c1", "c2"].map(|id| ToolCall::new(id, "write", "{}"));
                run.answered(Message::assistant_with_calls("", [one.clone(), two.clone()]), None).await.unwrap();
                let ok = |_: ToolCall| async { Ok::<_, String>("ok") };
                store.next_writes([fault]);
                run.tool(&one, ok).await.unwrap_err();
                if stop {
                    run.stop("enough").await.unwrap();
                } else {
                    run.tool(&two, ok).await.unwrap();
                    run.tool(&one, ok).await.unwrap();
                }
                let mut session = run.into_session();
                let entries = adapter::entries(&mut session).await.unwrap();
                let results: Vec<_> = entries.iter().filter_map(result_of).collect();
                assert_eq!(results, ["c1", "c2"], "{fault:?} {stop}");
                let texts: Vec<_> = session.view().messages().skip(2).map(|item| item.message().text()).collect();
                let second = if stop { "[This call was not run: the run has ended.]" } else { "ok" };
                assert_eq!(texts, ["ok", second], "{fault:?} {stop}");
            });
        }
    }
}

/// Adds a note each time a window is refused.
struct Sorry;

impl Middleware for Sorry {
    fn name(&self) -> &str {
        "sorry"
    }

    fn on(&mut self, event: &Event, _: &Run) -> Result<Reaction, Failure> {
        Ok(if matches!(event, Event::Overflow(_)) { Reaction::none().note("Sorry.") } else { Reaction::none() })
    }
}

/// Creates a long session in a store that can fail, and a run that has returned its first call.
async fn at_first_call(run: impl FnOnce(Session) -> Pipeline) -> (Arc<Shaky>, Pipeline, lookback_agent::Call) {
    let store = Arc::new(Shaky::default());
    let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
    let mut session = Session::open(store.clone(), "run", settings).await.unwrap();
    for number in 0..100 {
        session.push(Message::user(format!("Question {number}, at some length."))).await.unwrap();
    }
    let mut run = run(session);
    run.start(Message::user("Answer them.")).await.unwrap();
    let call = run.next().await.unwrap().unwrap();
    (store, run, call)
}

const TOO_LONG: TooLong = TooLong::new(Measure::Tokens);

#[test]
fn an_overflow_that_failed_in_the_store_is_told_once_and_makes_the_window_smaller_once() {
    for fault in [Fault::Before, Fault::After] {
        for again in [true, false] {
            block_on(async {
                let (store, mut run, _) = at_first_call(|session| Pipeline::new(session).with(Sorry)).await;
                let before = run.session().stats().entries;
                store.next_writes([fault]);
                run.overflow(TOO_LONG).await.unwrap_err();
                if again {
                    run.overflow(TOO_LONG).await.unwrap();
                }
                run.next().await.unwrap().unwrap();
                let entries = adapter::entries(&mut run.into_session()).await.unwrap();
                let new = entries.get(usize::try_from(before).unwrap()..).unwrap();
                let of = |is_it: fn(&Entry) -> bool| new.iter().filter(|entry| is_it(entry)).count();
                let notes = of(|entry| matches!(entry, Entry::Message(arrival) if arrival.message.text() == "Sorry."));
                let compactions = of(|entry| matches!(entry, Entry::Compaction(_)));
                assert_eq!((notes, compactions), (1, 1), "{fault:?}, made again: {again}");
            });
        }
    }
}

#[test]
fn an_answer_that_failed_in_the_store_is_reported_once() {
    // The report is written before the answer.
    for faults in
        [vec![Fault::Before], vec![Fault::After], vec![Fault::None, Fault::Before], vec![Fault::None, Fault::After]]
    {
        block_on(async {
            let (store, mut run, call) = at_first_call(Pipeline::new).await;
            let before = run.session().stats().entries;
            store.next_writes(faults.clone());
            let usage = CallUsage::default().input(call.tokens * 2).model("gpt-4o");
            run.answered(Message::assistant("One."), Some(usage.clone())).await.unwrap_err();
            run.answered(Message::assistant("One."), Some(usage)).await.unwrap();
            let entries = adapter::entries(&mut run.into_session()).await.unwrap();
            let new = entries.get(usize::try_from(before).unwrap()..).unwrap();
            let reports = new.iter().filter(|entry| matches!(entry, Entry::Usage(_))).count();
            let answers = new.iter().filter(|entry| matches!(entry, Entry::Message(_))).count();
            assert_eq!((reports, answers), (1, 1), "{faults:?}");
        });
    }
}

/// Records the compaction that it sees after the model's answer, by the number of messages that the compaction left.
struct Compactions(Arc<std::sync::Mutex<Vec<Option<u64>>>>);

impl Middleware for Compactions {
    fn name(&self) -> &str {
        "compactions"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        if matches!(event, Event::AfterModel(_)) {
            let left = run.compaction.as_ref().map(|compaction| compaction.after.size.messages);
            self.0.lock().unwrap().push(left);
        }
        Ok(Reaction::none())
    }
}

#[test]
fn the_compaction_of_an_overflow_is_the_one_that_the_middleware_sees() {
    block_on(async {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let middleware = Compactions(seen.clone());
        let (_, mut run, _) =
            at_first_call(|session| Pipeline::new(session).with(middleware).with_continuity(1_000)).await;
        run.overflow(TOO_LONG).await.unwrap();
        let smaller = run.next().await.unwrap().unwrap();
        run.answered(asks(1), None).await.unwrap();
        let left = smaller.view.totals().size.messages;
        assert!(left < 100, "{left}");
        assert_eq!(*seen.lock().unwrap(), [Some(left)]);
        // The window of the next call is not compacted again.
        run.next().await.unwrap().unwrap();
        run.answered(Message::assistant("One."), None).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [Some(left), None]);
    });
}

#[test]
fn a_provider_that_refuses_everything_is_not_asked_for_ever() {
    block_on(async {
        let mut session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        for number in 0..200 {
            session.push(Message::user(format!("Question {number}, at some length."))).await.unwrap();
        }
        let mut run = Pipeline::new(session).with(Sorry);
        run.start(Message::user("Answer them.")).await.unwrap();
        let mut tries = 0;
        let error = loop {
            run.next().await.unwrap().unwrap();
            tries += 1;
            match run.overflow(TOO_LONG).await {
                Ok(()) => assert!(tries < 50, "it goes on for ever"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, lookback_session::Error::Irreducible(_)), "{error}");
        assert!(tries <= 10, "{tries}");
        run.stop("the provider refuses everything").await.unwrap();
        assert!(run.next().await.unwrap().is_none());
    });
}
