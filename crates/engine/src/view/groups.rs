//! The groups of a view, and their messages.

use std::sync::Arc;

use super::calls::Calls;
use super::names::Names;
use crate::entry::{Arrival, Origin, Position, ShownItem};
use crate::group::GroupKind;
use lookback_wire::edit::{self, Change, Edit, Hidden};
use lookback_wire::message::Role;
use lookback_wire::message::{Message, PartRef, ToolCall, ToolResult};
use lookback_wire::size::Size;

/// A group with its messages.
#[derive(Debug, Clone)]
pub(crate) struct ViewGroup {
    /// The number by which the group is found: the position of its first message, or the number of the next group if it
    /// was inserted before that one. So the numbers never decrease from one group to the next, and can be searched.
    pub(super) number: Position,
    pub(crate) kind: GroupKind,
    pub(crate) turn: u64,
    pub(crate) round: u64,
    pub(crate) items: Vec<Item>,
    pub(crate) size: Size,
    pub(super) calls: Calls,
}

/// A message of the view.
#[derive(Debug, Clone)]
pub struct Item {
    pub(crate) position: Position,
    pub(crate) message: Arc<Message>,
    pub(crate) edits: Arc<[Edit]>,
    pub(crate) size: Size,
    pub(crate) by: Author,
    names: Names,
}

/// The author of a message of the view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Author {
    /// A person, the application or the model.
    Others,
    /// A tool, after a stand-in was sent for its result. It takes the place of the stand-in.
    Late,
    /// The model or a tool, but the client does not have it: Lookback answered the calls.
    Aside,
    /// Lookback: a note for the model.
    Note,
    /// Lookback: a stand-in or an opening.
    Mend,
    /// Lookback: a summary or an index.
    Compaction,
}

/// A part that holds for what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lasting {
    /// Tools or settings were added.
    Addition,
    /// The provider compacted all that came before.
    Compaction,
}

impl Author {
    pub(super) fn from_arrival(arrival: &Arrival) -> Author {
        let is_late = |edit: &Edit| edit.change == Change::Hide(Hidden::Late);
        match arrival.origin {
            Origin::Client | Origin::Model if arrival.edits.iter().any(is_late) => Author::Late,
            Origin::Client | Origin::Model => Author::Others,
            Origin::Lookback if arrival.message.opens_turn() => Author::Note,
            Origin::Lookback => Author::Aside,
        }
    }
}

impl Item {
    pub(super) fn new(
        position: Position,
        message: &Arc<Message>,
        edits: impl Into<Arc<[Edit]>>,
        size: Size,
        by: Author,
    ) -> Item {
        Item { position, message: message.clone(), edits: edits.into(), size, by, names: Names::default() }
    }

    /// Returns the same message under these edits, with which it has this size.
    pub(crate) fn edited(&self, edits: Vec<Edit>, size: Size) -> Item {
        if *self.edits == *edits {
            return Item { size, ..self.clone() };
        }
        Item::new(self.position, &self.message, edits, size, self.by)
    }

