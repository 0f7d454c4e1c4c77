//! What a network and a server can do to an append: nothing that was acknowledged is lost, and nothing is there twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback::store::{Record, conformance};
use lookback::{LogName, PostgresStore, Store, StoreError};

use crate::connect;
use crate::proxy::{Cut, Proxy};
use crate::server::{Process, Server, folder, free_port, wait_for};

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn records(text: &str) -> Vec<Record> {
    vec![Record::new(format!("{{\"said\":\"{text}\"}}")).text(text)]
}

fn length(store: &PostgresStore, log: &LogName) -> u64 {
    block_on(store.head(log, None)).unwrap().map_or(0, |head| head.end)
}

/// The URL of a database by way of another port.
fn by_way_of(url: &str, port: u16) -> String {
    let (before, database) = url.rsplit_once('/').unwrap();
    let (user, _) = before.rsplit_once(':').unwrap();
    format!("{user}:{port}/{database}")
}

#[test]
fn an_append_whose_connection_is_cut_is_done_once() {
    let server = Server::shared();
    let proxy = Proxy::to(server.port);
    let url = server.database();
    let (store, direct) = (connect(&by_way_of(&url, proxy.port)), connect(&url));
    let log = name("cut");
    let mut at = 0;
    for round in 0..30 {
        for cut in [Cut::Request, Cut::Midway, Cut::Answer] {
            proxy.cut(cut);
            block_on(store.append(&log, at, records(&format!("{round} {cut:?}")), None)).unwrap();
            assert!(proxy.has_cut());
            at += 1;
            assert_eq!(length(&direct, &log), at, "{round} {cut:?}");
        }
    }
    let bodies = block_on(direct.read(&log, 0..u64::MAX)).unwrap();
    let mut distinct = bodies.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), bodies.len());
}

#[test]
fn an_append_whose_answer_was_late_is_recognized_when_it_is_made_again() {
    let server = Server::shared();
    let proxy = Proxy::to(server.port);
    let url = server.database();
    let store =
        block_on(PostgresStore::connect_with(&by_way_of(&url, proxy.port), Duration::from_millis(300))).unwrap();
    let direct = connect(&url);
    let log = name("late");
    block_on(store.append(&log, 0, records("zero"), None)).unwrap();
    proxy.delay(700);
    let late = block_on(store.append(&log, 1, records("one"), None)).unwrap_err();
    assert!(matches!(late, StoreError::Late { .. }), "{late:?}");
    proxy.delay(0);
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(length(&direct, &log), 2, "it was written");
    block_on(store.append(&log, 1, records("one"), None)).unwrap();
    assert_eq!(length(&direct, &log), 2);
    // Another one at its place is not taken for it.
    let refused = block_on(store.append(&log, 1, records("one"), None)).unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { at: 1, end: 2 }), "{refused:?}");
}

#[test]
fn a_server_that_restarts_holds_a_store_up_and_loses_nothing() {
    let server = Server::new();
    let url = server.database();
    let store = Arc::new(block_on(PostgresStore::connect_with(&url, Duration::from_secs(20))).unwrap());
    let log = name("restarted");
    let done = AtomicBool::new(false);
    let mut written = 0;
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut at = 0;
            while !done.load(Ordering::SeqCst) {
                block_on(store.append(&log, at, records(&format!("n{at}")), None)).unwrap();
                at += 1;
            }
            at
        });
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            server.stop();
            server.start();
        }
        std::thread::sleep(Duration::from_millis(300));
        done.store(true, Ordering::SeqCst);
        written = writing.join().unwrap();
    });
    let bodies = block_on(store.read(&log, 0..u64::MAX)).unwrap();
    let expected: Vec<String> = (0..written).map(|at| records(&format!("n{at}"))[0].body.clone()).collect();
    assert!(written > 10 && bodies == expected);
}

#[test]
fn a_server_that_is_killed_has_all_that_it_acknowledged() {
    let server = Server::new();
    let url = server.database();
    let store = block_on(PostgresStore::connect_with(&url, Duration::from_secs(20))).unwrap();
    let log = name("killed");
    let mut at = 0;
    for round in 0..5 {
        for _ in 0..20 {
            block_on(store.append(&log, at, records(&format!("n{at}")), None)).unwrap();
            at += 1;
        }
        server.signal("KILL");
        server.stop();
        server.start();
        assert_eq!(length(&store, &log), at, "round {round}");
    }
    assert_eq!(block_on(store.read(&log, 0..u64::MAX)).unwrap().len() as u64, at);
}

