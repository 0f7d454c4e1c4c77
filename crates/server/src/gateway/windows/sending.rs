//! What a request is sent with: its window, or the body that came.

use lookback_engine::plan::Reason;
use lookback_engine::totals::Excess;
use lookback_engine::transcript::Entry;

use crate::gateway::lines::turn::Turn;
use crate::gateway::report::note::{Compacted, Cut, Note};

/// What a request is about to be sent with.
pub(crate) struct Sending {
    /// The body; `None` if it is sent as it came.
    pub(crate) body: Option<String>,
    pub(crate) tokens: u64,
    /// What is left out or shortened, if anything is.
    pub(crate) cut: Option<Cut>,
    /// The compaction that was made now.
    pub(super) compacted: Option<Compacted>,
    /// Whether what the provider reports can be compared with `tokens`.
    pub(super) is_measured: bool,
}

impl Sending {
    /// Takes note that the request was sent as it came, whatever its window is: another gateway has cut the session.
    pub(crate) fn passed(self) -> Sending {
        let is_measured = self.is_measured && self.body.is_none();
        Sending { body: None, cut: None, compacted: None, is_measured, ..self }
    }

    /// Adds to a note and to a turn what is sent.
    pub(crate) fn describe(&self, note: &mut Note, turn: &mut Turn) {
        turn.is_measured = self.is_measured;
        (note.window, note.cut) = (Some(self.tokens), self.cut);
        note.compacted = self.compacted.or(note.compacted);
    }
}

/// Returns what there is to say of an entry if it is a compaction.
pub(super) fn compacted(entry: &Entry) -> Option<Compacted> {
    let Entry::Compaction(compaction) = entry else { return None };
    let exceeded = compaction.groups.iter().find_map(|group| match group.decision.reason {
        Reason::Exceeded { measure, actual, limit, .. } => Some(Excess::new(measure, actual, limit)),
        _ => None,
    });
    Some(Compacted { before: compaction.before.size.tokens, after: compaction.after.size.tokens, exceeded })
}
