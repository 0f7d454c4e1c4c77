//! Pins: which groups of a view may not be dropped, and why.

use std::collections::HashSet;

use super::Sizing;
use crate::group::{GroupKind, Pin};
use crate::policy::Mode;
use crate::view::{Item, Lasting, View, ViewGroup};
use lookback_wire::Start;
use lookback_wire::message::Role;

/// The groups that may not be dropped, by index.
pub(super) struct Pins {
    /// The system messages, the summary and the index, wherever they are.
    standing: Vec<(usize, Pin)>,
    task: Option<usize>,
    /// The newest assistant message with calls, until another assistant message follows.
    open_round: Option<usize>,
    /// The beginning of the tool loop of the open round: the group after the last message from a person before it.
    loop_start: Option<usize>,
    /// The group with the newest message, and the group that the request ends with. They differ if a late result joined
    /// an earlier group.
    newest: [Option<usize>; 2],
    /// The first of the notes at the end, which the model has not seen.
    unseen: usize,
    /// Groups with a part that applies to all later messages.
    lasting: Vec<usize>,
    /// Later groups that have a system message in them, if the policy keeps those.
    later_system: Vec<usize>,
    first: usize,
    last: usize,
}

impl Pins {
    pub(super) fn find(view: &View, sizing: Sizing<'_>) -> Pins {
        let groups = view.groups();
        let keep = sizing.policy.keep;
        let system = groups.iter().take_while(|group| group.kind == GroupKind::System).count();
        let task = latest(view, says).or_else(|| groups.iter().rposition(|group| group.kind == GroupKind::User));
        let open_round = open_round(groups);
        let ends_with = groups.iter().rposition(|group| group.kind != GroupKind::Note);
        Pins {
            standing: standing(groups, system, sizing.policy.system.one),
            task: if keep.task || sizing.demands.start == Start::User { task } else { None },
            open_round,
            // A window that is planned again at each read begins differently each time, so no signature is valid in it.
            loop_start: if sizing.policy.mode == Mode::Recorded {
                open_round.map(|open| loop_start(groups.get(..open).unwrap_or_default()))
            } else {
                None
            },
            newest: [latest(view, |_| true), ends_with],
            unseen: ends_with.map_or(0, |newest| newest + 1),
            lasting: lasting(groups),
            later_system: if keep.system { later_system(groups, system) } else { Vec::new() },
            first: system + reach(groups.iter().skip(system), keep.first),
            last: groups.len() - reach(groups.iter().rev(), keep.last),
        }
    }

    pub(super) fn pin(&self, index: usize) -> Option<Pin> {
        let at = |place: Option<usize>| place == Some(index);
        let standing = self.standing.binary_search_by_key(&index, |(at, _)| *at).ok();
        if let Some((_, pin)) = standing.and_then(|found| self.standing.get(found)) {
            return Some(*pin);
        }
        let pins = [
            (Pin::Task, at(self.task)),
            (Pin::OpenRound, at(self.open_round)),
            (Pin::Newest, self.newest.contains(&Some(index))),
            (Pin::Unseen, index >= self.unseen),
            (Pin::Standing, self.lasting.binary_search(&index).is_ok()),
            (Pin::LaterSystem, self.later_system.binary_search(&index).is_ok()),
            (Pin::First, index < self.first),
            (Pin::Last, index >= self.last),
        ];
        pins.into_iter().find_map(|(pin, holds)| holds.then_some(pin))
    }

    /// Returns the number of groups up to the last with signed reasoning of the open tool loop, which may not change.
    pub(super) fn bound(&self, view: &View) -> usize {
        // Only the groups of the loop can have it.
        let (Some(start), Some(end)) = (self.loop_start, self.open_round) else { return 0 };
        let groups = view.groups().get(start..=end).unwrap_or_default();
        groups.iter().rposition(ViewGroup::shows_signed).map_or(0, |last| start + last + 1)
    }

    pub(super) fn in_open_loop(&self, index: usize) -> bool {
        matches!((self.loop_start, self.open_round), (Some(start), Some(end)) if (start..=end).contains(&index))
    }
}

