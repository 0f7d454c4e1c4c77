//! Polling the state of a session's summaries, and taking up the one that is ready.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookback_engine::transcript::{Entry, Position};
use lookback_engine::{Engine, SummaryClaim, SummaryRejected};
use tracing::Span;

use super::drop_refused::Dropped;
use super::maker::Presence;
use super::making::end_of;
use super::newest::Newest;
use super::no_summary::Reason;
use super::note::{Note, failed, wait};
use super::{POLL_INTERVAL, Work};
use crate::hooks::CompactionOutcome;
use crate::writing::Recorded;
use crate::{Error, Session};
use lookback_store::StoreError;

/// The result of polling the newest note.
pub(super) enum SummaryPoll {
    /// No summary is being made, so one may be begun.
    Free(Free),
    /// A summary is being made, or it is too early for another try.
    Wait,
    /// A summary was taken up, or the messages of a refused one have left. These entries record it.
    TakenUp(Vec<Entry>),
}

/// The position for the claim of the next summary.
#[derive(Clone, Copy)]
pub(super) struct Free {
    /// The end of the log of summaries.
    pub(super) end: u64,
    /// The number of failed tries in a row.
    pub(super) failures: u32,
}

/// The newest summary, even if it is not taken up yet.
#[derive(Debug)]
pub struct NewestSummary {
    /// Its text.
    pub text: String,
    /// The entries of the window that it will replace. Empty once it is taken up.
    pub replaces: Vec<Range<Position>>,
}

/// The engine's answer to a summary.
enum Answer {
    Accepted(Vec<Entry>),
    Rejected(SummaryRejected),
}

impl Recorded for Answer {
    fn entries(&self) -> &[Entry] {
        match self {
            Answer::Accepted(entries) => entries,
            Answer::Rejected(_) => &[],
        }
    }
}

impl Session {
    /// Takes up a summary that is ready, and updates whether the limits must wait for one. Returns the entries that
    /// were written. An error is logged and changes nothing.
    pub(crate) async fn tend(&mut self) -> Vec<Entry> {
        if self.engine.settings().policy.summary().is_none() {
            // The policy no longer summarizes, so no summary will be taken up, and the limits need not wait.
            if self.ours_is_over() {
                self.summaries.work = Work::None;
            }
            self.release_limits();
            return Vec::new();
        }
        let due = match &self.summaries.work {
            // The limits wait although no summary is known: the last poll was interrupted.
            Work::None => self.summary_pending,
            Work::Own { .. } => self.ours_is_over(),
            Work::Wait { until } => Instant::now() >= *until,
        };
        if !due {
            return Vec::new();
        }
        match self.poll_summary().await {
            Ok(SummaryPoll::TakenUp(entries)) => entries,
            Ok(SummaryPoll::Free(_) | SummaryPoll::Wait) => Vec::new(),
            Err(error) => {
                self.waive(&error);
                Vec::new()
            }
        }
    }

