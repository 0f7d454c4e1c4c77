//! The store in Redis.

mod refused;
pub(crate) mod server;
mod several;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_facts::Memory;
use lookback_redis::RedisStore;
use lookback_redis::Risk;
use lookback_session::OldContents;
use lookback_session::Session;
use lookback_store::Store;
use lookback_store::{Append, Record, conformance};
use lookback_wire::message::Message;

use self::server::Server;
use crate::backend::{LONGEST, name};
use crate::faults::faults;

faults!(Server);

fn connect(url: &str) -> RedisStore {
    block_on(RedisStore::connect(url)).unwrap()
}

#[test]
fn a_store_in_redis_conforms() {
    block_on(conformance::conforms(connect(&Server::shared().url())));
}

#[test]
fn a_store_whose_sessions_expire_conforms() {
    block_on(conformance::conforms(connect(&format!("{}&ttl=1h", Server::shared().url()))));
}

#[test]
fn writers_of_several_processes_lose_and_double_nothing() {
    let url = Server::shared().url();
    let stores: Vec<Arc<dyn Store>> = (0..8).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 25);
}

#[test]
fn a_session_that_is_not_used_expires_with_its_facts() {
    let store = Arc::new(connect(&format!("{}&ttl=6s", Server::shared().url())));
    block_on(async {
        let mut session = Session::open(store.clone(), "chat", Default::default()).await.unwrap();
        session.push(Message::user("apple")).await.unwrap();
        Memory::open(store.clone(), "chat").await.unwrap().learn("apples are red").await.unwrap();
        assert_eq!(store.list("").await.unwrap().len(), 2);
        // Using the session also keeps its facts from expiring.
        for _ in 0..4 {
            std::thread::sleep(Duration::from_secs(2));
            session.push(Message::user("pear")).await.unwrap();
        }
        assert_eq!(store.list("").await.unwrap().len(), 2);
        let begun = Instant::now();
        while !store.list("").await.unwrap().is_empty() {
            assert!(begun.elapsed() < LONGEST, "nothing expires");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(store.head(&name("chat"), None).await.unwrap(), None);
        store.vacuum().await.unwrap();
        let mut session = Session::open(store.clone(), "chat", Default::default()).await.unwrap();
        session.push(Message::user("plum")).await.unwrap();
        assert_eq!(store.list("").await.unwrap().len(), 1);
    });
}

#[test]
fn an_erasure_of_old_contents_lets_a_session_expire_no_later() {
    let server = Server::shared();
    let url = server.url();
    let store = Arc::new(connect(&format!("{url}&ttl=1h")));
    let prefix = url.split_once("prefix=").unwrap().1;
    let settings = Settings::default().policy(Policy { limits: Limits::messages(2), ..Policy::unlimited() });
    block_on(async {
        let mut session = Session::open(store.clone(), "chat", settings).await.unwrap();
        session.append((0..9).map(|n| Message::user(format!("apple {n}"))).collect::<Vec<_>>()).await.unwrap();
        session.window().await.unwrap();
        let moments = || {
            let keys = ["", ":records", ":checkpoints", ":texts"].map(|of| format!("{prefix}{{|chat}}{of}"));
            keys.map(|key| server.cli(&["PEXPIRETIME", &key]))
        };
        let before = moments();
        std::thread::sleep(Duration::from_millis(20));
        let erased = session.erase(&OldContents::default().before(i64::MAX)).await.unwrap();
        assert_eq!(erased.messages, 7);
        let after = moments();
        assert_eq!([&after[0], &after[1], &after[2], &after[3]], [&before[0]; 4], "{before:?}");
        session.push(Message::user("pear")).await.unwrap();
        assert_ne!(moments()[0], before[0]);
    });
}

#[test]
fn what_is_erased_is_gone_from_the_file_after_a_vacuum() {
    let server = Server::new();
    let store = connect(&server.url());
    let has_it = || server.files().windows(7).any(|bytes| bytes == b"hunter2");
    let log = name("chat");
    block_on(async {
        store.append(&log, Append::new(0, [Record::new("{\"a\":\"hunter2\"}").text("hunter2")])).await.unwrap();
        assert!(has_it());
        store.delete(std::slice::from_ref(&log)).await.unwrap();
        store.vacuum().await.unwrap();
        assert!(!has_it());
    });
    assert_eq!(server.cli(&["DBSIZE"]), "1", "the version");
}

#[test]
fn a_server_that_may_lose_something_is_warned_of() {
    assert_eq!(connect(&Server::shared().url()).risks(), []);
    let server = Server::with(&["--appendonly", "no", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let risks = || connect(&server.url()).risks().to_vec();
    assert_eq!(risks(), [Risk::NotOnDisk, Risk::Evicts("allkeys-lru".to_owned())]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    assert_eq!(risks(), [Risk::SyncedLater("everysec".to_owned())]);
    server.cli(&["ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", "-config"]);
    let url = server.url().replace("redis://", "redis://me:secret@");
    assert_eq!(connect(&url).risks(), [Risk::Unknown]);
}

#[test]
fn what_was_altered_in_the_server_is_named() {
    let server = Server::shared();
    let url = server.url();
    let (store, prefix) = (connect(&url), url.rsplit('=').next().unwrap());
    let log = name("chat");
    let record = |n: u8| Record::new(format!("{{\"n\":{n}}}"));
    block_on(store.append(&log, Append::new(0, (0..4).map(record)))).unwrap();
    let key = &format!("{prefix}{{|chat}}:records");
    let damaged = |at: u64| {
        let error = block_on(store.read(&log, 0..9)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("entry {at} of `chat` cannot be read")), "{error}");
        assert_eq!(block_on(store.read(&log, 0..at)).unwrap().len() as u64, at);
    };
    server.cli(&["RPOP", key]);
    damaged(3);
    server.cli(&["LSET", key, "2", "0123456701234567{\"n\":9}"]);
    damaged(2);
    server.cli(&["LSET", key, "1", "short"]);
    damaged(1);
    let found = block_on(store.check()).unwrap();
    assert!(found.len() == 1 && found[0].contains("`chat`"), "{found:?}");
}

#[test]
fn what_outlived_an_earlier_log_is_not_read_as_the_new_one() {
    let server = Server::shared();
    let url = server.url();
    let (store, prefix) = (connect(&url), url.rsplit('=').next().unwrap());
    let log = name("chat");
    let record = |text: &str| Record::new(format!("{{\"a\":\"{text}\"}}")).text(text);
    block_on(async {
        let old = vec![record("apple").checkpoint(true), record("pear").checkpoint(true)];
        store.append(&log, Append::new(0, old)).await.unwrap();
        // A server whose memory is full does the same.
        server.cli(&["DEL", &format!("{prefix}{{|chat}}")]);
        assert_eq!(store.tail(&log).await.unwrap(), None);
        store.append(&log, Append::new(0, [record("plum")])).await.unwrap();
        let (head, bodies) = store.tail(&log).await.unwrap().unwrap();
        assert_eq!((head.end, head.checkpoint, bodies), (1, None, vec![record("plum").body]));
        let found = store.search(None, &lookback_store::search::Query::new("apple pear"), 9).await.unwrap();
        assert_eq!(found, []);
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_vacuum_forgets_tenants_whose_sessions_have_expired() {
    let store = connect(&format!("{}&ttl=1s", Server::shared().url()));
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    block_on(async {
        tenant.append(&name("chat"), Append::new(0, [Record::new("{}")])).await.unwrap();
        assert_eq!(store.tenants().await.unwrap().len(), 1);
        std::thread::sleep(Duration::from_millis(1_200));
        assert_eq!(tenant.list("").await.unwrap(), []);
        store.vacuum().await.unwrap();
        assert_eq!(store.tenants().await.unwrap(), []);
    });
}
