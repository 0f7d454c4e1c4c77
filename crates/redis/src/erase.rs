//! Erases logs, and the contents of records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::RedisStore;
use super::connection::{NO_ARGUMENTS, Server};
use super::keys::{self, Keys};
use super::packed::{Text, tombstone};
use super::read::{self, CHUNK};
use super::scripts::{ERASE, FORGET, REPLACE};
use lookback_store::{LogName, Scope, StoreError, Tombstone, checksum};

/// How long the server may take to rewrite its append-only file, and the interval between two checks.
const LONGEST: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(100);

/// Erases some logs of a namespace, or all of them, and returns how many existed.
pub(super) async fn delete(store: RedisStore, logs: Option<Vec<LogName>>) -> Result<u64, StoreError> {
    let RedisStore { server, scope } = &store;
    let logs = match logs {
        Some(logs) => logs,
        None => read::names(server, scope, "").await?,
    };
    let logs: Vec<LogName> = logs.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let mut erased = 0;
    for logs in logs.chunks(CHUNK) {
        // Counted before the deletion, because its answer may be lost, and a repeated deletion finds none.
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

/// How many records a script replaces.
const TOMBSTONES: usize = 500;
/// How many texts are read at once.
const TEXTS: usize = 5_000;

/// Replaces records with tombstones, and empties their texts.
pub(super) async fn replace(store: RedisStore, log: LogName, tombstones: Vec<Tombstone>) -> Result<(), StoreError> {
    let RedisStore { server, scope } = &store;
    if tombstones.is_empty() {
        return Ok(());
    }
    let Keys { log: key, records, texts, .. } = Keys::new(&server.prefix, scope, &log);
    let mut wanted: HashMap<u64, Option<(usize, Text)>> =
        tombstones.iter().map(|tombstone| (tombstone.position, None)).collect();
    let mut first = 0;
    loop {
        let range = redis::cmd("LRANGE").arg(&texts).arg(first).arg(first + TEXTS - 1).take();
        let packed: Vec<Vec<u8>> = server.ask(range).await?;
        for (index, (text, _)) in packed.iter().enumerate().filter_map(|(at, text)| Some((at, Text::unpacked(text)?))) {
            if let Some(place) = wanted.get_mut(&text.position) {
                *place = Some((first + index, text));
            }
        }
        if packed.len() < TEXTS {
            break;
        }
        first += TEXTS;
    }
    for tombstones in tombstones.chunks(TOMBSTONES) {
        let mut args: Vec<Vec<u8>> = Vec::with_capacity(tombstones.len() * 5);
        for Tombstone { position, checksum: expected, body, .. } in tombstones {
            let (index, text) = match wanted.get(position).copied().flatten() {
                Some((index, text)) => (index.to_string(), text.packed(&[])),
                None => ("-1".to_owned(), Vec::new()),
            };
            args.push(position.to_string().into_bytes());
            args.push(expected.to_le_bytes().to_vec());
            args.push(tombstone(checksum(&log, *position, body), body));
            args.extend([index.into_bytes(), text]);
        }
        let keys = [key.clone(), records.clone(), texts.clone()];
        server.run::<u64>(&REPLACE, &keys, &args).await?;
    }
    Ok(())
}

/// Returns whether each of these logs exists.
async fn exist(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<Vec<bool>, StoreError> {
    let asked = logs.iter().map(|log| redis::cmd("EXISTS").arg(Keys::new(&server.prefix, scope, log).log).take());
    let exist = server.each(server.remote.patience, asked.collect()).await?;
    Ok(exist.iter().map(|exists| *exists == Value::Int(1)).collect())
}

fn keys_of(server: &Server, scope: &Scope, log: &LogName) -> [String; 4] {
    Keys::new(&server.prefix, scope, log).into_all()
}

/// Erases logs in a cluster, those of each session together.
async fn in_cluster(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<(), StoreError> {
    let mut sessions: BTreeMap<LogName, Vec<String>> = BTreeMap::new();
    for log in logs {
        sessions.entry(log.session()).or_default().extend(keys_of(server, scope, log));
    }
    for keys in sessions.into_values() {
        server.run::<u64>(&ERASE, &keys, NO_ARGUMENTS).await?;
    }
    forget(server, scope, logs).await
}

/// Removes the names of logs that do not exist from the list of a namespace.
async fn forget(server: &Server, scope: &Scope, logs: &[LogName]) -> Result<(), StoreError> {
    let names = keys::names(&server.prefix, scope);
    if !server.is_cluster() {
        let mut keys = vec![names];
        keys.extend(logs.iter().map(|log| Keys::new(&server.prefix, scope, log).log));
        let texts: Vec<String> = logs.iter().map(LogName::to_string).collect();
        return server.run::<u64>(&FORGET, &keys, &texts).await.map(|_| ());
    }
    // The logs are in other slots than the list, and may be started again in the meantime.
    let gone = logs.iter().zip(exist(server, scope, logs).await?).filter(|(_, exists)| !exists);
    let gone: Vec<LogName> = gone.map(|(log, _)| log.clone()).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let texts: Vec<&str> = gone.iter().map(LogName::as_str).collect();
    server.ask::<u64>(redis::cmd("ZREM").arg(&names).arg(texts).take()).await?;
    for (log, _) in gone.iter().zip(exist(server, scope, &gone).await?).filter(|(_, exists)| *exists) {
        server.ask::<u64>(redis::cmd("ZADD").arg(&names).arg(0).arg(log.as_str()).take()).await?;
    }
    Ok(())
}

/// Removes the names of expired logs from the lists, including those of tenants, and makes each server rewrite its
/// append-only file without the erased data.
pub(super) async fn vacuum(store: RedisStore) -> Result<(), StoreError> {
    let RedisStore { server, scope } = &store;
    for scope in read::scopes(server, scope).await? {
        for logs in read::names(server, &scope, "").await?.chunks(CHUNK) {
            forget(server, &scope, logs).await?;
        }
    }
    if !says(server, "aof_enabled:1").await? {
        return Ok(());
    }
    // A rewrite may be running that began before the erasure.
    finish_rewriting(server).await?;
    server.everywhere(redis::cmd("BGREWRITEAOF")).await?;
    finish_rewriting(server).await
}

/// Returns whether any server has this line in its persistence information.
async fn says(server: &Server, what: &str) -> Result<bool, StoreError> {
    for info in server.everywhere(redis::cmd("INFO").arg("persistence").take()).await? {
        let info: String = server.understood(info)?;
        if info.lines().any(|line| line == what) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until no server rewrites its append-only file.
async fn finish_rewriting(server: &Server) -> Result<(), StoreError> {
    let deadline = Instant::now() + LONGEST;
    while says(server, "aof_rewrite_in_progress:1").await? || says(server, "aof_rewrite_scheduled:1").await? {
        if Instant::now() >= deadline {
            return Err(StoreError::Late { place: server.remote.place.clone(), limit: LONGEST });
        }
        tokio::time::sleep(PAUSE).await;
    }
    if says(server, "aof_last_bgrewrite_status:err").await? {
        let source = std::io::Error::other("the server could not rewrite its append-only file");
        return Err(server.remote.broken(source));
    }
    Ok(())
}
