//! Summaries in the background: one at a time for each session, over all processes, while the session continues.
//!
//! A session's summaries have a separate log. Before a session makes a summary, it writes a claim into that log, and
//! the store accepts only one of several concurrent claims. The maker writes the result into the same log, even if the
//! session has been closed. The next window of any process takes the summary up. If neither the summary nor a second
//! one passes the check, the messages leave the window without a summary.

mod adopt;
mod begin;
mod drop_refused;
mod maker;
mod making;
mod missed;
mod newest;
mod no_summary;
mod note;
mod old;
mod wait;

use std::fmt;
use std::time::{Duration, Instant};

use self::missed::Missed;
use super::{Session, SummaryOptions};
use lookback_store::LogName;

pub use adopt::{NewestSummary, newest_summary};
pub use no_summary::NoSummary;
pub(crate) use note::check as check_note;
pub(super) use old::old_summaries;
pub use wait::pending;

/// The time for writing the result, for which a claim stays valid after the summary's time limit.
const GRACE: Duration = Duration::from_secs(5);
/// The interval at which a session checks whether another process is done.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The same, if a caller waits for the summary.
const SHORT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a session's summaries are made, and the state of the current one.
pub(super) struct Summaries {
    pub(super) options: SummaryOptions,
    log: LogName,
    work: Work,
    missed: Missed,
    seen: Option<Seen>,
}

/// The state of the current summary, as far as this session knows.
enum Work {
    /// There is none.
    None,
    /// This session has begun one. `done` closes when it has ended or was canceled.
    Own { id: String, done: async_channel::Receiver<()>, until: Instant },
    /// Another process makes one, or one has failed recently. There is nothing to do before `until`.
    Wait { until: Instant },
}

/// The moment at which the newest note was first read.
struct Seen {
    /// The end of the log with that note.
    end: u64,
    first: Instant,
}

impl Summaries {
    pub(super) fn new(name: &LogName) -> Self {
        Summaries {
            options: SummaryOptions::default(),
            log: name.summary_of(),
            work: Work::None,
            missed: Missed::default(),
            seen: None,
        }
    }
}

impl fmt::Debug for Summaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = match self.work {
            Work::None => "none",
            Work::Own { .. } => "ours",
            Work::Wait { .. } => "wait",
        };
        f.debug_struct("Summaries")
            .field("summarizer", &self.options.summarizer)
            .field("work", &work)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Whether a summary that this session has begun has ended, or is late.
    fn ours_is_over(&self) -> bool {
        matches!(&self.summaries.work, Work::Own { done, until, .. } if done.is_closed() || Instant::now() > *until)
    }

    /// Lets the limits wait for a summary.
    fn hold_limits(&mut self) {
        (self.summary_pending, self.drops) = (true, false);
        self.engine.hold_limits();
    }

    /// Stops the limits from waiting.
    fn release_limits(&mut self) {
        (self.summary_pending, self.drops) = (false, false);
        self.engine.release_limits();
    }

    /// Enforces the limits without a summary, while a maker that may be gone may be making one. The next summary covers
    /// the messages that are dropped meanwhile.
    fn drop_at_limits(&mut self) {
        self.release_limits();
        self.drops = true;
    }

    /// Postpones summaries after an error, because a failing store must not keep a window from being sent.
    fn waive(&mut self, error: &super::Error) {
        tracing::warn!(session = %self.name, %error, "the summaries of a session cannot be reached");
        self.summaries.work = Work::Wait { until: Instant::now() + POLL_INTERVAL };
        self.hold_limits();
    }
}
