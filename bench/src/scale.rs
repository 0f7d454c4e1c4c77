//! Measures several processes that push messages and make windows in many sessions of one store.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_location::Location;
use lookback_session::Session;
use lookback_store::{LogName, Store};
use lookback_wire::message::Message;

use crate::{postgres, redis};

/// The time that each process works, and its number of threads.
const SECONDS: u64 = 5;
const THREADS: usize = 4;

pub fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (postgres, redis) = (postgres::Server::new(), redis::Server::new());
    println!("Each call opens one of the sessions at random, pushes a message of 1,000 bytes, and makes a window.");
    println!("Each process has {THREADS} threads and works for {SECONDS} s.\n");
    println!(
        "{:<12} {:>10} {:>10} {:>12} {:>10} {:>10} {:>12} {:>12} {:>12}",
        "store", "sessions", "processes", "calls/s", "p50, ms", "p99, ms", "connections", "server, MB", "clients, MB"
    );
    for (kind, url) in [
        ("SQLite", format!("sqlite:{}", folder.path().join("s.db").display())),
        ("files", format!("files:{}", folder.path().join("files").display())),
        ("PostgreSQL", postgres.database()),
        ("Redis", redis.url()),
    ] {
        let mut made = 0;
        for (sessions, processes) in [(1_000, 1), (1_000, 2), (1_000, 4), (10_000, 2), (100_000, 2)] {
            make(&url, made, sessions);
            made = sessions;
            let workers: Vec<_> = (0..processes).map(|number| start(&url, sessions, number)).collect();
            // Connections and memory are measured in the middle of the work.
            std::thread::sleep(Duration::from_secs(SECONDS) / 2);
            let (connections, server) = match kind {
                "PostgreSQL" => (postgres.connections(), postgres.memory()),
                "Redis" => (redis.connections(), redis.memory()),
                _ => (0, 0),
            };
            let clients: u64 = workers.iter().map(|worker| memory(worker.id())).sum();
            let mut times: Vec<u64> = Vec::new();
            for worker in workers {
                let output = worker.wait_with_output().expect("a worker");
                assert!(output.status.success(), "a worker failed");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                times.extend(text.split_whitespace().filter_map(|time| time.parse::<u64>().ok()));
            }
            times.sort_unstable();
            let at = |part: usize| times[(times.len() - 1) * part / 100] as f64 / 1e3;
            println!(
                "{kind:<12} {sessions:>10} {processes:>10} {:>12} {:>10.2} {:>10.2} {connections:>12} {:>12.0} {:>12.0}",
                times.len() as u64 / SECONDS,
                at(50),
                at(99),
                server as f64 / 1e6,
                clients as f64 / 1e6
            );
        }
    }
}

/// Returns the memory of a process in bytes: its private memory, and its share of the memory that processes share.
pub fn memory(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
    kilobytes.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0) * 1_024
}

impl postgres::Server {
    fn connections(&self) -> u64 {
        // The connection of this query does not count.
        let asked = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'";
        self.sql("postgres", asked).parse().expect("a number")
    }

    fn memory(&self) -> u64 {
        self.processes().into_iter().map(memory).sum()
    }
}

impl redis::Server {
    fn connections(&self) -> u64 {
        self.cli(&["CLIENT", "LIST"]).lines().count() as u64 - 1
    }

    fn memory(&self) -> u64 {
        let info = self.cli(&["INFO", "memory"]);
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.expect("a size").trim().parse().expect("a number")
    }
}

fn name(number: usize) -> LogName {
    format!("s/{number}").parse().expect("a name")
}

/// Creates the sessions that the store does not have yet.
fn make(url: &str, from: usize, sessions: usize) {
    let store = Location::parse(url).and_then(|location| location.open()).expect("a store");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = store.clone();
            scope.spawn(move || {
                for number in (from..sessions).filter(|number| number % 8 == thread) {
                    block_on(async {
                        let name = name(number);
                        let session = Session::open(store.clone(), name.as_str(), Settings::default()).await;
                        session.expect("a session").push(Message::user("Hello")).await.expect("a push");
                    });
                }
            });
        }
    });
}

fn start(url: &str, sessions: usize, number: usize) -> std::process::Child {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["scale".to_owned(), url.to_owned(), sessions.to_string(), number.to_string()];
    Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().expect("a process")
}

/// Works as one of the processes, and prints the time of each call in microseconds.
pub fn child(url: &str, sessions: usize, number: u64) {
    let store: Arc<dyn Store> = Location::parse(url).and_then(|location| location.open()).expect("a store");
    let (limits, target) = (Limits::messages(40), Some(Limits::messages(20)));
    let settings = || Settings::default().policy(Policy { limits, target, ..Policy::unlimited() });
    let text = "word and other words ".repeat(48);
    let end = Instant::now() + Duration::from_secs(SECONDS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, text, settings) = (store.clone(), &text, &settings);
            scope.spawn(move || {
                let mut random = number * 1_000 + thread as u64 + 1;
                let mut times = String::new();
                while Instant::now() < end {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let name = name((random >> 33) as usize % sessions);
                    let begun = Instant::now();
                    block_on(async {
                        let mut session =
                            Session::open(store.clone(), name.as_str(), settings()).await.expect("a session");
                        session.push(Message::user(text.as_str())).await.expect("a push");
                        session.window().await.expect("a window");
                    });
                    times.push_str(&format!("{} ", begun.elapsed().as_micros()));
                }
                print!("{times}");
            });
        }
    });
}
