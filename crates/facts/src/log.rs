//! Reads a memory's logs up to their end, and appends to them.

use async_lock::MutexGuard;
use lookback_engine::transcript::{Millis, Position};

use super::entry::FactEntry;
use super::fact::Scope;
use super::facts::Facts;
use super::{Memory, MemoryError, TRIES};
use lookback_store::now;
use lookback_store::{Append, Damage, LogName, Record, Store, StoreError};

/// How many entries are read at a time.
const PAGE: u64 = 1_024;

/// The state of both logs, as far as they were read.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) session: Facts,
    pub(super) shared: Facts,
    // When each log was created.
    begun: [Option<Millis>; 2],
}

impl Known {
    pub(super) fn new() -> Self {
        Known { session: Facts::new(Scope::Session), shared: Facts::new(Scope::Shared), begun: [None; 2] }
    }

    pub(super) fn begun(&mut self, scope: Scope) -> &mut Option<Millis> {
        let [session, shared] = &mut self.begun;
        match scope {
            Scope::Session => session,
            Scope::Shared => shared,
        }
    }

    pub(super) fn facts(&mut self, scope: Scope) -> &mut Facts {
        match scope {
            Scope::Session => &mut self.session,
            Scope::Shared => &mut self.shared,
        }
    }
}

impl Memory {
    /// Returns every entry of a log of facts.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn entries(&self, scope: Scope) -> Result<Vec<FactEntry>, MemoryError> {
        let end = self.caught_up().await?.facts(scope).end();
        let log = self.log(scope);
        let mut entries = Vec::new();
        while (entries.len() as u64) < end {
            let at = entries.len() as u64;
            let page = read(&*self.store, &log, at..end.min(at + PAGE)).await?;
            if page.is_empty() {
                break;
            }
            entries.extend(page);
        }
        Ok(entries)
    }

    pub(super) fn log(&self, scope: Scope) -> LogName {
        match scope {
            Scope::Session => self.session.facts_of(),
            Scope::Shared => self.workspace.shared_of(),
        }
    }

    /// Reads new entries of other writers, and returns the current state.
    pub(super) async fn caught_up(&self) -> Result<MutexGuard<'_, Known>, StoreError> {
        let mut known = self.known.lock().await;
        self.read_on(&mut known).await?;
        Ok(known)
    }

    pub(super) async fn read_on(&self, known: &mut Known) -> Result<(), StoreError> {
        for scope in [Scope::Session, Scope::Shared] {
            let log = self.log(scope);
            let info = self.store.info(&log).await?;
            let (end, created) = info.map_or((0, None), |info| (info.records, info.created));
            let begun = known.begun(scope);
            let erased = *begun != created && begun.is_some();
            *begun = created;
            let facts = known.facts(scope);
            if erased || facts.end() > end {
                // The log was erased, and perhaps created again.
                *facts = Facts::new(scope);
            }
            while facts.end() < end {
                let page = read(&*self.store, &log, facts.end()..end.min(facts.end() + PAGE)).await?;
                if page.is_empty() {
                    break;
                }
                page.iter().for_each(|entry| facts.apply(entry));
            }
        }
        Ok(())
    }

    /// Appends entries after the known ones: all, or none. Returns `false` if another writer was faster.
    pub(super) async fn append(&self, facts: &mut Facts, entries: &[FactEntry]) -> Result<bool, StoreError> {
        let log = self.log(facts.scope());
        let record = |(position, entry): (Position, &FactEntry)| {
            let body = serde_json::to_string(entry).map_err(|error| StoreError::unwritable(&log, position, error))?;
            Ok(Record::new(body))
        };
        let records = (facts.end()..).zip(entries).map(record).collect::<Result<Vec<_>, StoreError>>()?;
        match self.store.append(&log, Append::new(facts.end(), records).time(now())).await {
            Ok(()) => {
                entries.iter().for_each(|entry| facts.apply(entry));
                Ok(true)
            }
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn overtaken(&self, scope: Scope) -> StoreError {
        StoreError::Overtaken { log: self.log(scope).to_string(), tries: TRIES }
    }
}

pub(super) async fn read(
    store: &dyn Store,
    log: &LogName,
    span: std::ops::Range<Position>,
) -> Result<Vec<FactEntry>, StoreError> {
    let bodies = store.read(log, span.clone()).await?;
    let parse = |(position, body): (Position, String)| {
        serde_json::from_str(&body).map_err(|error| StoreError::damaged(log, position, Damage::from_json_error(&error)))
    };
    span.zip(bodies).map(parse).collect()
}
