//! The lines of the gateway: the open session of each, and what they have taught together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lookback_conversation as conversation;
use lookback_session::Session;
use tokio::sync::Mutex as AsyncMutex;

use super::aside::Watch;
use super::calibrations::Calibrations;
use super::payoff::Spending;
use super::summarizer::SummaryModel;

/// The most sessions that are kept open. Others are opened from the store again, which costs what their window does.
const MOST_OPEN: usize = 512;

/// A line of conversation, with what the gateway attaches to it.
pub(super) type Line = conversation::Line<LineState>;

/// The place of a request in a conversation.
pub(super) type Place = conversation::Turn<LineState>;

/// An open session, and what watches over it.
pub(super) struct Open {
    pub(super) session: Session,
    pub(super) watch: Watch,
    /// The model that writes its summaries.
    pub(super) summarizer: Option<SummaryModel>,
}

/// What the gateway attaches to a line.
#[derive(Default)]
pub(super) struct LineState {
    /// The session, once it was opened. Whoever changes it waits for whoever does.
    pub(super) session: AsyncMutex<Option<Open>>,
    /// What it has cost.
    spent: Mutex<Spending>,
}

impl LineState {
    pub(super) fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of all clients.
#[derive(Default)]
pub(super) struct Lines {
    /// The lines that were used lately.
    pub(super) recent: conversation::Lines<LineState>,
    /// The lines with an open session, and when each was used last when it was looked at.
    open: Mutex<VecDeque<(Weak<Line>, u64)>>,
    /// What their token counts have taught.
    pub(super) calibrations: Calibrations,
}

impl Lines {
    /// Takes note that the session of a line was opened, and closes one that was not used for long, if there are too many.
    pub(super) fn opened(&self, line: &Arc<Line>) {
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