#[test]
fn a_server_that_hangs_is_waited_for_and_no_longer() {
    let server = Server::new();
    let url = server.database();
    let store = block_on(PostgresStore::connect_with(&url, Duration::from_secs(1))).unwrap();
    let log = name("hung");
    block_on(store.append(&log, 0, records("zero"), None)).unwrap();
    server.signal("STOP");
    let begun = Instant::now();
    for refused in [
        block_on(store.append(&log, 1, records("one"), None)),
        block_on(store.read(&log, 0..9)).map(|_| ()),
        block_on(store.list("")).map(|_| ()),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::Late { .. } | StoreError::Unreachable { .. }), "{refused:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    server.signal("CONT");
    // It goes on by itself, and the append is there once, whether it was written or not.
    block_on(store.append(&log, 1, records("one"), None)).unwrap();
    assert_eq!(length(&store, &log), 2);
}

#[test]
fn a_log_that_is_erased_while_others_append_leaves_no_records_behind() {
    let server = Server::shared();
    let url = server.database();
    let (store, eraser) = (connect(&url), connect(&url));
    let log = name("erased");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 0;
            for _ in 0..300 {
                match block_on(store.append(&log, at, records("x"), None)) {
                    Ok(()) => at += 1,
                    Err(StoreError::Conflict { end, .. }) => at = end,
                    Err(StoreError::Locked { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        for _ in 0..100 {
            block_on(eraser.delete(std::slice::from_ref(&log))).unwrap();
        }
    });
    block_on(eraser.clear()).unwrap();
    let left = "SELECT (SELECT count(*) FROM lookback.entries) + (SELECT count(*) FROM lookback.texts)";
    assert_eq!(server.sql(&url, left), "0");
}

#[test]
fn a_pooler_in_transaction_mode_changes_nothing() {
    let server = Server::shared();
    let (folder, port) = (folder(), free_port());
    let settings = format!(
        "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         auth_type = any\npool_mode = transaction\nunix_socket_dir =\nmax_client_conn = 100\ndefault_pool_size = 4\n",
        server.port
    );
    // With this kind of authentication, users are those of the databases.
    let settings = settings.replace("\n[pgbouncer]", " user=me\n[pgbouncer]");
    let path = folder.path().join("pgbouncer.ini");
    std::fs::write(&path, settings).unwrap();
    let command = crate::server::as_user(&["/usr/sbin/pgbouncer".to_owned(), path.display().to_string()]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let _pooler = Process::start(&command, &folder.path().join("log"));
    wait_for(port);
    let url = by_way_of(&server.database(), port);
    block_on(conformance::conforms(&connect(&url)));
    let stores: Vec<Arc<dyn Store>> = (0..6).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 10);
}

#[test]
fn a_session_asks_its_server_as_rarely_as_it_can() {
    use lookback::{Limits, Message, Policy, Session, Settings};
    let server = Server::shared();
    let proxy = Proxy::to(server.port);
    let store = Arc::new(connect(&by_way_of(&server.database(), proxy.port)));
    let policy = Policy { limits: Limits::messages(6), target: Some(Limits::messages(3)), ..Policy::unlimited() };
    let settings = || Settings::default().policy(policy.clone());
    let mut session = block_on(Session::open(store.clone(), "chat", settings())).unwrap();
    for n in 0..40 {
        proxy.trips();
        block_on(session.push(Message::user(format!("message {n}")))).unwrap();
        assert_eq!(proxy.trips(), 1, "a push");
        block_on(session.window()).unwrap();
        assert!(proxy.trips() <= 1, "a window that records something");
        block_on(session.window()).unwrap();
        assert_eq!(proxy.trips(), 0, "a window that records nothing");
    }
    drop(session);
    proxy.trips();
    drop(block_on(Session::open(store, "chat", settings())).unwrap());
    let trips = proxy.trips();
    assert!((1..=2).contains(&trips), "opening took {trips} round trips");
}
