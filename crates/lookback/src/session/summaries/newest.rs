//! Reading the newest note about a session's summaries.

use super::Summaries;
use super::note::Note;
use crate::store::{LogName, Store, StoreError};

/// The newest note, and the end of its log.
pub(super) struct Newest {
    pub(super) end: u64,
    /// `None` if there is none, or none that can be read.
    pub(super) note: Option<Note>,
}

impl Summaries {
    pub(super) async fn newest(&self, store: &dyn Store, session: &LogName) -> Result<Newest, StoreError> {
        let Some(end) = store.head(&self.log, None).await?.map(|head| head.end).filter(|end| *end > 0) else {
            // An earlier version gave the log another name, which another session may have, too. A summary that was
            // made there is taken up. One that was begun there, or has failed, is begun again here.
            let is_made = |note: &Note| matches!(note, Note::Made { .. });
            let note = match session.old_summary_of() {
                Some(old) => newest_in(store, &old, session).await?.filter(is_made),
                None => None,
            };
            return Ok(Newest { end: 0, note });
        };
        Ok(Newest { end, note: note_before(store, &self.log, session, end).await? })
    }
}

async fn newest_in(store: &dyn Store, log: &LogName, session: &LogName) -> Result<Option<Note>, StoreError> {
    let Some(head) = store.head(log, None).await? else { return Ok(None) };
    note_before(store, log, session, head.end).await
}

/// The last note before `end`, if it is about this session.
async fn note_before(
    store: &dyn Store,
    log: &LogName,
    session: &LogName,
    end: u64,
) -> Result<Option<Note>, StoreError> {
    let bodies = store.read(log, end.saturating_sub(2)..end).await?;
    // A note that cannot be read may be from a newer version. It counts as none, and a newer note follows it.
    let mut notes = bodies.iter().rev().map(|body| serde_json::from_str::<Note>(body).ok());
    let (note, before) = (notes.next().flatten(), notes.next().flatten());
    let follows = |note: &Note| match note {
        Note::Made { id, .. } | Note::Refused { id, .. } => {
            matches!(&before, Some(Note::Started { id: begun, .. }) if begun == id)
        }
        Note::Started { .. } | Note::Failed { .. } => true,
    };
    Ok(note.filter(|note| note.is_of(session) && follows(note)))
}

/// Whether a log of summaries belongs to this session. Version 0.1.0 kept those of `compact:NAME:messages` in the log
/// of `NAME`.
pub(crate) async fn are_summaries_of(store: &dyn Store, log: &LogName, session: &LogName) -> Result<bool, StoreError> {
    let newest = async {
        let Some(head) = store.head(log, None).await? else { return Ok(None) };
        Ok(Some(store.read(log, head.end.saturating_sub(1)..head.end).await?))
    };
    let newest = match newest.await {
        Ok(None) => return Ok(false),
        // What cannot be read holds nothing up.
        Err(StoreError::Damaged { .. }) => None,
        newest => newest?,
    };
    let note =
        newest.as_ref().and_then(|newest| newest.last()).and_then(|body| serde_json::from_str::<Note>(body).ok());
    Ok(note.map_or(*log == session.summary_of(), |note| note.is_of(session)))
}
