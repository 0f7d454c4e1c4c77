//! The store in PostgreSQL.

mod refused;
pub(crate) mod server;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_postgres::PostgresStore;
use lookback_store::{Append, Record, conformance};
use lookback_store::{Store, StoreError};

use self::server::{Server, as_user, folder};
use crate::backend::{Backend, LONGEST, name};
use crate::faults::faults;
use crate::process::{Process, free_port, wait_for};

faults!(Server);

fn connect(url: &str) -> PostgresStore {
    block_on(PostgresStore::connect(url)).unwrap()
}

#[test]
fn a_store_in_postgres_conforms() {
    block_on(conformance::conforms(connect(&Server::shared().database())));
    let prepared = format!("{}?prepare=yes", Server::shared().database());
    block_on(conformance::conforms(connect(&prepared)));
    let stores: Vec<Arc<dyn Store>> = (0..4).map(|_| Arc::new(connect(&prepared)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 25);
}

#[test]
fn a_store_in_partitions_conforms() {
    let url = format!("{}?partitions=4&schema=parts", Server::shared().database());
    block_on(conformance::conforms(connect(&url)));
}

#[test]
fn writers_of_several_processes_lose_and_double_nothing() {
    let url = Server::shared().database();
    let stores: Vec<Arc<dyn Store>> = (0..8).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 25);
}

#[test]
fn a_database_that_isolates_transactions_wholly_refuses_some_and_they_are_tried_again() {
    let (server, url) = (Server::shared(), Server::shared().database());
    let database = url.rsplit('/').next().unwrap();
    server.sql("postgres", &format!("ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'"));
    block_on(conformance::conforms(connect(&url)));
    let stores: Vec<Arc<dyn Store>> = (0..8).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 25);
    // The server counts after a while.
    let refused = format!("SELECT xact_rollback > 10 FROM pg_stat_database WHERE datname = '{database}'");
    let begun = Instant::now();
    while server.sql("postgres", &refused) != "t" {
        assert!(begun.elapsed() < LONGEST, "nothing was refused");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn many_that_start_at_once_create_the_tables_once() {
    let url = Server::shared().database();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| connect(&url));
        }
    });
    assert_eq!(Server::shared().sql(&url, "SELECT version FROM lookback.version"), "1");
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
                match block_on(store.append(&log, Append::new(at, [Record::new("{}").text("x")]))) {
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
fn a_deadlock_is_tried_again() {
    let server = Server::shared();
    let url = server.database();
    let store = connect(&url);
    let logs = [name("a"), name("b")];
    let database = url.rsplit('/').next().unwrap();
    let deadlocks = format!("SELECT coalesce(sum(deadlocks), 0) FROM pg_stat_database WHERE datname = '{database}'");
    let begun = Instant::now();
    // On a busy machine, the other client may be late. Then there is no deadlock, and the test tries once more.
    while server.sql("postgres", &deadlocks) == "0" {
        assert!(begun.elapsed() < LONGEST, "there was no deadlock");
        for log in &logs {
            block_on(store.append(log, Append::new(0, [Record::new("{}")]))).unwrap();
        }
        // Another client locks the second log, and then the first one, which the erasure has locked meanwhile.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let lock = |log: &str| format!("SELECT 1 FROM lookback.logs WHERE name = '{log}' FOR UPDATE;");
                // The server may end this one to resolve the deadlock.
                server.try_sql(&url, &format!("BEGIN; {} SELECT pg_sleep(0.7); {} COMMIT;", lock("b"), lock("a")))
            });
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(block_on(store.delete(&logs)).unwrap(), 2);
            let _ = other.join().unwrap();
        });
        assert_eq!(block_on(store.list("")).unwrap(), []);
        // The server counts after a while.
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The message of a server that ends at once. It may come where a client waits for another one.
const ENDS: &[u8] = b"N\0\0\0\x2dSWARNING\0C57P02\0Mterminating connection\0\0";

#[test]
fn a_server_that_ends_while_a_connection_begins_is_tried_again() {
    let server = Server::shared();
    let url = server.database();
    let direct = connect(&url);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ends, to) = (Arc::new(AtomicUsize::new(3)), server.port);
    let left = ends.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
                // The server has no TLS, and ends when the client sends its user name.
                client.read_exact(&mut [0; 8]).unwrap();
                client.write_all(b"N").unwrap();
                let _ = client.read(&mut [0; 1024]).unwrap();
                client.write_all(ENDS).unwrap();
                continue;
            }
            let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let (mut answers, mut asker) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut asker));
            std::thread::spawn(move || std::io::copy(&mut client, &mut server));
        }
    });
    let store = connect(&server.by_way_of(&url, port));
    assert_eq!(ends.load(Ordering::SeqCst), 0);
    let log = name("begun");
    block_on(store.append(&log, Append::new(0, [Record::new("{}")]))).unwrap();
    assert_eq!(crate::backend::length(&direct, &log), 1);
}

#[test]
fn many_writers_of_a_server_that_restarts_lose_and_double_nothing() {
    let server = Server::new();
    let url = server.database();
    let connect = |_| block_on(PostgresStore::connect_with(&url, Duration::from_secs(60))).unwrap();
    let stores: Vec<PostgresStore> = (0..4).map(connect).collect();
    let (done, appended) = (AtomicBool::new(false), AtomicUsize::new(0));
    let go_on = || {
        let (begun, before) = (Instant::now(), appended.load(Ordering::SeqCst));
        while appended.load(Ordering::SeqCst) < before + 50 {
            assert!(begun.elapsed() < Duration::from_secs(120), "nobody writes");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let write = |number: usize| {
        let (store, log) = (&stores[number % stores.len()], name(&format!("log-{number}")));
        let mut at = 0;
        while !done.load(Ordering::SeqCst) {
            let record = Record::new(format!("{{\"n\":{at}}}")).text("apple");
            block_on(store.append(&log, Append::new(at, [record]))).unwrap();
            block_on(store.read(&log, at..at + 1)).unwrap();
            appended.fetch_add(1, Ordering::SeqCst);
            at += 1;
        }
        at
    };
    let written: Vec<u64> = std::thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..16).map(|number| scope.spawn(move || write(number))).collect();
        // The server and its child processes cancel their queries, or end at once.
        for signal in ["INT", "TERM", "QUIT"] {
            go_on();
            server.signal(signal);
            server.stop();
            server.start();
        }
        go_on();
        done.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for (number, written) in written.into_iter().enumerate() {
        let log = name(&format!("log-{number}"));
        let bodies = block_on(stores[0].read(&log, 0..u64::MAX)).unwrap();
        let expected: Vec<String> = (0..written).map(|at| format!("{{\"n\":{at}}}")).collect();
        assert!(bodies == expected, "{number}: {} of {written}", bodies.len());
    }
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
    // With this kind of authentication, PgBouncer takes the users from the database settings.
    let settings = settings.replace("\n[pgbouncer]", " user=me\n[pgbouncer]");
    let path = folder.path().join("pgbouncer.ini");
    std::fs::write(&path, settings).unwrap();
    let command = as_user(&["/usr/sbin/pgbouncer".to_owned(), path.display().to_string()]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let _pooler = Process::start(&command, &folder.path().join("log"));
    wait_for(port);
    let url = server.by_way_of(&server.database(), port);
    block_on(conformance::conforms(connect(&url)));
    let stores: Vec<Arc<dyn Store>> = (0..6).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 10);
}
