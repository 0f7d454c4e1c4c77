//! Predicts the space of many sessions in each store from a thousand, and compares it with simulated sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_location::Location;
use lookback_session::Session;
use lookback_session::verify;
use lookback_store::Store;
use lookback_wire::message::Message;

use crate::{postgres, redis};

/// The number of sessions in each of two samples, and the messages of a session in the first and in the second.
const SAMPLE: usize = 1_000;
const SHORT: usize = 2;
const LONG: usize = 16;
/// The most messages of a session.
const LONGEST: usize = 64;
/// The numbers of simulated sessions that the prediction is compared with.
const SIMULATED: [usize; 2] = [10_000, 100_000];
/// The numbers of sessions to predict.
const PREDICTED: [f64; 4] = [1e6, 1e7, 1e8, 1e9];
/// The assumptions about cost and load, which are not measured: dollars per month for a gigabyte of a server's disk and
/// of its memory, and the share of all sessions that get a message in an hour.
const DISK: f64 = 0.12;
const MEMORY: f64 = 3.0;
const HOT: f64 = 0.01;
const WRITERS: usize = 8;

/// The bytes that a store keeps for a session, and for each of its messages.
struct Model {
    session: f64,
    message: f64,
}

/// The measurements of a store after it was filled with sessions.
struct Measured {
    messages: f64,
    entries: f64,
    bytes: f64,
    /// The microseconds per message, of the cores or the disk, depending on which is the limit.
    push: f64,
}

pub fn run() {
    println!("Messages have 600 bytes of random words. A simulated session has 1 to {LONGEST}, and most have few.\n");
    println!(
        "{:<11} {:>9} {:>10} {:>10} {:>13} {:>13} {:>6} {:>9}",
        "store", "sessions", "messages", "entries", "bytes", "predicted", "ratio", "a push"
    );
    let mut models = Vec::new();
    for kind in ["SQLite", "files", "PostgreSQL", "Redis"] {
        let [short, long] = [SHORT, LONG].map(|messages| measure(kind, SAMPLE, |_| messages));
        let message = (long.bytes - short.bytes) / (long.messages - short.messages);
        let session = short.bytes / SAMPLE as f64 - SHORT as f64 * message;
        let model = Model { session, message };
        let mut newest = None;
        for sessions in SIMULATED {
            let measured = measure(kind, sessions, length);
            let predicted = model.session * sessions as f64 + model.message * measured.messages;
            println!(
                "{kind:<11} {sessions:>9} {:>10} {:>10} {:>13.0} {predicted:>13.0} {:>6.2} {:>6.0} µs",
                measured.messages,
                measured.entries,
                measured.bytes,
                measured.bytes / predicted,
                measured.push
            );
            newest = Some(measured);
        }
        models.extend(newest.map(|measured| (kind, model, measured)));
    }
    println!(
        "\n{:<11} {:>10} {:>13} {:>13} {:>9} {:>11} {:>9} {:>6}",
        "store", "sessions", "a session", "a message", "TB", "$ a month", "pushes/s", "busy"
    );
    for (kind, model, measured) in models {
        let each = measured.messages / SIMULATED[SIMULATED.len() - 1] as f64;
        for sessions in PREDICTED {
            let bytes = sessions * (model.session + each * model.message);
            let price = if kind == "Redis" { MEMORY } else { DISK };
            let pushes = sessions * HOT / 3_600.0;
            println!(
                "{kind:<11} {sessions:>10.0e} {:>11.0} B {:>11.0} B {:>9.3} {:>11.0} {pushes:>9.1} {:>6.2}",
                model.session,
                model.message,
                bytes / 1e12,
                bytes / 1e9 * price,
                pushes * measured.push / 1e6
            );
        }
    }
    println!(
        "\nAssumptions: ${DISK} per month for a GB of disk, ${MEMORY} for a GB of memory, one copy; {:.0} % of all \
         sessions get a message in an hour.\nBusy: the number of machines like this one that the pushes keep busy.",
        HOT * 100.0
    );
}

/// Returns the next pseudo-random number. Each run gets the same numbers.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Returns the number of messages of a simulated session. Half of the sessions have one or two, and one in a hundred
/// has many.
fn length(session: usize) -> usize {
    let mut state = session as u64;
    random(&mut state);
    let part = (random(&mut state) % 10_000 + 1) as f64 / 10_000.0;
    (part.powf(-0.8) as usize).clamp(1, LONGEST)
}

/// Fills an empty store with sessions, and measures it.
fn measure(kind: &str, sessions: usize, length: impl Fn(usize) -> usize + Sync) -> Measured {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    match kind {
        "SQLite" => fill(&format!("sqlite:{}", at("s.db")), sessions, length, || size(folder.path())),
        "files" => fill(&format!("files:{}", at("files")), sessions, length, || size(folder.path())),
        "PostgreSQL" => {
            let server = postgres::Server::new();
            let url = server.database();
            fill(&url, sessions, length, || {
                // VACUUM also moves the pending entries into the index.
                server.sql(&url, "VACUUM");
                let tables = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n
                    ON n.oid = relnamespace WHERE nspname = 'lookback' AND relkind = 'r'";
                server.sql(&url, tables).parse().expect("a size")
            })
        }
        _ => {
            let server = redis::Server::new();
            fill(&server.url(), sessions, length, || {
                let info = server.cli(&["INFO", "memory"]);
                let used = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
                used.expect("a size").trim().parse().expect("a number")
            })
        }
    }
}

fn fill(url: &str, sessions: usize, length: impl Fn(usize) -> usize + Sync, bytes: impl Fn() -> u64) -> Measured {
    let store: Arc<dyn Store> = Location::parse(url).and_then(|location| location.open()).expect("a store");
    let empty = bytes();
    let policy = Policy { limits: Limits::messages(40), target: Some(Limits::messages(20)), ..Policy::unlimited() };
    let settings = Settings::default().policy(policy);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, settings, length) = (&store, &settings, &length);
            scope.spawn(move || {
                for number in (writer..sessions).step_by(WRITERS) {
                    let name = format!("s/{number}");
                    let mut state = number as u64;
                    block_on(async {
                        let mut session =
                            Session::open(store.clone(), &name, settings.clone()).await.expect("a session");
                        for _ in 0..length(number) {
                            session.push(Message::user(words(&mut state))).await.expect("a push");
                            session.window().await.expect("a window");
                        }
                    });
                }
            });
        }
    });
    let took = begun.elapsed();
    let messages: usize = (0..sessions).map(&length).sum();
    let verified = block_on(verify(&*store, |_| {})).expect("a store that can be read");
    assert!(verified.faults.is_empty());
    drop(store);
    let (messages, entries) = (messages as f64, verified.records as f64);
    Measured { messages, entries, bytes: (bytes() - empty) as f64, push: took.as_secs_f64() * 1e6 / messages }
}

/// Returns a text of about 600 bytes. Some of its words are rare, and some are in every text.
fn words(state: &mut u64) -> String {
    let word = |state: &mut u64| {
        let rank = 1.0 / ((random(state) % 100_000 + 1) as f64 / 100_000.0);
        format!("word{}", rank as u64)
    };
    (0..90).map(|_| word(state)).collect::<Vec<_>>().join(" ")
}

/// Returns the bytes that the files of a folder take on the disk.
fn size(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            let metadata = entry.metadata().expect("a file");
            metadata.blocks() * 512 + if metadata.is_dir() { size(&entry.path()) } else { 0 }
        })
        .sum()
}
