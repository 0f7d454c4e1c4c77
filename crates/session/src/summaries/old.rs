//! Erasing the texts of summaries that were made long ago, or from what is erased; and giving up the one that is being made.

use lookback_engine::view::View;

use super::newest::Newest;
use super::note::{Note, given_up};
use crate::erase::Sources;
use crate::{Error, Session, TRIES};
use lookback_store::{LogName, Store, StoreError, Tombstone, checksum};

/// How many notes are read at once.
const PAGE: u64 = 256;

/// What takes the place of the summaries of a session that cover only what is old, or were made from what is erased, and the
/// bytes of these notes. Of those that are only old, the newest is kept, unless it covers nothing that belongs to the branch
/// of the view.
pub(crate) async fn old_summaries(
    store: &dyn Store,
    session: &LogName,
    view: &View,
    sources: &Sources,
) -> Result<(Vec<Tombstone>, u64), StoreError> {
    let log = session.summary_of();
    let end = store.head(&log, None).await?.map_or(0, |head| head.end);
    let (mut at, mut tombstones, mut bytes) = (0, Vec::new(), 0);
    while at < end {
        let page = at..end.min(at + PAGE);
        for (position, body) in page.clone().zip(store.read(&log, page.clone()).await?) {
            // A note that cannot be read may be from a newer version.
            let Ok(mut note) = serde_json::from_str(&body) else { continue };
            let Note::Made { claim, text, .. } = &mut note else { continue };
            let is_current = position + 1 == end && claim.covers.iter().any(|span| view.is_on_path(span));
            let is_old = !is_current && claim.covers.iter().all(|span| span.end <= sources.until);
            let is_made_from_gone = !sources.keeps_drawn && sources.is_claimed(claim);
            if text.is_empty() || !(is_old || is_made_from_gone) {
                continue;
            }
            bytes += body.len() as u64;
            text.clear();
            let note = serde_json::to_string(&note).map_err(|error| StoreError::unwritable(&log, position, error))?;
            tombstones.push(Tombstone::new(position, checksum(&log, position, &body), note));
        }
        at = page.end;
    }
    Ok((tombstones, bytes))
}

impl Session {
    /// Gives up the summary that somebody is making of what is erased: a note takes the place where it would be written.
    pub(crate) async fn give_up_summary(&self, sources: &Sources) -> Result<(), Error> {
        for _ in 0..TRIES {
            let Newest { end, note } = self.summaries.newest(&*self.store).await?;
            match note {
                Some(Note::Started { claim, .. }) if sources.is_claimed(&claim) => {}
                _ => return Ok(()),
            }
            match given_up().append(&*self.store, &self.summaries.log, end).await {
                // It was written just now, and is found as one that was made.
                Err(StoreError::Conflict { .. }) => {}
                written => return Ok(written?),
            }
        }
        Err(self.overtaken())
    }
}
