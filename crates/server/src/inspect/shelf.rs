//! Sessions that were read: their timelines while they are looked at, and the figures of all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lookback::timeline::Timeline;
use lookback::tokens::TokenCounter;
use lookback::{LogName, Price, Store, StoreError, session};
use lookback_inspector::{Figures, Pairs};

/// How many timelines are kept.
const MOST: usize = 16;

/// A session that was read.
#[derive(Debug)]
pub(super) struct Read {
    /// The length that its log had, in entries.
    pub(super) end: u64,
    pub(super) timeline: Timeline,
    pub(super) pairs: Pairs,
}

/// The sessions that were read.
pub(super) struct Shelf {
    store: Arc<dyn Store>,
    counter: Arc<dyn TokenCounter>,
    price: Price,
    /// The timelines, the last used last.
    timelines: Mutex<Vec<(LogName, Arc<Read>)>>,
    figures: Mutex<HashMap<LogName, (u64, Figures)>>,
    /// Whether figures are read in the background.
    is_reading: AtomicBool,
}

impl Shelf {
    pub(super) fn new(store: Arc<dyn Store>, counter: Arc<dyn TokenCounter>, price: Price) -> Shelf {
        Shelf {
            store,
            counter,
            price,
            timelines: Mutex::default(),
            figures: Mutex::default(),
            is_reading: AtomicBool::new(false),
        }
    }

    pub(super) fn counter(&self) -> Arc<dyn TokenCounter> {
        self.counter.clone()
    }

    pub(super) fn price(&self) -> &Price {
        &self.price
    }

    /// Returns the timeline of a session as it is now.
    pub(super) async fn read(&self, log: &LogName) -> Result<Arc<Read>, StoreError> {
        let end = self.store.head(log, None).await?.map_or(0, |head| head.end);
        if let Some(read) = self.taken(log, end) {
            return Ok(read);
        }
        let read = self.timeline(log).await?;
        let read = Arc::new(Read { end, pairs: Pairs::of(&read.rows), timeline: read });
        let mut timelines = self.timelines.lock().unwrap_or_else(PoisonError::into_inner);
        timelines.retain(|(name, ..)| name != log);
        if timelines.len() >= MOST {
            timelines.remove(0);
        }
        timelines.push((log.clone(), read.clone()));
        Ok(read)
    }

    fn taken(&self, log: &LogName, end: u64) -> Option<Arc<Read>> {
        let mut timelines = self.timelines.lock().unwrap_or_else(PoisonError::into_inner);
        let at = timelines.iter().position(|(name, read)| name == log && read.end == end)?;
        let taken = timelines.remove(at);
        let read = taken.1.clone();
        timelines.push(taken);
        Some(read)
    }

    /// Makes the timeline of a session. It takes long, and others are served meanwhile.
    async fn timeline(&self, log: &LogName) -> Result<Timeline, StoreError> {
        let (store, counter, price, log) = (self.store.clone(), self.counter.clone(), self.price.clone(), log.clone());
        let handle = tokio::runtime::Handle::current();
        let made = move || handle.block_on(session::timeline(&*store, &log, &*counter, &price));
        let joined = tokio::task::spawn_blocking(made).await;
        joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    /// Returns the figures of a session whose log has this length, if they are known or may be read.
    pub(super) async fn figures(&self, log: &LogName, end: u64, may_read: bool) -> Result<Option<Figures>, StoreError> {
        let known = self.figures.lock().unwrap_or_else(PoisonError::into_inner).get(log).cloned();
        match known {
            Some((length, figures)) if length == end || !may_read => return Ok(Some(figures)),
            _ if !may_read => return Ok(None),
            _ => {}
        }
        // The timelines of those that are looked at are kept, and not these.
        let figures = match self.taken(log, end) {
            Some(read) => Figures::of(&read.timeline),
            None => match self.timeline(log).await {
                Ok(timeline) => Figures::of(&timeline),
                // The others are shown all the same.
                Err(StoreError::Damaged { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let mut kept = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(log.clone(), (end, figures.clone()));
        Ok(Some(figures))
    }

    /// Reads the figures of sessions in the background, one after the other, unless some are being read.
    pub(super) fn read_on(shelf: &Arc<Shelf>, logs: Vec<(LogName, u64)>) {
        if logs.is_empty() || shelf.is_reading.swap(true, Ordering::AcqRel) {
            return;
        }
        let shelf = shelf.clone();
        tokio::spawn(async move {
            for (log, end) in logs {
                // Whoever looks at the overview is told of a store that fails.
                if shelf.figures(&log, end, true).await.is_err() {
                    break;
                }
            }
            shelf.is_reading.store(false, Ordering::Release);
        });
    }
}
