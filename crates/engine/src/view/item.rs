//! The messages of a view, and their authors.

use std::sync::Arc;

use super::names::Names;
use crate::entry::{Arrival, Origin, Position, ShownItem};
use lookback_tokens::{TokenCounter, measure};
use lookback_wire::edit::{self, Change, Edit, Hidden};
use lookback_wire::message::Role;
use lookback_wire::message::{Message, Opaque, PartRef, ToolResult};
use lookback_wire::size::Size;

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
    /// A tool, after a stand-in was sent for its result. The message replaces the stand-in.
    Late,
    /// The model or a tool, if Lookback answered the calls. The client does not have the message.
    Aside,
    /// Lookback: a note for the model.
    Note,
    /// Lookback: a stand-in or an opening.
    Mend,
    /// Lookback: a summary or an index.
    Compaction,
}

/// A part that applies to all later messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lasting {
    /// Tools or settings were added.
    Addition,
    /// The provider compacted all earlier messages.
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
        edits: impl AsRef<[Edit]> + Into<Arc<[Edit]>>,
        size: Size,
        by: Author,
    ) -> Item {
        // The empty list may be one that all items share.
        let edits = if edits.as_ref().is_empty() { Arc::default() } else { edits.into() };
        Item { position, message: message.clone(), edits, size, by, names: Names::default() }
    }

    /// Returns the same message with these edits and this size.
    pub(crate) fn edited(&self, edits: Vec<Edit>, size: Size) -> Item {
        if *self.edits == *edits {
            return Item { size, ..self.clone() };
        }
        Item::new(self.position, &self.message, edits, size, self.by)
    }

    /// Returns the names in the shown text, each once.
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

    /// Returns the message and its edits without copying them, for callers that keep them longer than the view.
    pub fn shared(&self) -> (Arc<Message>, Arc<[Edit]>) {
        (self.message.clone(), self.edits.clone())
    }

    /// Returns the size of the message as it is shown.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the size of this message under other edits.
    pub(crate) fn measured(&self, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
        let mut whole = measure(&self.message, edits, counter);
        // The tools that a message loads count with it, and only its size on arrival has them.
        if !self.message.loaded().is_empty() {
            let own = measure(&self.message, &self.edits, counter).tokens;
            whole.tokens = whole.tokens.saturating_add(self.size.tokens.saturating_sub(own));
        }
        if self.size.passing == 0 { whole.after_turn() } else { whole }
    }

    /// Returns whether Lookback wrote the message: a note, a stand-in for a missing result, an opening, a summary or an
    /// index.
    pub fn is_own(&self) -> bool {
        !matches!(self.by, Author::Others | Author::Late | Author::Aside)
    }

    /// Returns whether the message is not part of the client's conversation: a note, an answer of the model that the
    /// client did not get, or a result that the client did not send.
    pub fn is_beside(&self) -> bool {
        matches!(self.by, Author::Note | Author::Aside)
    }

    /// Returns whether the message is a running summary or an index, which a compaction added to replace others.
    pub fn stands_for_others(&self) -> bool {
        self.by == Author::Compaction
    }

    /// Returns whether the message is a note, such as a nudge or a fact sheet.
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

    /// Returns the kind of shown part that applies to all later messages, if there is one.
    pub(crate) fn lasts(&self) -> Option<Lasting> {
        let dialect = self.message.wire()?.dialect;
        // Few messages have such parts, so the quirks are looked up for each of them.
        let lasting = |opaque: &Opaque| {
            let (quirks, kind) = (dialect.quirks(), &*opaque.kind);
            if quirks.compactions.contains(&kind) {
                Some(Lasting::Compaction)
            } else {
                quirks.standing.contains(&kind).then_some(Lasting::Addition)
            }
        };
        let lasting = self.message.opaques().filter_map(|(part, opaque)| Some((part, lasting(opaque)?)));
        lasting.filter(|(part, _)| !edit::is_hidden(&self.edits, *part)).map(|(_, kind)| kind).max()
    }

    /// Returns the indexes of the shown parts with signed reasoning, if the provider accepts it only after its original
    /// prefix.
    pub(crate) fn signed_parts(&self) -> impl Iterator<Item = usize> {
        let signed =
            |part: &PartRef<'_>| matches!(part, PartRef::Reasoning(reasoning) if reasoning.signature.is_some());
        let binds = || self.message.wire().is_none_or(|wire| wire.dialect.quirks().binds_reasoning);
        let parts = self.message.parts().enumerate().filter(move |(_, part)| signed(part) && binds());
        let parts = parts.map(|(index, _)| index);
        parts.filter(|part| !edit::is_hidden(&self.edits, *part))
    }

    /// Returns whether stale signed reasoning of the message is hidden.
    pub(crate) fn hides_stale(&self) -> bool {
        self.edits.iter().any(|edit| edit.change == Change::Hide(Hidden::Stale))
    }

    /// Returns whether the message shows signed reasoning.
    pub(crate) fn shows_signed(&self) -> bool {
        self.signed_parts().next().is_some()
    }

    /// Returns whether the message has only results, and the provider lets them follow later messages than their calls.
    pub(super) fn may_stand_apart(&self) -> bool {
        let mut parts = self.message.parts().peekable();
        matches!(self.by, Author::Others | Author::Aside)
            && self.message.wire().is_some_and(|wire| wire.dialect.quirks().results_anywhere)
            && parts.peek().is_some()
            && parts.all(|part| matches!(part, PartRef::ToolResult(_)))
    }

    /// Returns the shown tool results, each with the index of its part and the name of its call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &ToolResult, &str)> {
        let shown = self.message.tool_results().filter(|(part, _)| !edit::is_hidden(&self.edits, *part));
        shown.map(|(part, result)| (part, result, edit::renamed(&self.edits, part).unwrap_or(&result.call_id)))
    }

    pub(super) fn saved(&self) -> ShownItem {
        ShownItem { position: self.position, edits: self.edits.to_vec(), size: self.size }
    }
}
