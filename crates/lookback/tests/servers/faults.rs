//! Appends under faults of the network and the server: none that was acknowledged is lost, and none is written twice.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_session::Session;
use lookback_store::{Append, EncryptedStore, Key, Record, Store, StoreError, conformance};
use lookback_wire::message::Message;

use crate::backend::{Backend, LONGEST, length, name};
use crate::filled::finds_a_broken_record_of_each_kind;
use crate::processes::KILLS;
use crate::proxy::{Cut, Proxy};

/// The time after which a store gives up in some tests, and the delay of the server's answer in these tests, in
/// milliseconds. `SHORT` must suffice for answers that are not delayed, even if other tests keep the machine busy.
const SHORT: Duration = Duration::from_secs(2);
const LONG: u64 = 8_000;

/// Waits until a condition holds.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONGEST, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn records(text: &str) -> Vec<Record> {
    vec![Record::new(format!("{{\"said\":\"{text}\"}}")).text(text)]
}

pub(crate) fn a_broken_record_of_each_kind_of_log_is_found(server: &dyn Backend) {
    let store = server.connect(&server.empty());
    finds_a_broken_record_of_each_kind(&store, "the server");
}

pub(crate) fn an_append_whose_connection_is_cut_is_done_once(server: &dyn Backend) {
    let proxy = Proxy::to(server.port());
    let url = server.empty();
    let (store, direct) = (server.connect(&server.by_way_of(&url, proxy.port)), server.connect(&url));
    let log = name("cut");
    let mut at = 0;
    for round in 0..30 {
        for cut in [Cut::Request, Cut::Midway, Cut::Answer, Cut::MidAnswer] {
            proxy.cut(cut);
            block_on(store.append(&log, Append::new(at, records(&format!("{round} {cut:?}"))))).unwrap();
            assert!(proxy.has_cut());
            at += 1;
            assert_eq!(length(&*direct, &log), at, "{round} {cut:?}");
        }
    }
    let bodies = block_on(direct.read(&log, 0..u64::MAX)).unwrap();
    let mut distinct = bodies.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), bodies.len());
}

pub(crate) fn an_append_that_is_repeated_with_its_key_is_written_once(server: &dyn Backend) {
    block_on(conformance::recognizes_a_repeated_append(&*server.connect(&server.empty())));
}

pub(crate) fn an_append_whose_answer_was_late_is_recognized_when_it_is_made_again(server: &dyn Backend) {
    let proxy = Proxy::to(server.port());
    let url = server.empty();
    let patience = SHORT;
    let store = server.connect_with(&server.by_way_of(&url, proxy.port), patience).unwrap();
    let direct = server.connect(&url);
    let log = name("late");
    block_on(store.append(&log, Append::new(0, records("zero")))).unwrap();
    proxy.delay(LONG);
    let append = Append::new(1, records("one"));
    let late = block_on(store.append(&log, append.clone())).unwrap_err();
    assert!(matches!(late, StoreError::Late { .. }), "{late:?}");
    proxy.delay(0);
    wait_until("it was written", || length(&*direct, &log) == 2);
    block_on(store.append(&log, append.clone())).unwrap();
    // Without records, it only asks. Another store may ask, too.
    block_on(direct.append(&log, Append::new(1, []).key(append.key))).unwrap();
    assert_eq!(length(&*direct, &log), 2);
    // Another append at its position is not mistaken for it, even with the same records.
    let refused = block_on(store.append(&log, Append::new(1, records("one")))).unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { at: 1, end: 2 }), "{refused:?}");
}

