//! The log's event of a call: emitted when everything is known that was done with the call.

use std::time::Instant;

use axum::http::StatusCode;
use lookback_wire::dialect::Dialect;

use crate::gateway::admission::Admission;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::report::event::Event;
use crate::gateway::report::note::Note;

/// A call on its way into the log.
pub(super) struct Told {
    admission: Admission,
    dialect: Dialect,
    upstream: String,
    begun: Instant,
    /// The status of the answer, and the milliseconds until it began.
    answered: Option<(u16, u64)>,
    /// What was done with the request.
    pub(super) note: Note,
}

impl Told {
    pub(super) fn new(admission: &Admission, dialect: Dialect, upstream: &Upstream) -> Told {
        let (admission, upstream, begun) = (admission.clone(), upstream.to_string(), Instant::now());
        Told { admission, dialect, upstream, begun, answered: None, note: Note::default() }
    }

    /// Records that the answer begins.
    pub(super) fn answered(&mut self, status: StatusCode) {
        let milliseconds = self.begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        self.answered = Some((status.as_u16(), milliseconds));
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // The client has disconnected before the answer.
        let Some((status, milliseconds)) = self.answered else { return };
        let (upstream, note) = (std::mem::take(&mut self.upstream), std::mem::take(&mut self.note));
        self.admission.shared.emit(&Event::Call { dialect: self.dialect, upstream, status, milliseconds, note });
    }
}
