//! Checking the keys: whether the hash of a log tells what is in it, whether its texts are those of its records, and whether
//! lists name every log.

use std::collections::BTreeSet;

use redis::Value;

use super::connection::{NO_ARGUMENTS, Server};
use super::keys::{self, Keys};
use super::packed::{Text, unpacked};
use super::read::{CHUNK, described, names, scopes};
use super::scripts::COUNT;
use lookback_store::texts::{Compared, Found, hash_of};
use lookback_store::{LogInfo, LogName, Scope, StoreError, checksum};

/// What the keys say of each other.
pub(super) async fn check(server: &Server, scope: &Scope) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    for scope in scopes(server, scope).await? {
        for log in names(server, &scope, "").await? {
            // Others may have written, or erased contents, between one look and the next.
            if check_log(server, &scope, &log).await?.is_some() {
                wrong.extend(check_log(server, &scope, &log).await?);
            }
        }
    }
    Ok(wrong)
}

/// What is wrong with a log. What was appended after the first look is left out.
async fn check_log(server: &Server, scope: &Scope, log: &LogName) -> Result<Option<String>, StoreError> {
    let keys = Keys::new(&server.prefix, scope, log);
    let counted = [keys.log.clone(), keys.records.clone(), keys.texts.clone()];
    let counts: Option<(u64, u64, u64, u64)> = server.run(&COUNT, &counted, NO_ARGUMENTS).await?;
    let Some((says_records, says_texts, records, texts)) = counts else { return Ok(None) };
    if (says_records, says_texts) != (records, texts) {
        return Ok(Some(format!(
            "`{log}` says that it has {says_records} entries and {says_texts} texts, and has {records} and {texts}"
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
        // Its nonce and its checksum are no part of the body.
        bytes += packed.len().saturating_sub(16) as u64;
        let record = unpacked(log, position, packed).ok();
        let record = record.filter(|record| record.checksum == checksum(log, position, &record.body));
        compared.see(position, record.map(|record| record.body));
    }
    let LogInfo { records: now, bytes: says, .. } = info;
    if now == records && says != bytes {
        return Ok(Some(format!("`{log}` says that it has {says} bytes, and has {bytes}")));
    }
    Ok(compared.finish())
}

/// The first elements of a list.
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

/// The keys of logs that no list names. Those of a cluster cannot be gone through as a whole.
pub(super) async fn nameless(server: &Server, scope: &Scope) -> Result<Vec<String>, StoreError> {
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
    // The lists last: what is begun meanwhile was not found.
    for scope in scopes(server, scope).await? {
        for log in names(server, &scope, "").await? {
            for key in Keys::new(&server.prefix, &scope, &log).into_all() {
                found.remove(&key);
            }
        }
    }
    // And what is erased meanwhile is not there any more.
    let found: Vec<String> = found.into_iter().collect();
    let exist = found.iter().map(|key| redis::cmd("EXISTS").arg(key).take());
    let exist = server.each(server.patience, exist.collect()).await?;
    let left = found.iter().zip(exist).filter(|(_, exists)| *exists == Value::Int(1));
    Ok(left.map(|(key, _)| format!("the key `{key}` belongs to no log that a list names")).collect())
}
