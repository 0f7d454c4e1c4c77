//! Slow middleware, and callers that do not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_lite::future::{block_on, poll_once};
use lookback_agent::{ContextFilter, Event, Failure, Middleware, MiddlewareSettings, Pipeline, Reaction, Run, Stopped};
use lookback_engine::Settings;
use lookback_engine::transcript::Origin;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::message::{Message, ToolCall};

use super::{Slow, asks, origins};

/// Calls like an impatient caller: drops the future while it waits, and calls again.
macro_rules! impatient {
    ($dropped:ident, $call:expr) => {
        loop {
            match poll_once($call).await {
                Some(done) => break done.unwrap(),
                None => $dropped += 1,
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
}

#[test]
fn a_call_that_is_dropped_anywhere_goes_on_when_it_is_made_again() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Slow).with(Slow);
        let mut dropped = 0;
        impatient!(dropped, run.start(Message::user("Count to three.")));
        let mut iterations = Vec::new();
        while let Some(call) = impatient!(dropped, run.next()) {
            iterations.push(call.iteration);
            let answer = match call.iteration {
                1 | 2 => asks(call.iteration),
                _ => Message::assistant("Three."),
            };
            for tool in impatient!(dropped, run.answered(answer.clone(), None)) {
                impatient!(dropped, run.tool(&tool, |_| async { Ok::<_, String>("one more") }));
            }
        }
        assert!(dropped > 20, "{dropped}");
        assert_eq!((iterations, run.stopped()), (vec![1, 2, 3], Some(&Stopped::Answered)));
        let texts: Vec<_> = run.into_session().view().messages().map(|item| item.message().text()).collect();
        let note = |number| format!("This is iteration {number}.");
        let call = |number| format!("read\n{{\"page\":{number}}}");
        let expected = [
            "Count to three.".to_owned(),
            note(1),
            note(1),
            call(1),
            "one more".to_owned(),
            note(2),
            note(2),
            call(2),
            "one more".to_owned(),
            note(3),
            note(3),
            "Three.".to_owned(),
        ];
        assert_eq!(texts, expected);
    });
}

/// Takes too long over the first iteration.
struct Late(std::sync::Mutex<std::sync::mpsc::Receiver<()>>, Arc<AtomicU64>);

impl Middleware for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        if matches!(event, Event::BeforeIteration) && run.iteration == 1 {
            self.0.lock().unwrap().recv()?;
            return Ok(Reaction::none().note("That was long ago."));
        }
        self.1.store(run.iteration, Ordering::Relaxed);
        Ok(Reaction::none())
    }
}

#[test]
fn a_middleware_that_is_back_is_asked_again_and_its_late_reaction_is_ignored() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (release, wait) = std::sync::mpsc::channel();
        let newest = Arc::new(AtomicU64::new(0));
        let settings = MiddlewareSettings::default().time_limit(std::time::Duration::from_millis(20));
        let mut run = Pipeline::new(session).with_settings(Late(wait.into(), newest.clone()), settings);
        run.start(Message::user("Read every page.")).await.unwrap();
        let mut iteration = 0;
        // The middleware returns at an unknown time.
        while newest.load(Ordering::Relaxed) < 2 && iteration < 2_000 {
            iteration = run.next().await.unwrap().unwrap().iteration;
            _ = release.send(());
            for tool in run.answered(asks(iteration), None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(newest.load(Ordering::Relaxed) >= 2, "it was never asked again");
        assert!(run.failures().count() >= 2);
        assert!(origins(&run).await.values().all(|ours| !ours), "its note was heard");
    });
}

/// A middleware that waits at one event until it is released, and records its events.
struct Held {
    at: &'static str,
    begun: std::sync::mpsc::Sender<()>,
    release: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    asked: Arc<std::sync::Mutex<Vec<String>>>,
    held: bool,
}

/// The test's side of a [`Held`] middleware: it learns when the middleware begins to wait, releases it, and has its
/// events.
struct Holder {
    begun: std::sync::mpsc::Receiver<()>,
    release: std::sync::mpsc::Sender<()>,
    asked: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Held {
    fn at(at: &'static str) -> (Held, Holder) {
        let ((begin, begun), (release, wait)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
        let held = Held { at, begun: begin, release: wait.into(), asked: asked.clone(), held: false };
        (held, Holder { begun, release, asked })
    }
}

impl Middleware for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        let left = run.left.iter().map(|left| format!("left {}", left.position));
        self.asked.lock().unwrap().extend(std::iter::once(event.name().to_owned()).chain(left));
        if event.name() == self.at && !self.held {
            self.held = true;
            self.begun.send(())?;
            self.release.lock().unwrap().recv()?;
        }
        Ok(match event {
            Event::BeforeTool(call) => Reaction::none().answer(format!("the answer to {}", call.id)),
            Event::BeforeModel => Reaction::none().note("This is a call."),
            _ => Reaction::none(),
        })
    }
}

