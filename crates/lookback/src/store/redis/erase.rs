//! Erasing logs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::{FromRedisValue, Value};

use super::connection::Server;
use super::keys::{self, Keys};
use super::read::{self, CHUNK};
use super::scripts::ERASE;
use crate::store::{LogName, Scope, StoreError};

/// How long the server may take to write its file anew, and how often it is asked.
const LONGEST: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(100);

/// Erases logs of a namespace, and returns how many there were.
pub(super) async fn erase(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<u64, StoreError> {
    let logs: Vec<LogName> = logs.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let mut erased = 0;
    for logs in logs.chunks(CHUNK) {
        // Asked for before, because the answer to the deletion may be lost, and then it is made again.
        erased += exist(server, scope, logs).await?.iter().filter(|exists| **exists).count() as u64;
        if server.is_cluster() {
            in_cluster(server, scope, logs).await?;
        } else {
            let mut keys: Vec<String> = logs.iter().flat_map(|log| keys_of(server, scope, log)).collect();
            keys.push(keys::names(&server.prefix, scope));
            let names: Vec<String> = logs.iter().map(LogName::to_string).collect();
            server.run::<u64>(&ERASE, &keys, &names).await?;
        }
    }
    Ok(erased)
}

/// Whether each of these logs exists.
async fn exist(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<Vec<bool>, StoreError> {
    let asked = logs.iter().map(|log| redis::cmd("EXISTS").arg(Keys::of(&server.prefix, scope, log).log).take());
    let exist = server.each(server.patience, asked.collect()).await?;
    Ok(exist.iter().map(|exists| *exists == Value::Int(1)).collect())
}

fn keys_of(server: &Server, scope: &Scope, log: &LogName) -> [String; 4] {
    Keys::of(&server.prefix, scope, log).into_all()
}

/// Erases logs in a cluster: those of one session together.
async fn in_cluster(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<(), StoreError> {
    let mut sessions: BTreeMap<LogName, Vec<String>> = BTreeMap::new();
    for log in logs {
        sessions.entry(log.session()).or_default().extend(keys_of(server, scope, log));
    }
    for keys in sessions.into_values() {
        server.run::<u64>(&ERASE, &keys, &[]).await?;
    }
    forget(server, scope, logs).await
}

/// Takes names out of the list of a namespace, but for logs that were begun again meanwhile.
async fn forget(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<(), StoreError> {
    let names: Vec<&str> = logs.iter().map(LogName::as_str).collect();
    server.ask::<u64>(redis::cmd("ZREM").arg(keys::names(&server.prefix, scope)).arg(names).take()).await?;
    for (log, _) in logs.iter().zip(exist(server, scope, logs).await?).filter(|(_, exists)| *exists) {
        let name = redis::cmd("ZADD").arg(keys::names(&server.prefix, scope)).arg(0).arg(log.as_str()).take();
        server.ask::<u64>(name).await?;
    }
    Ok(())
}

/// Takes the names of logs that have expired out of the list, and lets the server write its file of changes anew, without
/// what was erased.
pub(super) async fn vacuum(server: &Server, scope: &Scope) -> Result<(), StoreError> {
    for logs in read::names(server, scope, "").await?.chunks(CHUNK) {
        let expired = logs.iter().zip(exist(server, scope, logs).await?).filter(|(_, exists)| !exists);
        let expired: Vec<LogName> = expired.map(|(log, _)| log.clone()).collect();
        if !expired.is_empty() {
            forget(server, scope, &expired).await?;
        }
    }
    let info = redis::cmd("INFO").arg("persistence").take();
    let says = |info: &Value, what: &str| {
        String::from_redis_value_ref(info).is_ok_and(|info| info.lines().any(|line| line == what))
    };
    if !says(&server.ask(info.clone()).await?, "aof_enabled:1") {
        return Ok(());
    }
    server.ask::<Value>(redis::cmd("BGREWRITEAOF")).await?;
    let begun = tokio::time::Instant::now();
    let mut is_done = false;
    while !is_done && begun.elapsed() < LONGEST {
        tokio::time::sleep(PAUSE).await;
        let info = server.ask(info.clone()).await?;
        is_done = says(&info, "aof_rewrite_in_progress:0") && says(&info, "aof_rewrite_scheduled:0");
    }
    Ok(())
}
