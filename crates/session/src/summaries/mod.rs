//! Summaries in the background: one at a time for each session, over all processes, made while the session goes on.
//!
//! A session's summaries have a log of their own. Whoever wants to make one first writes a claim into that log, and the
//! store lets one of several claims win. The maker writes the result into the same log, even if the session has been
//! closed. The next window of any process takes the summary up. If the summary does not pass its check, and the second
//! one neither, what it would have covered leaves the window without it.

mod begin;
mod let_go;
mod maker;
mod making;
mod missed;
mod newest;
mod note;
mod old;
mod take_up;
mod wait;

use std::fmt;
use std::time::{Duration, Instant};

use self::missed::Missed;
use super::{Session, SummaryOptions};
use lookback_store::LogName;

pub use making::NoSummary;
pub(crate) use note::check as check_note;
pub(super) use old::old_summaries;
pub use take_up::{NewestSummary, newest_summary};
pub use wait::pending;

/// How much longer its claim holds: time to write the result.
const GRACE: Duration = Duration::from_secs(5);
/// How long a session waits before it looks again whether another process is done.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The same, if somebody waits for the summary.
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
    /// This session has begun one. `done` closes when it has ended, also if it was canceled.
    Ours { id: String, done: async_channel::Receiver<()>, until: Instant },
    /// Another process makes one, or one has failed lately. There is nothing to do until then.
    Wait { until: Instant },
}

/// When a time in the newest note was first read.
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
            Work::Ours { .. } => "ours",
            Work::Wait { .. } => "wait",
        };
        f.debug_struct("Summaries")
            .field("summarizer", &self.options.summarizer)
            .field("work", &work)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Whether a summary that this session had begun has ended, or is late.
    fn ours_is_over(&self) -> bool {
        matches!(&self.summaries.work, Work::Ours { done, until, .. } if done.is_closed() || Instant::now() > *until)
    }

    /// Lets the limits wait for a summary.
    fn hold_limits(&mut self) {
        (self.summary_pending, self.drops) = (true, false);
        self.engine.hold_limits();
    }

    /// Lets the limits wait no longer.
    fn release_limits(&mut self) {
        (self.summary_pending, self.drops) = (false, false);
        self.engine.release_limits();
    }

    /// Keeps the limits without a summary while somebody may be making one, of whom nobody knows whether he is still there.
    /// What is dropped meanwhile is in the next summary.
    fn drop_at_limits(&mut self) {
        self.release_limits();
        self.drops = true;
    }

    /// Puts the summaries off: a store that fails must not keep a window from being sent.
    fn waive(&mut self, error: &super::Error) {
        tracing::warn!(session = %self.name, %error, "the summaries of a session cannot be reached");
        self.summaries.work = Work::Wait { until: Instant::now() + POLL_INTERVAL };
        self.hold_limits();
    }
}
