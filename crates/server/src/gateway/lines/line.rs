//! A line of conversation: its session, and what is known of it without opening the session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_session::Session;
use lookback_store::LogName;
use tokio::sync::Mutex as AsyncMutex;

use super::super::aside::Watch;
use super::super::payoff::Spending;
use super::super::summarizer::SummaryModel;
use super::choose::Known;

/// An open session, and what watches over it.
pub(in crate::gateway) struct Open {
    pub(in crate::gateway) session: Session,
    pub(in crate::gateway) watch: Watch,
    /// The model that writes its summaries.
    pub(in crate::gateway) summarizer: Option<SummaryModel>,
}

/// A line of conversation, which is a session in the store.
pub(in crate::gateway) struct Line {
    pub(in crate::gateway) name: LogName,
    /// The session, once it was opened. Whoever changes it waits for whoever does.
    pub(in crate::gateway) session: AsyncMutex<Option<Open>>,
    known: Mutex<Known>,
    /// What it has cost.
    spent: Mutex<Spending>,
}

impl Line {
    pub(super) fn new(name: LogName, known: Known) -> Arc<Line> {
        Arc::new(Line { name, session: AsyncMutex::new(None), known: Mutex::new(known), spent: Mutex::default() })
    }

    pub(in crate::gateway) fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks what is known of it. Nobody may hold two of these locks at once: a line can be in several scopes, and others
    /// would take them in another order.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
