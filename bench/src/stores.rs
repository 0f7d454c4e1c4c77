//! Measures appends in each store, compared with raw inserts, their written bytes, and the opening of a long log.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_location::Location;
use lookback_store::{Append, Record};
use lookback_store::{LogName, Store};

use crate::search::Words;
use crate::{median, postgres, redis, time};

/// The number of timed appends.
const APPENDS: usize = 300;
/// The bytes of a message.
const MESSAGE: usize = 1_000;
/// The lengths of two logs, and the number of entries since their newest checkpoint.
const LENGTHS: [u64; 2] = [1_000, 1_000_000];
const SINCE: u64 = 50;
const OPENINGS: usize = 60;

/// The operations of an engine without Lookback: one insert of a body, and the number of bytes written so far.
struct Floor {
    insert: Box<dyn FnMut(&str)>,
    written: Box<dyn FnMut() -> u64>,
}

pub fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (postgres, redis) = (postgres::Server::new(), redis::Server::new());
    let (database, prepared) = (postgres.database(), postgres.database());
    let kinds: Vec<(&str, String, Floor)> = vec![
        ("SQLite", format!("sqlite:{}", path("s.db").display()), sqlite(&path("raw.db"))),
        ("files", format!("files:{}", path("files").display()), file(&path("raw.jsonl"))),
        ("PostgreSQL", database.clone(), postgres_floor(&database)),
        ("  prepared", format!("{prepared}?prepare=yes"), postgres_floor(&prepared)),
        ("Redis", redis.url(), redis_floor(redis.port)),
    ];
    println!("A durable append of one message of {MESSAGE} bytes, compared with one raw insert in the same engine\n");
    println!(
        "{:<12} {:>12} {:>12} {:>8} {:>16} {:>8} {:>24} {:>18}",
        "store",
        "append, us",
        "insert, us",
        "ratio",
        "not found, us",
        "ratio",
        "bytes at 1,000 entries",
        "bytes at 100,000"
    );
    let (mut openings, mut words) = (Vec::new(), Words::new());
    for (kind, url, mut floor) in kinds {
        let store = Location::parse(&url).and_then(|location| location.open()).expect("a store");
        let log: LogName = "chat".parse().expect("a name");
        let mut at = fill(&store, &log, 0, 1_000);
        let (mut appends, mut unfound, mut inserts) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = Vec::new();
        for length in [1_000, 100_000] {
            at = fill(&store, &log, at, length);
            let (mut own, before) = (0, (floor.written)());
            for _ in 0..APPENDS {
                let record = message(&mut words);
                own += record.body.len() as u64;
                let took =
                    time(|| block_on(store.append(&log, Append::new(at, [record]).time(Some(1)))).expect("an append"));
                appends.push(took.as_secs_f64() * 1e6);
                at += 1;
            }
            bytes.push(((floor.written)() - before) as f64 / own as f64);
            for _ in 0..APPENDS {
                // No search finds this record, so the difference is the cost of the index.
                let record = Record::new(message(&mut words).body);
                let took =
                    time(|| block_on(store.append(&log, Append::new(at, [record]).time(Some(1)))).expect("an append"));
                unfound.push(took.as_secs_f64() * 1e6);
                at += 1;
                let body = message(&mut words).body;
                inserts.push(time(|| (floor.insert)(&body)).as_secs_f64() * 1e6);
            }
        }
        let (append, unfound, insert) = (median(appends), median(unfound), median(inserts));
        println!(
            "{kind:<12} {append:>12.0} {insert:>12.0} {:>8.2} {unfound:>16.0} {:>8.2} {:>18.1} times {:>12.1} times",
            append / insert,
            unfound / insert,
            bytes[0],
            bytes[1]
        );
        openings.push((kind, open(&store)));
    }
    println!("\nOpening a log with {SINCE} entries since its newest checkpoint\n");
    println!("{:<12} {:>18} {:>18} {:>8}", "store", "of 1,000, us", "of 1,000,000, us", "ratio");
    for (kind, [short, long]) in openings {
        println!("{kind:<12} {short:>18.0} {long:>18.0} {:>8.2}", long / short);
    }
}

