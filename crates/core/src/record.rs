//! Carrying a plan out: what each group would be after each stage, and the entry that records what was chosen.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::cut::{self, Change, Cut, Edit, Hidden};
use crate::group::{Group, GroupKind, Pin};
use crate::message::{Message, Role, ToolResult};
use crate::plan::{Action, Decision, Demands, Plan, Reason, Verdict, plan_for};
use crate::policy::{Measure, Mode, Policy, Stage, Start, Totals};
use crate::tokens::{Calibration, Size, TokenCounter, measure};
use crate::transcript::{CompactedGroups, Compaction, Position, ShownItem, join, spans};
use crate::view::{Item, View, ViewGroup};

/// The cuts that a stage makes in a result of an entry, item by item.
type Cuts<'a> = dyn Fn(&ToolResult, Position) -> Vec<(usize, Cut)> + 'a;

type Changes = Vec<(usize, Vec<Item>)>;

/// The groups of a view as the planner sees them, and what each would hold after each stage.
pub(crate) struct Candidates {
    pub(crate) groups: Vec<Group>,
    /// For each group of the view, what it would hold where that changes: after how many stages (0: when a compaction keeps it
    /// as it is), and its items then.
    changes: Vec<Changes>,
    /// Whether the planner's first group is the preamble, which the view has not among its groups.
    has_preamble: bool,
}

/// What sizing needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Sizing<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) counter: &'a dyn TokenCounter,
    pub(crate) calibration: Calibration,
    pub(crate) demands: Demands,
}

impl Sizing<'_> {
    /// With its tokens corrected by what the provider has reported.
    pub(crate) fn corrected(&self, size: Size) -> Size {
        Size { tokens: self.calibration.apply(size.tokens), ..size }
    }

    /// As it counts against the policy's limits.
    fn counted(&self, kind: GroupKind, size: Size) -> Size {
        let uncounted = kind.may_be_uncounted() && !self.policy.system.counted;
        Size { messages: if uncounted { 0 } else { size.messages }, ..self.corrected(size) }
    }
}

/// Sizes every group of a view, as it is and as each stage would leave it.
pub(crate) fn candidates(view: &View, sizing: Sizing<'_>) -> Candidates {
    let pins = Pins::of(view, sizing);
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
            binds: false,
        });
    }
    for (index, group) in view.groups().iter().enumerate() {
        let (pin, in_open_loop) = (pins.pin(index), pins.in_open_loop(index));
        let fixed = pin.is_some() && !sizing.demands.overflow;
        let changes = changes(view, group, sizing, fixed, in_open_loop);
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
            binds: in_open_loop && group.items.iter().any(Item::shows_signed),
        });
        all.push(changes);
    }
    Candidates { groups, changes: all, has_preamble }
}

/// Whether signed reasoning of an open tool loop forbids any change to this view.
pub(crate) fn is_bound(view: &View, sizing: Sizing<'_>) -> bool {
    let pins = Pins::of(view, sizing);
    let mut groups = view.groups().iter().enumerate().filter(|(index, _)| pins.in_open_loop(*index));
    groups.any(|(_, group)| group.items.iter().any(Item::shows_signed))
}

/// What may not be dropped, by index of the group.
struct Pins {
    /// The system messages and the summary, wherever they stand.
    standing: Vec<(usize, Pin)>,
    task: Option<usize>,
    /// The newest assistant message with calls, until another assistant message follows.
    open_round: Option<usize>,
    /// Where the tool loop of that round began: the message of a person before it.
    loop_start: Option<usize>,
    /// What holds the newest message, and the group that the request ends with: an interleaved result may stand further up.
    newest: [Option<usize>; 2],
    /// From here on there are only notes, which the model has not seen.
    unseen: usize,
    /// Groups further on with a system message in them, where the policy keeps those.
    later_system: Vec<usize>,
    first: usize,
    last: usize,
}

