//! The lines of the gateway: the open session of each, and what they have taught together.

pub(crate) mod aside;
pub(crate) mod calibrations;
pub(crate) mod turn;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lookback_conversation as conversation;
use lookback_session::Session;
use tokio::sync::Mutex as AsyncMutex;

use crate::gateway::config::summarizer::SummaryModel;
use crate::gateway::lines::aside::Watch;
use crate::gateway::lines::calibrations::Calibrations;
use crate::gateway::report::payoff::Spending;

/// The most sessions that are kept open. Others are opened from the store again, which costs what their window does.
const MOST_OPEN: usize = 512;

/// A line of conversation, with what the gateway attaches to it.
pub(crate) type Line = conversation::Line<LineState>;

/// The place of a request in a conversation.
pub(crate) type Place = conversation::Turn<LineState>;

/// An open session, and what watches over it.
pub(crate) struct Open {
    pub(crate) session: Session,
    pub(crate) watch: Watch,
    /// The model that writes its summaries.
    pub(crate) summarizer: Option<SummaryModel>,
}

/// What the gateway attaches to a line.
#[derive(Default)]
pub(crate) struct LineState {
    /// The session, once it was opened. Whoever changes it waits for whoever does.
    pub(crate) session: AsyncMutex<Option<Open>>,
    /// What it has cost.
    spent: Mutex<Spending>,
}

impl LineState {
    pub(crate) fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of all clients.
#[derive(Default)]
pub(crate) struct Lines {
    /// The lines that were used lately.
    pub(crate) recent: conversation::Lines<LineState>,
    /// The lines with an open session, and when each was used last when it was looked at.
    open: Mutex<VecDeque<(Weak<Line>, u64)>>,
    /// What their token counts have taught.
    pub(crate) calibrations: Calibrations,
}

impl Lines {
    /// Takes note that the session of a line was opened, and closes one that was not used for long, if there are too many.
    pub(crate) fn opened(&self, line: &Arc<Line>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back((Arc::downgrade(line), line.used()));
        // Whoever was used meanwhile gets another chance.
        for _ in 0..open.len() {
            if open.len() <= MOST_OPEN {
                return;
            }
            let Some((weak, seen)) = open.pop_front() else { return };
            let Some(line) = weak.upgrade() else { continue };
            let used = line.used();
            let is_idle = used == seen && !line.is_busy();
            let closed = is_idle && line.state.session.try_lock().is_ok_and(|mut session| session.take().is_some());
            if !closed {
                open.push_back((weak, used));
            }
        }
    }
}
