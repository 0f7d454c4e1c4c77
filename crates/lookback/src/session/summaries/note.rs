//! What the log of a session's summaries holds: the newest note says how things stand.

use std::time::Duration;

use lookback_core::engine::SummaryClaim;
use lookback_core::transcript::Millis;
use serde::{Deserialize, Serialize};

use crate::session::now;
use crate::store::{LogName, Record, Store, StoreError};

/// The longest that is waited after failures, which is doubled from one to the next.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// What the log of summaries holds. The newest says how things stand.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Note {
    /// Somebody makes a summary, until `until` at the latest. No other has this `id`.
    Started {
        of: String,
        #[serde(default)]
        id: String,
        claim: SummaryClaim,
        model: String,
        until: Millis,
        failures: u32,
    },
    /// Here it is. It stands right behind its beginning: where that has another `id`, the session was erased meanwhile and begun anew, and
    /// the summary is of another conversation.
    Made {
        of: String,
        #[serde(default)]
        id: String,
        claim: SummaryClaim,
        text: String,
        model: String,
        tokens_before: u64,
        tokens_after: u64,
        /// How often it failed in a row before: where the session does not take this one, that is one more.
        #[serde(default)]
        failures: u32,
    },
    /// Nothing came of it; it is tried again at `retry`.
    Failed { of: String, reason: String, failures: u32, retry: Millis },
}

impl Note {
    pub(super) fn is_of(&self, session: &LogName) -> bool {
        let (Note::Started { of, .. } | Note::Made { of, .. } | Note::Failed { of, .. }) = self;
        of == session.as_str()
    }

    pub(super) async fn append(&self, store: &dyn Store, log: &LogName, at: u64) -> Result<(), StoreError> {
        let damaged = |error: serde_json::Error| StoreError::Damaged {
            log: log.to_string(),
            position: at,
            reason: error.to_string(),
        };
        let body = serde_json::to_string(self).map_err(damaged)?;
        store.append(log, at, vec![Record { body, text: String::new(), checkpoint: false }], now()).await
    }
}

pub(super) fn failed(session: &LogName, reason: String, failures: u32) -> Note {
    let retry = now().unwrap_or_default().saturating_add(millis(wait(failures)));
    Note::Failed { of: session.to_string(), reason, failures: failures.saturating_add(1), retry }
}

/// How long is waited after so many failures in a row before this one: not at all after the first, then a second, two, four.
pub(super) fn wait(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doubled) => Duration::from_secs(1u64.checked_shl(doubled).unwrap_or(u64::MAX)).min(LONGEST_WAIT),
    }
}

pub(super) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
