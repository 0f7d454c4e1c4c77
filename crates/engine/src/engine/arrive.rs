//! Shortens tool results as they arrive, to their cap and without repeated lines, and again when a compaction removes
//! the lines they repeat.

use std::collections::{HashMap, HashSet};

use super::Engine;
use crate::caps::counts_as_file;
use crate::entry::Position;
use crate::lines::ShownLines;
use crate::policy::Repeats;
use crate::view::Item;
use lookback_content::numbered::is_numbered;
use lookback_tokens::cut;
use lookback_wire::edit::{self, Change, Cut, Edit, Hidden, Repeat};
use lookback_wire::message::{Message, ResultItem, ToolResult};
use serde_json::value::RawValue;

impl Engine {
    /// Collects the lines that the window shows, if the policy needs them and they are not known yet.
    pub(super) fn look_up_lines(&mut self) {
        if self.lines.is_some() {
            return;
        }
        let Some(repeats) = self.policy.repeats else { return };
        let mut lines = ShownLines::new(repeats, self.hides_numbers());
        self.view.messages().for_each(|item| lines.add(item.position(), item.message(), item.edits()));
        self.lines = Some(lines);
    }

    /// Returns the edits that shorten the results of a message that is about to be recorded.
    ///
    /// `admitted` are the edits that the message needs anyway.
    pub(super) fn shorten_results(&self, message: &Message, admitted: &[Edit]) -> Vec<Edit> {
        let mut edits = Vec::new();
        // Only the last message may refer to lines above it. A late result is shown elsewhere, and later.
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

    /// Returns the cut of an item of a result. `truncated` is the cut by the policy's cap on every text
    /// ([`Policy::arrival`](crate::policy::Policy::arrival)).
    fn shown(&self, result: &ToolResult, value: &ResultItem, truncated: Option<Cut>, may_repeat: bool) -> Option<Cut> {
        let Some(text) = value.text() else { return truncated };
        let counter = &*self.settings.counter;
        let repeats = match self.policy.repeats.zip(self.lines.as_ref()) {
            Some((least, lines)) if may_repeat => lines.repeats(text, least, counter),
            _ => Vec::new(),
        };
        let capped = self.capped(result, text, &repeats, self.end);
        match (truncated, capped) {
            (Some(truncated), Some(capped)) if truncated.kept_bytes() >= capped.kept_bytes() => Some(capped),
            (Some(truncated), _) => Some(truncated.without(text, repeats)),
            (None, Some(capped)) => Some(capped),
            (None, None) => Cut::once(text, repeats, self.is_unnumbered(text)),
        }
    }

    /// Returns whether the policy hides the numbers of lines.
    fn hides_numbers(&self) -> bool {
        self.policy.caps.is_some_and(|caps| !caps.numbers)
    }

    /// Returns whether the policy hides the numbers of lines, and a text has them.
    fn is_unnumbered(&self, text: &str) -> bool {
        self.hides_numbers() && is_numbered(text)
    }

    /// Returns the cut of a text that exceeds its cap. `entry` is the position of its message.
    fn capped(&self, result: &ToolResult, text: &str, repeats: &[Repeat], entry: Position) -> Option<Cut> {
        let mut caps = self.policy.caps?;
        let is_long = text.len() as u64 > caps.file.min(caps.other);
        if is_long && caps.without_recall != 1 && !self.offers_recall() {
            caps = caps.without_recall();
        }
        let file = is_long && counts_as_file(text, self.view.call(&result.call_id));
        let place = format_args!("entry {entry}");
        caps.cut(text, file, repeats, self.is_unnumbered(text), place, &*self.settings.counter)
    }

    /// Returns whether the request has a tool with which the model can read the log.
    fn offers_recall(&self) -> bool {
        /// The name of the tool of Lookback. Clients put the name of its server before it.
        const RECALL: &str = "recall";
        // Most tools need not be read.
        let may_offer = |tools: &RawValue| tools.get().contains(RECALL);
        self.view.preamble().is_some_and(|preamble| {
            preamble.tools.as_deref().is_some_and(may_offer)
                && preamble.tool_names().iter().any(|name| name.ends_with(RECALL))
        })
    }

    /// Returns the new edits of the messages that refer to lines of `lost` entries. Such a message shows the lines
    /// itself, unless an older message that stays shows them. If `lost` is `None`, all entries are lost, and no message
    /// refers to another.
    pub(super) fn reshown(&self, lost: Option<&HashSet<Position>>) -> HashMap<Position, Vec<Edit>> {
        let is_lost = |entry: Position| lost.is_none_or(|lost| lost.contains(&entry));
        let repeats = if lost.is_some() { self.policy.repeats } else { None };
        let mut lines = repeats.map(|repeats| (repeats, ShownLines::new(repeats, self.hides_numbers())));
        let mut anew: HashMap<Position, Vec<Edit>> = HashMap::new();
        for item in self.view.messages() {
            // A message with new edits may be cut at another place.
            let has_changed = |entry: Position| is_lost(entry) || anew.contains_key(&entry);
            let edits = edit::repeated(item.edits()).any(has_changed).then(|| self.edits_anew(item, lines.as_ref()));
            if let Some((_, lines)) = lines.as_mut()
                && !is_lost(item.position())
            {
                lines.add(item.position(), item.message(), edits.as_deref().unwrap_or(item.edits()));
            }
            anew.extend(edits.map(|edits| (item.position(), edits)));
        }
        anew
    }

    /// Returns the edits of a message whose results refer only to these lines.
    fn edits_anew(&self, item: &Item, lines: Option<&(Repeats, ShownLines)>) -> Vec<Edit> {
        let counter = &*self.settings.counter;
        let results: HashMap<usize, &ToolResult> = item.message().tool_results().collect();
        let anew = |edit: &Edit| {
            let Change::Cut { item: at, cut } = &edit.change else { return Some(edit.clone()) };
            if cut.repeats.is_empty() {
                return Some(edit.clone());
            }
            let shown = results.get(&edit.part).and_then(|result| Some((*result, result.content.get(*at)?.text()?)));
            let Some((result, text)) = shown else { return Some(edit.clone()) };
            let repeats = lines.map_or(Vec::new(), |(least, lines)| lines.repeats(text, *least, counter));
            let capped = self.capped(result, text, &repeats, item.position());
            let whole = cut.head >= text.len();
            let kept =
                if whole { Cut::once(text, repeats, cut.unnumbered) } else { Some(cut.clone().without(text, repeats)) };
            let bytes = |cut: &Option<Cut>| cut.as_ref().map_or(text.len(), Cut::kept_bytes);
            let cut = if bytes(&capped) < bytes(&kept) { capped } else { kept }?;
            Some(Edit { part: edit.part, change: Change::Cut { item: *at, cut } })
        };
        item.edits().iter().filter_map(anew).collect()
    }
}