    /// Reads the newest note, and takes up a summary that is ready.
    pub(super) async fn poll_summary(&mut self) -> Result<SummaryPoll, Error> {
        // While our own summary is in time, this is not called. So if the claim is ours, the work has ended or is late.
        let ours = match &self.summaries.work {
            Work::Own { id, .. } => Some(id.clone()),
            Work::None | Work::Wait { .. } => None,
        };
        let Newest { end, note } = self.summaries.newest(&*self.store).await?;
        let patience = self.summaries.patience();
        let mut is_known = true;
        let (poll, work) = match note {
            None => (SummaryPoll::Free(Free { end, failures: 0 }), Work::None),
            Some(Note::Started { id, by, until, claim, failures, .. }) => {
                let is_ours = ours.is_some_and(|ours| ours == id);
                let presence = by.presence(&id);
                if is_ours || presence != Presence::Gone && self.summaries.left(end, until, patience).is_none() {
                    // The maker has not reported a result in time.
                    self.fail(&claim, end, failures, Reason::Late).await?;
                    (SummaryPoll::Wait, Work::Wait { until: Instant::now() + wait(failures) })
                } else if presence == Presence::Gone {
                    let is_told = self.fail(&claim, end, failures, Reason::Gone).await?;
                    let wait = wait(failures);
                    if is_told && wait.is_zero() {
                        (SummaryPoll::Free(Free { end: end + 1, failures: failures.saturating_add(1) }), Work::None)
                    } else {
                        // If another note was written meanwhile, such as the summary after all, poll again at once.
                        let wait = if is_told { wait } else { Duration::ZERO };
                        (SummaryPoll::Wait, Work::Wait { until: Instant::now() + wait })
                    }
                } else {
                    is_known = presence == Presence::Here;
                    (SummaryPoll::Wait, Work::Wait { until: Instant::now() + POLL_INTERVAL })
                }
            }
            Some(Note::Failed { failures, retry, .. }) => match self.summaries.left(end, retry, wait(failures)) {
                None => (SummaryPoll::Free(Free { end, failures }), Work::None),
                Some(left) => (SummaryPoll::Wait, Work::Wait { until: Instant::now() + left }),
            },
            Some(Note::Made { claim, text, failures, .. }) => match self.accept(&claim, &text).await? {
                Answer::Accepted(entries) => return Ok(self.done(&claim, entries)),
                Answer::Rejected(SummaryRejected::Superseded) => {
                    (SummaryPoll::Free(Free { end, failures: 0 }), Work::None)
                }
                Answer::Rejected(SummaryRejected::Waits) => (SummaryPoll::Wait, Work::Wait { until: Instant::now() }),
                Answer::Rejected(rejected) => {
                    self.fail(&claim, end, failures, rejected.into()).await?;
                    (SummaryPoll::Wait, Work::Wait { until: Instant::now() })
                }
            },
            Some(Note::Refused { claim, .. }) => match self.drop_refused(&claim, end).await? {
                Dropped::Left(entries) => return Ok(self.done(&claim, entries)),
                Dropped::Nothing => {
                    self.summaries.missed.forget(&claim.covers);
                    (SummaryPoll::Free(Free { end: end + 1, failures: 0 }), Work::None)
                }
                Dropped::Waits => (SummaryPoll::Wait, Work::Wait { until: Instant::now() }),
            },
        };
        // The state changes last. If this future is dropped before, the next call polls again.
        self.summaries.missed.wait_again();
        self.summaries.work = work;
        match poll {
            SummaryPoll::Free(_) => self.release_limits(),
            // The maker may be gone. Then its claim would hold up the limits for the whole time limit.
            SummaryPoll::Wait | SummaryPoll::TakenUp(_) if !is_known => self.drop_at_limits(),
            SummaryPoll::Wait | SummaryPoll::TakenUp(_) => self.hold_limits(),
        }
        Ok(poll)
    }

    /// Resets the state after the messages of a claim have left the window.
    fn done(&mut self, claim: &SummaryClaim, entries: Vec<Entry>) -> SummaryPoll {
        self.summaries.missed.forget(&claim.covers);
        self.summaries.missed.wait_again();
        self.summaries.work = Work::None;
        self.release_limits();
        SummaryPoll::TakenUp(entries)
    }

    async fn accept(&mut self, claim: &SummaryClaim, text: &str) -> Result<Answer, Error> {
        let accept = |engine: &mut Engine| {
            Ok(engine.accept_summary(claim, text).map_or_else(Answer::Rejected, Answer::Accepted))
        };
        Ok(self.commit(accept).await?.outcome)
    }

    /// Records that a summary failed, and reports it. Returns `false` if another writer was faster.
    async fn fail(&mut self, claim: &SummaryClaim, end: u64, failures: u32, reason: Reason) -> Result<bool, Error> {
        let note = failed(reason.to_string(), failures);
        match note.append(&*self.store, &self.summaries.log, end).await {
            // Another writer has recorded something.
            Err(StoreError::Conflict { .. }) => return Ok(false),
            result => result?,
        }
        let (tokens, outcome) = (claim.size.tokens, CompactionOutcome::Failed { reason: Arc::new(reason.into()) });
        self.hooks.end(&Span::current(), &end_of(&self.name, tokens, 0, Duration::ZERO, outcome));
        Ok(true)
    }
}

/// Returns the newest summary without changing the session: one that is ready but not taken up yet, or else the running
/// summary. An erased summary counts as none.
pub async fn newest_summary(session: &Session) -> Result<Option<NewestSummary>, Error> {
    let Newest { note, .. } = session.summaries.newest(&*session.store).await?;
    Ok(match note {
        Some(Note::Made { claim, text, .. })
            if !text.is_empty()
                && claim.replaces == session.view().summary_position()
                && claim.covers.iter().all(|span| session.view().is_on_path(span)) =>
        {
            Some(NewestSummary { text, replaces: claim.covers })
        }
        _ => {
            let current = session.view().summary().filter(|summary| !summary.text.is_empty());
            current.map(|summary| NewestSummary { text: summary.text.clone(), replaces: Vec::new() })
        }
    })
}
