//! Erasing the texts of summaries that are old or made from erased messages, and giving up one that is being made.

use lookback_engine::view::View;

use super::newest::Newest;
use super::note::{Note, given_up};
use crate::erased_sources::Sources;
use crate::{Error, Session, TRIES};
use lookback_store::{LogName, Store, StoreError, Tombstone, checksum};

/// The number of notes in one read.
const PAGE: u64 = 256;

/// Returns the replacements for the notes of summaries that cover only old messages, or were made from erased ones, and
/// the bytes of these notes. The newest note is kept even if it is old, unless nothing that it covers is on the branch
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
            let is_made_from_gone = !sources.keeps_derived && sources.is_claimed(claim);
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
    /// Gives up a summary that is being made from erased messages: a note takes the position of its result.
    pub(crate) async fn give_up_summary(&self, sources: &Sources) -> Result<(), Error> {
        for _ in 0..TRIES {
            let Newest { end, note } = self.summaries.newest(&*self.store).await?;
            match note {
                Some(Note::Started { claim, .. }) if sources.is_claimed(&claim) => {}
                _ => return Ok(()),
            }
            match given_up().append(&*self.store, &self.summaries.log, end).await {
                // Another note was just written, such as the result. Look again.
                Err(StoreError::Conflict { .. }) => {}
                written => return Ok(written?),
            }
        }
        Err(self.overtaken())
    }
}
