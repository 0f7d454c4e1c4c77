//! The candidates of a plan: the groups of a view, with their sizes now and after each stage.

mod carry_out;
mod changes;
mod people;
mod pins;
mod plans;
mod said;
mod work;

use std::collections::{HashMap, HashSet};
use std::ops::{Add, Range};

use self::changes::changes;
use self::people::People;
use self::pins::Pins;
use crate::entry::{Position, spans};
use crate::group::{Group, GroupKind, Pin, Pinned};
use crate::plan::{Action, Demands, Plan};
use crate::policy::Policy;
use crate::view::{Item, View};
use lookback_tokens::{Calibration, TokenCounter};
use lookback_wire::edit::{self, Edit};
use lookback_wire::size::Size;

type Changes = Vec<(usize, Vec<Item>)>;

/// The groups of a view as the planner sees them, and their items after each stage.
pub(crate) struct Candidates {
    pub(crate) groups: Vec<Group>,
    /// For each group of the view, its items after each number of stages that changes them. After 0 stages, it is the
    /// group as a compaction keeps it.
    changes: Vec<Changes>,
    /// Whether the planner's first group is the preamble, which is not among the groups of the view.
    has_preamble: bool,
}

/// The inputs for measuring groups.
#[derive(Clone, Copy)]
pub(crate) struct Sizing<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) counter: &'a dyn TokenCounter,
    pub(crate) calibration: Calibration,
    pub(crate) demands: Demands,
    /// The groups that are kept beside the pinned ones, if the window is made smaller by a policy.
    pub(crate) kept: Option<&'a Kept>,
    /// The new edits of messages that refer to lines that a compaction removes.
    pub(crate) anew: Option<&'a HashMap<Position, Vec<Edit>>>,
}

impl<'a> Sizing<'a> {
    /// Returns the edits with which a compaction shows a message, without those of the policy's stages.
    pub(crate) fn edits(&self, item: &'a Item) -> &'a [Edit] {
        self.anew.and_then(|anew| anew.get(&item.position)).map_or(&*item.edits, Vec::as_slice)
    }

    /// Returns a size with its tokens corrected by the provider's usage reports.
    pub(crate) fn corrected(&self, size: Size) -> Size {
        Size { tokens: self.calibration.apply(size.tokens), ..size }
    }

    /// Returns a size as it counts against the policy's limits.
    pub(crate) fn counted(&self, kind: GroupKind, size: Size) -> Size {
        let uncounted = kind.may_be_uncounted() && !self.policy.system.counted;
        Size { messages: if uncounted { 0 } else { size.messages }, ..self.corrected(size) }
    }
}

/// The groups that a compaction by policy keeps beside the pinned ones. A hard limit comes before them.
pub(crate) struct Kept {
    people: People,
    /// The newest plan and the newest failure, by the index of their group.
    work: [Option<usize>; 2],
}

impl Kept {
    pub(crate) fn choose(view: &View, sizing: Sizing<'_>) -> Kept {
        Kept { people: People::choose(view, sizing), work: work::find(view, sizing) }
    }

