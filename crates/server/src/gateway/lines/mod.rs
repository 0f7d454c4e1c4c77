//! The lines of the gateway, with their open sessions and shared token calibrations.

pub(crate) mod calibrations;
pub(crate) mod hidden_exchange;
pub(crate) mod shadow;
pub(crate) mod turn;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lookback_conversation as conversation;
use lookback_session::Session;
use tokio::sync::Mutex as AsyncMutex;

use crate::gateway::config::summarizer::SummaryModel;
use crate::gateway::lines::calibrations::Calibrations;
use crate::gateway::lines::hidden_exchange::Watch;
use crate::gateway::lines::shadow::Shadow;
use crate::gateway::report::habits::Habits;
use crate::gateway::report::payoff::Spending;

/// The most open sessions. Others are opened from the store again, which takes as long as reading their window.
const MOST_OPEN: usize = 512;

/// A line, with the state that the gateway attaches to it.
pub(crate) type Line = conversation::Line<LineState>;

/// A request, and the line that it continues.
pub(crate) type Match = conversation::Match<LineState>;

/// An open session, with its middleware.
pub(crate) struct Open {
    pub(crate) session: Session,
    pub(crate) watch: Watch,
    /// The model that writes its summaries.
    pub(crate) summarizer: Option<SummaryModel>,
}

/// The state that the gateway attaches to a line.
#[derive(Default)]
pub(crate) struct LineState {
    /// The session, once it has been opened. The lock orders the requests of the line.
    pub(crate) session: AsyncMutex<Option<Open>>,
    /// The session as it would be cut, if conversations are sent as they come.
    pub(crate) shadow: Arc<AsyncMutex<Option<Shadow>>>,
    /// The cost of the line so far.
    spent: Mutex<Spending>,
    /// The habits of its client that cost money.
    habits: Mutex<Habits>,
}

impl LineState {
    pub(crate) fn habits(&self) -> MutexGuard<'_, Habits> {
        self.habits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of all clients.
#[derive(Default)]
pub(crate) struct Lines {
    /// The recently used lines.
    pub(crate) recent: conversation::Lines<LineState>,
    /// The lines with an open session, each with the time of its last use when it was last examined.
    open: Mutex<VecDeque<(Weak<Line>, u64)>>,
    /// The token calibrations that they have learned.
    pub(crate) calibrations: Calibrations,
}

impl Lines {
    /// Records that the session of a line was opened. If too many are open, closes one that was not used for long.
    pub(crate) fn opened(&self, line: &Arc<Line>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back((Arc::downgrade(line), line.used()));
        // A line that was used since it was last examined is kept for another round.
        for _ in 0..open.len() {
            if open.len() <= MOST_OPEN {
                return;
            }
            let Some((weak, seen)) = open.pop_front() else { return };
            let Some(line) = weak.upgrade() else { continue };
            let used = line.used();
            let is_idle = used == seen && !line.is_busy();
            let closed = is_idle && line.state.session.try_lock().is_ok_and(|mut session| session.take().is_some());
            if closed && let Ok(mut shadow) = line.state.shadow.try_lock() {
                *shadow = None;
            }
            if !closed {
                open.push_back((weak, used));
            }
        }
    }
}