pub(crate) fn an_append_with_encrypted_contents_is_recognized_as_well(server: &dyn Backend) {
    let proxy = Proxy::to(server.port());
    let url = server.empty();
    let sealed = |store| EncryptedStore::new(store, Key::new("a", [1; Key::LENGTH]).unwrap(), []).unwrap();
    let patience = SHORT;
    let store = sealed(server.connect_with(&server.by_way_of(&url, proxy.port), patience).unwrap());
    let log = name("late");
    block_on(store.append(&log, Append::new(0, records("zero")))).unwrap();
    proxy.delay(LONG);
    let append = Append::new(1, records("one"));
    assert!(block_on(store.append(&log, append.clone())).unwrap_err().is_unclear());
    proxy.delay(0);
    let direct = sealed(server.connect(&url));
    wait_until("it was written", || length(&direct, &log) == 2);
    block_on(store.append(&log, append)).unwrap();
    let bodies: Vec<String> = ["zero", "one"].iter().map(|text| records(text)[0].body.clone()).collect();
    assert_eq!(block_on(direct.read(&log, 0..9)).unwrap(), bodies);
}

pub(crate) fn a_message_that_is_pushed_again_after_its_answer_was_lost_is_there_once(server: &dyn Backend) {
    let proxy = Proxy::to(server.port());
    let url = server.empty();
    let store = server.connect_with(&server.by_way_of(&url, proxy.port), SHORT).unwrap();
    let mut session = block_on(Session::open(store, "chat", Settings::default())).unwrap();
    let mut push = |text: &str, delay: u64| {
        proxy.delay(delay);
        let pushed = block_on(session.push(Message::user(text)));
        proxy.delay(0);
        // The server had the request for as long as the store waited, so it has been carried out.
        pushed
    };
    assert_eq!(push("zero", 0).unwrap(), [0]);
    assert!(push("one", LONG).is_err());
    assert_eq!(push("one", 0).unwrap(), [1], "again");
    assert_eq!(push("one", 0).unwrap(), [2], "said twice");
    assert!(push("three", LONG).is_err());
    assert_eq!(push("four", 0).unwrap(), [4], "the third is not taken back");
    // The same holds if even the log could not be read.
    assert!(push("five", LONG).is_err());
    assert!(push("six", LONG).is_err());
    assert_eq!(push("six", 0).unwrap(), [6]);
    assert!(push("seven", LONG).is_err());
    assert_eq!(push("eight", 0).unwrap(), [8]);
    assert_eq!(push("seven", 0).unwrap(), [9], "it is said again, and later");
    drop(session);
    let bodies = block_on(server.connect(&url).read(&name("chat"), 0..u64::MAX)).unwrap();
    let expected = ["zero", "one", "one", "three", "four", "five", "six", "seven", "eight", "seven"];
    for (body, said) in bodies.iter().zip(expected) {
        assert!(body.contains(said), "{body}");
    }
    assert_eq!(bodies.len(), expected.len());
}

pub(crate) fn a_server_that_restarts_holds_a_store_up_and_loses_nothing(server: &dyn Backend) {
    let url = server.empty();
    let store = server.connect(&url);
    let log = name("restarted");
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let at = written.load(Ordering::SeqCst);
                block_on(store.append(&log, Append::new(at, records(&format!("n{at}"))))).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
        let write_on = || {
            let before = written.load(Ordering::SeqCst);
            wait_until("it goes on", || written.load(Ordering::SeqCst) >= before + 10 || writing.is_finished());
        };
        for _ in 0..3 {
            write_on();
            server.stop();
            server.start();
        }
        write_on();
        done.store(true, Ordering::SeqCst);
        writing.join().unwrap();
    });
    let written = written.load(Ordering::SeqCst);
    let bodies = block_on(store.read(&log, 0..u64::MAX)).unwrap();
    let expected: Vec<String> = (0..written).map(|at| records(&format!("n{at}"))[0].body.clone()).collect();
    assert!(written > 10 && bodies == expected);
}

