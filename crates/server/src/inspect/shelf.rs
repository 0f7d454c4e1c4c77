//! Sessions that were read: their timelines while they are looked at, and the figures of all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::FutureExt as _;
use lookback::timeline::Timeline;
use lookback::tokens::TokenCounter;
use lookback::{LogName, Price, Store, StoreError, session};
use lookback_inspector::{Figures, Pairs};

/// How many timelines are kept.
const MOST: usize = 16;

/// A session that was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) timeline: Timeline,
    pub(super) pairs: Pairs,
}

/// The sessions that were read.
pub(super) struct Shelf {
    store: Arc<dyn Store>,
    counter: Arc<dyn TokenCounter>,
    price: Price,
    /// The timelines, the last used last, each with the length that its log had.
    timelines: Mutex<Vec<(LogName, u64, Arc<Read>)>>,
    figures: Mutex<HashMap<LogName, (u64, Figures)>>,
}

impl Shelf {
    pub(super) fn new(store: Arc<dyn Store>, counter: Arc<dyn TokenCounter>, price: Price) -> Shelf {
        Shelf { store, counter, price, timelines: Mutex::default(), figures: Mutex::default() }
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
        let (store, counter, price, name) = (self.store.clone(), self.counter.clone(), self.price.clone(), log.clone());
        let handle = tokio::runtime::Handle::current();
        // The fold takes long, and others are served meanwhile.
        let made = tokio::task::spawn_blocking(move || {
            let timeline = handle.block_on(session::timeline(&*store, &name, &*counter, &price))?;
            Ok::<_, StoreError>(Arc::new(Read { pairs: Pairs::of(&timeline.rows), timeline }))
        });
        let read =
            made.map(|joined| joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))).await?;
        let mut timelines = self.timelines.lock().unwrap_or_else(PoisonError::into_inner);
        timelines.retain(|(name, ..)| name != log);
        if timelines.len() >= MOST {
            timelines.remove(0);
        }
        timelines.push((log.clone(), end, read.clone()));
        Ok(read)
    }

    fn taken(&self, log: &LogName, end: u64) -> Option<Arc<Read>> {
        let mut timelines = self.timelines.lock().unwrap_or_else(PoisonError::into_inner);
        let at = timelines.iter().position(|(name, length, _)| name == log && *length == end)?;
        let taken = timelines.remove(at);
        let read = taken.2.clone();
        timelines.push(taken);
        Some(read)
    }

    /// Returns the figures of a session whose log has this length, if they are known or may be read.
    pub(super) async fn figures(&self, log: &LogName, end: u64, may_read: bool) -> Result<Option<Figures>, StoreError> {
        let known = self.figures.lock().unwrap_or_else(PoisonError::into_inner).get(log).cloned();
        match known {
            Some((length, figures)) if length == end || !may_read => return Ok(Some(figures)),
            _ if !may_read => return Ok(None),
            _ => {}
        }
        let figures = match self.read(log).await {
            Ok(read) => Figures::of(&read.timeline),
            // The others are shown all the same.
            Err(StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut kept = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(log.clone(), (end, figures.clone()));
        Ok(Some(figures))
    }
}
