//! A store that uses only the public API, as in another crate.

use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use lookback_engine::transcript::Millis;
use lookback_store::search::{Query, Texts};
use lookback_store::{Append, Head, Hit, LogInfo, Record, Scope, StoreFuture, Tenant, Tombstone, checksum};
use lookback_store::{LogName, Store, StoreError};

/// Logs by their names as text, as in a database.
#[derive(Debug, Default)]
pub(crate) struct OwnStore {
    /// The logs of each namespace.
    namespaces: Arc<Mutex<BTreeMap<String, BTreeMap<String, Log>>>>,
    scope: Scope,
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
    /// Runs `work` on the logs of this namespace.
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Log>) -> T) -> T {
        work(self.namespaces.lock().unwrap().entry(self.scope.as_str().to_owned()).or_default())
    }
}

fn done<'a, T: Send + 'a>(value: T) -> StoreFuture<'a, T> {
    Box::pin(ready(Ok(value)))
}

impl Store for OwnStore {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        let Append { at, records, time, .. } = append;
        let appended = self.with(|logs| {
            let end = logs.get(log.as_str()).map_or(0, |log| log.records.len() as u64);
            if end != at {
                return Err(StoreError::Conflict { at, end });
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
            Ok(())
        });
        Box::pin(ready(appended))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let touch = |log: &mut Log| log.used = log.used.max(Some(time));
        done(self.with(|logs| logs.get_mut(log.as_str()).map(touch)).is_some())
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        done(self.with(|logs| {
            let records = logs.get(log.as_str()).map(|log| log.records.as_slice()).unwrap_or_default();
            let within = (0_u64..).zip(records).filter(|(position, _)| span.contains(position));
            within.map(|(_, record)| record.body.clone()).collect()
        }))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let head = |log: &Log| {
            let considered = |position: &u64| before.is_none_or(|end| *position < end);
            let checkpoints = (0_u64..).zip(&log.records).filter(|(_, record)| record.checkpoint);
            let newest = checkpoints.map(|(position, _)| position).take_while(considered).last();
            Head::new(log.records.len() as u64, newest)
        };
        done(self.with(|logs| logs.get(log.as_str()).map(head)))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        done(self.with(|logs| logs.get(log.as_str()).map(|found| found.info(log.clone()))))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        done(self.with(|logs| {
            let named = logs.iter().filter(|(name, _)| name.starts_with(prefix));
            named.filter_map(|(name, log)| Some(log.info(LogName::from_stored(name)?))).collect()
        }))
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        done(self.with(|kept| logs.iter().filter(|log| kept.remove(log.as_str()).is_some()).count() as u64))
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        self.with(|logs| {
            let Some(of) = logs.get_mut(log.as_str()) else { return };
            for tombstone in tombstones {
                let Some(record) = usize::try_from(tombstone.position).ok().and_then(|at| of.records.get_mut(at))
                else {
                    continue;
                };
                if checksum(log, tombstone.position, &record.body) == tombstone.checksum {
                    *record = Record::new(tombstone.body).checkpoint(record.checkpoint);
                }
            }
        });
        done(())
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        done(self.with(|logs| std::mem::take(logs).len() as u64))
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        done(self.with(|logs| {
            let searched = logs.iter().filter(|(name, _)| log.is_none_or(|log| log.as_str() == *name));
            let searched = searched.filter_map(|(name, of)| Some((LogName::from_stored(name)?, of)));
            let searched: Vec<_> = searched.filter(|(name, _)| !name.is_derived()).collect();
            let mut texts = Texts::for_query(query);
            for (number, (_, of)) in (0..).zip(&searched) {
                for (position, record) in (0..).zip(&of.records) {
                    texts.add(number, position, record);
                }
            }
            let found = texts.search(None, query, most).into_iter();
            found.map(|(log, position)| Hit::new(searched[log as usize].0.clone(), position)).collect()
        }))
    }

    fn scoped(&self, tenant: &Tenant) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(OwnStore { namespaces: self.namespaces.clone(), scope: self.scope.for_tenant(tenant) }))
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        let namespaces = self.namespaces.lock().unwrap();
        let used = namespaces.iter().filter(|(_, logs)| !logs.is_empty());
        let mut tenants: Vec<Tenant> = used.filter_map(|(scope, _)| self.scope.tenant_in(scope)).collect();
        tenants.sort();
        tenants.dedup();
        done(tenants)
    }
}
