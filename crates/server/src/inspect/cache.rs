//! A cache of sessions that were read: some timelines, and the figures of all sessions.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lookback_engine::transcript::Millis;
use lookback_inspector::{Figures, Pairs};
use lookback_replay::prices::Price;
use lookback_replay::timeline::Timeline;
use lookback_store::LogInfo;
use lookback_store::{LogName, Store, StoreError};
use lookback_tokens::TokenCounter;

use super::blocking::on_blocking_thread;

/// The most timelines that are kept.
const MOST: usize = 16;

/// The edition of a log when it was read. It differs once the log has grown, or was deleted and created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edition {
    pub(super) records: u64,
    bytes: u64,
    created: Option<Millis>,
}

impl Edition {
    pub(super) fn from_info(log: &LogInfo) -> Edition {
        Edition { records: log.records, bytes: log.bytes, created: log.created }
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.records, self.bytes, self.created.unwrap_or(0))
    }
}

/// A session that was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) edition: Edition,
    pub(super) timeline: Timeline,
    pub(super) pairs: Pairs,
}

/// The known figures of a session.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// The current figures.
    Figures(Figures),
    /// The log is damaged.
    Damaged,
    /// The figures were not read yet, or only for an earlier edition. Those of the earlier edition are shown meanwhile.
    Unread(Option<Figures>),
}

/// The cache of sessions that were read.
pub(super) struct SessionCache {
    store: Arc<dyn Store>,
    counter: Arc<dyn TokenCounter>,
    price: Price,
    /// The timelines, the most recently used last.
    timelines: Mutex<Vec<(LogName, Arc<Read>)>>,
    /// The figures. `None` if the log is damaged.
    figures: Mutex<HashMap<LogName, (Edition, Option<Figures>)>>,
    /// Lets one timeline be read at a time, so that concurrent requests do not read the same one twice.
    reading: tokio::sync::Mutex<()>,
    /// Whether figures are being read in the background.
    is_reading_on: AtomicBool,
}

impl SessionCache {
    pub(super) fn new(store: Arc<dyn Store>, counter: Arc<dyn TokenCounter>, price: Price) -> SessionCache {
        SessionCache {
            store,
            counter,
            price,
            timelines: Mutex::default(),
            figures: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            is_reading_on: AtomicBool::new(false),
        }
    }

    pub(super) fn counter(&self) -> Arc<dyn TokenCounter> {
        self.counter.clone()
    }

    pub(super) fn price(&self) -> &Price {
        &self.price
    }

    /// Returns the timeline of a session whose log is in this state.
    pub(super) async fn read(&self, log: &LogInfo) -> Result<Arc<Read>, StoreError> {
        let edition = Edition::from_info(log);
        if let Some(read) = self.taken(&log.name, edition) {
            return Ok(read);
        }
        let _reading = self.reading.lock().await;
        // Another request may have read it meanwhile.
        if let Some(read) = self.taken(&log.name, edition) {
            return Ok(read);
        }
        let timeline = self.timeline(&log.name).await?;
        let read = Arc::new(Read { edition, pairs: Pairs::from_rows(&timeline.rows), timeline });
        let mut timelines = self.timelines.lock().unwrap_or_else(PoisonError::into_inner);
        timelines.retain(|(name, ..)| *name != log.name);
        if timelines.len() >= MOST {
            timelines.remove(0);
        }
        timelines.push((log.name.clone(), read.clone()));
        Ok(read)
    }

    fn taken(&self, log: &LogName, edition: Edition) -> Option<Arc<Read>> {
        let mut timelines = self.timelines.lock().unwrap_or_else(PoisonError::into_inner);
        let at = timelines.iter().position(|(name, read)| name == log && read.edition == edition)?;
        let taken = timelines.remove(at);
        let read = taken.1.clone();
        timelines.push(taken);
        Some(read)
    }

    /// Computes the timeline of a session.
    async fn timeline(&self, log: &LogName) -> Result<Timeline, StoreError> {
        let (store, counter, price, log) = (self.store.clone(), self.counter.clone(), self.price.clone(), log.clone());
        on_blocking_thread(async move { Timeline::load(&*store, &log, &*counter, &price).await }).await
    }

    /// Forgets a session that was deleted.
    pub(super) fn forget(&self, log: &LogName) {
        self.timelines.lock().unwrap_or_else(PoisonError::into_inner).retain(|(name, ..)| name != log);
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).remove(log);
    }

    /// Returns the known figures of a session.
    pub(super) fn known(&self, log: &LogInfo) -> Known {
        match self.figures.lock().unwrap_or_else(PoisonError::into_inner).get(&log.name) {
            Some((edition, figures)) if *edition == Edition::from_info(log) => {
                figures.clone().map_or(Known::Damaged, Known::Figures)
            }
            Some((_, figures)) => Known::Unread(figures.clone()),
            None => Known::Unread(None),
        }
    }

    /// Reads the figures of a session. Remembers a damaged log as such.
    pub(super) async fn learn(&self, log: &LogInfo) -> Result<(), StoreError> {
        let edition = Edition::from_info(log);
        // Uses a cached timeline, but does not add others to the cache.
        let figures = match self.taken(&log.name, edition) {
            Some(read) => Some(Figures::from_timeline(&read.timeline)),
            None => match self.timeline(&log.name).await {
                Ok(timeline) => Some(Figures::from_timeline(&timeline)),
                Err(StoreError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).insert(log.name.clone(), (edition, figures));
        Ok(())
    }

    /// Reads the figures of sessions in the background, one after the other, unless that is already running.
    pub(super) fn read_on(cache: &Arc<SessionCache>, logs: Vec<LogInfo>) {
        if logs.is_empty() || cache.is_reading_on.swap(true, Ordering::AcqRel) {
            return;
        }
        let reader = Reader(cache.clone());
        tokio::spawn(async move {
            for log in logs {
                // A session that cannot be read stays unread, and is tried again at the next request.
                let _ = reader.0.learn(&log).await;
            }
        });
    }
}

/// A background reader. Dropping it lets another one start, even after a panic.
struct Reader(Arc<SessionCache>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.is_reading_on.store(false, Ordering::Release);
    }
}
