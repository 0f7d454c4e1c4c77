//! The whole history of a branch as it would be sent without a window, with its prompt cache.

use lookback_engine::transcript::{Arrival, Millis, Origin, Position, Repair};
use lookback_engine::view::{Item, View};
use lookback_tokens::TokenCounter;
use lookback_tokens::measure;
use lookback_wire::edit::{Change, Edit};
use lookback_wire::message::Role;
use lookback_wire::size::Size;

use crate::cache::{Charge, Growing};
use crate::prices::Price;

/// The history of a branch. It has only the sizes of the messages.
pub(super) struct History {
    preamble: u64,
    messages: Vec<Sent>,
    /// The message that began the turn.
    turn: Position,
    cache: Growing,
}

/// A message of the history.
#[derive(Clone, Copy)]
struct Sent {
    position: Position,
    tokens: u64,
    /// The part of these tokens that counts only until the turn is over.
    passing: u64,
    is_system: bool,
}

impl Sent {
    fn new(position: Position, size: Size) -> Sent {
        Sent { position, tokens: size.tokens, passing: size.passing, is_system: false }
    }
}

impl History {
    pub(super) fn new(price: Price) -> Self {
        History { preamble: 0, messages: Vec::new(), turn: 0, cache: Growing::new(price) }
    }

    /// Begins with the messages of a view, because contents before it were erased.
    pub(super) fn begin(&mut self, view: &View) {
        let sent = |item: &Item| {
            let is_system = item.message().role() == Role::System;
            Sent { is_system, ..Sent::new(item.position(), item.size()) }
        };
        self.messages = view.messages().map(sent).collect();
        self.set_preamble(view.preamble_size().tokens);
    }

    /// Simulates a call that sends the history.
    pub(super) fn call(&mut self, time: Option<Millis>) -> Charge {
        let system = self.messages.iter().take_while(|message| message.is_system);
        let fixed = system.map(|message| message.tokens).fold(self.preamble, u64::saturating_add);
        self.cache.call(fixed, time)
    }

    /// Replaces the preamble by one of this size.
    pub(super) fn set_preamble(&mut self, tokens: u64) {
        self.preamble = tokens;
        self.cache.change(0, tokens.saturating_add(self.tokens_from(0)));
    }

    /// Adds a message that arrived. The view must already have it, unless it shows nothing of the message.
    pub(super) fn receive(&mut self, position: Position, arrival: &Arrival, view: &View, counter: &dyn TokenCounter) {
        for replaced in &arrival.replaces {
            if let Some(at) = self.find(*replaced) {
                let before = self.tokens_before(at);
                self.messages.remove(at);
                self.change(before, at);
            }
        }
        if arrival.origin != Origin::Lookback && arrival.message.opens_turn() {
            self.end_turn();
            self.turn = position;
        }
        let Some(at) = self.place(position, view) else { return };
        let is_system = arrival.message.role() == Role::System;
        let message = Sent { is_system, ..Sent::new(position, whole_size(arrival, counter)) };
        self.insert(if arrival.first { 0 } else { at }, message);
    }

    /// Removes the tokens that count only until the turn is over. Only messages of the last turn have any.
    fn end_turn(&mut self) {
        let of_turn = self.messages.iter().rev().take_while(|message| message.position >= self.turn).count();
        let at = self.messages.len() - of_turn;
        let mut end = self.cache.tokens();
        for message in self.messages.iter_mut().skip(at).rev() {
            let (whole, passed) = (message.tokens, std::mem::take(&mut message.passing));
            message.tokens = whole.saturating_sub(passed);
            if passed > 0 {
                self.cache.shrink(end, passed);
            }
            end = end.saturating_sub(whole);
        }
    }

    /// Applies a repair that the view already has.
    pub(super) fn repair(&mut self, position: Position, repair: &Repair, view: &View) {
        match repair {
            Repair::StandIn { size, .. } => {
                if let Some(at) = self.place(position, view) {
                    self.insert(at, Sent::new(position, *size));
                }
            }
            Repair::Opening { size, .. } => {
                // If only the window began with a message of the model, the whole history needs no opening.
                let at = self.messages.iter().take_while(|message| message.is_system).count();
                if self.place(position, view) == Some(at) {
                    self.insert(at, Sent::new(position, *size));
                }
            }
            Repair::Trim { message, size, .. } => {
                if let Some(at) = self.find(*message) {
                    let before = self.tokens_before(at);
                    if let Some(trimmed) = self.messages.get_mut(at) {
                        trimmed.tokens = size.tokens;
                    }
                    self.change(before, at);
                }
            }
            // A repair that this version does not know.
            _ => {}
        }
    }

    /// Restores the history before a position of the log, where this was the view.
    pub(super) fn go_back(&mut self, end: Position, view: &View) {
        let at = self.messages.iter().position(|message| message.position >= end).unwrap_or(self.messages.len());
        let before = self.tokens_before(at);
        self.messages.retain(|message| message.position < end);
        self.change(before, at);
        // The turn that was open there continues, so its passing tokens count again.
        self.turn = 0;
        for item in view.messages().rev().filter(|item| item.size().passing > 0) {
            let Some(at) = self.find(item.position()) else { continue };
            let before = self.tokens_before(at);
            if let Some(message) = self.messages.get_mut(at).filter(|message| message.passing == 0) {
                message.passing = item.size().passing;
                message.tokens = message.tokens.saturating_add(message.passing);
                self.change(before, at);
            }
        }
    }

    /// Returns the index at which to insert the message at a position: before the next message of the view that the
    /// history has. `None` if the view does not show the message.
    fn place(&self, position: Position, view: &View) -> Option<usize> {
        let mut behind = Vec::new();
        for item in view.messages().rev() {
            if item.position() == position {
                // Skip messages that are not part of the history, such as a running summary.
                let next = behind.iter().rev().find_map(|position| self.find(*position));
                return Some(next.unwrap_or(self.messages.len()));
            }
            behind.push(item.position());
        }
        None
    }

    /// Returns the index of a message. The search starts at the end, where the message usually is.
    fn find(&self, position: Position) -> Option<usize> {
        self.messages.iter().rposition(|message| message.position == position)
    }

    fn insert(&mut self, at: usize, message: Sent) {
        let before = self.tokens_before(at);
        self.messages.insert(at, message);
        self.change(before, at);
    }

    /// Returns the tokens of everything before a message, computed from the end.
    fn tokens_before(&self, at: usize) -> u64 {
        self.cache.tokens().saturating_sub(self.tokens_from(at))
    }

    fn tokens_from(&self, at: usize) -> u64 {
        let rest = self.messages.get(at..).unwrap_or_default();
        rest.iter().map(|message| message.tokens).fold(0, u64::saturating_add)
    }

    /// Updates the cache after a change at this index. `before` are the tokens before it.
    fn change(&mut self, before: u64, at: usize) {
        self.cache.change(before, self.tokens_from(at));
    }
}

/// Returns the size that a message would have if the policy had not truncated it on arrival.
fn whole_size(arrival: &Arrival, counter: &dyn TokenCounter) -> Size {
    // A repair keeps nothing of a text that it replaces, while a cap keeps a head or a tail.
    let is_cap = |edit: &Edit| matches!(&edit.change, Change::Cut { cut, .. } if cut.head > 0 || cut.tail > 0);
    // The model's answers are not capped.
    if arrival.message.role() == Role::Assistant || !arrival.edits.iter().any(is_cap) {
        return arrival.size;
    }
    let others: Vec<Edit> = arrival.edits.iter().filter(|edit| !is_cap(edit)).cloned().collect();
    measure(&arrival.message, &others, counter)
}
