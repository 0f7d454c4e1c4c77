//! The empty line between the texts of two answers, in dialects whose clients join all texts.

use serde_json::value::RawValue;

use lookback_content::json;

/// The empty line.
pub(super) const GAP: &str = "\n\n";

/// Whether the next text needs an empty line before it.
#[derive(Default)]
pub(super) struct Gap {
    /// Whether the client has text of this or of earlier answers.
    has_text: bool,
    is_due: bool,
}

impl Gap {
    /// Returns a text with an empty line before it. `None` if the text is right as it is.
    pub(super) fn before(&mut self, text: &str) -> Option<Box<RawValue>> {
        if text.is_empty() {
            return None;
        }
        self.has_text = true;
        std::mem::take(&mut self.is_due).then(|| json::string(&format!("{GAP}{text}")))
    }

    /// Begins the next answer.
    pub(super) fn resume(&mut self) {
        self.is_due = self.has_text;
    }
}
