//! The notes in the log of a session's summaries: the newest one says what the state is.

use std::time::Duration;

use lookback_engine::SummaryClaim;
use lookback_engine::transcript::Millis;
use serde::{Deserialize, Serialize};

use super::maker::Maker;
use lookback_store::now;
use lookback_store::{LogName, Record, Store, StoreError};

/// The longest wait after failures. The wait doubles from one failure to the next.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A record of the log of summaries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Note {
    /// A claim: somebody makes a summary, until `until` at the latest. No other claim has this `id`. If it is known that
    /// whoever makes it is gone, the claim is over.
    Started {
        id: String,
        /// Who makes it.
        by: Maker,
        claim: SummaryClaim,
        model: String,
        until: Millis,
        failures: u32,
    },
    /// The summary, right behind its claim. If that claim has another `id`, the session was erased and begun again
    /// meanwhile, and the summary belongs to another conversation.
    Made {
        id: String,
        claim: SummaryClaim,
        text: String,
        model: String,
        tokens_before: u64,
        tokens_after: u64,
        /// How many tries in a row had failed before. If the session rejects this summary, that is one more.
        failures: u32,
    },
    /// Two summaries did not pass their check, right behind their claim as [`Note::Made`]. What they would have covered is
    /// to leave the window without a summary.
    Refused { id: String, claim: SummaryClaim },
    /// Nothing came of it. The next try is at `retry`.
    Failed { reason: String, failures: u32, retry: Millis },
}

/// Returns an error if a body is no note.
pub(crate) fn check(body: &str) -> serde_json::Result<()> {
    serde_json::from_str::<Note>(body).map(|_| ())
}

impl Note {
    pub(super) async fn append(&self, store: &dyn Store, log: &LogName, at: u64) -> Result<(), StoreError> {
        let body = serde_json::to_string(self).map_err(|error| StoreError::unwritable(log, at, error))?;
        store.append(log, at, vec![Record::new(body)], now()).await
    }
}

/// The note that a try failed, after `failures` earlier ones in a row.
pub(super) fn failed(reason: String, failures: u32) -> Note {
    let retry = now().unwrap_or_default().saturating_add(millis(wait(failures)));
    Note::Failed { reason, failures: failures.saturating_add(1), retry }
}

/// The note that what a refused summary would have covered is no longer waited for: the next one may begin at once.
pub(super) fn let_go() -> Note {
    let reason = "the summary did not pass its check".to_owned();
    Note::Failed { reason, failures: 0, retry: now().unwrap_or_default() }
}

/// The note that a summary is given up, because what it covers is erased: the next one may begin at once.
pub(super) fn given_up() -> Note {
    let reason = "what the summary would have covered was erased".to_owned();
    Note::Failed { reason, failures: 0, retry: now().unwrap_or_default() }
}

/// The wait before the next try, after `failures` failures in a row before this one: none after the first, then 1, 2, 4
/// seconds.
pub(super) fn wait(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doubled) => Duration::from_secs(1u64.checked_shl(doubled).unwrap_or(u64::MAX)).min(LONGEST_WAIT),
    }
}

pub(super) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
