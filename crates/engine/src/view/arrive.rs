//! Arriving messages: each joins a group of the view or becomes a new one.

use super::View;
use super::calls::Answer;
use super::groups::ViewGroup;
use super::item::{Author, Item};
use crate::entry::{Arrival, Position};
use crate::group::GroupKind;
use lookback_wire::edit::Hidden;
use lookback_wire::edit::{self, Change, Edit};
use lookback_wire::message::Role;

impl View {
    /// Adds a message that arrived.
    pub(super) fn arrive(&mut self, position: Position, arrival: &Arrival) {
        let message = arrival.message.clone();
        let continues = message.role() == Role::Assistant && self.answer_goes_on();
        if message.role() == Role::Assistant && !continues {
            self.was_called(position);
        }
        self.history.count(arrival);
        let by = Author::from_arrival(arrival);
        let item = |edits: &[Edit], size| Item::new(position, &message, edits, size, by);
        if arrival.edits.iter().any(|edit| edit.change == Change::Hide(Hidden::Late)) {
            // The late results wait outside the view, without the other parts of their message.
            let late = |part| edit::is_hidden_as(&arrival.edits, part, Hidden::Late);
            let edits = arrival.edits.iter().filter(|edit| edit.change != Change::Hide(Hidden::Late)).cloned();
            let others = (0..message.parts().count()).filter(|part| !late(*part));
            let hide = others.map(|part| Edit { part, change: Change::Hide(Hidden::Late) });
            self.await_result(item(&edit::in_order(edits.chain(hide).collect()), arrival.size));
        }
        if edit::hides_all(&message, &arrival.edits) {
            return;
        }
        let item = item(&arrival.edits, arrival.size);
        for position in &arrival.replaces {
            self.take_out(*position);
        }
        if arrival.first || !arrival.replaces.is_empty() {
            self.changed = Some(position);
            self.outdated = self.is_outdated();
        }
        if arrival.first {
            if let Some(group) = ViewGroup::from_items(vec![item], self.history.turn, self.history.round) {
                self.add_group(group, Some(0));
            }
            return;
        }
        if item.speaks() && !item.is_own() {
            // A message that also holds results belongs to their round. The turn begins after it.
            self.end_turn();
            self.history.turn = self.history.turn.saturating_add(1);
        }
        if continues {
            self.join(item);
        } else {
            self.place(item);
        }
    }

    /// Removes the tokens that count only until the turn is over.
    fn end_turn(&mut self) {
        let turn = self.history.turn;
        // A summary and an index do not belong to a turn.
        let stands = |kind| matches!(kind, GroupKind::Summary | GroupKind::Index);
        let of_turn = |group: &&mut ViewGroup| group.turn >= turn || stands(group.kind);
        for group in self.groups.iter_mut().rev().take_while(of_turn) {
            if group.size.passing > 0 {
                self.sizes.resize(group.size, group.size.after_turn());
                group.size = group.size.after_turn();
                group.items.iter_mut().for_each(|item| item.size = item.size.after_turn());
            }
        }
    }

    /// Puts a message into the group that it belongs to, or into a new one.
    fn place(&mut self, item: Item) {
        let message = item.message.clone();
        let home = item.answers().find_map(|(_, result, name)| self.home_of(result, name));
        if let Some(index) = home {
            for (_, _, name) in item.answers() {
                self.answer(index, name, Answer::Given);
            }
            self.is_parted |= index + 1 < self.groups.len() && item.may_stand_apart();
            self.add_to(index, item);
            return;
        }
        // The result answers a call that the provider has stored.
        if item.may_stand_apart()
            && let Some(last) = self.groups.len().checked_sub(1)
            && self.groups.last().is_some_and(ViewGroup::refers)
        {
            self.add_to(last, item);
            return;
        }
        if message.role() == Role::System
            && message.wire().is_some_and(|wire| wire.dialect.quirks().system_follows_user)
            && self.history.turn > 0
            && let Some(last) = self.groups.len().checked_sub(1)
            && self.groups.last().is_some_and(|group| group.kind.is_said() || group.kind == GroupKind::Note)
        {
            // In this dialect a system message must follow a user's message, so it joins the group before it. If that
            // group is a note, it becomes a user's group, because a compaction would otherwise drop the system message
            // with it.
            self.add_to(last, item);
            if let Some(mut group) = self.groups.pop_if(|group| group.kind == GroupKind::Note) {
                self.sizes.remove(&group);
                group.kind = GroupKind::User;
                self.add_group(group, None);
            }
            return;
        }
        if message.role() == Role::Assistant {
            self.history.round = self.history.round.saturating_add(1);
        }
        if let Some(group) = ViewGroup::from_items(vec![item], self.history.turn, self.history.round) {
            self.add_group(group, None);
        }
    }

    /// Adds a group at index `at`, or at the end.
    pub(super) fn add_group(&mut self, mut group: ViewGroup, at: Option<usize>) {
        group.size = group.items.iter().map(|item| item.size).sum();
        self.calls.add(&group, 0);
        self.sizes.add(&group);
        match at {
            Some(at) => {
                group.number = self.groups.get(at).map_or(group.number, |next| next.number);
                self.groups.insert(at, group);
            }
            None => self.groups.push(group),
        }
    }

    /// Returns whether the next message of the model would continue the answer of the newest group.
    pub(super) fn answer_goes_on(&self) -> bool {
        self.history.is_models && self.groups.last().is_some_and(ViewGroup::continues)
    }

    /// Adds a message of the model to the newest group.
    fn join(&mut self, item: Item) {
        let Some(last) = self.groups.last_mut() else { return };
        let known = last.calls.len();
        if known > 0 {
            self.sizes.join(&item);
            last.join(item);
        } else {
            // It may become a round.
            self.sizes.remove(last);
            last.join(item);
            self.sizes.add(last);
        }
        self.calls.add(last, known);
    }

    /// Removes the system message at a position.
    fn take_out(&mut self, position: Position) {
        let found = self.groups.iter().position(|group| {
            group.kind == GroupKind::System && group.items.first().is_some_and(|item| item.position == position)
        });
        if let Some(group) = found.map(|index| self.groups.remove(index)) {
            self.sizes.remove(&group);
        }
    }

    /// Adds a message to a group.
    pub(super) fn add_to(&mut self, index: usize, item: Item) {
        if let Some(group) = self.groups.get_mut(index) {
            group.size += item.size;
            self.sizes.join(&item);
            // A system message of a round may have arrived before the results. It goes after them.
            let system = |item: &Item| item.message.role() == Role::System;
            let behind =
                if system(&item) { 0 } else { group.items.iter().rev().take_while(|item| system(item)).count() };
            group.items.insert(group.items.len() - behind, item);
        }
    }
}
