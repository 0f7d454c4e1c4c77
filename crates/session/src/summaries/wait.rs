//! Waiting for the summary that is being made, here or in another process.

use std::time::{Duration, Instant};

use futures_lite::future;
use lookback_engine::transcript::Millis;

use super::newest::Newest;
use super::note::{Note, wait};
use super::{GRACE, SHORT_POLL_INTERVAL, Seen, Summaries, Work};
use crate::{Error, Session};
use lookback_store::now;
use lookback_summarize::Job;

impl Summaries {
    /// Returns the time left until a moment in the newest note; `None` if the moment has passed.
    ///
    /// The writer's clock may be wrong, and its process may be gone. So the wait ends `most` after the note was first
    /// read here, at the latest.
    pub(super) fn left(&mut self, end: u64, until: Millis, most: Duration) -> Option<Duration> {
        let seen = self.seen.take().filter(|seen| seen.end == end);
        let first = self.seen.insert(seen.unwrap_or(Seen { end, first: Instant::now() })).first;
        let told = u64::try_from(until.saturating_sub(now().unwrap_or_default())).map(Duration::from_millis);
        let left = told.unwrap_or_default().min(most.saturating_sub(first.elapsed()));
        (!left.is_zero()).then_some(left)
    }

    /// Returns how long a claim is valid.
    pub(super) fn patience(&self) -> Duration {
        self.options.time_limit.saturating_add(GRACE)
    }
}

impl Session {
    /// Waits until no summary is being made, and takes up the result. It is for callers that prefer waiting to
    /// exceeding their limits. After a failed summary, it does not wait for the next try.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn wait_for_summary(&mut self) -> Result<(), Error> {
        while let Some(pending) = pending(self).await? {
            pending.await;
        }
        Ok(())
    }
}

/// Takes up the summary that is ready, or begins the one that is due. If one is being made, returns a future that
/// resolves when this function should be called again; `None` if there is nothing to wait for.
///
/// It is [`Session::wait_for_summary`] for callers that let others use the session while they wait.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn pending(session: &mut Session) -> Result<Option<Job>, Error> {
    let mut seen = false;
    loop {
        if let Work::Wait { until } = &mut session.summaries.work {
            *until = Instant::now();
        }
        let before = session.engine.end();
        session.enforce_limits().await?;
        match &session.summaries.work {
            Work::Own { done, until, .. } => {
                let (done, until) = (done.clone(), *until);
                return Ok(Some(Box::pin(async move {
                    // Nothing is sent over the channel. It closes at the end of the work.
                    let ended = async { _ = done.recv().await };
                    let late = async { _ = async_io::Timer::at(until).await };
                    future::or(ended, late).await;
                })));
            }
            Work::None if session.engine.end() > before => {}
            Work::None => return Ok(None),
            Work::Wait { .. } => {
                let Newest { end, note } = session.summaries.newest(&*session.store).await?;
                let patience = session.summaries.patience();
                match note {
                    Some(Note::Started { until, .. }) if session.summaries.left(end, until, patience).is_some() => {
                        return Ok(Some(Box::pin(async { _ = async_io::Timer::after(SHORT_POLL_INTERVAL).await })));
                    }
                    // The summary has just ended, or cannot be taken up yet. Poll once more to find out.
                    Some(Note::Made { .. } | Note::Refused { .. }) if !std::mem::replace(&mut seen, true) => {}
                    Some(Note::Failed { retry, failures, .. })
                        if session.summaries.left(end, retry, wait(failures)).is_none()
                            && !std::mem::replace(&mut seen, true) => {}
                    _ => return Ok(None),
                }
            }
        }
    }
}
