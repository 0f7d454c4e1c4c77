//! Checks the keys: the hash of each log, the texts of its records, and the lists of logs.

use std::collections::BTreeSet;

use redis::Value;

use super::RedisStore;
use super::connection::{NO_ARGUMENTS, Server};
use super::keys::{self, Keys};
use super::packed::{Text, unpacked};
use super::read::{CHUNK, described, names, scopes};
use super::scripts::COUNT;
use lookback_store::texts::{Compared, Found, hash_of};
use lookback_store::{LogInfo, LogName, Scope, StoreError, checksum};

/// Returns descriptions of the problems of the keys.
pub(super) async fn check(store: RedisStore) -> Result<Vec<String>, StoreError> {
    let RedisStore { server, scope } = &store;
    let mut wrong = Vec::new();
    for scope in scopes(server, scope).await? {
        for log in names(server, &scope, "").await? {
            // Others may have written or erased in the meantime, so a difference is checked again.
            if check_log(server, &scope, &log).await?.is_some() {
                wrong.extend(check_log(server, &scope, &log).await?);
            }
        }
    }
    Ok(wrong)
}

/// Returns a description of the problem of a log. Ignores records that were appended during the check.
async fn check_log(server: &Server, scope: &Scope, log: &LogName) -> Result<Option<String>, StoreError> {
    let keys = Keys::new(&server.prefix, scope, log);
    let counted = [keys.log.clone(), keys.records.clone(), keys.texts.clone()];
    let counts: Option<(u64, u64, u64, u64)> = server.run(&COUNT, &counted, NO_ARGUMENTS).await?;
    let Some((says_records, says_texts, records, texts)) = counts else { return Ok(None) };
    if (says_records, says_texts) != (records, texts) {
        return Ok(Some(format!(
            "the hash of `{log}` has {says_records} entries and {says_texts} texts, but the log has {records} \
             and {texts}"
        )));
    }
    let Some((info, _)) = described(server, scope, std::slice::from_ref(log)).await?.pop() else { return Ok(None) };
    let mut found = Vec::new();
    for packed in &elements(server, &keys.texts, texts).await? {
        if let Some((Text { position, time }, terms)) = Text::unpacked(packed) {
            found.push(Found { position, time, hash: hash_of(terms) });
        }
    }
    let mut compared = Compared::new(log, &[], info.used, found);
    let mut bytes = 0;
    for (position, packed) in (0..).zip(&elements(server, &keys.records, records).await?) {
        // The first 16 bytes are the key and the checksum.
        bytes += packed.len().saturating_sub(16) as u64;
        let record = unpacked(log, position, packed).ok();
        let record = record.filter(|record| record.checksum == checksum(log, position, &record.body));
        compared.see(position, record.map(|record| record.body));
    }
    let LogInfo { records: now, bytes: says, .. } = info;
    if now == records && says != bytes {
        return Ok(Some(format!("the hash of `{log}` has {says} bytes, but the log has {bytes}")));
    }
    Ok(compared.finish())
}

/// Returns the first elements of a list.
async fn elements(server: &Server, key: &str, count: u64) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    while (all.len() as u64) < count {
        let first = all.len() as u64;
        let last = count.min(first + CHUNK as u64) - 1;
        let some: Vec<Vec<u8>> = server.ask(redis::cmd("LRANGE").arg(key).arg(first).arg(last).take()).await?;
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    Ok(all)
}

/// Describes the keys of logs that no list names. A cluster cannot be scanned as a whole.
pub(super) async fn orphans(store: RedisStore) -> Result<Vec<String>, StoreError> {
    let RedisStore { server, scope } = &store;
    if server.is_cluster() {
        return Ok(Vec::new());
    }
    let pattern = keys::pattern(&server.prefix, scope);
    let (mut cursor, mut found) = (0_u64, BTreeSet::new());
    loop {
        let scan = redis::cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(CHUNK).take();
        let (next, some): (u64, Vec<String>) = server.ask(scan).await?;
        found.extend(some);
        if next == 0 {
            break;
        }
        cursor = next;
    }
    // The lists are read last: a log that is started in the meantime was not found by the scan.
    for scope in scopes(server, scope).await? {
        for log in names(server, &scope, "").await? {
            for key in Keys::new(&server.prefix, &scope, &log).into_all() {
                found.remove(&key);
            }
        }
    }
    // A log that is erased in the meantime no longer has keys.
    let found: Vec<String> = found.into_iter().collect();
    let exist = found.iter().map(|key| redis::cmd("EXISTS").arg(key).take());
    let exist = server.each(server.remote.patience, exist.collect()).await?;
    let left = found.iter().zip(exist).filter(|(_, exists)| *exists == Value::Int(1));
    Ok(left.map(|(key, _)| format!("the key `{key}` belongs to no listed log")).collect())
}
