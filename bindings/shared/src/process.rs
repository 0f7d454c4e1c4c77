//! The process, and its stores: each is opened once, and what was opened before a fork is not used after it.

use std::collections::HashMap;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use lookback_location::Location;
use lookback_store::{MemoryStore, Store};

use crate::Failure;

/// The process that has opened a store. Its threads do the waiting for the disk, and a fork leaves them behind.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// The stores that are open.
static OPEN: LazyLock<Mutex<HashMap<String, Weak<dyn Store>>>> = LazyLock::new(Mutex::default);

/// Returns the store at a path or a URL. All sessions of a process share it. Without a place, it is a new one in memory.
pub(crate) fn store(place: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
    let Some(place) = place else { return Ok(Arc::new(MemoryStore::new())) };
    let (own, relaxed) = (process::id(), Ordering::Relaxed);
    if OPENER.compare_exchange(0, own, relaxed, relaxed).is_err_and(|opener| opener != own) {
        return Err(Failure::other(
            "this process was forked from one that had opened a store; start it with \"spawn\", or open stores after the fork",
        ));
    }
    let location = Location::parse(place)?;
    // Another folder may be the current one when the same path is given again.
    let whole = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    let name = match &location {
        Location::Memory => return Ok(location.open()?),
        Location::Sqlite(_) | Location::Files(_) => format!("{location}\n{}", whole.display()),
        _ => place.display().to_string(),
    };
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = open.get(&name).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let store = location.open()?;
    open.retain(|_, store| store.strong_count() > 0);
    open.insert(name, Arc::downgrade(&store));
    Ok(store)
}

/// The process in which something was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(process::id())
    }

    /// Returns an error in a process that was forked from this one.
    pub(crate) fn must_be_this(self, what: &str) -> Result<(), Failure> {
        // What a store works with, such as threads, is not there after a fork.
        if self.0 == process::id() {
            return Ok(());
        }
        Err(Failure::other(format!("this {what} was opened before the process was forked; open it here again")))
    }
}