/// Returns a message with words that are as frequent as those of a language.
fn message(words: &mut Words) -> Record {
    let mut text = words.text(MESSAGE / 5, MESSAGE / 5 + 1);
    text.truncate(MESSAGE - 60);
    Record::new(format!("{{\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}")).text(text).role("user")
}

/// Appends short records without texts until a log has this length. The record at `SINCE` before the end is a
/// checkpoint.
fn fill(store: &Arc<dyn Store>, log: &LogName, from: u64, length: u64) -> u64 {
    let mut at = from;
    while at < length {
        let end = length.min(at + 5_000);
        let record = |at: u64| Record::new(format!("{{\"n\":{at}}}")).checkpoint(at + SINCE == length);
        block_on(store.append(log, Append::new(at, (at..end).map(record)).time(Some(1)))).expect("an append");
        at = end;
    }
    at
}

/// Returns the times of opening a short and a long log, in microseconds.
fn open(store: &Arc<dyn Store>) -> [f64; 2] {
    let logs = LENGTHS.map(|length| {
        let log: LogName = format!("long-{length}").parse().expect("a name");
        fill(store, &log, 0, length);
        log
    });
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..OPENINGS {
        for (log, times) in logs.iter().zip(&mut times) {
            let took = time(|| assert!(block_on(store.tail(log)).expect("a log").is_some()));
            times.push(took.as_secs_f64() * 1e6);
        }
    }
    times.map(median)
}

/// Returns the bytes that this process has written so far.
fn written_here() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

fn sqlite(path: &Path) -> Floor {
    let raw = rusqlite::Connection::open(path).expect("a file");
    let made = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE raw (id INTEGER PRIMARY KEY, body TEXT)";
    raw.execute_batch(made).expect("a table");
    let insert = move |body: &str| {
        let mut insert = raw.prepare_cached("INSERT INTO raw (body) VALUES (?1)").expect("a statement");
        insert.execute([body]).expect("an insert");
    };
    Floor { insert: Box::new(insert), written: Box::new(written_here) }
}

fn file(path: &Path) -> Floor {
    let mut raw: File = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    let insert = move |body: &str| {
        raw.write_all(format!("{body}\n").as_bytes()).expect("an append");
        raw.sync_data().expect("a disk");
    };
    Floor { insert: Box::new(insert), written: Box::new(written_here) }
}

fn postgres_floor(url: &str) -> Floor {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let connected = runtime.block_on(tokio_postgres::connect(url, tokio_postgres::NoTls));
    let (client, connection) = connected.expect("a connection");
    runtime.spawn(connection);
    let made = "CREATE TABLE raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)";
    runtime.block_on(client.batch_execute(made)).expect("a table");
    let insert = runtime.block_on(client.prepare("INSERT INTO raw (body) VALUES ($1)")).expect("a statement");
    let (runtime, client) = (Arc::new(runtime), Arc::new(client));
    let (its_runtime, its_client) = (runtime.clone(), client.clone());
    let written = move || {
        let asked = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        let row = its_runtime.block_on(its_client.query_one(asked, &[])).expect("a number");
        u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)
    };
    let insert = move |body: &str| {
        let done = runtime.block_on(client.execute(&insert, &[&body.as_bytes()]));
        done.expect("an insert");
    };
    Floor { insert: Box::new(insert), written: Box::new(written) }
}

fn redis_floor(port: u16) -> Floor {
    let connect = || {
        let client = ::redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("a URL");
        client.get_connection().expect("a connection")
    };
    let (mut raw, mut asked) = (connect(), connect());
    let insert = move |body: &str| {
        ::redis::cmd("RPUSH").arg("raw").arg(body).exec(&mut raw).expect("an insert");
    };
    let written = move || {
        let info: String = ::redis::cmd("INFO").arg("persistence").query(&mut asked).expect("an answer");
        info.lines().find_map(|line| line.strip_prefix("aof_current_size:")?.parse().ok()).unwrap_or(0)
    };
    Floor { insert: Box::new(insert), written: Box::new(written) }
}
