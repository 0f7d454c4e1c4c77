//! A line of conversation: a session in the store, with its outline and its owner's state.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_store::LogName;

use super::outline::Outline;

/// A line of conversation, which is a session in the store.
pub struct Line<S = ()> {
    /// The name of the session.
    pub name: LogName,
    /// The owner's data for this line, such as the open session.
    pub state: S,
    outline: Mutex<Outline>,
}

impl<S: Default> Line<S> {
    pub(super) fn new(name: LogName, outline: Outline) -> Arc<Line<S>> {
        Arc::new(Line { name, state: S::default(), outline: Mutex::new(outline) })
    }
}

impl<S> Line<S> {
    /// Returns the number of the request that used the line last. Requests are numbered as their lines are found.
    pub fn used(&self) -> u64 {
        self.outline().used
    }

    /// Returns whether a request of the line is not over yet.
    pub fn is_busy(&self) -> bool {
        self.outline().is_busy()
    }

    /// Locks the outline. A thread must not hold two of these locks at once: a line can be in several scopes, so
    /// another thread could take them in another order and cause a deadlock.
    pub(super) fn outline(&self) -> MutexGuard<'_, Outline> {
        self.outline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Line<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("name", &self.name).finish_non_exhaustive()
    }
}
