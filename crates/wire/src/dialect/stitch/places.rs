//! The indexes of an answer's parts, as the client counts them.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

/// The indexes of the parts of several answers that are one answer for the client.
#[derive(Default)]
pub(super) struct Places {
    /// The number of parts of earlier answers.
    before: u64,
    /// The hidden parts of this answer.
    hidden: BTreeSet<u64>,
    /// The first index that the client does not know.
    end: u64,
}

impl Places {
    /// Hides the part with an index from the client, or shows it.
    pub(super) fn set_hidden(&mut self, index: u64, hidden: bool) {
        if hidden {
            self.hidden.insert(index);
        } else {
            self.hidden.remove(&index);
        }
    }

    /// Returns the index under which the client knows a part. `None` if it is hidden.
    pub(super) fn of(&mut self, index: u64) -> Option<u64> {
        if self.hidden.contains(&index) {
            return None;
        }
        let fewer = self.hidden.range(..index).count() as u64;
        let place = self.before.saturating_add(index.saturating_sub(fewer));
        self.end = self.end.max(place.saturating_add(1));
        Some(place)
    }

    /// Returns whether this answer has hidden parts.
    pub(super) fn hides(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Begins the next answer.
    pub(super) fn resume(&mut self) {
        self.before = self.end;
        self.hidden.clear();
    }
}

/// Reads an index.
pub(super) fn number(value: Option<&RawValue>) -> Option<u64> {
    serde_json::from_str(value?.get()).ok()
}
