//! Checking a whole store: every record of every tenant is read and parsed, each session is opened, and the store's
//! derived data is compared with the records.

use std::collections::BTreeSet;

use lookback_engine::transcript::Entry;
use serde::Serialize;

use super::compared::Compared;
use super::summaries::check_note;
use lookback_facts::FactEntry;
use lookback_store::{Damage, Derived, LogInfo, LogName, Store, StoreError, Tenant, every_namespace};

/// The number of records in one read.
const CHUNK: u64 = 1_000;

/// The result of checking a store.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// The number of logs that were read.
    pub logs: u64,
    /// The number of their records.
    pub records: u64,
    /// The bytes of the records' bodies.
    pub bytes: u64,
    /// The faults that were found.
    pub faults: Vec<Fault>,
}

/// A fault of a store.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// A log cannot be read to its end, or its checkpoints or derived data differ from its records.
    Log {
        /// The tenants to which it belongs, from the outermost on.
        tenants: Vec<Tenant>,
        /// The log.
        log: LogName,
        /// A description of the fault. If a record cannot be read, it names the first one.
        error: String,
    },
    /// A derived log has no session. If the session's name is used again, the log would be taken for the new session's.
    NoSession {
        /// The tenants to which it belongs, from the outermost on.
        tenants: Vec<Tenant>,
        /// The derived log.
        log: LogName,
    },
    /// The store itself reports a fault.
    Store {
        /// The store's report.
        error: String,
    },
}

/// Checks a store: reads every record of it and of its tenants, compares each session with its checkpoints, and checks
/// the data that the store keeps in addition to records (see [`Store::check`] and [`Store::orphans`]). To show
/// progress, `seen` is called with the number of records of each log that was read.
///
/// # Errors
/// Returns an error if the store fails for a reason other than a fault, for example if a server cannot be reached.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_session::verify;
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
/// use lookback_session::Session;
///
/// let store = std::sync::Arc::new(MemoryStore::new());
/// Session::open(store.clone(), "chat-1", Default::default()).await?.push(Message::user("Hello")).await?;
/// let verified = verify(&*store, |_| {}).await?;
/// assert_eq!((verified.logs, verified.records, verified.faults.len()), (1, 1, 0));
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
pub async fn verify(store: &dyn Store, mut seen: impl FnMut(u64)) -> Result<Verified, StoreError> {
    let mut verified = Verified::default();
    let own = [store.check().await?, store.orphans().await?].concat();
    verified.faults.extend(own.into_iter().map(|error| Fault::Store { error }));
    for (tenants, scoped) in every_namespace(store).await? {
        let store = scoped.as_deref().unwrap_or(store);
        let logs = store.list("").await?;
        let names: BTreeSet<&str> = logs.iter().map(|info| info.name.as_str()).collect();
        for info in &logs {
            let log = &info.name;
            verified.logs += 1;
            let of_log = |error| Fault::Log { tenants: tenants.clone(), log: log.clone(), error };
            match read(store, info).await {
                Ok(read) => {
                    verified.records += read.records;
                    verified.bytes += read.bytes;
                    verified.faults.extend(read.faults.into_iter().map(of_log));
                    seen(read.records);
                }
                Err(error) if error.is_log_specific() => verified.faults.push(of_log(error.to_string())),
                Err(error) => return Err(error),
            }
            // Facts may exist before a session's messages, but summaries may not.
            let of = log.derived().filter(|(derived, _)| *derived == Derived::Summary).map(|(_, of)| of);
            if of.is_some_and(|of| !names.contains(of)) {
                verified.faults.push(Fault::NoSession { tenants: tenants.clone(), log: log.clone() });
            }
        }
    }
    Ok(verified)
}

/// The result of reading a log.
#[derive(Default)]
struct Read {
    records: u64,
    bytes: u64,
    /// Faults that do not keep the records from being read.
    faults: Vec<String>,
}

/// Reads a log to its end.
async fn read(store: &dyn Store, info: &LogInfo) -> Result<Read, StoreError> {
    let log = &info.name;
    let Some(head) = store.head(log, None).await? else { return Ok(Read::default()) };
    let mut read = Read { records: head.end, ..Read::default() };
    let mut checkpoints = Vec::new();
    let mut compared = if log.is_derived() { None } else { Some(Compared::begin(store, log, head.end).await?) };
    let mut at = 0;
    while at < head.end {
        let bodies = store.read(log, at..head.end.min(at + CHUNK)).await?;
        if bodies.is_empty() {
            return Err(StoreError::damaged(log, at, Damage::Gone));
        }
        for body in bodies {
            let damaged = |error| StoreError::damaged(log, at, Damage::from_json_error(&error));
            match log.derived().map(|(derived, _)| derived) {
                None => {
                    let entry = serde_json::from_str::<Entry>(&body).map_err(damaged)?;
                    if matches!(entry, Entry::Checkpoint(_)) {
                        checkpoints.push(at);
                    }
                    if let Some(compared) = &mut compared {
                        compared.see(at, &entry).await?;
                    }
                }
                Some(Derived::Facts | Derived::Shared) => {
                    serde_json::from_str::<FactEntry>(&body).map_err(damaged)?;
                }
                Some(Derived::Summary) => check_note(&body).map_err(damaged)?,
            }
            read.bytes += body.len() as u64;
            at += 1;
        }
    }
    if let Some(compared) = compared {
        read.faults.extend(compared.finish(head.end).await?);
    }
    let marked = marked(store, log, head.end).await?;
    if let Some(position) = first_difference(&checkpoints, &marked) {
        read.faults.push(format!("the store's mark for checkpoints is wrong at entry {position} of `{log}`"));
    }
    if info.created > info.used {
        read.faults.push(format!("the last use of `{log}` is before its creation"));
    }
    Ok(read)
}

/// Returns the positions that the store has marked as checkpoints, in order.
async fn marked(store: &dyn Store, log: &LogName, end: u64) -> Result<Vec<u64>, StoreError> {
    let (mut marked, mut before) = (Vec::new(), end);
    while let Some(at) = store.head(log, Some(before)).await?.and_then(|head| head.checkpoint) {
        // A store that returned a later position than asked for would cause an endless loop.
        if at >= before {
            return Err(StoreError::damaged(log, at, Damage::Behind));
        }
        marked.push(at);
        before = at;
    }
    marked.reverse();
    Ok(marked)
}

/// Returns the first position that is in only one of two ascending lists.
fn first_difference(one: &[u64], other: &[u64]) -> Option<u64> {
    let differ = one.iter().zip(other).find(|(one, other)| one != other);
    let shorter = one.len().min(other.len());
    let rest = || one.get(shorter).or(other.get(shorter)).copied();
    differ.map(|(one, other)| *one.min(other)).or_else(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_of_two_lists_is_found() {
        for (one, other, expected) in [
            (&[][..], &[][..], None),
            (&[1, 5], &[1, 5], None),
            (&[1, 5], &[1], Some(5)),
            (&[], &[0], Some(0)),
            (&[1, 5, 9], &[1, 4, 9], Some(4)),
        ] {
            assert_eq!(first_difference(one, other), expected);
            assert_eq!(first_difference(other, one), expected);
        }
    }
}
