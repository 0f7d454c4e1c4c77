//! A store in process memory: for tests, for stateless callers, and for sessions that need not outlive the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_engine::transcript::Millis;

use super::{
    Append, Head, Hit, LogInfo, LogName, Record, Scope, Store, StoreError, StoreFuture, Tenant, Tombstone, checksum,
};
use crate::search::{Query, Texts};

/// A store in process memory. Its logs are lost when the process ends.
///
/// Appends index nothing. Each search first indexes the new records of the logs that it searches. The index takes about
/// three times as much memory as the texts, and the first search of a million messages takes some seconds.
#[derive(Default)]
pub struct MemoryStore {
    /// The logs of each namespace, shared by the stores of all tenants.
    namespaces: Arc<Mutex<BTreeMap<Scope, Logs>>>,
    scope: Scope,
}

#[derive(Default)]
struct Logs {
    by_name: BTreeMap<LogName, Log>,
    /// The names of the logs by their numbers in the index.
    names: HashMap<u32, LogName>,
    /// How many numbers were given to logs so far.
    begun: u32,
    index: Texts,
}

#[derive(Default)]
struct Log {
    /// Its number in the index.
    number: u32,
    records: Vec<Record>,
    /// How many of the records are in the index.
    indexed: usize,
    created: Option<Millis>,
    used: Option<Millis>,
}

impl Logs {
    fn get(&self, log: &LogName) -> Option<&Log> {
        self.by_name.get(log)
    }

    fn search(&mut self, log: Option<&LogName>, query: &Query, most: usize) -> Vec<Hit> {
        let searched = |name: &LogName| !name.is_derived() && log.is_none_or(|log| log == name);
        let mut one = None;
        for (_, of) in self.by_name.iter_mut().filter(|(name, _)| searched(name)) {
            for (position, record) in (0..).zip(&of.records).skip(of.indexed) {
                self.index.add(of.number, position, record);
            }
            of.indexed = of.records.len();
            one = log.map(|_| of.number);
        }
        if log.is_some() && one.is_none() {
            return Vec::new();
        }
        let found = self.index.search(one, query, most);
        found.into_iter().filter_map(|(log, at)| Some(Hit::new(self.names.get(&log)?.clone(), at))).collect()
    }
}

impl Log {
    fn bodies(&self, span: Range<u64>) -> Vec<String> {
        slice(&self.records, span).iter().map(|record| record.body.clone()).collect()
    }

    fn info(&self, name: &LogName) -> LogInfo {
        LogInfo {
            name: name.clone(),
            records: self.records.len() as u64,
            bytes: self.records.iter().map(|record| record.body.len() as u64).sum(),
            created: self.created,
            used: self.used,
        }
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// Returns all records of a log.
    pub fn records(&self, log: &LogName) -> Vec<Record> {
        self.with(|logs| logs.get(log).map(|log| log.records.clone()).unwrap_or_default())
    }

    /// Runs `work` on the logs of this namespace.
    fn with<T>(&self, work: impl FnOnce(&mut Logs) -> T) -> T {
        let mut namespaces = self.namespaces();
        let logs = namespaces.entry(self.scope.clone()).or_default();
        let done = work(logs);
        if logs.by_name.is_empty() {
            namespaces.remove(&self.scope);
        }
        done
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<Scope, Logs>> {
        // A panic elsewhere cannot leave a log half-written: each change adds or removes its records in one call.
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    /// Shows counts, and no contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MemoryStore");
        // The caller may hold the lock.
        if let Ok(namespaces) = self.namespaces.try_lock() {
            let logs = || namespaces.values().flat_map(|logs| logs.by_name.values());
            let records: usize = logs().map(|log| log.records.len()).sum();
            shown.field("logs", &logs().count()).field("records", &records);
        }
        shown.finish_non_exhaustive()
    }
}

fn ready<'a, T: Send + 'a>(value: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

fn slice(records: &[Record], span: Range<u64>) -> &[Record] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(records.len());
    records.get(index(span.start)..index(span.end)).unwrap_or_default()
}

impl Store for MemoryStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        let Append { at, records, time, .. } = append;
        ready(self.with(|logs| {
            let end = logs.get(log).map_or(0, |log| log.records.len() as u64);
            if end != at {
                return Err(StoreError::Conflict { at, end });
            }
            if records.is_empty() {
                return Ok(());
            }
            let log = logs.by_name.entry(log.clone()).or_insert_with(|| {
                let number = logs.begun;
                logs.begun = number.saturating_add(1);
                logs.names.insert(number, log.clone());
                Log { number, created: time, ..Log::default() }
            });
            log.used = log.used.max(time);
            log.records.extend(records.into_iter().map(|record| Record { time: record.time.or(time), ..record }));
            Ok(())
        }))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let touched = |logs: &mut Logs| logs.by_name.get_mut(log).map(|log| log.used = log.used.max(Some(time)));
        ready(Ok(self.with(touched).is_some()))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        ready(Ok(self.with(|logs| logs.get(log).map(|log| log.bodies(span)).unwrap_or_default())))
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        ready(Ok(self.with(|logs| {
            let log = logs.get(log);
            let bodies = |span: &Range<u64>| log.map(|log| log.bodies(span.clone())).unwrap_or_default();
            spans.iter().map(bodies).collect()
        })))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let head = |log: &Log| {
            let considered = slice(&log.records, 0..before.unwrap_or(u64::MAX));
            let checkpoint = considered.iter().rposition(|record| record.checkpoint).map(|at| at as u64);
            Head { end: log.records.len() as u64, checkpoint }
        };
        ready(Ok(self.with(|logs| logs.get(log).map(head))))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        ready(Ok(self.with(|logs| logs.get(log).map(|found| found.info(log)))))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        ready(Ok(self.with(|logs| {
            let listed = logs.by_name.iter().filter(|(name, _)| name.as_str().starts_with(prefix));
            listed.map(|(name, log)| log.info(name)).collect()
        })))
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        ready(Ok(self.with(|kept| {
            let mut erased = 0;
            for log in logs {
                let Some(log) = kept.by_name.remove(log) else { continue };
                kept.names.remove(&log.number);
                kept.index.remove(log.number);
                erased += 1;
            }
            erased
        })))
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        self.with(|logs| {
            let Logs { by_name, names, begun, index } = logs;
            let Some(of) = by_name.get_mut(log) else { return };
            for Tombstone { position, checksum: expected, body } in tombstones {
                let record = usize::try_from(position).ok().and_then(|at| of.records.get_mut(at));
                if let Some(record) = record.filter(|record| checksum(log, position, &record.body) == expected) {
                    *record = Record::new(body).checkpoint(record.checkpoint);
                }
            }
            // The next search indexes the remaining texts under a new number.
            index.remove(of.number);
            names.remove(&of.number);
            (of.number, of.indexed) = (*begun, 0);
            *begun = begun.saturating_add(1);
            names.insert(of.number, log.clone());
        });
        ready(Ok(()))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        ready(Ok(self.with(|logs| std::mem::take(logs).by_name.len() as u64)))
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        ready(Ok(self.with(|logs| logs.search(log, query, most))))
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(MemoryStore { namespaces: self.namespaces.clone(), scope: self.scope.for_tenant(tenant) }))
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        let namespaces = self.namespaces();
        let used = namespaces.iter().filter(|(_, logs)| !logs.by_name.is_empty());
        let mut tenants: Vec<Tenant> = used.filter_map(|(scope, _)| self.scope.tenant_in(scope.as_str())).collect();
        tenants.sort();
        tenants.dedup();
        ready(Ok(tenants))
    }
}