/// Returns the system messages, the summary and the index. The first `system` groups are the system messages at the
/// beginning. If there may be only `one` system message, it is pinned wherever it is.
fn standing(groups: &[ViewGroup], system: usize, one: bool) -> Vec<(usize, Pin)> {
    let pin = |(index, group): (usize, &ViewGroup)| match group.kind {
        GroupKind::Summary => Some((index, Pin::Summary)),
        GroupKind::Index => Some((index, Pin::Index)),
        GroupKind::System if index < system || one => Some((index, Pin::System)),
        GroupKind::Preamble
        | GroupKind::System
        | GroupKind::User
        | GroupKind::Assistant
        | GroupKind::Round
        | GroupKind::Note => None,
    };
    groups.iter().enumerate().filter_map(pin).collect()
}

/// Returns the groups with a part that applies to all later messages. A compaction by the provider replaces all earlier
/// ones. A group that only loads tools is replaced once later groups have loaded all of them.
fn lasting(groups: &[ViewGroup]) -> Vec<usize> {
    let mut lasting = Vec::new();
    let mut loaded = HashSet::new();
    for (index, group) in groups.iter().enumerate().rev() {
        let Some(last) = group.items.iter().filter_map(Item::lasts).max() else { continue };
        let parts: Vec<_> = group.items.iter().flat_map(|item| item.message.loaded()).collect();
        let is_replaced = |names: &Vec<String>| !names.is_empty() && names.iter().all(|name| loaded.contains(name));
        if last == Lasting::Compaction || !parts.iter().all(|(_, names)| is_replaced(names)) {
            lasting.push(index);
        }
        if last == Lasting::Compaction {
            break;
        }
        loaded.extend(parts.into_iter().flat_map(|(_, names)| names));
    }
    lasting.reverse();
    lasting
}

/// Returns the groups after the first `system` that have a system message. In some dialects, a system message is part
/// of the group that it follows.
fn later_system(groups: &[ViewGroup], system: usize) -> Vec<usize> {
    let instructs = |group: &ViewGroup| group.items.iter().any(|item| item.message.role() == Role::System);
    let later = groups.iter().enumerate().skip(system).filter(|(_, group)| instructs(group));
    later.map(|(index, _)| index).collect()
}

/// Returns whether the message has words of a person.
fn says(item: &Item) -> bool {
    !item.is_own() && item.speaks()
}

/// Returns the group with the newest message that `counts` selects. Newest means last to arrive, not last in place: a
/// message that answers an earlier call is placed with that call.
fn latest(view: &View, counts: impl Fn(&Item) -> bool) -> Option<usize> {
    // A late result counts as the newest message, although it is not shown yet.
    let newest = |group: &ViewGroup| {
        let late = view.late_for(group);
        let items = group.items.iter().chain(late.iter().map(|(item, _)| item));
        items.filter(|item| !item.is_own() && counts(item)).map(|item| item.position).max()
    };
    let newest = view.groups().iter().enumerate().filter_map(|(index, group)| Some((newest(group)?, index))).max();
    newest.map(|(_, index)| index)
}

/// Returns the newest assistant message, if it has calls.
fn open_round(groups: &[ViewGroup]) -> Option<usize> {
    let spoke = groups.iter().rposition(|group| group.kind.is_round())?;
    groups.get(spoke).is_some_and(|group| group.kind == GroupKind::Round).then_some(spoke)
}

/// Returns the beginning of the tool loop that follows these groups: after the last message from a person.
fn loop_start(before: &[ViewGroup]) -> usize {
    before.iter().rposition(|group| group.items.iter().any(says)).map_or(0, |at| at + 1)
}

/// Returns the number of groups that contain the first `wanted` messages, without notes. A group that is only partly
/// included counts as a whole.
fn reach<'a>(groups: impl Iterator<Item = &'a ViewGroup>, wanted: u64) -> usize {
    let mut messages = 0;
    let within = groups.take_while(|group| {
        let more = messages < wanted;
        messages += if group.kind == GroupKind::Note { 0 } else { group.size.messages };
        more
    });
    within.count()
}
