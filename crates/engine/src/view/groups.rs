//! The groups of a view, with their messages and tool calls.

use super::calls::Calls;
use super::item::Item;
use crate::entry::Position;
use crate::group::GroupKind;
use lookback_wire::edit;
use lookback_wire::message::Role;
use lookback_wire::message::{PartRef, ToolCall, ToolResult};
use lookback_wire::size::Size;

/// A group with its messages.
#[derive(Debug, Clone)]
pub(crate) struct ViewGroup {
    /// The number by which the group is found: the position of its first message, or the number of the next group if it
    /// was inserted before that one. Numbers never decrease from one group to the next, so a binary search finds them.
    pub(super) number: Position,
    pub(crate) kind: GroupKind,
    pub(crate) turn: u64,
    pub(crate) round: u64,
    pub(crate) items: Vec<Item>,
    pub(crate) size: Size,
    pub(super) calls: Calls,
}

impl ViewGroup {
    pub(super) fn from_items(items: Vec<Item>, turn: u64, round: u64) -> Option<ViewGroup> {
        let number = items.first()?.position;
        let calls = Calls::from_items(&items);
        let kind = kind(&items, &calls);
        Some(ViewGroup { number, kind, turn, round, items, size: Size::default(), calls })
    }

    /// Returns whether the next message of the model would continue this group's answer.
    ///
    /// Some providers merge neighboring messages of one role. Then the results of all their calls come after the last
    /// of them, and reasoning belongs to the part that follows it.
    pub(super) fn continues(&self) -> bool {
        let Some(last) = self.items.last().filter(|last| last.message.role() == Role::Assistant) else { return false };
        let merges = last.message.wire().is_some_and(|wire| wire.dialect.quirks().merges_neighbors);
        let shown = last.message.parts().enumerate().filter(|(part, _)| !edit::is_hidden(&last.edits, *part));
        let reasons = || matches!(shown.last(), Some((_, PartRef::Reasoning(_))));
        merges && !last.is_own() && (self.calls.open_after(0).next().is_some() || reasons())
    }

    /// Adds a message of the model that continues the group's answer.
    pub(super) fn join(&mut self, item: Item) {
        self.calls.join(&item);
        self.size += item.size;
        self.items.push(item);
        self.kind = kind(&self.items, &self.calls);
    }

    /// Returns the tool call at a place: a message, and the index of its part there.
    pub(super) fn call(&self, (position, part): (Position, usize)) -> Option<&ToolCall> {
        // The items are nearly always in order.
        let ordered = self.items.binary_search_by_key(&position, |item| item.position).ok();
        let at = ordered.or_else(|| self.items.iter().position(|item| item.position == position))?;
        let item = self.items.get(at)?;
        match item.message.part(part)? {
            PartRef::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the name of the open call that a stand-in answers. If the stand-in names only the tool, this is the
    /// first open call of that tool.
    pub(super) fn open_name<'a>(&'a self, stand_in: &'a ToolResult) -> &'a str {
        let by_tool = || self.calls.open_of_tool(stand_in.tool.as_deref()?, 0);
        (!self.calls.is_open(&stand_in.call_id)).then(by_tool).flatten().map_or(&stand_in.call_id, |(_, name)| name)
    }

    /// Returns whether the group shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.items.iter().any(Item::shows_signed)
    }

    /// Returns whether the group begins with a message that refers to items that the provider has stored.
    pub(super) fn refers(&self) -> bool {
        let refers = |item: &Item| {
            let dialect = item.message.wire().map(|wire| wire.dialect);
            dialect.is_some_and(|dialect| item.message.parts().any(|part| dialect.is_reference(part)))
        };
        self.items.first().is_some_and(refers)
    }

    /// Computes the size of the group and the answers of its calls again.
    pub(super) fn refresh(&mut self) {
        self.calls.refresh(&self.items);
        self.size = self.items.iter().map(|item| item.size).sum();
    }
}

/// Returns the kind of a group with these messages.
fn kind(items: &[Item], calls: &Calls) -> GroupKind {
    match items.first().map_or(Role::User, |first| first.message.role()) {
        Role::System => GroupKind::System,
        Role::User if matches!(items, [only] if only.is_note()) => GroupKind::Note,
        Role::User => GroupKind::User,
        Role::Assistant if calls.is_empty() => GroupKind::Assistant,
        Role::Assistant => GroupKind::Round,
    }
}
