//! Several servers that act as one: a cluster, and a primary with replicas under Sentinel.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_redis::RedisStore;
use lookback_store::{Append, Record, conformance};
use lookback_store::{Store, StoreError};

use super::connect;
use super::server::{Server, cli};
use crate::backend::{Backend, LONGEST, name};
use crate::process::{Process, free_port, wait_for};

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Waits until a condition holds.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONGEST, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn cluster() -> Vec<Server> {
    let settings: Vec<&str> = DURABLE.into_iter().chain(["--cluster-enabled", "yes"]).collect();
    // The second port of a node is 10,000 higher.
    let nodes: Vec<Server> = (0..3).map(|_| Server::with(&settings)).collect();
    let hosts: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let hosts = hosts.iter().map(String::as_str);
    let create: Vec<&str> = ["--cluster", "create"].into_iter().chain(hosts).chain(["--cluster-yes"]).collect();
    nodes[0].cli(&create);
    for node in &nodes {
        wait_until("the cluster begins", || node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    }
    nodes
}

#[test]
fn a_store_in_a_cluster_conforms() {
    let nodes = cluster();
    let hosts: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    block_on(conformance::conforms(connect(&format!("redis://{}/?prefix=a", hosts.join(",")))));
    // The address of one node is enough to find the others.
    let url = format!("redis://{}", hosts[0]);
    let stores: Vec<Arc<dyn Store>> = (0..4).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 10);
    let store = connect(&url);
    block_on(async {
        for n in 0..300 {
            let log = name(&format!("chat-{n}"));
            store.append(&log, Append::new(0, [Record::new("{}").text("apple")])).await.unwrap();
        }
        assert_eq!(store.list("chat-").await.unwrap().len(), 300);
        let query = lookback_store::search::Query::new("apple");
        assert_eq!(store.search(None, &query, 1_000).await.unwrap().len(), 300);
    });
    for node in &nodes {
        assert!(node.cli(&["DBSIZE"]).parse::<u64>().unwrap() > 50, "each node has a part");
    }
    let have_it = || nodes.iter().filter(|node| node.files().windows(5).any(|bytes| bytes == b"apple")).count();
    assert_eq!(have_it(), 3);
    block_on(async {
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        store.clear().await.unwrap();
        assert_eq!(store.list("").await.unwrap(), []);
        store.vacuum().await.unwrap();
    });
    assert_eq!(have_it(), 0);
}

#[test]
fn a_node_that_is_killed_and_starts_again_loses_nothing() {
    let nodes = cluster();
    let url = format!("redis://127.0.0.1:{}", nodes[1].port);
    let store = block_on(RedisStore::connect_with(&url, LONGEST)).unwrap();
    let logs: Vec<_> = (0..6).map(|n| name(&format!("chat-{n}"))).collect();
    let mut at = 0;
    for node in &nodes {
        for _ in 0..10 {
            for log in &logs {
                block_on(store.append(log, Append::new(at, [Record::new(format!("{{\"n\":{at}}}"))]))).unwrap();
            }
            at += 1;
        }
        node.signal("KILL");
        node.stop();
        node.start();
    }
    for log in &logs {
        let bodies = block_on(store.read(log, 0..u64::MAX)).unwrap();
        assert_eq!(bodies, (0..at).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>());
    }
}

#[test]
fn a_replica_that_is_promoted_has_what_was_waited_for() {
    let primary = Server::new();
    let port = primary.port.to_string();
    let settings: Vec<&str> = DURABLE.into_iter().chain(["--replicaof", "127.0.0.1", &port]).collect();
    let replicas = [Server::with(&settings), Server::with(&settings)];
    for replica in &replicas {
        wait_until("a replica follows", || replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    }
    let (folder, sentinel) = (tempfile::tempdir().unwrap(), free_port());
    let path = folder.path().join("sentinel.conf");
    let settings = format!(
        "port {sentinel}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {port} 1\n\
         sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 5000\n",
        folder.path().display()
    );
    fs::write(&path, settings).unwrap();
    let path = path.display().to_string();
    let _sentinel = Process::start(&["redis-server", &path, "--sentinel"], &folder.path().join("log"));
    wait_for(sentinel);
    wait_until("Sentinel knows the replicas", || {
        cli(sentinel, &["SENTINEL", "replicas", "main"]).matches("slave-priority").count() == 2
    });

    let url = format!("redis://127.0.0.1:{sentinel}?sentinel=main&wait=1");
    let store = block_on(RedisStore::connect_with(&url, LONGEST)).unwrap();
    let log = name("chat");
    let record = |n: u64| vec![Record::new(format!("{{\"n\":{n}}}"))];
    for n in 0..50 {
        block_on(store.append(&log, Append::new(n, record(n)))).unwrap();
    }
    primary.signal("KILL");
    for n in 50..100 {
        block_on(store.append(&log, Append::new(n, record(n)))).unwrap();
    }
    let bodies = block_on(store.read(&log, 0..u64::MAX)).unwrap();
    assert_eq!(bodies, (0..100).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>());

    let unknown = format!("redis://127.0.0.1:{sentinel}?sentinel=other");
    let refused = block_on(RedisStore::connect_with(&unknown, LONGEST)).unwrap_err();
    assert!(matches!(refused, StoreError::Missing { .. }), "{refused:?}");
}

#[test]
fn an_append_that_no_replica_has_is_not_done_and_is_recognized_later() {
    let primary = Server::new();
    let port = primary.port.to_string();
    let url = format!("{}&wait=1", primary.url());
    let store = block_on(RedisStore::connect_with(&url, Duration::from_secs(3))).unwrap();
    let log = name("chat");
    let append = Append::new(0, [Record::new("{}")]);
    let late = block_on(store.append(&log, append.clone())).unwrap_err();
    assert!(late.is_unclear(), "{late:?}");
    let settings: Vec<&str> = DURABLE.into_iter().chain(["--replicaof", "127.0.0.1", &port]).collect();
    let replica = Server::with(&settings);
    wait_until("a replica follows", || replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    // On a busy machine, the replica may take longer than this store waits.
    wait_until("the replica has it", || match block_on(store.append(&log, append.clone())) {
        Ok(()) => true,
        Err(error) => {
            assert!(error.is_unclear(), "{error:?}");
            false
        }
    });
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 1);
    let keys = replica.cli(&["--scan"]);
    let keys: BTreeSet<&str> = keys.lines().filter(|key| key.contains("{|chat}")).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
}