    fn pin(&self, index: usize) -> Option<Pin> {
        let of_work = || self.work.contains(&Some(index)).then_some(Pin::Work);
        self.people.keeps(index).then_some(Pin::People).or_else(of_work)
    }
}

/// Returns the number of groups at the beginning of this view that may not change, because signed reasoning of the open
/// tool loop is in the last of them.
pub(crate) fn bound(view: &View, sizing: Sizing<'_>) -> usize {
    Pins::find(view, sizing).bound(view)
}

/// Returns whether one of these groups of a view is pinned as the task or the open round.
pub(crate) fn pins_task_or_round(view: &View, sizing: Sizing<'_>, groups: Vec<usize>) -> bool {
    let pins = Pins::find(view, sizing);
    groups.into_iter().any(|index| matches!(pins.pin(index), Some(Pin::Task | Pin::OpenRound)))
}

/// Returns the tokens of the head of a view, which do not count toward a limit on the body.
pub(crate) fn head(view: &View, sizing: Sizing<'_>) -> u64 {
    let pins = Pins::find(view, sizing);
    let groups = view.groups().iter().enumerate();
    let head = groups.filter(|(index, _)| pins.pin(*index).is_some_and(Pin::is_head));
    let preamble = sizing.corrected(view.preamble_size());
    head.map(|(_, group)| sizing.corrected(group.size)).fold(preamble, Size::add).tokens
}

impl Candidates {
    /// Measures every group of a view, now and after each stage.
    pub(crate) fn new(view: &View, sizing: Sizing<'_>) -> Candidates {
        let pins = Pins::find(view, sizing);
        let kept = sizing.kept;
        let bound = if sizing.policy.drop_block { 0 } else { pins.bound(view) };
        let preamble = view.preamble_size();
        let count = view.groups().len();
        let has_preamble = preamble != Size::default();
        let mut groups = Vec::with_capacity(count + 1);
        let mut all = Vec::with_capacity(count);
        if has_preamble {
            let (pin, size, staged) = (Some(Pin::Preamble), sizing.corrected(preamble), Vec::new());
            groups.push(Group {
                kind: GroupKind::Preamble,
                turn: 0,
                round: 0,
                pin,
                size,
                kept: size,
                staged,
                bound: false,
            });
        }
        for (index, group) in view.groups().iter().enumerate() {
            let pin = pins.pin(index).or_else(|| kept.and_then(|kept| kept.pin(index)));
            let fixed = pin.is_some_and(|pin| !pin.may_be_shortened()) && !sizing.demands.overflow;
            let is_bound = index < bound;
            let changes = match kept.and_then(|kept| kept.people.shortened(index, group, sizing)) {
                _ if is_bound => Vec::new(),
                Some(items) => vec![(0, items)],
                None => changes(view, group, sizing, fixed, pins.in_open_loop(index)),
            };
            let size_after = |stages: usize| {
                let change = changes.iter().rev().find(|(after, _)| *after <= stages);
                let size = change.map_or(group.size, |(_, items)| items.iter().map(|item| item.size).sum());
                sizing.counted(group.kind, size)
            };
            let stages = changes.last().map_or(0, |(after, _)| *after);
            groups.push(Group {
                kind: group.kind,
                turn: group.turn,
                round: group.round,
                pin,
                size: sizing.counted(group.kind, group.size),
                kept: size_after(0),
                staged: (1..=stages).map(size_after).collect(),
                bound: is_bound,
            });
            all.push(changes);
        }
        Candidates { groups, changes: all, has_preamble }
    }

    /// Returns the entries that a plan removes or shortens, if messages that it keeps refer to lines of any of them.
    /// `sizing` must be the one that the groups were measured with.
    pub(crate) fn lost(&self, view: &View, plan: &Plan, sizing: Sizing<'_>) -> HashSet<Position> {
        let decisions = plan.decisions.iter().skip(usize::from(self.has_preamble));
        let groups = || view.groups().iter().zip(decisions.clone());
        let kept = groups().filter(|(_, decision)| !decision.action.is_gone());
        let needed: HashSet<Position> =
            kept.flat_map(|(group, _)| &group.items).flat_map(|item| edit::repeated(sizing.edits(item))).collect();
        if needed.is_empty() {
            return needed;
        }
        let changed = groups().filter(|(_, decision)| decision.action != Action::Keep);
        let changed: HashSet<Position> =
            changed.flat_map(|(group, _)| &group.items).map(|item| item.position).collect();
        // Return all of them, because otherwise a message might next refer to another of them.
        if changed.is_disjoint(&needed) { HashSet::new() } else { changed }
    }

    /// Returns the pinned groups, with their sizes after a compaction.
    pub(crate) fn pinned(&self) -> Vec<Pinned> {
        self.groups.iter().filter_map(|group| Some(Pinned { pin: group.pin?, size: group.kept })).collect()
    }

    /// Returns a group of the view, as the planner sees it.
    pub(crate) fn group(&self, index: usize) -> Option<&Group> {
        self.groups.get(index.checked_add(usize::from(self.has_preamble))?)
    }

    /// Returns the entries of each group. The preamble has none.
    pub(crate) fn spans(&self, view: &View) -> Vec<Vec<Range<Position>>> {
        let preamble = self.has_preamble.then(Vec::new);
        let groups = view.groups().iter().map(|group| spans(group.items.iter().map(|item| item.position)));
        preamble.into_iter().chain(groups).collect()
    }
}
