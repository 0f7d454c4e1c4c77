//! The stores of the process. Each is opened once, and objects that were opened before a fork cannot be used after it.

use std::collections::HashMap;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use lookback_location::Location;
use lookback_store::{MemoryStore, Store};

use crate::Failure;

/// The identifier of the process that first opened a store, or 0. Stores use threads, which do not survive a fork.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// The stores that are open.
static OPEN: LazyLock<Mutex<HashMap<String, Weak<dyn Store>>>> = LazyLock::new(Mutex::default);

/// Returns the store at a path or a URL, which all sessions of the process share. Without a place, returns a new store
/// in memory.
pub(crate) fn store(place: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
    let Some(place) = place else { return Ok(Arc::new(MemoryStore::new())) };
    let (own, relaxed) = (process::id(), Ordering::Relaxed);
    if OPENER.compare_exchange(0, own, relaxed, relaxed).is_err_and(|opener| opener != own) {
        return Err(Failure::other(
            "this process was forked from one that had opened a store; start it with \"spawn\", or open stores after the fork",
        ));
    }
    let location = Location::parse(place)?;
    // The current folder may differ when the same path is given again.
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

/// The identifier of the process in which an object was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(process::id())
    }

    /// Returns an error in a process that was forked from this one.
    pub(crate) fn must_be_this(self, what: &str) -> Result<(), Failure> {
        // A store's threads do not survive a fork.
        if self.0 == process::id() {
            return Ok(());
        }
        Err(Failure::other(format!("this {what} was opened before the process was forked; open it here again")))
    }
}
