//! How a tool result is shown as it arrives: within its cap, and without lines that the window shows already.

use super::Engine;
use crate::caps::shows_file;
use crate::cut;
use crate::edit::{Change, Cut, Edit, Hidden};
use crate::lines::ShownLines;
use crate::message::{Message, ResultItem, ToolResult};

impl Engine {
    /// Looks up the lines that the window shows, if the policy needs to know them and they are not known.
    pub(super) fn look_up_lines(&mut self) {
        let Some(repeats) = self.policy.repeats.filter(|_| self.lines.is_none()) else { return };
        let mut lines = ShownLines::new(repeats);
        self.view.messages().for_each(|item| lines.add(item.position(), item.message(), item.edits()));
        self.lines = Some(lines);
    }

    /// Returns the edits that shorten the results of a message that is about to be recorded.
    ///
    /// `admitted` are the edits that the message needs anyway.
    pub(super) fn shorten_results(&self, message: &Message, admitted: &[Edit]) -> Vec<Edit> {
        let mut edits = Vec::new();
        // Only what is shown last may refer to what is shown above. A late result is shown elsewhere, and later.
        let is_late = admitted.iter().any(|edit| edit.change == Change::Hide(Hidden::Late));
        let may_repeat = !is_late && self.view.is_shown_last(message);
        for (part, result) in message.tool_results() {
            let cap = self.policy.arrival.as_ref();
            let counter = &*self.settings.counter;
            let truncated = cap.map(|cap| cut::truncate_result(part, result, self.end, cap, counter));
            let mut truncated = truncated.unwrap_or_default().into_iter().filter_map(Edit::into_cut).peekable();
            for (item, value) in result.content.iter().enumerate() {
                let truncated = truncated.next_if(|(at, _)| *at == item).map(|(_, cut)| cut);
                let cut = self.shown(result, value, truncated, may_repeat);
                edits.extend(cut.map(|cut| Edit { part, change: Change::Cut { item, cut } }));
            }
        }
        edits
    }

    /// Returns the cut of an item of a result. `truncated` is the one that the policy makes of every long text.
    fn shown(&self, result: &ToolResult, value: &ResultItem, truncated: Option<Cut>, may_repeat: bool) -> Option<Cut> {
        let Some(text) = value.text() else { return truncated };
        let counter = &*self.settings.counter;
        let repeats = self.policy.repeats.zip(self.lines.as_ref()).filter(|_| may_repeat);
        let repeats = repeats.map_or(Vec::new(), |(least, lines)| lines.repeats(text, least, counter));
        let capped = self.policy.caps.and_then(|caps| {
            let file =
                text.len() as u64 > caps.file.min(caps.other) && shows_file(text, self.view.call(&result.call_id));
            caps.cut(text, file, &repeats, self.end, counter)
        });
        match (truncated, capped) {
            (Some(truncated), Some(capped)) if truncated.kept_bytes() >= capped.kept_bytes() => Some(capped),
            (Some(truncated), _) => Some(truncated.without(text, repeats)),
            (None, Some(capped)) => Some(capped),
            (None, None) => Cut::once(text, repeats),
        }
    }
}
