//! Erasing the texts of summaries that were made long ago. The newest one is that of the window, or will be.

use lookback_core::transcript::Position;
use lookback_core::view::View;

use super::are_summaries_of;
use super::note::Note;
use crate::store::{LogName, Store, StoreError, Tombstone, checksum};

/// How many notes are read at once.
const PAGE: u64 = 256;

/// What takes the place of the summaries of a session that cover only entries before `until`, and the bytes of these
/// notes. The newest is kept, unless it covers nothing that belongs to the branch of the view.
pub(in crate::session) async fn old_summaries(
    store: &dyn Store,
    session: &LogName,
    view: &View,
    until: Position,
) -> Result<(Vec<(LogName, Vec<Tombstone>)>, u64), StoreError> {
    let (mut old, mut bytes) = (Vec::new(), 0);
    for log in [Some(session.summary_of()), session.old_summary_of()].into_iter().flatten() {
        if !are_summaries_of(store, &log, session).await? {
            continue;
        }
        let end = store.head(&log, None).await?.map_or(0, |head| head.end);
        let (mut at, mut tombstones) = (0, Vec::new());
        while at < end {
            let page = at..end.min(at + PAGE);
            for (position, body) in page.clone().zip(store.read(&log, page.clone()).await?) {
                // A note that cannot be read may be from a newer version.
                let Ok(mut note) = serde_json::from_str(&body) else { continue };
                let Note::Made { claim, text, .. } = &mut note else { continue };
                let is_current = position + 1 == end && claim.covers.iter().any(|span| view.is_on_path(span));
                if is_current || text.is_empty() || claim.covers.iter().any(|span| span.end > until) {
                    continue;
                }
                bytes += body.len() as u64;
                text.clear();
                let note =
                    serde_json::to_string(&note).map_err(|error| StoreError::unwritable(&log, position, error))?;
                tombstones.push(Tombstone::new(position, checksum(&log, position, &body), note));
            }
            at = page.end;
        }
        old.push((log, tombstones));
    }
    Ok((old, bytes))
}
