//! Reading the newest note about a session's summaries.

use super::Summaries;
use super::note::Note;
use lookback_store::{LogName, Store, StoreError};

/// The newest note, and the end of its log.
pub(super) struct Newest {
    pub(super) end: u64,
    /// `None` if there is none, or none that can be read.
    pub(super) note: Option<Note>,
}

impl Summaries {
    pub(super) async fn newest(&self, store: &dyn Store) -> Result<Newest, StoreError> {
        let end = store.head(&self.log, None).await?.map_or(0, |head| head.end);
        Ok(Newest { end, note: note_before(store, &self.log, end).await? })
    }
}

/// Returns the last note before `end`. A summary or a refusal counts only directly after its own claim.
async fn note_before(store: &dyn Store, log: &LogName, end: u64) -> Result<Option<Note>, StoreError> {
    let bodies = store.read(log, end.saturating_sub(2)..end).await?;
    // A note that cannot be read may be from a newer version. It is ignored, and the next note is appended after it.
    let mut notes = bodies.iter().rev().map(|body| serde_json::from_str::<Note>(body).ok());
    let (note, before) = (notes.next().flatten(), notes.next().flatten());
    let follows = |note: &Note| match note {
        Note::Made { id, .. } | Note::Refused { id, .. } => {
            matches!(&before, Some(Note::Started { id: begun, .. }) if begun == id)
        }
        Note::Started { .. } | Note::Failed { .. } => true,
    };
    Ok(note.filter(|note| follows(note)))
}
