//! Pins: which groups of a view may not be dropped, and why.

use super::Sizing;
use crate::group::{GroupKind, Pin};
use crate::policy::Mode;
use crate::start::Start;
use crate::view::{Item, View, ViewGroup};
use crate::wire::Role;

/// The groups that may not be dropped, by index.
pub(super) struct Pins {
    /// The system messages and the summary, wherever they are.
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
    /// Later groups that have a system message in them, if the policy keeps those.
    later_system: Vec<usize>,
    first: usize,
    last: usize,
}

impl Pins {
    pub(super) fn of(view: &View, sizing: Sizing<'_>) -> Pins {
        let groups = view.groups();
        let keep = sizing.policy.keep;
        let system = groups.iter().take_while(|group| group.kind == GroupKind::System).count();
        let standing = groups.iter().enumerate().filter_map(|(index, group)| match group.kind {
            GroupKind::Summary => Some((index, Pin::Summary)),
            GroupKind::System if index < system || sizing.policy.system.one => Some((index, Pin::System)),
            GroupKind::Preamble
            | GroupKind::System
            | GroupKind::User
            | GroupKind::Assistant
            | GroupKind::Round
            | GroupKind::Note => None,
        });
        // If a system message may not be alone, it is part of the group that it follows.
        let instructs = |group: &ViewGroup| group.items.iter().any(|item| item.message.role() == Role::System);
        let later_system = groups.iter().enumerate().skip(system).filter(|(_, group)| keep.system && instructs(group));
        let speaks = |item: &Item| !item.is_own() && item.speaks();
        let person = |group: &ViewGroup| group.items.iter().any(speaks);
        let opening = |group: &ViewGroup| group.kind == GroupKind::User;
        // The newest by arrival, not by place: a message that answers an earlier call is placed with that call.
        let latest = |counts: &dyn Fn(&Item) -> bool| {
            // A late result counts as the newest message, although it is not shown yet.
            let newest = |group: &ViewGroup| {
                let late = view.late_for(group);
                let items = group.items.iter().chain(late.iter().map(|(item, _)| item));
                items.filter(|item| !item.is_own() && counts(item)).map(|item| item.position).max()
            };
            let newest = groups.iter().enumerate().filter_map(|(index, group)| Some((newest(group)?, index))).max();
            newest.map(|(_, index)| index)
        };
        let task = latest(&speaks).or_else(|| groups.iter().rposition(opening));
        let spoke = groups.iter().rposition(|group| matches!(group.kind, GroupKind::Assistant | GroupKind::Round));
        let open_round = spoke.filter(|index| groups.get(*index).is_some_and(|group| group.kind == GroupKind::Round));
        let before = open_round.and_then(|open| groups.get(..open));
        // If only a part of a group is within reach, the group is kept whole.
        let reach = |groups: &mut dyn Iterator<Item = &ViewGroup>, least: u64| {
            let mut messages = 0;
            groups
                .take_while(|group| {
                    let more = messages < least;
                    messages += if group.kind == GroupKind::Note { 0 } else { group.size.messages };
                    more
                })
                .count()
        };
        Pins {
            standing: standing.collect(),
            task: task.filter(|_| keep.task || sizing.demands.start == Start::User),
            open_round,
            // A window that is planned anew at each read has another beginning each time, so no signature is valid in
            // it.
            loop_start: open_round
                .filter(|_| sizing.policy.mode == Mode::Recorded)
                .map(|_| before.and_then(|before| before.iter().rposition(person)).map_or(0, |at| at + 1)),
            newest: [latest(&|_| true), groups.iter().rposition(|group| group.kind != GroupKind::Note)],
            unseen: groups.iter().rposition(|group| group.kind != GroupKind::Note).map_or(0, |newest| newest + 1),
            later_system: later_system.map(|(index, _)| index).collect(),
            first: system + reach(&mut groups.iter().skip(system), keep.first),
            last: groups.len() - reach(&mut groups.iter().rev(), keep.last),
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
            (Pin::LaterSystem, self.later_system.binary_search(&index).is_ok()),
            (Pin::First, index < self.first),
            (Pin::Last, index >= self.last),
        ];
        pins.into_iter().find_map(|(pin, holds)| holds.then_some(pin))
    }

    pub(super) fn in_open_loop(&self, index: usize) -> bool {
        matches!((self.loop_start, self.open_round), (Some(start), Some(end)) if (start..=end).contains(&index))
    }
}
