//! How a tool result is shown as it arrives: within its cap, and without lines that the window shows already.

use super::Engine;
use crate::caps::shows_file;
use crate::cut;
use crate::edit::{Change, Cut, Edit};
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
    pub(super) fn shorten_results(&self, message: &Message) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (part, result) in message.tool_results() {
            if let Some(cap) = &self.policy.arrival {
                edits.extend(cut::truncate_result(part, result, self.end, cap, &*self.settings.counter));
            }
            for (item, text) in result.content.iter().enumerate() {
                let at = |edit: &Edit| matches!(edit.change, Change::Cut { item: at, .. } if (edit.part, at) == (part, item));
                let place = edits.iter().position(at);
                let truncated = place.map(|place| edits.swap_remove(place));
                let truncated = truncated.and_then(|edit| match edit.change {
                    Change::Cut { cut, .. } => Some(cut),
                    Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => None,
                });
                let cut = self.shown(result, text, truncated);
                edits.extend(cut.map(|cut| Edit { part, change: Change::Cut { item, cut } }));
            }
        }
        edits
    }

    /// Returns the cut of an item of a result. `truncated` is the one that the policy makes of every long text.
    fn shown(&self, result: &ToolResult, item: &ResultItem, truncated: Option<Cut>) -> Option<Cut> {
        let Some(text) = item.text() else { return truncated };
        let counter = &*self.settings.counter;
        let repeats = self.policy.repeats.zip(self.lines.as_ref());
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
