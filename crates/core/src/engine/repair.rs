//! Repairs that are made only when a request is to be sent: stand-ins for results, an opening, and white space at the end.

use super::Engine;
use crate::cut::{self, Change, Cut, Edit};
use crate::dialect::Dialect;
use crate::group::Kind;
use crate::message::{Content, Message, PartRef, ResultItem, ToolResult, UserPart};
use crate::policy::Start;
use crate::tokens::measure;
use crate::transcript::{Entry, Repair};
use crate::view::View;

/// What stands in for the result of a tool call that has none.
const STAND_IN: &str = "[No result: the tool call was interrupted.]";
/// What a request begins with where the provider demands a user's message and the history has none.
const OPENING: &str = "[The conversation begins with the assistant.]";

impl Engine {
    /// Stands in for results that are missing, and opens a request that may not begin as it does.
    pub(super) fn repair(&mut self, entries: &mut Vec<Entry>) {
        let dialect = self.settings.dialect;
        for call in self.view.open_calls() {
            if let Some(message) = stand_in(dialect, &call.id) {
                let size = measure(&message, &[], &*self.settings.counter);
                self.record(Entry::Repair(Repair::StandIn { call: call.position, message, size }), entries);
            }
        }
        if let Some(message) = self.needs_opening().then(|| own(dialect, &Message::user(OPENING))).flatten() {
            let size = measure(&message, &[], &*self.settings.counter);
            self.record(Entry::Repair(Repair::Opening { message, size }), entries);
        }
    }

    /// Whether the provider demands that the request begin with something else than it does.
    pub(super) fn needs_opening(&self) -> bool {
        let start = self.settings.dialect.quirks().start;
        let first = self.view.groups().iter().find(|group| group.kind != Kind::System);
        let Some(first) = first else {
            // Messages came, and nothing of them can be sent.
            return self.view.history_len() > 0 && (start != Start::Any || self.view.groups().is_empty());
        };
        match (start, first.kind) {
            (Start::Any, _) | (_, Kind::Summary) => false,
            (Start::UserOrToolPair, kind) => kind == Kind::Assistant,
            (Start::User, kind) => !matches!(kind, Kind::User | Kind::Note),
        }
    }

    /// The request's last words without the white space at their end, where it ends with the model's.
    pub(super) fn trim(&self, view: &View) -> Option<Repair> {
        if !self.settings.dialect.quirks().refuses_trailing_space {
            return None;
        }
        let item = view.messages().next_back()?;
        let part = item.message().ends_in_space(|part| !cut::is_hidden(item.edits(), part))?;
        if cut::cut_of(item.edits(), part, 0).is_some() {
            return None;
        }
        let PartRef::Text(text) = item.message().parts().nth(part)? else { return None };
        let edit = Edit { part, change: Change::Cut { item: 0, cut: Cut::trim_end(text)? } };
        let edits = cut::in_order(item.edits().iter().chain([&edit]).cloned().collect());
        let size = measure(item.message(), &edits, &*self.settings.counter);
        Some(Repair::Trim { message: item.position(), edit, size })
    }
}

fn stand_in(dialect: Dialect, id: &str) -> Option<Message> {
    let content = vec![ResultItem::Text(STAND_IN.to_owned())];
    // OpenAI's format has no place to say that a result is an error.
    let error = dialect != Dialect::OpenAiChat;
    let result = ToolResult { call_id: id.to_owned(), content, error };
    own(dialect, &Message::new(Content::User(vec![UserPart::ToolResult(result)])))
}

/// A message of ours with its bytes.
pub(super) fn own(dialect: Dialect, message: &Message) -> Option<Message> {
    dialect.convert(message).ok()?.into_iter().next()
}
