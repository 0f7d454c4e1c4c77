//! Logs in process memory: for tests, for stateless callers, and for sessions that need not outlive the process.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Answer, Head, Hit, LogInfo, LogName, Record, Store, StoreError, words};

/// Logs in process memory. They are gone with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    logs: Mutex<BTreeMap<LogName, Vec<Record>>>,
}

impl MemoryStore {
    /// Nothing stored yet.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<LogName, Vec<Record>>> {
        // A panic elsewhere cannot leave a log half-written: each change is one call to `extend` or `remove`.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ready<'a, T: Send + 'a>(value: Result<T, StoreError>) -> Answer<'a, T> {
    Box::pin(std::future::ready(value))
}

fn slice(records: &[Record], span: Range<u64>) -> &[Record] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(records.len());
    records.get(index(span.start)..index(span.end)).unwrap_or_default()
}

impl Store for MemoryStore {
    fn append<'a>(&'a self, log: &'a LogName, at: u64, records: Vec<Record>) -> Answer<'a, ()> {
        let mut logs = self.logs();
        let end = logs.get(log).map_or(0, |records| records.len() as u64);
        if end != at {
            return ready(Err(StoreError::Conflict { at, end }));
        }
        logs.entry(log.clone()).or_default().extend(records);
        ready(Ok(()))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> Answer<'a, Vec<String>> {
        let bodies = |records: &Vec<Record>| slice(records, span).iter().map(|record| record.body.clone()).collect();
        ready(Ok(self.logs().get(log).map(bodies).unwrap_or_default()))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> Answer<'a, Option<Head>> {
        let logs = self.logs();
        ready(Ok(logs.get(log).map(|records| {
            let considered = slice(records, 0..before.unwrap_or(u64::MAX));
            let checkpoint = considered.iter().rposition(|record| record.checkpoint).map(|at| at as u64);
            Head { end: records.len() as u64, checkpoint }
        })))
    }

    fn list(&self) -> Answer<'_, Vec<LogInfo>> {
        let info = |(name, records): (&LogName, &Vec<Record>)| LogInfo {
            name: name.clone(),
            records: records.len() as u64,
            bytes: records.iter().map(|record| record.body.len() as u64).sum(),
        };
        ready(Ok(self.logs().iter().map(info).collect()))
    }

    fn delete<'a>(&'a self, log: &'a LogName) -> Answer<'a, bool> {
        ready(Ok(self.logs().remove(log).is_some()))
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> Answer<'a, Vec<Hit>> {
        let wanted = words(query);
        let mut hits = Vec::new();
        for (name, records) in self.logs().iter().filter(|(name, _)| log.is_none_or(|log| log == *name)) {
            for (position, record) in records.iter().enumerate().rev() {
                let here = words(&record.text);
                if hits.len() < most && !wanted.is_empty() && wanted.iter().all(|word| here.contains(word)) {
                    hits.push(Hit { log: name.clone(), position: position as u64 });
                }
            }
        }
        ready(Ok(hits))
    }
}
