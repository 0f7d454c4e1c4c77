//! Checking a whole store: every record of every log of every tenant is read and understood.

use std::collections::BTreeSet;

use lookback_core::transcript::Entry;
use serde::Serialize;

use super::{Damage, Derived, LogName, Store, StoreError, Tenant, every_namespace};
use crate::memory::FactEntry;

/// How many records are read at once.
const CHUNK: u64 = 1_000;

/// What was found in a store.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// The logs that were read.
    pub logs: u64,
    /// Their records.
    pub records: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// What is wrong with a store.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// A log cannot be read to its end.
    Log {
        /// The tenants to which it belongs, from the outermost on.
        tenants: Vec<Tenant>,
        /// The log.
        log: LogName,
        /// The error, which names the first record that cannot be read.
        error: String,
    },
    /// A derived log has no session. Its name may be used again, and then it would be taken for that session's.
    NoSession {
        /// The tenants to which it belongs, from the outermost on.
        tenants: Vec<Tenant>,
        /// The derived log.
        log: LogName,
    },
    /// The store itself says what is wrong with it.
    Store {
        /// What it says.
        error: String,
    },
}

/// Reads every record of a store and of its tenants, and returns what is wrong. `seen` is called with the number of the
/// records of each log that was read, and may show progress.
///
/// # Errors
/// Returns an error if the store fails in another way, such as a server that cannot be reached.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::store::verify;
/// use lookback::{MemoryStore, Message, Session};
///
/// let store = std::sync::Arc::new(MemoryStore::new());
/// Session::open(store.clone(), "chat-1", Default::default()).await?.push(Message::user("Hello")).await?;
/// let verified = verify(&*store, |_| {}).await?;
/// assert_eq!((verified.logs, verified.records, verified.faults.len()), (1, 1, 0));
/// # Ok::<(), lookback::Error>(())
/// # }).unwrap();
/// ```
pub async fn verify(store: &dyn Store, mut seen: impl FnMut(u64)) -> Result<Verified, StoreError> {
    let mut verified = Verified::default();
    verified.faults.extend(store.check().await?.into_iter().map(|error| Fault::Store { error }));
    for (tenants, scoped) in every_namespace(store).await? {
        let store = scoped.as_deref().unwrap_or(store);
        let logs = store.list("").await?;
        let names: BTreeSet<&str> = logs.iter().map(|info| info.name.as_str()).collect();
        for info in &logs {
            let log = &info.name;
            verified.logs += 1;
            match read(store, log).await {
                Ok((records, bytes)) => {
                    verified.records += records;
                    verified.bytes += bytes;
                    seen(records);
                }
                Err(error @ (StoreError::Damaged { .. } | StoreError::Newer { .. } | StoreError::NoJson { .. })) => {
                    let (tenants, error) = (tenants.clone(), error.to_string());
                    verified.faults.push(Fault::Log { tenants, log: log.clone(), error });
                }
                Err(error) => return Err(error),
            }
            // A session may have facts before it has messages, but no summary.
            let of = log.derived().filter(|(derived, _)| *derived == Derived::Summary).map(|(_, of)| of);
            if of.is_some_and(|of| !names.contains(of)) && log.as_str() != "compact::summary" {
                verified.faults.push(Fault::NoSession { tenants: tenants.clone(), log: log.clone() });
            }
        }
    }
    Ok(verified)
}

/// Reads a log to its end, and returns its records and their bytes.
async fn read(store: &dyn Store, log: &LogName) -> Result<(u64, u64), StoreError> {
    let Some(head) = store.head(log, None).await? else { return Ok((0, 0)) };
    let (mut at, mut bytes) = (0, 0);
    while at < head.end {
        let bodies = store.read(log, at..head.end.min(at + CHUNK)).await?;
        if bodies.is_empty() {
            return Err(StoreError::damaged(log, at, Damage::Gone));
        }
        for body in bodies {
            let parsed = match log.derived() {
                None => serde_json::from_str::<Entry>(&body).map(|_| ()),
                Some((Derived::Facts | Derived::Shared, _)) => serde_json::from_str::<FactEntry>(&body).map(|_| ()),
                Some((Derived::Summary, _)) => crate::session::check_note(&body),
            };
            parsed.map_err(|error| StoreError::damaged(log, at, Damage::of_body(&error)))?;
            bytes += body.len() as u64;
            at += 1;
        }
    }
    Ok((head.end, bytes))
}
