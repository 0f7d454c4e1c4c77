//! Measures the time and memory of opening a session from SQLite with 1,000 and with 1,000,000 messages of history.

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::Durability;

use crate::{child as run_child, median, message, time};

fn settings() -> Settings {
    let policy = Policy { limits: Limits::messages(40), target: Some(Limits::messages(20)), ..Policy::unlimited() };
    Settings::default().policy(policy)
}

pub fn run() {
    println!("Opening a session from SQLite, window of 20 to 40 messages\n");
    println!("{:>12} {:>16} {:>22}", "history", "open, us", "peak of the process");
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let store = store.to_str().expect("a path in UTF-8");
    let mut first = None;
    for history in [1_000u64, 1_000_000] {
        let name = format!("history-{history}");
        fill(store, &name, history);
        let runs: Vec<_> = (0..9).map(|_| run_child(&["open", store, &name])).collect();
        let micros = median(runs.iter().map(|run| run[0]));
        let memory = median(runs.iter().map(|run| run[1]));
        let (base, base_memory) = *first.get_or_insert((micros, memory));
        println!(
            "{history:>12} {:>16} {:>22}",
            format!("{micros:.0} ({:.2}x)", micros / base),
            format!("{:.1} MB ({:.2}x)", memory / 1024.0, memory / base_memory)
        );
    }
    println!();
}

/// Pushes messages in batches, and makes a window after each batch, as an agent does.
fn fill(store: &str, name: &str, history: u64) {
    let store = SqliteStore::open_with(store, Durability::System).expect("a store");
    let mut session = block_on(Session::open(store, name, settings())).expect("a session");
    for batch in 0..history / 20 {
        let messages: Vec<_> = (batch * 20..batch * 20 + 20).map(message).collect();
        block_on(session.append(messages)).expect("a push");
        block_on(session.window()).expect("a window");
    }
}

/// Opens the session once, and prints the time in microseconds and the peak memory of this process in kB.
pub fn child(store: &str, name: &str) {
    let store = SqliteStore::open(store).expect("a store");
    let mut opened = None;
    let spent = time(|| opened = Some(block_on(Session::open(store, name, settings())).expect("a session")));
    assert!(opened.is_some_and(|session| session.view().messages().count() >= 20));
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    println!("{} {}", spent.as_secs_f64() * 1e6, peak.trim().trim_end_matches(" kB"));
}
