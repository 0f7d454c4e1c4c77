//! A line of conversation: a session in the store, with its outline and what its owner attaches to it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_store::LogName;

use super::outline::Outline;

/// A line of conversation, which is a session in the store.
pub struct Line<S = ()> {
    /// The name of the session.
    pub name: LogName,
    /// What the owner of the lines attaches to this one, such as the open session.
    pub state: S,
    outline: Mutex<Outline>,
}

impl<S: Default> Line<S> {
    pub(super) fn new(name: LogName, outline: Outline) -> Arc<Line<S>> {
        Arc::new(Line { name, state: S::default(), outline: Mutex::new(outline) })
    }
}

impl<S> Line<S> {
    /// Returns the number of the request that used it last. Requests are counted as they are found to belong to lines.
    pub fn used(&self) -> u64 {
        self.outline().used
    }

    /// Returns whether one of its requests is not over yet.
    pub fn is_busy(&self) -> bool {
        self.outline().is_busy()
    }

    /// Locks what is known of it. Nobody may hold two of these locks at once: a line can be in several scopes, and others
    /// would take them in another order.
    pub(super) fn outline(&self) -> MutexGuard<'_, Outline> {
        self.outline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Line<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("name", &self.name).finish_non_exhaustive()
    }
}