    /// Returns the names in what it shows, each once.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.find(&self.message, &self.edits)
    }

    /// Returns its position in the log.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the whole message, without its edits applied.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the edits under which it is shown.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Returns the message and its edits without copying them, for those who keep them longer than the view.
    pub fn shared(&self) -> (Arc<Message>, Arc<[Edit]>) {
        (self.message.clone(), self.edits.clone())
    }

    /// Returns its size as it is shown.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the size of this message under other edits. `whole` is the size within its turn.
    pub(crate) fn sized(&self, whole: Size) -> Size {
        if self.size.passing == 0 { whole.after_turn() } else { whole }
    }

    /// Returns whether Lookback wrote it: a note, a stand-in for a missing result, an opening, a summary or an
    /// index.
    pub fn is_own(&self) -> bool {
        !matches!(self.by, Author::Others | Author::Late | Author::Aside)
    }

    /// Returns whether it stands beside the client's conversation, which does not have it: a note, an answer of the model that
    /// the client did not get, or a result that the client did not give.
    pub fn is_beside(&self) -> bool {
        matches!(self.by, Author::Note | Author::Aside)
    }

    /// Returns whether it is a running summary or an index: a message that a compaction brought, in the place of others.
    pub fn stands_for_others(&self) -> bool {
        self.by == Author::Compaction
    }

    /// Returns whether it is a note, such as a nudge or a fact sheet.
    pub fn is_note(&self) -> bool {
        self.by == Author::Note
    }

    /// Returns whether the shown parts contain words of a person.
    pub(crate) fn speaks(&self) -> bool {
        let says = |part: PartRef<'_>| match part {
            PartRef::ToolResult(_) => false,
            PartRef::Opaque(opaque) => !opaque.is_cache_marker(),
            _ => true,
        };
        let mut parts = self.message.parts().enumerate();
        self.message.role() == Role::User
            && parts.any(|(index, part)| !edit::is_hidden(&self.edits, index) && says(part))
    }

    /// Returns what it shows that holds for what follows.
    pub(crate) fn lasts(&self) -> Option<Lasting> {
        let quirks = self.message.wire()?.dialect.quirks();
        let lasting = |part: PartRef<'_>| match part {
            PartRef::Opaque(opaque) if quirks.compactions.contains(&&*opaque.kind) => Some(Lasting::Compaction),
            PartRef::Opaque(opaque) if quirks.standing.contains(&&*opaque.kind) => Some(Lasting::Addition),
            _ => None,
        };
        let shown = self.message.parts().enumerate().filter(|(index, _)| !edit::is_hidden(&self.edits, *index));
        shown.filter_map(|(_, part)| lasting(part)).max()
    }

    /// Returns the indexes of the signed reasoning that it shows, if the provider accepts it only behind the messages
    /// that it was made after.
    pub(crate) fn signed_parts(&self) -> impl Iterator<Item = usize> {
        let signed =
            |part: &PartRef<'_>| matches!(part, PartRef::Reasoning(reasoning) if reasoning.signature.is_some());
        let binds = self.message.wire().is_none_or(|wire| wire.dialect.quirks().binds_reasoning);
        let parts = self.message.parts().enumerate().filter(move |(_, part)| binds && signed(part));
        let parts = parts.map(|(index, _)| index);
        parts.filter(|part| !edit::is_hidden(&self.edits, *part))
    }

    /// Returns whether signed reasoning of it is left out.
    pub(crate) fn hides_stale(&self) -> bool {
        self.edits.iter().any(|edit| edit.change == Change::Hide(Hidden::Stale))
    }

    /// Returns whether it shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.signed_parts().next().is_some()
    }

    /// Returns whether it is nothing but results that may come behind other messages than their calls'.
    pub(super) fn may_stand_apart(&self) -> bool {
        let mut parts = self.message.parts().peekable();
        matches!(self.by, Author::Others | Author::Aside)
            && self.message.wire().is_some_and(|wire| wire.dialect.quirks().results_anywhere)
            && parts.peek().is_some()
            && parts.all(|part| matches!(part, PartRef::ToolResult(_)))
    }

    /// Returns the tool results that it shows, each with the index of its part and the name of its call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &ToolResult, &str)> {
        let shown = self.message.tool_results().filter(|(part, _)| !edit::is_hidden(&self.edits, *part));
        shown.map(|(part, result)| (part, result, edit::renamed(&self.edits, part).unwrap_or(&result.call_id)))
    }

    pub(super) fn saved(&self) -> ShownItem {
        ShownItem { position: self.position, edits: self.edits.to_vec(), size: self.size }
    }
}

impl ViewGroup {
    pub(super) fn from_items(items: Vec<Item>, turn: u64, round: u64) -> Option<ViewGroup> {
        let number = items.first()?.position;
        let calls = Calls::from_items(&items);
        let kind = kind(&items, &calls);
        Some(ViewGroup { number, kind, turn, round, items, size: Size::default(), calls })
    }

    /// Returns whether a message of the model that comes next is one answer with this group.
    ///
    /// Some providers read neighbors of one role as one message. Then the results of all of their calls come behind the
    /// last of them, and reasoning belongs to what follows it.
    pub(super) fn goes_on(&self) -> bool {
        let Some(last) = self.items.last().filter(|last| last.message.role() == Role::Assistant) else { return false };
        let merges = last.message.wire().is_some_and(|wire| wire.dialect.quirks().merges_neighbors);
        let shown = last.message.parts().enumerate().filter(|(part, _)| !edit::is_hidden(&last.edits, *part));
        let reasons = || matches!(shown.last(), Some((_, PartRef::Reasoning(_))));
        merges && !last.is_own() && (self.calls.open().next().is_some() || reasons())
    }

    /// Adds a message of the model that is one answer with those that the group has.
    pub(super) fn join(&mut self, item: Item) {
        self.calls.join(&item);
        self.size += item.size;
        self.items.push(item);
        self.kind = kind(&self.items, &self.calls);
    }

    /// Returns the tool call at a place: a message, and the index of its part there.
    pub(super) fn call(&self, (position, part): (Position, usize)) -> Option<&ToolCall> {
        // Nearly always they are in order.
        let ordered = self.items.binary_search_by_key(&position, |item| item.position).ok();
        let at = ordered.or_else(|| self.items.iter().position(|item| item.position == position))?;
        let item = self.items.get(at)?;
        match item.message.part(part)? {
            PartRef::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the name of the open call that a stand-in answers. If the stand-in names only the tool, it is the first
    /// open call of that tool.
    pub(super) fn open_name<'a>(&'a self, stand_in: &'a ToolResult) -> &'a str {
        let by_tool = || self.calls.open_of_tool(stand_in.tool.as_deref()?, 0);
        (!self.calls.is_open(&stand_in.call_id)).then(by_tool).flatten().map_or(&stand_in.call_id, |(_, name)| name)
    }

    /// Returns whether it shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.items.iter().any(Item::shows_signed)
    }

    /// Returns whether it shows what stands for something that the provider has stored.
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
