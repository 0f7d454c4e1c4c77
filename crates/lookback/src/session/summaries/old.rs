//! Erasing the texts of summaries that were made long ago. The newest one is that of the window, or will be.

use lookback_core::transcript::Position;

use super::are_summaries_of;
use super::note::Note;
use crate::store::{LogName, Store, StoreError, Tombstone, checksum};

/// How many notes are read at once.
const PAGE: u64 = 256;

/// What takes the place of the summaries of a session that cover only entries before `until`, but for the newest.
pub(in crate::session) async fn old_summaries(
    store: &dyn Store,
    session: &LogName,
    until: Position,
) -> Result<Vec<(LogName, Vec<Tombstone>)>, StoreError> {
    let mut old = Vec::new();
    for log in [Some(session.summary_of()), session.old_summary_of()].into_iter().flatten() {
        if !are_summaries_of(store, &log, session).await? {
            continue;
        }
        let newest = store.head(&log, None).await?.map_or(0, |head| head.end.saturating_sub(1));
        let (mut at, mut tombstones) = (0, Vec::new());
        while at < newest {
            let page = at..newest.min(at + PAGE);
            for (position, body) in page.clone().zip(store.read(&log, page.clone()).await?) {
                // A note that cannot be read may be from a newer version.
                let Ok(mut note) = serde_json::from_str(&body) else { continue };
                let Note::Made { claim, text, .. } = &mut note else { continue };
                if text.is_empty() || claim.covers.iter().any(|span| span.end > until) {
                    continue;
                }
                text.clear();
                let note =
                    serde_json::to_string(&note).map_err(|error| StoreError::unwritable(&log, position, error))?;
                tombstones.push(Tombstone::new(position, checksum(&log, position, &body), note));
            }
            at = page.end;
        }
        old.push((log, tombstones));
    }
    Ok(old)
}