/// Settings without a time limit.
fn unlimited() -> MiddlewareSettings {
    MiddlewareSettings::default().time_limit(std::time::Duration::ZERO)
}

/// Repeats a call until the middleware waits, and then drops the future.
macro_rules! dropped_while_held {
    ($holder:ident, $call:expr) => {
        loop {
            assert!(poll_once($call).await.is_none(), "the middleware should be waited for");
            if $holder.begun.try_recv().is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
}

#[test]
fn a_run_that_is_stopped_in_the_middle_of_a_question_tells_the_middleware_of_its_end() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("before_model");
        let mut run = Pipeline::new(session).with_settings(held, unlimited());
        run.start(Message::user("Read every page.")).await.unwrap();
        dropped_while_held!(holder, run.next());
        holder.release.send(()).unwrap();
        run.stop("cancelled").await.unwrap();
        assert_eq!(*holder.asked.lock().unwrap(), ["start", "before_iteration", "before_model", "stop"]);
        assert!(origins(&run).await.values().all(|ours| !ours), "what it said of a call that is none was heard");
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn an_answer_to_one_call_is_never_given_to_another() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("before_tool");
        let mut run = Pipeline::new(session).with_settings(held, unlimited());
        run.start(Message::user("Read every page.")).await.unwrap();
        run.next().await.unwrap();
        let [one, two] = ["c1", "c2"].map(|id| ToolCall::new(id, "read", "{}"));
        run.answered(Message::assistant_with_calls("", [one.clone(), two.clone()]), None).await.unwrap();
        let tool = |_: ToolCall| async { Ok::<_, String>("it was run") };
        dropped_while_held!(holder, run.tool(&one, tool));
        holder.release.send(()).unwrap();
        run.tool(&two, tool).await.unwrap();
        run.tool(&one, tool).await.unwrap();
        let told: Vec<_> = run.session().view().messages().skip(2).map(|item| item.message().text()).collect();
        assert_eq!(told[1..], ["the answer to c2", "the answer to c1"]);
    });
}

#[test]
fn a_middleware_that_hangs_is_left_behind_though_each_poll_is_shorter_than_its_limit() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("before_iteration");
        let limit = std::time::Duration::from_millis(50);
        let settings = MiddlewareSettings::default().time_limit(limit);
        let mut run = Pipeline::new(session).with_settings(held, settings);
        run.start(Message::user("Read every page.")).await.unwrap();
        let mut ticks = 0;
        while poll_once(run.next()).await.is_none() {
            ticks += 1;
            assert!(ticks < 5_000, "it is waited for for ever");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let failure = run.failures().next().unwrap();
        assert_eq!(failure.to_string(), "middleware `held` failed at `before_iteration`");
        assert_eq!(failure.cause.to_string(), "it took longer than 50ms");
        drop(holder);
    });
}

#[test]
fn a_middleware_that_was_busy_is_told_all_that_left_meanwhile() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("after_iteration");
        let limit = std::time::Duration::from_millis(500);
        let settings = MiddlewareSettings::default().time_limit(limit);
        let mut run = Pipeline::new(session).with(ContextFilter::rounds(2).unwrap()).with_settings(held, settings);
        run.start(Message::user("Read every page.")).await.unwrap();
        let heard = || holder.asked.lock().unwrap().len();
        let (mut iteration, mut before) = (0, 0);
        // The middleware returns at an unknown time.
        while iteration < 8 || (heard() == before && iteration < 2_000) {
            iteration = run.next().await.unwrap().unwrap().iteration;
            for tool in run.answered(asks(iteration), None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
            if iteration == 7 {
                before = heard();
                holder.release.send(()).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        run.stop("enough").await.unwrap();
        let asked = holder.asked.lock().unwrap().clone();
        let mut told: Vec<u64> = asked.iter().filter_map(|told| told.strip_prefix("left ")?.parse().ok()).collect();
        told.sort_unstable();
        let history = run.into_session().history().await.unwrap();
        let gone: Vec<_> = history
            .iter()
            .filter(|entry| !entry.shown && entry.arrival.origin != Origin::Lookback)
            .map(|entry| entry.position)
            .collect();
        assert!(gone.len() >= 8, "{gone:?}");
        assert_eq!(told, gone);
    });
}
