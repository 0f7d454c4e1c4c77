//! The notes in the log of a session's summaries. The newest one is the current state.

use std::time::Duration;

use lookback_engine::SummaryClaim;
use lookback_engine::transcript::Millis;
use serde::{Deserialize, Serialize};

use super::maker::Maker;
use lookback_store::now;
use lookback_store::{Append, LogName, Record, Store, StoreError};

/// The longest wait after failures. The wait doubles from one failure to the next.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A record of the log of summaries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Note {
    /// A claim: a process makes a summary, until `until` at the latest. No other claim has this `id`. If the maker is
    /// known to be gone, the claim is over.
    Started {
        id: String,
        /// The process that makes the summary.
        by: Maker,
        claim: SummaryClaim,
        model: String,
        until: Millis,
        failures: u32,
    },
    /// The summary, directly after its claim. If that claim has another `id`, the session was deleted and created again
    /// meanwhile, and the summary belongs to another conversation.
    Made {
        id: String,
        claim: SummaryClaim,
        text: String,
        model: String,
        tokens_before: u64,
        tokens_after: u64,
        /// The number of failed tries in a row before. If the session rejects this summary, that is one more.
        failures: u32,
    },
    /// Two summaries did not pass their check. Like [`Note::Made`], it directly follows its claim. The claim's messages
    /// must leave the window without a summary.
    Refused { id: String, claim: SummaryClaim },
    /// No summary was made. The next try is at `retry`.
    Failed { reason: String, failures: u32, retry: Millis },
}

/// Returns an error if a record's body is not a note.
pub(crate) fn check(body: &str) -> serde_json::Result<()> {
    serde_json::from_str::<Note>(body).map(|_| ())
}

impl Note {
    pub(super) async fn append(&self, store: &dyn Store, log: &LogName, at: u64) -> Result<(), StoreError> {
        let body = serde_json::to_string(self).map_err(|error| StoreError::unwritable(log, at, error))?;
        store.append(log, Append::new(at, [Record::new(body)]).time(now())).await
    }
}

/// Returns the note of a failed try, after `failures` earlier ones in a row.
pub(super) fn failed(reason: String, failures: u32) -> Note {
    let retry = now().unwrap_or_default().saturating_add(millis(wait(failures)));
    Note::Failed { reason, failures: failures.saturating_add(1), retry }
}

/// Returns the note that a refused summary is settled, so the next one may begin at once.
pub(super) fn drop_refused() -> Note {
    let reason = "the summary did not pass its check".to_owned();
    Note::Failed { reason, failures: 0, retry: now().unwrap_or_default() }
}

/// Returns the note that a summary is given up because its messages are erased. The next one may begin at once.
pub(super) fn given_up() -> Note {
    let reason = "the messages of the summary were erased".to_owned();
    Note::Failed { reason, failures: 0, retry: now().unwrap_or_default() }
}

/// Returns the wait before the next try, after a failure with `failures` earlier ones in a row: none after the first,
/// then 1, 2, 4 seconds, and so on.
pub(super) fn wait(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doubled) => Duration::from_secs(1u64.checked_shl(doubled).unwrap_or(u64::MAX)).min(LONGEST_WAIT),
    }
}

pub(super) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
