//! A store as another crate would write it: only with what is public.

use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use lookback::search::{Query, Texts};
use lookback::store::{Head, Hit, LogInfo, Record, StoreFuture};
use lookback::transcript::Millis;
use lookback::{LogName, Store, StoreError};

/// Logs by the texts of their names, as a database keeps them.
#[derive(Debug, Default)]
pub(crate) struct OwnStore {
    logs: Mutex<BTreeMap<String, Log>>,
}

#[derive(Debug, Default)]
struct Log {
    records: Vec<Record>,
    created: Option<Millis>,
    used: Option<Millis>,
}

impl Log {
    fn info(&self, name: LogName) -> LogInfo {
        let bytes = self.records.iter().map(|record| record.body.len() as u64).sum();
        LogInfo::new(name, self.records.len() as u64, bytes).created(self.created).used(self.used)
    }
}

impl OwnStore {
    fn logs(&self) -> MutexGuard<'_, BTreeMap<String, Log>> {
        self.logs.lock().unwrap()
    }
}

impl Store for OwnStore {
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        at: u64,
        records: Vec<Record>,
        time: Option<Millis>,
    ) -> StoreFuture<'a, ()> {
        let mut logs = self.logs();
        let end = logs.get(log.as_str()).map_or(0, |log| log.records.len() as u64);
        if end != at {
            return Box::pin(ready(Err(StoreError::Conflict { at, end })));
        }
        if !records.is_empty() {
            let log = logs.entry(log.to_string()).or_default();
            if log.records.is_empty() {
                log.created = time;
            }
            log.used = log.used.max(time);
            let said = |record: Record| (record.time.or(time), record);
            log.records.extend(records.into_iter().map(said).map(|(said, record)| record.time(said)));
        }
        Box::pin(ready(Ok(())))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let mut logs = self.logs();
        let log = logs.get_mut(log.as_str());
        Box::pin(ready(Ok(log.map(|log| log.used = log.used.max(Some(time))).is_some())))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let logs = self.logs();
        let records = logs.get(log.as_str()).map(|log| log.records.as_slice()).unwrap_or_default();
        let within = (0_u64..).zip(records).filter(|(position, _)| span.contains(position));
        let bodies: Vec<String> = within.map(|(_, record)| record.body.clone()).collect();
        Box::pin(ready(Ok(bodies)))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let logs = self.logs();
        let head = logs.get(log.as_str()).map(|log| {
            let considered = |position: &u64| before.is_none_or(|end| *position < end);
            let checkpoints = (0_u64..).zip(&log.records).filter(|(_, record)| record.checkpoint);
            let newest = checkpoints.map(|(position, _)| position).take_while(considered).last();
            Head::new(log.records.len() as u64, newest)
        });
        Box::pin(ready(Ok(head)))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        let logs = self.logs();
        Box::pin(ready(Ok(logs.get(log.as_str()).map(|found| found.info(log.clone())))))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        let logs = self.logs();
        let named = logs.iter().filter(|(name, _)| name.starts_with(prefix));
        let infos: Vec<LogInfo> = named.filter_map(|(name, log)| Some(log.info(LogName::stored(name)?))).collect();
        Box::pin(ready(Ok(infos)))
    }

    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        Box::pin(ready(Ok(self.logs().remove(log.as_str()).is_some())))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        Box::pin(ready(Ok(std::mem::take(&mut *self.logs()).len() as u64)))
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        let logs = self.logs();
        let searched = logs.iter().filter(|(name, _)| log.is_none_or(|log| log.as_str() == *name));
        let searched = searched.filter_map(|(name, of)| Some((LogName::stored(name)?, of)));
        let searched: Vec<_> = searched.filter(|(name, _)| !name.is_derived()).collect();
        let mut texts = Texts::for_query(query);
        for (number, (_, of)) in (0..).zip(&searched) {
            for (position, record) in (0..).zip(&of.records) {
                texts.add(number, position, record);
            }
        }
        let found = texts.search(None, query, most).into_iter();
        let hits: Vec<Hit> =
            found.map(|(log, position)| Hit::new(searched[log as usize].0.clone(), position)).collect();
        Box::pin(ready(Ok(hits)))
    }
}