/// Kills the server five times while a store writes, or as often as the variable with the name [`KILLS`] says.
pub(crate) fn a_server_that_is_killed_has_all_that_it_acknowledged(server: &dyn Backend) {
    let kills: u64 = std::env::var(KILLS).map_or(5, |kills| kills.parse().unwrap());
    let url = server.empty();
    let store = server.connect(&url);
    let log = name("killed");
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let at = written.load(Ordering::SeqCst);
                block_on(store.append(&log, Append::new(at, records(&format!("n{at}"))))).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut random = 7_u64;
        for _ in 0..kills {
            let before = written.load(Ordering::SeqCst);
            wait_until("it goes on", || written.load(Ordering::SeqCst) >= before + 3 || writing.is_finished());
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((random >> 33) % 30_000));
            server.signal("KILL");
            server.stop();
            server.start();
        }
        done.store(true, Ordering::SeqCst);
        writing.join().unwrap();
    });
    let written = written.load(Ordering::SeqCst);
    let bodies = block_on(store.read(&log, 0..u64::MAX)).unwrap();
    let expected: Vec<String> = (0..written).map(|at| records(&format!("n{at}"))[0].body.clone()).collect();
    assert!(bodies == expected, "{} of {written}", bodies.len());
    println!("{kills} kills, {written} appends");
}

pub(crate) fn a_server_that_is_paused_for_ten_seconds_is_waited_for(server: &dyn Backend) {
    let url = server.empty();
    let store = server.connect(&url);
    let log = name("paused");
    block_on(store.append(&log, Append::new(0, records("zero")))).unwrap();
    server.signal("STOP");
    std::thread::scope(|scope| {
        let append = scope.spawn(|| block_on(store.append(&log, Append::new(1, records("one")))));
        std::thread::sleep(Duration::from_secs(10));
        assert!(!append.is_finished());
        server.signal("CONT");
        append.join().unwrap().unwrap();
    });
    assert_eq!(length(&*store, &log), 2);
}

pub(crate) fn a_server_that_hangs_is_waited_for_and_no_longer(server: &dyn Backend) {
    let url = server.empty();
    let store = server.connect_with(&url, Duration::from_secs(3)).unwrap();
    let log = name("hung");
    block_on(store.append(&log, Append::new(0, records("zero")))).unwrap();
    server.signal("STOP");
    let (begun, append) = (Instant::now(), Append::new(1, records("one")));
    for refused in [
        block_on(store.append(&log, append.clone())),
        block_on(store.read(&log, 0..9)).map(|_| ()),
        block_on(store.list("")).map(|_| ()),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::Late { .. } | StoreError::Unreachable { .. }), "{refused:?}");
    }
    assert!(begun.elapsed() < LONGEST);
    server.signal("CONT");
    // The store recovers by itself, and the append is in the log once, whether it was written before or not.
    block_on(store.append(&log, append)).unwrap();
    assert_eq!(length(&*store, &log), 2);
}

pub(crate) fn a_session_asks_its_server_as_rarely_as_it_can(server: &dyn Backend) {
    let proxy = Proxy::to(server.port());
    let store = server.connect(&server.by_way_of(&server.empty(), proxy.port));
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

/// Defines all these tests for one kind of server: those that share a server, and those that stop it.
macro_rules! faults {
    ($server:ident) => {
        faults!($server::shared(), [
            a_broken_record_of_each_kind_of_log_is_found,
            an_append_whose_connection_is_cut_is_done_once,
            an_append_that_is_repeated_with_its_key_is_written_once,
            an_append_whose_answer_was_late_is_recognized_when_it_is_made_again,
            a_message_that_is_pushed_again_after_its_answer_was_lost_is_there_once,
            an_append_with_encrypted_contents_is_recognized_as_well,
            a_session_asks_its_server_as_rarely_as_it_can,
        ]);
        faults!($server::new(), [
            a_server_that_restarts_holds_a_store_up_and_loses_nothing,
            a_server_that_is_killed_has_all_that_it_acknowledged,
            a_server_that_hangs_is_waited_for_and_no_longer,
            a_server_that_is_paused_for_ten_seconds_is_waited_for,
        ]);
    };
    ($made:expr, [$($test:ident,)*]) => {
        $(
            #[test]
            fn $test() {
                let server = $made;
                crate::faults::$test(std::borrow::Borrow::<Server>::borrow(&server));
            }
        )*
    };
}
pub(crate) use faults;
