//! Repairs that are made only before a request is sent: stand-ins, an opening, and the removal of white space at the
//! end.

use std::sync::Arc;

use super::Engine;
use crate::entry::{Entry, Position, Repair};
use crate::group::GroupKind;
use crate::view::{Lasting, View};
use lookback_tokens::measure;
use lookback_wire::Start;
use lookback_wire::dialect::Dialect;
use lookback_wire::edit::{self, Change, Cut, Edit};
use lookback_wire::message::{Content, Message, PartRef, ResultItem, ToolCall, ToolResult, UserPart};

/// The text of a stand-in for the result of a tool call that has none.
const STAND_IN: &str = "[No result: the tool call was interrupted.]";
/// The first message of a request, if the provider demands a user's message there and the window begins differently.
const OPENING: &str = "[The conversation begins with the assistant.]";

impl Engine {
    /// Adds stand-ins for missing results, and an opening if the provider would refuse the beginning of the request.
    pub(super) fn repair(&mut self, entries: &mut Vec<Entry>) {
        self.repair_where(|_| true, entries);
    }

    /// Like [`Engine::repair`], but adds stand-ins only for the calls of messages whose positions `is_over` accepts.
    pub(super) fn repair_where(&mut self, is_over: impl Fn(Position) -> bool, entries: &mut Vec<Entry>) {
        let dialect = self.settings.dialect;
        for call in self.view.open_calls().into_iter().filter(|call| is_over(call.position)) {
            let tool = self.view.named_call(call.position, &call.id);
            if let Some(message) = stand_in(dialect, &call.id, tool) {
                let size = measure(&message, &[], &*self.settings.counter);
                self.record(Entry::Repair(Repair::StandIn { call: call.position, message, size }), entries);
            }
        }
        if let Some(message) = self.needs_opening().then(|| own(dialect, &Message::user(OPENING))).flatten() {
            let size = measure(&message, &[], &*self.settings.counter);
            self.record(Entry::Repair(Repair::Opening { message, size }), entries);
        }
    }

    /// Returns whether the provider demands that the request begin differently.
    pub(super) fn needs_opening(&self) -> bool {
        let start = self.target.quirks().opens;
        let first = self.view.groups().iter().find(|group| group.kind != GroupKind::System);
        let Some(first) = first else {
            // There were messages, but none of them can be sent.
            return self.view.history_len() > 0 && (start != Start::Any || self.view.groups().is_empty());
        };
        // A compaction by the provider is a valid beginning.
        if first.items.iter().any(|item| item.lasts() == Some(Lasting::Compaction)) {
            return false;
        }
        match (start, first.kind) {
            (Start::Any, _) | (_, GroupKind::Summary | GroupKind::Index) => false,
            (Start::UserOrToolPair, kind) => kind == GroupKind::Assistant,
            (Start::User, kind) => !matches!(kind, GroupKind::User | GroupKind::Note),
        }
    }

    /// Returns the repair that removes white space at the end of the request, if the request ends with text of the
    /// model and the provider refuses white space there.
    pub(super) fn trim(&self, view: &View) -> Option<Repair> {
        if !self.target.quirks().refuses_trailing_space {
            return None;
        }
        let item = view.messages().next_back()?;
        let part = item.message().ends_in_space(|part| !edit::is_hidden(item.edits(), part))?;
        if edit::cut_of(item.edits(), part, 0).is_some() {
            return None;
        }
        let PartRef::Text(text) = item.message().parts().nth(part)? else { return None };
        let edit = Edit { part, change: Change::Cut { item: 0, cut: Cut::trim_end(text)? } };
        let edits = edit::in_order(item.edits().iter().chain([&edit]).cloned().collect());
        let size = item.measured(&edits, &*self.settings.counter);
        Some(Repair::Trim { message: item.position(), edit, size })
    }
}

/// Returns whether a message consists only of stand-ins for missing results.
///
/// A client that got a stand-in in a window may send it back. It is not a result of a tool.
///
/// ```
/// use lookback_engine::{Engine, Settings, is_stand_in};
/// use lookback_wire::message::{Message, ToolCall};
///
/// let mut engine = Engine::new(Settings::default());
/// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
/// let shown = engine.preview();
/// assert!(is_stand_in(shown.messages().last().unwrap().message()));
/// assert!(!is_stand_in(&Message::tool_result("c1", "buy milk")));
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
pub fn is_stand_in(message: &Message) -> bool {
    let stands_in = |part: PartRef<'_>| {
        let PartRef::ToolResult(result) = part else { return false };
        matches!(result.content.as_slice(), [ResultItem::Text(text)] if text == STAND_IN)
    };
    message.parts().next().is_some() && message.parts().all(stands_in)
}

fn stand_in(dialect: Dialect, id: &str, call: Option<&ToolCall>) -> Option<Arc<Message>> {
    let result = ToolResult::new(id, STAND_IN).with_error(dialect.quirks().marks_errors);
    let result = call.map_or(result.clone(), |call| result.answering(call));
    own(dialect, &Message::new(Content::User(vec![UserPart::ToolResult(result)])))
}

/// Converts a message by Lookback to this dialect.
pub(super) fn own(dialect: Dialect, message: &Message) -> Option<Arc<Message>> {
    dialect.convert(message).ok()?.into_iter().next().map(Arc::new)
}
