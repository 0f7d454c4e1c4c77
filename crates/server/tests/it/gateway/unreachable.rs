//! An upstream or a store that cannot be reached: the log has the cause, even if a timeout came first.

use std::ops::Range;
use std::sync::Mutex;

use lookback_engine::transcript::Millis;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, StoreFuture, Tombstone};
use lookback_store::{LogName, StoreError};

use super::*;
use crate::deaf::{Deaf, closed};
use lookback_server::gateway::Event;

/// Makes a call through a gateway with this configuration. Returns the answer, and the failures in the log.
fn call(config: &str, store: impl Store + 'static) -> (Answer, String) {
    let (stand_in, upstream) = StandIn::start();
    let (store, told): (Arc<dyn Store>, _) = (Arc::new(store), Arc::new(Mutex::new(String::new())));
    let log = told.clone();
    let config = Config::from_toml(&config.replace("UPSTREAM", &upstream)).unwrap();
    let gateway = Gateway::new(store.clone()).with_config(config).with_log(move |event| {
        if matches!(event, Event::Failure { .. }) {
            *log.lock().unwrap() += &format!("{event}\n");
        }
    });
    let lab = Lab { stand_in, stand_in_address: upstream, store, base: serve(gateway) };
    let answer = Client::new(Dialect::OpenAiChat).say(&lab, "Hi");
    let told = told.lock().unwrap().clone();
    (answer, told)
}

/// Returns the log's cause for a failed call to an upstream at this address.
fn unanswered(url: &str, timeouts: &str) -> String {
    let config = format!("[[upstream]]\nurl = \"{url}\"\n[timeouts]\n{timeouts}\n");
    let (answer, told) = call(&config, MemoryStore::new());
    assert_eq!(answer.status, 502, "{}", answer.body);
    let (_, why) = told.split_once("the upstream cannot be reached: ").unwrap_or_else(|| panic!("{told:?}"));
    why.to_owned()
}

#[test]
fn a_certificate_of_an_upstream_that_is_not_accepted_is_told() {
    let server = Deaf::untrusted(0, b"");
    let why = unanswered(&format!("https://localhost:{}", server.port), "");
    assert!(why.contains("invalid peer certificate"), "{why}");
    assert_eq!(server.tried(), 1);
}

#[test]
fn an_upstream_that_refuses_connections_is_told() {
    for scheme in ["http", "https"] {
        let why = unanswered(&format!("{scheme}://127.0.0.1:{}", closed()), "");
        assert!(why.contains("Connection refused"), "{why}");
    }
}

#[test]
fn an_upstream_that_closes_connections_at_once_is_told() {
    for scheme in ["http", "https"] {
        let why = unanswered(&format!("{scheme}://127.0.0.1:{}", Deaf::closing().port), "");
        assert!(!why.trim().is_empty() && !why.contains("within"), "{why}");
    }
}

#[test]
fn an_upstream_that_does_not_get_through_a_handshake_is_told_from_one_that_thinks_for_long() {
    let silent = format!("https://127.0.0.1:{}", Deaf::silent_after(0).port);
    for timeouts in ["connect = 1", "answer = 1"] {
        let why = unanswered(&silent, timeouts);
        assert!(why.contains("no connection within 1s"), "{timeouts}: {why}");
    }
}

#[test]
fn why_a_store_cannot_be_reached_is_told_when_time_is_up() {
    let (answer, told) = call("[[upstream]]\nurl = \"UPSTREAM\"\n[timeouts]\nstore = 1\n", Silent);
    assert_eq!((answer.status, answer.header("x-lookback-passed")), (200, Some("the store failed")), "{}", answer.body);
    assert!(told.contains("the store did not answer in time: "), "{told}");
    assert!(told.contains("the connection was refused"), "{told}");
}

/// A store that never answers, and that knows the cause.
#[derive(Debug)]
struct Silent;

fn never<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(std::future::pending())
}

impl Store for Silent {
    fn append<'a>(&'a self, _: &'a LogName, _: Append) -> StoreFuture<'a, ()> {
        never()
    }
    fn touch<'a>(&'a self, _: &'a LogName, _: Millis) -> StoreFuture<'a, bool> {
        never()
    }
    fn read<'a>(&'a self, _: &'a LogName, _: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        never()
    }
    fn head<'a>(&'a self, _: &'a LogName, _: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        never()
    }
    fn info<'a>(&'a self, _: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        never()
    }
    fn list<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        never()
    }
    fn delete<'a>(&'a self, _: &'a [LogName]) -> StoreFuture<'a, u64> {
        never()
    }
    fn erase<'a>(&'a self, _: &'a LogName, _: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        never()
    }
    fn clear(&self) -> StoreFuture<'_, u64> {
        never()
    }
    fn search<'a>(&'a self, _: Option<&'a LogName>, _: &'a Query, _: usize) -> StoreFuture<'a, Vec<Hit>> {
        never()
    }
    fn last_error(&self) -> Option<StoreError> {
        Some(StoreError::Unreachable { place: "elsewhere".into(), source: "the connection was refused".into() })
    }
}
