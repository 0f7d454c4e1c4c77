//! Measures pushes and windows while a summary takes half a minute, compared with the same session before it.

use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy, Stage, Summarize},
};
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::{FileStore, MemoryStore, Store};
use lookback_summarize::{Completion, Summarizer, SummaryTask};

use crate::{median, message, time};

/// A model that takes this time for a summary.
#[derive(Debug)]
struct Slow(Duration);

impl Summarizer for Slow {
    fn model(&self) -> &str {
        "slow"
    }

    fn complete<'a>(&'a self, _: &'a SummaryTask) -> Completion<'a> {
        Box::pin(async {
            std::thread::sleep(self.0);
            Ok("What was said so far, in a few words.".to_owned())
        })
    }
}

const TAKES: Duration = Duration::from_secs(30);
/// The time between messages. An agent gets fewer than ten messages per second from its model.
const EVERY: Duration = Duration::from_millis(100);
/// The steps before the summary begins.
const USUAL: u64 = 280;

pub fn run() {
    println!(
        "A push and a window while a summary takes {} s, in us; in brackets, the ratio to the usual median\n",
        TAKES.as_secs()
    );
    println!(
        "{:<10} {:<8} {:>10} {:>18} {:>18} {:>18}",
        "store", "call", "usual", "median meanwhile", "slowest of usual", "slowest meanwhile"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = SqliteStore::open(folder.path().join("lookback.db")).expect("a store");
    measure("sqlite", file).iter().for_each(|row| println!("{row}"));
    let files = FileStore::open(folder.path().join("files")).expect("a store");
    measure("files", files).iter().for_each(|row| println!("{row}"));
    measure("memory", MemoryStore::new()).iter().for_each(|row| println!("{row}"));
    println!();
}

fn measure(name: &str, store: impl Store + 'static) -> Vec<String> {
    let limits = Limits::messages(USUAL + 100);
    let stages = vec![Stage::Summarize(Summarize::default())];
    let policy = Policy { limits, target: Some(Limits::messages(20)), stages, ..Policy::unlimited() };
    let settings = Settings::default().policy(policy);
    let mut session = block_on(Session::open(store, "s", settings)).expect("a session").with_summarizer(Slow(TAKES));
    // The steps before the summary have the same pace as those during it, because a processor is slower after a pause.
    (0..100).for_each(|index| _ = step(&mut session, index));
    let usual: Vec<_> = (100..USUAL + 99).map(|index| paced(&mut session, index)).collect();
    let mut next = USUAL + 99;
    // Four steps make at least one window, which begins the summary. A step with a tool call makes none.
    (0..4).for_each(|_| {
        _ = step(&mut session, next);
        next += 1;
    });
    let begun = Instant::now();
    let mut meanwhile = Vec::new();
    while begun.elapsed() < TAKES - Duration::from_secs(1) {
        meanwhile.push(paced(&mut session, next + meanwhile.len() as u64));
    }
    assert!(session.view().summary().is_none(), "the summary came too early");
    block_on(session.wait_for_summary()).expect("a summary");
    assert!(session.view().summary().is_some(), "the summary did not come");
    let row = |call: &str, of: &dyn Fn(&(f64, f64)) -> f64| {
        let middle = median(usual.iter().map(of));
        let slowest = |steps: &[(f64, f64)]| steps.iter().map(of).fold(0.0, f64::max);
        let beside = |figure: f64| format!("{figure:.1} ({:.1}x)", figure / middle);
        let now = median(meanwhile.iter().map(of));
        let (usual, meanwhile) = (beside(slowest(&usual)), beside(slowest(&meanwhile)));
        format!("{name:<10} {call:<8} {middle:>10.1} {:>18} {usual:>18} {meanwhile:>18}", beside(now))
    };
    vec![row("push", &|step| step.0), row("window", &|step| step.1)]
}

fn paced(session: &mut Session, index: u64) -> (f64, f64) {
    std::thread::sleep(EVERY);
    step(session, index)
}

/// Returns the microseconds of a push, and of the window after it.
fn step(session: &mut Session, index: u64) -> (f64, f64) {
    let message = message(index);
    let calls = message.tool_calls().next().is_some();
    let push = time(|| _ = block_on(session.push(message)).expect("a push"));
    // An agent does not call the model between a tool call and its result.
    let window = if calls { Duration::ZERO } else { time(|| _ = block_on(session.window()).expect("a window")) };
    (push.as_secs_f64() * 1e6, window.as_secs_f64() * 1e6)
}