impl Pins {
    fn of(view: &View, sizing: Sizing<'_>) -> Pins {
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
        // Where a system message may not stand alone, it is part of the group that it follows.
        let instructs = |group: &ViewGroup| group.items.iter().any(|item| item.message.role() == Role::System);
        let later_system = groups.iter().enumerate().skip(system).filter(|(_, group)| keep.system && instructs(group));
        let speaks = |item: &Item| !item.is_own() && item.speaks();
        let person = |group: &ViewGroup| group.items.iter().any(speaks);
        let opening = |group: &ViewGroup| group.kind == GroupKind::User;
        // By the order in which messages came: one that answers an earlier call stands with that call.
        let latest = |counts: &dyn Fn(&Item) -> bool| {
            // A late result is the newest message too, though it is not shown yet.
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
        // Counting messages from an end, a group that is reached in part is kept whole.
        let reach = |groups: &mut dyn Iterator<Item = &ViewGroup>, wanted: u64| {
            let mut messages = 0;
            groups
                .take_while(|group| {
                    let more = messages < wanted;
                    messages += if group.kind == GroupKind::Note { 0 } else { group.size.messages };
                    more
                })
                .count()
        };
        Pins {
            standing: standing.collect(),
            task: task.filter(|_| keep.task || sizing.demands.start == Start::User),
            open_round,
            // Planned anew at each read, a window has another beginning each time: no signature holds in it.
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

    fn pin(&self, index: usize) -> Option<Pin> {
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

    fn in_open_loop(&self, index: usize) -> bool {
        matches!((self.loop_start, self.open_round), (Some(start), Some(end)) if (start..=end).contains(&index))
    }
}

/// What a group would hold, wherever keeping it or a stage changes that.
fn changes(view: &View, group: &ViewGroup, sizing: Sizing<'_>, fixed: bool, in_open_loop: bool) -> Changes {
    let mut changes: Changes = kept(view, group, sizing, in_open_loop).map(|items| (0, items)).into_iter().collect();
    if fixed || group.kind != GroupKind::Round {
        return changes;
    }
    for (index, stage) in sizing.policy.stages.iter().enumerate() {
        let cuts: &Cuts<'_> = match stage {
            Stage::TruncateResults { to, .. } => {
                &|result, entry| cut::truncate_result(result, entry, to, sizing.counter)
            }
            Stage::ClearResults { marker, .. } => &|result, entry| cut::clear_result(result, entry, marker.as_deref()),
            Stage::ClearMedia { .. } => &|result, _| cut::clear_media(result),
            Stage::Summarize(_) | Stage::Drop => continue,
        };
        let items = changes.last().map_or(&group.items, |(_, items)| items);
        let shortened: Vec<_> = items.iter().map(|item| shorten(item, cuts, sizing.counter)).collect();
        if shortened.iter().any(Option::is_some) {
            let items = shortened.into_iter().zip(items).map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
            changes.push((index + 1, items));
        }
    }
    changes
}

/// The group as a compaction keeps it: stale reasoning gone, late results in the place of their stand-ins.
fn kept(view: &View, group: &ViewGroup, sizing: Sizing<'_>, in_open_loop: bool) -> Option<Vec<Item>> {
    let late = view.late_for(group);
    let stale = |item: &Item| !in_open_loop && item.shows_signed();
    if late.is_empty() && !group.items.iter().any(stale) {
        return None;
    }
    let mut items: Vec<Item> = Vec::new();
    let by_stand_in: HashMap<Position, usize> =
        late.iter().enumerate().flat_map(|(at, (_, places))| places.iter().map(move |place| (*place, at))).collect();
    for item in &group.items {
        if let Some((late, stand_ins)) = by_stand_in.get(&item.position).and_then(|at| late.get(*at)) {
            // One message may answer several calls: it comes where the first of their stand-ins was.
            if stand_ins.first() == Some(&item.position) {
                items.extend(with_edits(late, late.edits.to_vec(), sizing.counter));
            }
            continue;
        }
        if stale(item) {
            let hide = item.signed_parts().map(|part| Edit { part, change: Change::Hide(Hidden::Stale) });
            let edits = item.edits.iter().cloned().chain(hide).collect();
            items.extend(with_edits(item, edits, sizing.counter));
        } else {
            items.push(item.clone());
        }
    }
    Some(items)
}

fn with_edits(item: &Item, edits: Vec<Edit>, counter: &dyn TokenCounter) -> Option<Item> {
    let edits = cut::in_order(edits);
    let size = measure(&item.message, &edits, counter);
    (!cut::hides_all(&item.message, &edits)).then(|| Item { edits: Arc::from(edits), size, ..item.clone() })
}

/// The item with these cuts made in its results; `None` where that makes it no smaller.
fn shorten(item: &Item, cuts: &Cuts<'_>, counter: &dyn TokenCounter) -> Option<Item> {
    if item.is_own() {
        return None;
    }
    let message: &Message = &item.message;
    let visible = message.tool_results().filter(|(part, _)| !cut::is_hidden(&item.edits, *part));
    // What is cut already is cut again only where less of it is left: a result that was cleared stays as it is.
    let less = |part: usize, (at, cut): &(usize, Cut)| {
        let old = cut::cut_of(&item.edits, part, *at);
        old.is_none_or(|old| cut.head + cut.tail < old.head + old.tail)
    };
    let new: Vec<Edit> = visible
        .map(|(part, result)| (part, cuts(result, item.position)))
        .filter(|(part, cuts)| cuts.iter().any(|cut| less(*part, cut)))
        .flat_map(|(part, cuts)| {
            cuts.into_iter().map(move |(item, cut)| Edit { part, change: Change::Cut { item, cut } })
        })
        .collect();
    if new.is_empty() {
        return None;
    }
    let new = cut::in_order(new);
    let replaced = |old: &Edit| match &old.change {
        Change::Cut { item, .. } => cut::cut_of(&new, old.part, *item).is_some(),
        Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => false,
    };
    let edits = item.edits.iter().filter(|old| !replaced(old)).cloned().chain(new.iter().cloned()).collect();
    let shortened = with_edits(item, edits, counter)?;
    let (old, new) = (item.size, shortened.size);
    let larger = new.tokens > old.tokens || new.bytes > old.bytes || new.media > old.media;
    (!larger && new != old).then_some(shortened)
}

impl Candidates {
    /// What may not be dropped, and how large it is where a compaction keeps it.
    pub(crate) fn pinned(&self) -> Vec<(Pin, Size)> {
        self.groups.iter().filter_map(|group| Some((group.pin?, group.kept))).collect()
    }

    /// The entry that records a plan made of these groups. Neighbors that share a fate share an outcome.
    pub(crate) fn carry_out(self, view: &View, plan: &Plan) -> Compaction {
        let decisions = plan.decisions.iter().skip(usize::from(self.has_preamble));
        let mut outcomes: Vec<CompactedGroups> = Vec::new();
        for ((group, changes), decision) in view.groups().iter().zip(self.changes).zip(decisions) {
            let change = changes.into_iter().rev().find(|(after, _)| *after <= decision.stages);
            let save = |item: &Item| ShownItem { position: item.position, edits: item.edits.to_vec(), size: item.size };
            let shown =
                change.filter(|_| !decision.action.is_gone()).map(|(_, items)| items.iter().map(save).collect());
            let positions = group.items.iter().map(|item| item.position);
            match outcomes
                .last_mut()
                .filter(|last| shown.is_none() && last.shown.is_none() && last.decision.is_like(decision))
            {
                Some(last) => {
                    last.count += 1;
                    last.decision.before += decision.before;
                    last.decision.after += decision.after;
                    positions.for_each(|position| join(&mut last.spans, position));
                }
                None => outcomes.push(CompactedGroups {
                    count: 1,
                    spans: spans(positions),
                    decision: decision.clone(),
                    shown,
                }),
            }
        }
        Compaction { groups: outcomes, summary: None, before: plan.before, after: plan.after }
    }

    /// The plan that keeps every group, but for reasoning that any compaction makes stale.
    pub(crate) fn keep_all(&self) -> Plan {
        let mut plan = plan_for(&self.groups, &Policy::default(), Demands::default());
        for (decision, group) in plan.decisions.iter_mut().zip(&self.groups) {
            decision.after = group.kept;
            if group.is_stale() {
                (decision.action, decision.reason) = (Action::Drop, Reason::Stale);
            }
        }
        plan.after = Totals::of(self.groups.iter().filter(|group| !group.is_stale()).map(|group| (group, group.kept)));
        plan
    }

    /// A group of the view, as the planner sees it.
    pub(crate) fn group(&self, index: usize) -> Option<&Group> {
        self.groups.get(index.checked_add(usize::from(self.has_preamble))?)
    }

    /// The plan that takes groups of the view out, each for its reason, and keeps the rest; `None` where none leaves.
    pub(crate) fn without(&self, leaves: impl Fn(usize) -> Option<Reason>) -> Option<Plan> {
        let mut plan = self.keep_all();
        let mut any = false;
        let groups = self.groups.iter().zip(&mut plan.decisions).skip(usize::from(self.has_preamble));
        for (index, (group, decision)) in groups.enumerate() {
            if let Some(reason) = leaves(index) {
                let (before, after) = (group.size, Size::default());
                *decision = Decision { action: Action::Drop, stages: 0, reason, before, after };
                any = true;
            }
        }
        let kept = self.groups.iter().zip(&plan.decisions).filter(|(_, decision)| !decision.action.is_gone());
        plan.after = Totals::of(kept.map(|(group, decision)| (group, decision.after)));
        plan.verdict = Verdict::Compact;
        any.then_some(plan)
    }

    /// The plan that takes the oldest round that these stages make smaller through all of them, and keeps the rest; `None` where there
    /// is none.
    pub(crate) fn shorten(&self, stages: usize) -> Option<Plan> {
        let helps = |group: &Group| {
            let (old, new) = (group.kept, group.after(stages));
            group.kind == GroupKind::Round
                && (new.tokens < old.tokens || new.bytes < old.bytes || new.media < old.media)
        };
        let index = self.groups.iter().position(helps)?;
        let mut plan = self.keep_all();
        let (group, decision) = (self.groups.get(index)?, plan.decisions.get_mut(index)?);
        let measure = Measure::Bytes;
        let (actual, limit) = (plan.before.get(measure), plan.before.get(measure).saturating_sub(1));
        plan.after.size = plan.after.size - group.kept + group.after(stages);
        let reason = Reason::Exceeded { measure, actual, limit, target: limit };
        let after = group.after(stages);
        *decision = Decision { action: Action::Truncate, stages, reason, before: group.size, after };
        plan.verdict = Verdict::Compact;
        Some(plan)
    }

    /// The plan that lets a summary take the place of what it covers, and of the summary before it. Whatever has become pinned
    /// meanwhile, or has been joined by a message that the summary does not know, stays.
    pub(crate) fn summarize(&self, view: &View, covers: &[Range<Position>], reason: Reason, summary: Size) -> Plan {
        let covered = |position: Position| covers.iter().any(|span| span.contains(&position));
        let has_preamble = usize::from(self.has_preamble);
        let decide = |(index, group): (usize, &Group)| {
            let gone = index.checked_sub(has_preamble).and_then(|index| view.groups().get(index)).is_some_and(|seen| {
                let whole = seen.items.iter().all(|item| covered(item.position));
                group.kind == GroupKind::Summary || (whole && group.pin.is_none())
            });
            if gone {
                let (before, after) = (group.size, Size::default());
                return Decision { action: Action::Summarize, stages: 0, reason, before, after };
            }
            Decision::before_stages(group, true)
        };
        let decisions: Vec<_> = self.groups.iter().enumerate().map(decide).collect();
        let before = Totals::of(self.groups.iter().map(|group| (group, group.size)));
        let kept = self.groups.iter().zip(&decisions).filter(|(_, decision)| !decision.action.is_gone());
        let mut after = Totals::of(kept.map(|(group, decision)| (group, decision.after)));
        after.size += summary;
        Plan { verdict: Verdict::Compact, decisions, before, after, over: Vec::new() }
    }

    /// The entries of each group, with none for the preamble.
    pub(crate) fn spans(&self, view: &View) -> Vec<Vec<Range<Position>>> {
        let preamble = self.has_preamble.then(Vec::new);
        let groups = view.groups().iter().map(|group| spans(group.items.iter().map(|item| item.position)));
        preamble.into_iter().chain(groups).collect()
    }
}
