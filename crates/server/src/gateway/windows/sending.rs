//! What a request is sent with: its window, or the body that came.

use crate::gateway::lines::turn::Turn;
use crate::gateway::report::note::{Compacted, Cut, Note, Shadowed};

/// A request that is ready to be sent.
pub(crate) struct Sending {
    /// The body. `None` if the request is sent unchanged.
    pub(crate) body: Option<String>,
    /// The tokens of the request. `None` if they are unknown.
    pub(crate) tokens: Option<u64>,
    /// What is left out or shortened, if anything.
    pub(crate) cut: Option<Cut>,
    /// What would be sent, if the gateway only watches.
    pub(crate) shadow: Option<Shadowed>,
    /// The compaction that this request caused, if any.
    pub(super) compacted: Option<Compacted>,
    /// Whether the provider's usage report can be compared with `tokens`.
    pub(super) is_measured: bool,
}

impl Sending {
    /// Records that the request was sent with this body, although another gateway may have cut the session in the
    /// meantime.
    pub(crate) fn sent_ahead(self, body: Option<String>) -> Sending {
        let is_measured = self.is_measured && self.body == body;
        Sending { body, cut: None, compacted: None, is_measured, ..self }
    }

    /// Records in a note and in a turn what is sent.
    pub(crate) fn describe(&self, note: &mut Note, turn: &mut Turn) {
        turn.is_measured = self.is_measured;
        (note.window, note.cut, note.shadow) = (self.tokens, self.cut, self.shadow.map(Box::new));
        note.compacted = self.compacted.or(note.compacted);
    }
}
